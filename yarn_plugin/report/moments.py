"""Vertical lines at moments of a time axis, with labels that do not overlap."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from yarn_plugin.quantities import number
from yarn_plugin.report.figure import LETTER_WIDTH, Scale, label_at, line, tooltip
from yarn_plugin.report.markup import Markup, tag

LABEL_LINE = 15.0
"""The height of a line of labels."""

MAX_LABEL_LINES = 4
"""Lines of labels above a plot; a label that does not fit is in the tooltip of its line only."""


@dataclass(frozen=True, slots=True)
class Moment:
    """A vertical line at a time; `label` is above it where there is room, `detail` is in its tooltip."""

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

    def overlaps(self, other: "Placed") -> bool:
        """Whether the labels overlap, or the line of the higher one crosses the lower label."""
        if self.level is None or other.level is None:
            return False
        if self.level == other.level:
            return self.low <= other.high and other.low <= self.high
        upper, lower = (self, other) if self.level > other.level else (other, self)
        return lower.low <= upper.x <= lower.high

    def draw(self, top: float, bottom: float) -> Markup:
        """The line from above `top`, where the labels end, to `bottom`, and the label."""
        high = top if self.level is None else top - LABEL_LINE * self.level - 17
        inside = [tooltip(_describe(self.moment)), line(self.x, high, self.x, bottom, "reach")]
        inside.append(line(self.x, high, self.x, bottom, "stroke"))
        if self.level is not None:
            at, anchor = (self.x + 4, "start") if self.high > self.x + 4 else (self.x - 4, "end")
            inside.append(label_at(at, high + 10, self.moment.label, "", anchor))
        return tag("g", *inside, class_=f"moment {self.moment.kind}")


def place(moments: Iterable[Moment], scale: Scale) -> list[Placed]:
    """Place the label of each moment on a line, so that as many as possible are shown, those of switches first."""
    inside = [_unplaced(moment, scale) for moment in moments if scale.low <= moment.at <= scale.high]
    # Labels are to the right of their lines, so later ones go below earlier ones; at the right edge it is the reverse.
    ordered = sorted(inside, key=lambda one: (one.low < one.x - 2, one.x if one.low < one.x - 2 else -one.x))
    switches_first = sorted(ordered, key=lambda one: one.moment.kind != "switch")
    return max((_stack(ordered), _stack(switches_first)), key=_shown)


def height(placed: Iterable[Placed]) -> float:
    """The height of the labels above the plot."""
    lines = max((one.level + 1 for one in placed if one.level is not None), default=0)
    return LABEL_LINE * lines + 4 if lines else 0.0


def _unplaced(moment: Moment, scale: Scale) -> Placed:
    """The label to the right of its line, or to the left where it would leave the drawing; on no line yet."""
    x, width = scale(moment.at), len(moment.label) * LETTER_WIDTH + 8
    low, high = (x - 2, x + width) if x + width <= scale.end else (x - width, x + 2)
    return Placed(moment, x, low, high, None)


def _stack(ordered: Iterable[Placed]) -> list[Placed]:
    """Place each label, in order, on the lowest line where it has room."""
    placed: list[Placed] = []
    for one in ordered:
        tries = (replace(one, level=level) for level in range(MAX_LABEL_LINES if one.moment.label else 0))
        placed.append(next((tried for tried in tries if not any(map(tried.overlaps, placed))), one))
    return placed


def _shown(placed: Iterable[Placed]) -> tuple[int, int]:
    """The number of labels of switches, and of all labels, that have a line."""
    shown = [one.moment.kind for one in placed if one.level is not None]
    return shown.count("switch"), len(shown)


def _describe(moment: Moment) -> str:
    return "\n".join(filter(None, (moment.label, f"at {number(moment.at, 1)} s", moment.detail)))
