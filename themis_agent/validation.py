"""What `themis-agent validate` says about a search: its brackets, trials and GPU hours."""

from dataclasses import dataclass

from themis_agent.app_file import AppFile
from themis_agent.search import bracket_sizes, rungs
from yarn_plugin.quantities import number


@dataclass(frozen=True, slots=True)
class Rung:
    """`trials` train from the end of the rung before to step `until`; `steps`: of all of them together."""

    bracket: int
    rung: int
    trials: int
    until: float
    steps: float


def plan(app: AppFile) -> tuple[Rung, ...]:
    """The rungs of a search: at most so many steps, since trials may fail or be stopped earlier."""
    match app.algorithm:
        case "hyperband":
            brackets = [(one.trials, one.iterations, one.phases) for one in bracket_sizes(app.max_steps, app.eta)]
            return tuple(
                rung
                for number, (trials, first, phases) in enumerate(brackets)
                for rung in _rungs(number, trials, [first * app.eta**phase for phase in range(phases)], app.eta)
            )
        case "successive_halving":
            ends = rungs(app.trial_count, app.max_steps, app.eta)
            return tuple(_rungs(0, app.trial_count, list(ends), app.eta))
        case _:
            return tuple(_rungs(0, app.trial_count, [float(app.max_steps)], app.eta))


def gpu_hours(app: AppFile) -> float | None:
    """GPU hours of the plan; None if `step_s` is not given."""
    return None if app.step_s is None else sum(rung.steps for rung in plan(app)) * app.step_s / 3600


def gpu_time(hours: float) -> str:
    """GPU hours as text, in smaller units if they are few."""
    if hours >= 1:
        return f"{number(hours)} GPU hours"
    return f"{number(hours * 60)} GPU minutes" if hours * 60 >= 1 else f"{number(hours * 3600)} GPU seconds"


def _rungs(bracket: int, trials: int, ends: list[float], eta: int) -> list[Rung]:
    befores = [0.0, *ends]
    return [
        Rung(bracket, number, trials // eta**number, end, trials // eta**number * (end - befores[number]))
        for number, end in enumerate(ends)
    ]
