"""What planning gained in the demo, and switching beyond it, as a sentence that follows from the times. Pure."""

from dataclasses import dataclass

from yarn_plugin.quantities import number, seconds

SAME = 0.02
"""Times that differ by less than this fraction count as equal."""


@dataclass(frozen=True, slots=True)
class Times:
    """The seconds of query A beside B: as written, planned once and never switched, and with switching.

    `once`: None in a demo without that run.
    """

    written: float
    once: float | None
    switching: float


def effects(times: Times, switches: int | None = None) -> str:
    """What planning and what switching gained, or cost. `switches`: those of the run with switching, if known."""
    if times.once is None:
        compared = _compared(times.switching, times.written, "as written")
        took = f"With switching A took {seconds(times.switching)}, {compared}"
        return f"{took}; how much of that is due to its first plan was not measured."
    planned = f"Planned once, A took {seconds(times.once)}, {_compared(times.once, times.written, 'as written')}"
    if switches == 0:
        other = f"took {seconds(times.switching)} with it"
        return f"{planned}. Where it could switch, A kept its first plan too, and {other}: they differ by chance."
    gained = _gained(times.once, times.switching)
    if gained is None:
        return f"{planned}; switching gained nothing: with it A took {seconds(times.switching)}."
    if gained < 0:
        return f"{planned}; switching gained nothing: with it A took {_difference(-gained, times.once)} more."
    again = "a further " if (_gained(times.written, times.once) or 0.0) > 0 else ""
    return f"{planned}; switching saved {again}{_difference(gained, times.once)}."


def _gained(before: float, after: float) -> float | None:
    """The seconds that are saved; below 0 if it takes longer, None if the times are equal."""
    return None if abs(before - after) < SAME * before else before - after


def _compared(after: float, before: float, name: str) -> str:
    gained = _gained(before, after)
    if gained is None:
        return f"no different from {name}"
    return f"{_difference(abs(gained), before)} {'less' if gained > 0 else 'more'} than {name}"


def _difference(gained: float, of: float) -> str:
    return f"{seconds(gained)} ({number(100 * gained / of, 0)} %)"
