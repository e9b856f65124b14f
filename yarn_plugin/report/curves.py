"""Charts of many curves over a common axis that is not time, such as losses over training steps."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from yarn_plugin.quantities import count, number
from yarn_plugin.report.figure import (
    LETTER_WIDTH,
    RIGHT,
    WIDTH,
    Key,
    Scale,
    Shape,
    colour,
    empty,
    figure,
    label_at,
    labels,
    line,
    shape,
    svg,
    ticks,
    tooltip,
    x_axis,
)
from yarn_plugin.report.markup import Ids, Markup, tag
from yarn_plugin.report.table import Cell, Column, Figure, Table
from yarn_plugin.report.timechart import spread_evenly

GUTTER = 64.0

MAX_POINTS = 240
"""Points of a curve that are drawn, evenly spread."""

LOGARITHMIC_FROM = 30.0
"""Positive values that differ by more than this factor have a logarithmic axis."""


@dataclass(frozen=True, slots=True)
class Curve:
    """(x, y) in the order of x. "bold": the one that matters most; `end`: a symbol at its last point."""

    name: str
    points: tuple[tuple[float, float], ...]
    colour: int | None = None
    bold: bool = False
    end: Shape | None = None
    tone: Literal["ink", "good", "bad"] = "ink"
    detail: str = ""


@dataclass(frozen=True, slots=True)
class CurveChart:
    """Curves over `x_label`. `ends`: vertical lines. A few values far from all others are drawn at the edge."""

    title: str
    x_label: str
    y_label: str
    curves: tuple[Curve, ...]
    legend: tuple[Key, ...] = ()
    ends: tuple[float, ...] = ()
    height: float = 300.0

    def html(self, ids: Ids) -> Markup:
        """The chart as HTML."""
        known = [one for one in self.curves if one.points]
        if not known:
            return empty(ids, self.title, "No values were reported.")
        return figure(ids, self.title, self.legend, self._draw(ids, known), self._table(known))

    def _draw(self, ids: Ids, known: Sequence[Curve]) -> Markup:
        top, bottom = 26.0, 26.0 + self.height
        low, high = _range(y for one in known for _, y in one.points)
        is_log = low > 0 and high / low >= LOGARITHMIC_FROM
        up = _LogScale(low, high, bottom, top) if is_log else Scale(low, high, bottom, top)
        across = Scale(0.0, max(one.points[-1][0] for one in known), GUTTER, WIDTH - RIGHT)
        return svg(
            ids,
            self.title,
            self._describe(known),
            bottom + 38,
            _value_axis(up, low, high, is_log, self.y_label),
            x_axis(across, top, bottom, self.x_label),
            *(line(across(x), top, across(x), bottom, "limit") for x in self.ends),
            # The bold ones last, so that they are on top.
            *(self._curve(one, across, up) for one in sorted(known, key=lambda one: one.bold)),
        )

    def _curve(self, curve: Curve, across: Scale, up: Scale) -> Markup:
        shown = spread_evenly(curve.points, MAX_POINTS)
        path = "M" + "L".join(f"{across(x):.1f} {up(y):.1f}" for x, y in shown) + ("h0" if len(shown) == 1 else "")
        x, y = curve.points[-1]
        text = f"{curve.name}: {self.y_label} {y:.4g} at {self.x_label} {number(x)}"
        return tag(
            "g",
            tooltip(f"{text}\n{curve.detail}".strip()),
            tag("path", d=path, class_="reach"),
            tag("path", d=path, class_=f"line {colour(curve.colour)}", stroke_width=3.2 if curve.bold else 1.3),
            shape(curve.end, across(x), up(y), curve.tone) if curve.end is not None else None,
            class_="curve",
        )

    def _describe(self, known: Sequence[Curve]) -> str:
        values = [y for one in known for _, y in one.points]
        text = f"{self.y_label} over {self.x_label}, {count(len(known), 'curve')}"
        return f"{text}, from {min(values):.4g} to {max(values):.4g}."

    def _table(self, known: Sequence[Curve]) -> Table:
        columns = (Column("curve"), Column(f"last {self.x_label}", True), Column("lowest", True),
                   Column("highest", True), Column("last", True))  # fmt: skip
        rows: list[tuple[Cell, ...]] = []
        for one in known:
            values = [y for _, y in one.points]
            figures = [Figure(value, f"{value:.4g}") for value in (min(values), max(values), values[-1])]
            rows.append((one.name, one.points[-1][0], *figures))
        return Table(columns, tuple(rows), caption=f"{self.title} ({self.y_label})")


@dataclass(frozen=True, slots=True)
class _LogScale(Scale):
    """Positions by the logarithm of a value."""

    def __call__(self, value: float) -> float:
        clamped = min(max(value, self.low), self.high)
        share = math.log(clamped / self.low) / math.log(self.high / self.low)
        return self.start + share * (self.end - self.start)


def _range(values: Iterable[float]) -> tuple[float, float]:
    """The values to show: all, but for a few that are much farther from the median than nine of ten are."""
    known = sorted(values)
    low, high = known[0], known[-1]
    tenth, ninth = known[len(known) // 10], known[-1 - len(known) // 10]
    margin = 2 * (ninth - tenth)
    if margin > 0:
        low, high = max(low, tenth - margin), min(high, ninth + margin)
    if low == high:
        return low - 0.5, high + 0.5
    room = 0.04 * (high - low)
    return (low - room if low - room > 0 or low <= 0 else low), high + room


def _value_axis(up: Scale, low: float, high: float, is_log: bool, label: str) -> Markup:
    marks = _powers(low, high) if is_log else ticks(low, high, 5)
    names = [f"{mark:g}" for mark in marks] if is_log else labels(marks)
    right = WIDTH - RIGHT
    drawn = [line(GUTTER, up(mark), right, up(mark), "grid") for mark in marks]
    drawn += [label_at(GUTTER - 6, up(mark) + 4, name, "tick", "end") for mark, name in zip(marks, names, strict=True)]
    text = f"{label}, logarithmic" if is_log else label
    return tag("g", *drawn, label_at(0, 11, text[: int((WIDTH - RIGHT) / LETTER_WIDTH)], "axis"))


def _powers(low: float, high: float) -> list[float]:
    """1, 2 and 5 times powers of ten; powers of ten alone if there are many."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1, 2, 5) if len(decades) <= 4 else (1,)
    found = [step * 10.0**power for power in decades for step in steps]
    return [mark for mark in found if low <= mark <= high]
