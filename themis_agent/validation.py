"""What `themis-agent validate` says about a search: its brackets, trials and GPU hours, and what may not be meant."""

import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from themis_agent.app_file import AppFile
from themis_agent.command_words import parameters_in
from themis_agent.search import bracket_sizes, rungs
from yarn_plugin.quantities import number

_MENTIONED = re.compile("checkpoint", re.IGNORECASE)
_IMPORTED = re.compile(r"^\s*(?:from|import)\s+(\w+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Rung:
    """`trials` train from the end of the rung before to step `until`; `steps`: of all of them together."""

    bracket: int
    rung: int
    trials: int
    until: float
    steps: float


def plan(app: AppFile, retrains: bool = False) -> tuple[Rung, ...]:
    """The rungs of a search: at most so many steps, since trials may fail or be stopped earlier. `retrains`: a promoted
    trial trains again from its first step, as it has no checkpoint."""
    rungs = _plan(app)
    return tuple(replace(one, steps=one.trials * one.until) for one in rungs) if retrains else rungs


def _plan(app: AppFile) -> tuple[Rung, ...]:
    match app.algorithm:
        case "hyperband":
            return tuple(
                rung
                for number, size in enumerate(bracket_sizes(app.max_steps, app.eta))
                for rung in _rungs(number, size.trials, size.ends, app.eta)
            )
        case "successive_halving" | "asha":
            return tuple(_rungs(0, app.trial_count, rungs(app.trial_count, app.max_steps, app.eta), app.eta))
        case "population":
            ends = [*range(app.ready_steps, app.max_steps, app.ready_steps), app.max_steps]
            added = [end - before for end, before in zip(ends, (0, *ends), strict=False)]
            each = app.trial_count
            return tuple(
                Rung(0, number, each, float(end), float(each * steps))
                for number, (end, steps) in enumerate(zip(ends, added, strict=True))
            )
        case _:
            return tuple(_rungs(0, app.trial_count, (float(app.max_steps),), app.eta))


def gpu_hours(app: AppFile, rungs: Iterable[Rung]) -> float | None:
    """GPU hours of a plan; None if `step_s` is not given."""
    return None if app.step_s is None else sum(rung.steps for rung in rungs) * app.step_s / 3600


def without_checkpoints(app: AppFile, directory: Path) -> str | None:
    """The script of the command, if neither it nor a module beside it that it imports mentions checkpoints; None: it
    may save some, or that cannot be known."""
    scripts = [word for word in app.words if word.endswith(".py") and "{" not in word]
    paths = [directory / word for word in scripts if (directory / word).is_file()]
    return scripts[0] if len(paths) == 1 and not any(map(_MENTIONED.search, _sources(paths[0]))) else None


def _sources(script: Path) -> Iterator[str]:
    """The texts of a script and of the modules beside it that it imports."""
    waiting, seen = [script], {script}
    while waiting:
        try:
            text = waiting.pop().read_text(errors="replace")
        except OSError:
            continue
        yield text
        named = {script.parent / f"{name}.py" for name in _IMPORTED.findall(text)}
        waiting += [path for path in named - seen if path.is_file()]
        seen |= named


def retraining(app: AppFile, what: str) -> str:
    """What it costs that a script or function saves no checkpoints; "" if its trials are never stopped to go on."""
    kept, again = (sum(rung.steps for rung in plan(app, retrains)) for retrains in (False, True))
    if again <= kept:
        return ""
    return (
        f"{what} saves no checkpoints, so that a promoted trial trains again from step 0: at most {number(again)} "
        f"steps in place of {number(kept)}; see docs/trials.md, 2. Checkpoints"
    )


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
