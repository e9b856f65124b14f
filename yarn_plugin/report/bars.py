"""Bar charts: horizontal bars for a few values, columns for many."""

from collections.abc import Sequence
from dataclasses import dataclass

from yarn_plugin.quantities import count, number
from yarn_plugin.report.figure import (
    LETTER_WIDTH,
    RIGHT,
    WIDTH,
    Key,
    Scale,
    ceiling,
    colour,
    empty,
    figure,
    label_at,
    line,
    shorten,
    svg,
    tooltip,
    y_axis,
)
from yarn_plugin.report.markup import Ids, Markup, tag
from yarn_plugin.report.table import Column, Table

ROW = 34.0


@dataclass(frozen=True, slots=True)
class BarChart:
    """A bar for each (name, value), from 0; a value of None is missing. `notes`: a word beside each value.

    `colours`: one for each bar, None for grey; left out, all bars have the first colour.
    """

    title: str
    unit: str
    values: tuple[tuple[str, float | None], ...]
    notes: tuple[str, ...] = ()
    colours: tuple[int | None, ...] = ()
    digits: int | None = None
    gutter: float = 240.0

    def html(self, ids: Ids) -> Markup:
        """The chart as HTML."""
        if not self.values:
            return empty(ids, self.title, "No values.")
        description = f"In {self.unit}: " + "; ".join(
            f"{name} {number(value, self.digits)}" for name, value in self.values
        )
        columns = (Column(""), Column(self.unit, numeric=True, digits=self.digits), Column("note"))
        notes = self.notes or ("",) * len(self.values)
        rows = tuple((name, value, note) for (name, value), note in zip(self.values, notes, strict=True))
        drawing = self._draw(ids, description + ".", notes)
        return figure(ids, self.title, (), drawing, Table(columns, rows, caption=self.title))

    def _draw(self, ids: Ids, description: str, notes: Sequence[str]) -> Markup:
        text_width = (
            max(len(self._text(value, note)) for (_, value), note in zip(self.values, notes, strict=True))
            * LETTER_WIDTH
        )
        highest = max((value for _, value in self.values if value is not None), default=0.0)
        across = Scale(0.0, highest or 1.0, self.gutter, WIDTH - text_width - 20)
        height = ROW * len(self.values) + 8
        return svg(
            ids,
            self.title,
            description,
            height,
            *(self._bar(place, across, notes[place]) for place in range(len(self.values))),
            line(self.gutter, 2, self.gutter, height - 4, "base"),
        )

    def _bar(self, place: int, across: Scale, note: str) -> Markup:
        name, value = self.values[place]
        middle = 4 + ROW * place + ROW / 2
        end = across(value or 0.0)
        style = colour(self.colours[place] if self.colours else 0)
        block = tag("rect", x=self.gutter, y=middle - 10, width=end - self.gutter, height=20, class_="block")
        return tag(
            "g",
            tooltip(f"{name}: {self._text(value, note)}"),
            label_at(self.gutter - 8, middle + 4, shorten(name, self.gutter - 12), "row", "end"),
            tag("g", block, class_=f"run {style}"),
            label_at(end + 7, middle + 4, self._text(value, note), "figure"),
        )

    def _text(self, value: float | None, note: str) -> str:
        unit = f" {self.unit}" if len(self.unit) <= 3 and value is not None else ""
        return f"{number(value, self.digits)}{unit}{f'  {note}' if note else ''}"


GUTTER, MIN_LABEL_WIDTH = 56.0, 15.0


@dataclass(frozen=True, slots=True)
class ColumnSeries:
    """A value for each name; None where it is missing."""

    name: str
    values: tuple[float | None, ...]
    colour: int | None = 0


@dataclass(frozen=True, slots=True)
class ColumnChart:
    """Columns from 0 up: for each name one column per series, side by side or `stacked`."""

    title: str
    unit: str
    names: tuple[str, ...]
    series: tuple[ColumnSeries, ...]
    x_label: str = ""
    stacked: bool = False
    digits: int | None = None
    height: float = 200.0

    def html(self, ids: Ids) -> Markup:
        """The chart as HTML."""
        if not self.names or not self.series:
            return empty(ids, self.title, "No values.")
        description = self._describe()
        legend = [Key(one.name, "block", colour(one.colour)) for one in self.series] if len(self.series) > 1 else []
        return figure(ids, self.title, legend, self._draw(ids, description), self._table())

    def _draw(self, ids: Ids, description: str) -> Markup:
        top, bottom = 26.0, 26.0 + self.height
        up = Scale(0.0, ceiling(max(map(self._height, range(len(self.names)))), 4), bottom, top)
        return svg(
            ids,
            self.title,
            description,
            bottom + 38,
            y_axis(up, GUTTER, WIDTH - RIGHT, self.unit),
            *(self._column(place, up) for place in range(len(self.names))),
            label_at((GUTTER + WIDTH - RIGHT) / 2, bottom + 31, self.x_label, "axis", "middle"),
        )

    def _height(self, place: int) -> float:
        values = [one.values[place] or 0.0 for one in self.series]
        return sum(values) if self.stacked else max(values)

    def _column(self, place: int, up: Scale) -> Markup:
        slot = (WIDTH - RIGHT - GUTTER) / len(self.names)
        left, name = GUTTER + slot * place, self.names[place]
        values = [f"{one.name}: {number(one.values[place], self.digits)} {self.unit}" for one in self.series]
        # Labels that would overlap are left out; the tooltip of a column has its name.
        wide = max(MIN_LABEL_WIDTH, max(map(len, self.names)) * 7.0 + 3)
        labelled = place % max(1, -int(-wide // slot)) == 0
        return tag(
            "g",
            tooltip("\n".join([f"{self.x_label} {name}".strip(), *values])),
            tag("rect", x=left, y=up.end, width=slot, height=up.start - up.end, class_="strip"),
            *self._blocks(place, up, left + slot * 0.12, min(slot * 0.76, 60.0)),
            label_at(left + slot / 2, up.start + 15, name, "tick", "middle") if labelled else None,
        )

    def _blocks(self, place: int, up: Scale, left: float, width: float) -> Sequence[Markup]:
        blocks, base = [], 0.0
        each = width if self.stacked else width / len(self.series)
        for index, one in enumerate(self.series):
            value = one.values[place]
            if value is None:
                continue
            x = left if self.stacked else left + each * index
            y = up(base + value)
            block = tag("rect", x=x, y=y, width=each, height=up(base) - y, class_="block")
            blocks.append(tag("g", block, class_=f"run {colour(one.colour)}"))
            base += value if self.stacked else 0.0
        return blocks

    def _describe(self) -> str:
        parts = []
        for one in self.series:
            known = [(value, name) for value, name in zip(one.values, self.names, strict=True) if value is not None]
            if known:
                value, name = max(known, key=lambda pair: pair[0])
                parts.append(f"{one.name}: {count(len(known), 'value')}, highest {number(value, self.digits)} ({name})")
        return f"In {self.unit}. {'; '.join(parts) or 'No values'}."

    def _table(self) -> Table:
        columns = [Column(one.name, numeric=True, digits=self.digits) for one in self.series]
        rows = ((name, *(one.values[place] for one in self.series)) for place, name in enumerate(self.names))
        return Table((Column(self.x_label or "name"), *columns), tuple(rows), caption=f"{self.title} ({self.unit})")
