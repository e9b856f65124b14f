"""Figures at times, for drawing. Pure."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import TypeVar

from yarn_plugin.report.numbers import Scale

Points = tuple[tuple[float, float | None], ...]
"""(seconds, value) in order; a value of None says that there is none from then on."""

Item = TypeVar("Item")


def times_of(series: Iterable[Points]) -> list[float]:
    """All times at which any series says something, in order."""
    return sorted({at for points in series for at, _ in points})


def at_times(points: Points, times: Sequence[float], holds: bool) -> list[float | None]:
    """The value at each time: the last one said, where a value `holds`; else only where one was said."""
    if not holds:
        known = dict(points)
        return [known.get(at) for at in times]
    said = [at for at, _ in points]
    places = (bisect_right(said, at) - 1 for at in times)
    return [points[place][1] if place >= 0 else None for place in places]


def bounds(values: Iterable[float | None]) -> tuple[float | None, float | None]:
    """The lowest and the highest value; None where there is none."""
    known = [value for value in values if value is not None]
    return (min(known), max(known)) if known else (None, None)


def thinned(items: Sequence[Item], most: int) -> list[Item]:
    """At most `most` items, evenly spread, the first and the last among them."""
    if len(items) <= most:
        return list(items)
    return [items[round(place * (len(items) - 1) / (most - 1))] for place in range(most)]


def outline(
    times: Sequence[float],
    values: Sequence[float | None],
    across: Scale,
    up: Scale,
    steps: bool,
    backwards: bool = False,
) -> str:
    """The path of a line, interrupted where there is no value; with steps, each value holds until the next time."""
    corners: list[tuple[float, float] | None] = []
    for place, (at, value) in enumerate(zip(times, values, strict=True)):
        if value is None:
            corners.append(None)
            continue
        corners.append((across(at), up(value)))
        if steps and place + 1 < len(times):
            corners.append((across(times[place + 1]), up(value)))
    return _path(corners[::-1] if backwards else corners)


def _path(corners: Iterable[tuple[float, float] | None]) -> str:
    path, pen_down = [], False
    for corner in corners:
        if corner is not None:
            # A point alone is drawn as well, as a dot.
            path.append(f"{'L' if pen_down else 'M'}{corner[0]:.1f} {corner[1]:.1f}{'' if pen_down else 'h0'}")
        pen_down = corner is not None
    return "".join(path)
