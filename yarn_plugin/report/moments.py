"""Vertical lines at moments of a time axis, with labels that do not run into each other."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from yarn_plugin.report.figure import LETTER, line, tip, words
from yarn_plugin.report.markup import Markup, tag
from yarn_plugin.report.numbers import Scale, number

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
        high = top if self.level is None else top - LABEL_LINE * self.level - 13
        inside = [tip(_told(self.moment)), line(self.x, high, self.x, bottom, "reach")]
        inside.append(line(self.x, high, self.x, bottom, "stroke"))
        if self.level is not None:
            at, anchor = (self.x + 4, "start") if self.high > self.x + 4 else (self.x - 4, "end")
            inside.append(words(at, high + 10, self.moment.label, "", anchor))
        return tag("g", *inside, class_=f"moment {self.moment.kind}")


def place(moments: Iterable[Moment], scale: Scale) -> list[Placed]:
    """Give the label of each moment a line; switches go first, then later ones, as labels stand to the right."""
    placed: list[Placed] = []
    inside = [moment for moment in moments if scale.low <= moment.at <= scale.high]
    for moment in sorted(inside, key=lambda moment: (moment.kind != "switch", -moment.at)):
        placed.append(_place(moment, scale, placed))
    return placed


def height(placed: Iterable[Placed]) -> float:
    """What the labels take above the plot."""
    return LABEL_LINE * max((one.level + 1 for one in placed if one.level is not None), default=0)


def _place(moment: Moment, scale: Scale, others: list[Placed]) -> Placed:
    x, width = scale(moment.at), len(moment.label) * LETTER + 8
    low, high = (x - 2, x + width) if x + width <= scale.end else (x - width, x + 2)
    for level in range(MOST_LINES if moment.label else 0):
        tried = Placed(moment, x, low, high, level)
        if not any(tried.meets(other) for other in others):
            return tried
    return Placed(moment, x, low, high, None)


def _told(moment: Moment) -> str:
    return "\n".join(filter(None, (moment.label, f"at {number(moment.at, 1)} s", moment.detail)))
