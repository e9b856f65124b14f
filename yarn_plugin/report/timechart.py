"""Charts of values over time: lines, steps (a value holds until the next one), or stacked areas."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from yarn_plugin.quantities import NOTHING, number
from yarn_plugin.report import moments as moments_
from yarn_plugin.report.figure import (
    RIGHT,
    WIDTH,
    Key,
    Scale,
    Span,
    ceiling,
    colour,
    empty,
    figure,
    svg,
    tooltip,
    x_axis,
    y_axis,
)
from yarn_plugin.report.markup import Ids, Markup, tag
from yarn_plugin.report.moments import Moment
from yarn_plugin.report.table import Column, Table

Points = tuple[tuple[float, float | None], ...]
"""(seconds, value) in order; None: there is no value from then on."""

Item = TypeVar("Item")


def all_times(series: Iterable[Points]) -> list[float]:
    """The times of all points of all series, in order."""
    return sorted({at for points in series for at, _ in points})


def values_at(points: Points, times: Sequence[float], holds: bool) -> list[float | None]:
    """The value at each time: of the last point until then if a value `holds`, else of a point at that time."""
    if not holds:
        known = dict(points)
        return [known.get(at) for at in times]
    known_times = [at for at, _ in points]
    places = (bisect_right(known_times, at) - 1 for at in times)
    return [points[place][1] if place >= 0 else None for place in places]


def bounds(values: Iterable[float | None]) -> tuple[float | None, float | None]:
    """The lowest and the highest value; None where there are no values."""
    known = [value for value in values if value is not None]
    return (min(known), max(known)) if known else (None, None)


def spread_evenly(items: Sequence[Item], max_items: int) -> list[Item]:
    """At most `max_items` items, evenly spread, including the first and the last."""
    if len(items) <= max_items:
        return list(items)
    return [items[round(place * (len(items) - 1) / (max_items - 1))] for place in range(max_items)]


def line_path(
    times: Sequence[float],
    values: Sequence[float | None],
    across: Scale,
    up: Scale,
    steps: bool,
    backwards: bool = False,
) -> str:
    """The SVG path of a line, with gaps where there is no value; with steps, each value holds until the next time."""
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
            # A single point is drawn as a dot.
            path.append(f"{'L' if pen_down else 'M'}{corner[0]:.1f} {corner[1]:.1f}{'' if pen_down else 'h0'}")
        pen_down = corner is not None
    return "".join(path)


MAX_ROWS, MAX_STRIPS = 150, 300


@dataclass(frozen=True, slots=True)
class Series:
    """A value over time; see `Points`."""

    name: str
    points: Points
    colour: int | None = None
    dashed: bool = False


@dataclass(frozen=True, slots=True)
class TimeChart:
    """Series over time. `unit`: the unit of the values, above the axis. `limit`: a level to compare with, and its name.

    `span`, `gutter`: the time shown and the space to the left, to align several charts. `percent`: values from 0 to 1
    are shown in percent.
    """

    title: str
    unit: str
    series: tuple[Series, ...]
    kind: Literal["line", "step", "stacked"] = "step"
    time: str = "seconds"
    span: Span | None = None
    moments: tuple[Moment, ...] = ()
    limit: tuple[float, str] | None = None
    percent: bool = False
    gutter: float = 56.0
    height: float = 190.0

    def html(self, ids: Ids) -> Markup:
        """The chart as HTML."""
        times = all_times(one.points for one in self.series)
        if not times:
            return empty(ids, self.title, "No values were recorded.")
        values = [values_at(one.points, times, self.kind != "line") for one in self.series]
        description = self._describe(times, values)
        table = self._table(times, values)
        return figure(ids, self.title, self._legend(), self._draw(ids, description, times, values), table)

    def _draw(
        self, ids: Ids, description: str, times: Sequence[float], values: Sequence[Sequence[float | None]]
    ) -> Markup:
        span = self.span or Span(times[0], times[-1])
        across = Scale(span.start, span.end, self.gutter, WIDTH - RIGHT)
        placed = moments_.place(self.moments, across)
        top = 26 + moments_.height(placed)
        bottom = top + self.height
        up = Scale(0.0, self._highest(values), bottom, top)
        return svg(
            ids,
            self.title,
            description,
            bottom + 38,
            y_axis(up, self.gutter, WIDTH - RIGHT, self.unit, self.percent),
            x_axis(across, top, bottom, self.time),
            tag("g", *self._shapes(times, values, across, up)),
            self._limit(up),
            *(one.draw(top, bottom) for one in placed),
            tag("g", *self._strips(times, values, across, top, bottom)),
        )

    def _highest(self, values: Sequence[Sequence[float | None]]) -> float:
        if self.kind == "stacked":
            highest = max(sum(value or 0.0 for value in row) for row in zip(*values, strict=True))
        else:
            highest = max((value for row in values for value in row if value is not None), default=0.0)
        return ceiling(max(highest, self.limit[0] if self.limit else 0.0), 4)

    def _shapes(
        self, times: Sequence[float], values: Sequence[Sequence[float | None]], across: Scale, up: Scale
    ) -> list[Markup]:
        if self.kind == "stacked":
            return self._areas(times, values, across, up)
        wide = len(self.series) > 1
        drawn = []
        for place, (one, row) in enumerate(zip(self.series, values, strict=True)):
            if self.kind == "line":
                path = line_path([at for at, _ in one.points], [value for _, value in one.points], across, up, False)
            else:
                path = line_path(times, row, across, up, steps=True)
            # Earlier lines are wider, so that lines on top of each other stay visible.
            width = 4.5 - 2.7 * place / (len(self.series) - 1) if wide else 2.5
            drawn.append(tag("path", d=path, class_=_line_style(one), stroke_width=width))
        return drawn

    def _areas(
        self, times: Sequence[float], values: Sequence[Sequence[float | None]], across: Scale, up: Scale
    ) -> list[Markup]:
        drawn = []
        below = [0.0] * len(times)
        for one, row in zip(self.series, values, strict=True):
            above = [low + (value or 0.0) for low, value in zip(below, row, strict=True)]
            there = line_path(times, above, across, up, steps=True)
            back = line_path(times, below, across, up, steps=True, backwards=True)
            drawn.append(tag("path", d=f"{there}L{back[1:]}Z", class_=f"area {colour(one.colour)}"))
            below = above
        return drawn

    def _limit(self, up: Scale) -> Markup | None:
        if self.limit is None:
            return None
        value, name = self.limit
        y = up(value)
        path = tag("path", d=f"M{self.gutter:g} {y:g}H{WIDTH - RIGHT:g}", class_="limit")
        return tag("g", path, tag("text", name, x=WIDTH - RIGHT - 4, y=y - 5, text_anchor="end", class_="tick"))

    def _strips(
        self, times: Sequence[float], values: Sequence[Sequence[float | None]], across: Scale, top: float, bottom: float
    ) -> list[Markup]:
        """Invisible strips of the plot whose tooltips have its values."""
        strips = []
        shown = spread_evenly(range(len(times)), MAX_STRIPS)
        for place, following in zip(shown, [*shown[1:], None], strict=True):
            left = across(times[place])
            right = across(times[following]) if following is not None else across.end
            if right <= left:
                continue
            lines = [
                f"{one.name}: {self._value_text(row[place])}" for one, row in zip(self.series, values, strict=True)
            ]
            text = tooltip("\n".join([f"at {number(times[place], 1)} s", *lines]))
            strips.append(tag("rect", text, x=left, y=top, width=right - left, height=bottom - top, class_="strip"))
        return strips

    def _value_text(self, value: float | None) -> str:
        if value is None:
            return NOTHING
        return f"{number(100 * value)} %" if self.percent else number(value)

    def _legend(self) -> list[Key]:
        kind: Literal["block", "line"] = "block" if self.kind == "stacked" else "line"
        return [Key(one.name, "dashed" if one.dashed else kind, colour(one.colour)) for one in self.series]

    def _describe(self, times: Sequence[float], values: Sequence[Sequence[float | None]]) -> str:
        parts = [f"From {number(times[0], 1)} to {number(times[-1], 1)} s ({self.unit})"]
        for one, row in zip(self.series, values, strict=True):
            low, high, last = map(self._value_text, (*bounds(row), row[-1]))
            parts.append(f"{one.name} {low} to {high}, at the end {last}")
        return "; ".join(parts) + "."

    def _table(self, times: Sequence[float], values: Sequence[Sequence[float | None]]) -> Table:
        shown = spread_evenly(range(len(times)), MAX_ROWS)
        factor = 100.0 if self.percent else 1.0
        rows = (
            (times[place], *(None if row[place] is None else factor * (row[place] or 0.0) for row in values))
            for place in shown
        )
        names = (f"{one.name}, %" if self.percent else one.name for one in self.series)
        note = f"{len(shown)} of {len(times)} times are shown." if len(shown) < len(times) else None
        columns = (Column("seconds", numeric=True, digits=1), *(Column(name, numeric=True) for name in names))
        return Table(columns, tuple(rows), caption=f"{self.title} ({self.unit})", note=note)


def _line_style(one: Series) -> str:
    return f"line {colour(one.colour)}{' dashed' if one.dashed else ''}"
