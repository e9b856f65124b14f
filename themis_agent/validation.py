"""What `themis-agent validate` says about a search: its brackets, trials and GPU hours, and what may not be meant."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from themis_agent.app_file import AppFile
from themis_agent.command_words import parameters_in
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
            return tuple(
                rung
                for number, size in enumerate(bracket_sizes(app.max_steps, app.eta))
                for rung in _rungs(number, size.trials, size.ends, app.eta)
            )
        case "successive_halving":
            return tuple(_rungs(0, app.trial_count, rungs(app.trial_count, app.max_steps, app.eta), app.eta))
        case _:
            return tuple(_rungs(0, app.trial_count, (float(app.max_steps),), app.eta))


def gpu_hours(app: AppFile) -> float | None:
    """GPU hours of the plan; None if `step_s` is not given."""
    return None if app.step_s is None else sum(rung.steps for rung in plan(app)) * app.step_s / 3600


def gpu_time(hours: float) -> str:
    """GPU hours as text, in smaller units if they are few."""
    if hours >= 1:
        return f"{number(hours)} GPU hours"
    return f"{number(hours * 60)} GPU minutes" if hours * 60 >= 1 else f"{number(hours * 3600)} GPU seconds"


def warnings(app: AppFile) -> Iterator[str]:
    """What can be run, but may not be meant."""
    words = app.words
    for option, word in itertools.pairwise(words):
        missing = sorted(name for name in parameters_in(word) if app.space[name].when)
        if missing and option.startswith("-") and "=" not in option and not parameters_in(option):
            yield (
                f"command: {word!r} is left out of trials without {' or '.join(missing)}, and the word before it "
                f"stays: write {f'{option}={word}'!r} if it belongs to that"
            )


def _rungs(bracket: int, trials: int, ends: tuple[float, ...], eta: int) -> list[Rung]:
    befores = (0.0, *ends)
    return [
        Rung(bracket, number, trials // eta**number, end, trials // eta**number * (end - befores[number]))
        for number, end in enumerate(ends)
    ]
