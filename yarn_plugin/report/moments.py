"""Vertical lines at moments of a time axis, with labels that do not run into each other."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from yarn_plugin.quantities import number
from yarn_plugin.report.figure import LETTER, Scale, line, tip, words
from yarn_plugin.report.markup import Markup, tag

LABEL_LINE = 15.0
"""The height of a line of labels."""

MOST_LINES = 4
"""How many lines of labels stand above a plot at most; a label without room there is shown on pointing at its line."""


@dataclass(frozen=True, slots=True)
class Moment:
    """A vertical line at a time; `label` stands above it where there is room, `detail` is shown on pointing at it."""

    at: float
    label: str
    detail: str = ""
    kind: Literal["switch", "share", "plain"] = "plain"


@dataclass(frozen=True, slots=True)
class Placed:
    """A moment on a drawing; its label takes `low` to `high` on line `level`, None where it has no room."""

    moment: Moment
    x: float
    low: float
    high: float
    level: int | None

    def meets(self, other: "Placed") -> bool:
        """Whether the labels run into each other, or the line of the higher one through the lower one."""
        if self.level is None or other.level is None:
            return False
        if self.level == other.level:
            return self.low <= other.high and other.low <= self.high
        upper, lower = (self, other) if self.level > other.level else (other, self)
        return lower.low <= upper.x <= lower.high

    def draw(self, top: float, bottom: float) -> Markup:
        """The line from above `top`, where the labels end, to `bottom`, and the label."""
        high = top if self.level is None else top - LABEL_LINE * self.level - 17
        inside = [tip(_told(self.moment)), line(self.x, high, self.x, bottom, "reach")]
        inside.append(line(self.x, high, self.x, bottom, "stroke"))
        if self.level is not None:
            at, anchor = (self.x + 4, "start") if self.high > self.x + 4 else (self.x - 4, "end")
            inside.append(words(at, high + 10, self.moment.label, "", anchor))
        return tag("g", *inside, class_=f"moment {self.moment.kind}")


def place(moments: Iterable[Moment], scale: Scale) -> list[Placed]:
    """Give the label of each moment a line, so that most are shown, and those of switches before others."""
    inside = [_beside(moment, scale) for moment in moments if scale.low <= moment.at <= scale.high]
    # Labels stand to the right, so later ones go below earlier ones; at the right edge it is the other way round.
    ordered = sorted(inside, key=lambda one: (one.low < one.x - 2, one.x if one.low < one.x - 2 else -one.x))
    switches_first = sorted(ordered, key=lambda one: one.moment.kind != "switch")
    return max((_stack(ordered), _stack(switches_first)), key=_shown)


def height(placed: Iterable[Placed]) -> float:
    """What the labels take above the plot."""
    lines = max((one.level + 1 for one in placed if one.level is not None), default=0)
    return LABEL_LINE * lines + 4 if lines else 0.0


def _beside(moment: Moment, scale: Scale) -> Placed:
    """The label to the right of its line, or to the left where it would leave the drawing; on no line yet."""
    x, width = scale(moment.at), len(moment.label) * LETTER + 8
    low, high = (x - 2, x + width) if x + width <= scale.end else (x - width, x + 2)
    return Placed(moment, x, low, high, None)


def _stack(ordered: Iterable[Placed]) -> list[Placed]:
    """Each label on the lowest line where it has room, those that come first before the others."""
    placed: list[Placed] = []
    for one in ordered:
        tries = (replace(one, level=level) for level in range(MOST_LINES if one.moment.label else 0))
        placed.append(next((tried for tried in tries if not any(map(tried.meets, placed))), one))
    return placed


def _shown(placed: Iterable[Placed]) -> tuple[int, int]:
    """How many labels of switches, and of all, have a line."""
    shown = [one.moment.kind for one in placed if one.level is not None]
    return shown.count("switch"), len(shown)


def _told(moment: Moment) -> str:
    return "\n".join(filter(None, (moment.label, f"at {number(moment.at, 1)} s", moment.detail)))
