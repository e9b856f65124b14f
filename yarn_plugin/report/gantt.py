"""Gantt charts: rows of bars over time, with symbols and lines for events."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from yarn_plugin.quantities import count, number
from yarn_plugin.report import moments as moments_
from yarn_plugin.report.figure import (
    LETTER_WIDTH,
    RIGHT,
    WIDTH,
    Key,
    Scale,
    Shape,
    Span,
    colour,
    empty,
    figure,
    label_at,
    line,
    shape,
    shorten,
    svg,
    tooltip,
    x_axis,
)
from yarn_plugin.report.markup import Ids, Markup, tag
from yarn_plugin.report.moments import Moment
from yarn_plugin.report.table import Column, Table

Tone = Literal["ink", "good", "bad"]
"""The tone of a symbol: neutral, success, failure."""

ROW = 24.0
"""The height of a row."""


@dataclass(frozen=True, slots=True)
class Bar:
    """Something that ran from `start` to `end`. "faint": its result was discarded; "thread": how long it was stored."""

    start: float
    end: float
    label: str = ""
    colour: int | None = None
    style: Literal["solid", "faint", "thread"] = "solid"
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Mark:
    """A symbol in a row. `side`: beside its time, so that symbols of the same time do not overlap."""

    at: float
    shape: Shape
    detail: str
    tone: Tone = "ink"
    side: Literal["before", "at", "after"] = "at"


@dataclass(frozen=True, slots=True)
class Row:
    """A row; `detail` is the tooltip of its name."""

    label: str
    bars: tuple[Bar, ...]
    marks: tuple[Mark, ...] = ()
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Gantt:
    """Rows over time. `legend`: what colours and symbols mean. `data`: the table of values, by default the bars.

    `span`, `gutter`: the time shown and the space to the left, to align several charts.
    """

    title: str
    rows: tuple[Row, ...]
    legend: tuple[Key, ...] = ()
    moments: tuple[Moment, ...] = ()
    time: str = "seconds"
    span: Span | None = None
    gutter: float = 240.0
    data: Table | None = None

    def html(self, ids: Ids) -> Markup:
        """The chart as HTML."""
        if not any(row.bars for row in self.rows):
            return empty(ids, self.title, "Nothing ran.")
        description = self._describe()
        return figure(ids, self.title, self.legend, self._draw(ids, description), self.data or self._table())

    def _draw(self, ids: Ids, description: str) -> Markup:
        span = self.span or self._span()
        across = Scale(span.start, span.end, self.gutter, WIDTH - RIGHT)
        placed = moments_.place(self.moments, across)
        top = 6 + moments_.height(placed)
        bottom = top + ROW * len(self.rows)
        return svg(
            ids,
            self.title,
            description,
            bottom + 38,
            *(self._stripe(place, top) for place in range(0, len(self.rows), 2)),
            x_axis(across, top, bottom, self.time),
            *(one.draw(top, bottom) for one in placed),
            *(self._row(row, across, top + ROW * place) for place, row in enumerate(self.rows)),
        )

    def _span(self) -> Span:
        bars = [bar for row in self.rows for bar in row.bars]
        return Span(min(bar.start for bar in bars), max(bar.end for bar in bars))

    def _stripe(self, place: int, top: float) -> Markup:
        return tag("rect", x=0, y=top + ROW * place, width=WIDTH - RIGHT, height=ROW, class_="stripe")

    def _row(self, row: Row, across: Scale, top: float) -> Markup:
        middle = top + ROW / 2
        name = label_at(4, middle + 4, shorten(row.label, self.gutter - 12), "row")
        return tag(
            "g",
            tag("g", tooltip(f"{row.label}\n{row.detail}".strip()), name),
            *(_bar(bar, across, middle, row.marks) for bar in row.bars),
            *(shape(mark.shape, _place(mark, across), middle, mark.tone, tooltip(mark.detail)) for mark in row.marks),
        )

    def _describe(self) -> str:
        bars = sum(bar.style != "thread" for row in self.rows for bar in row.bars)
        span = self._span()
        between = f"between {number(span.start, 1)} and {number(span.end, 1)} s"
        return f"{count(bars, 'bar')} in {count(len(self.rows), 'row')}, {between}."

    def _table(self) -> Table:
        columns = (Column("row"), Column("start, s", True, 2), Column("end, s", True, 2), Column("what"))
        bars = [(row, bar) for row in self.rows for bar in row.bars if bar.style != "thread"]
        rows = ((row.label, bar.start, bar.end, bar.detail or bar.label) for row, bar in bars)
        return Table(columns, tuple(rows), caption=self.title)


def _bar(bar: Bar, across: Scale, middle: float, marks: Sequence[Mark]) -> Markup:
    start, end = across(bar.start), across(bar.end)
    style = colour(bar.colour)
    if bar.style == "thread":
        return tag("g", tooltip(bar.detail), line(start, middle, end, middle, f"thread {style}"))
    width = max(end - start, 2.0)
    block = tag(
        "rect",
        x=start,
        y=middle - 8,
        width=width,
        height=16,
        rx=2.5,
        class_="block" if bar.style == "solid" else "faint",
    )
    symbols = [_place(mark, across) for mark in marks]
    left = max((x + 6 for x in symbols if start <= x < start + 14), default=start)
    right = min((x - 7 for x in symbols if x > left), default=start + width)
    name = _named(bar, left, min(right, start + width) - left, middle)
    return tag("g", tooltip(bar.detail or bar.label), block, name, class_=f"run {style}")


def _place(mark: Mark, across: Scale) -> float:
    return across(mark.at) + {"before": -7.0, "at": 0.0, "after": 8.0}[mark.side]


def _named(bar: Bar, start: float, width: float, middle: float) -> Markup | None:
    if not bar.label or len(bar.label) * LETTER_WIDTH + 8 > width:
        return None
    return label_at(start + 5, middle + 4, bar.label, "on" if bar.style == "solid" else "beside")
