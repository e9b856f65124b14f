"""Horizontal bars: one figure for each of a few things."""

from collections.abc import Sequence
from dataclasses import dataclass

from yarn_plugin.report.figure import LETTER, WIDTH, colour, cut, empty, figure, line, svg, tip, words
from yarn_plugin.report.markup import Ids, Markup, tag
from yarn_plugin.report.numbers import Scale, number
from yarn_plugin.report.table import Column, Table

ROW = 34.0


@dataclass(frozen=True, slots=True)
class BarChart:
    """A bar for each (name, value); None: there is no value. `notes`: a word beside each value.

    Bars begin at 0. `colours`: one for each bar, None for grey; left out, all have the first.
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
            return empty(ids, self.title, "There are no figures.")
        said = f"In {self.unit}: " + "; ".join(f"{name} {number(value, self.digits)}" for name, value in self.values)
        columns = (Column(""), Column(self.unit, figures=True, digits=self.digits), Column("note"))
        notes = self._notes()
        rows = tuple((name, value, note) for (name, value), note in zip(self.values, notes, strict=True))
        drawing = self._draw(ids, said + ".", notes)
        return figure(ids, self.title, (), drawing, Table(columns, rows, caption=self.title))

    def _notes(self) -> Sequence[str]:
        return self.notes or ("",) * len(self.values)

    def _draw(self, ids: Ids, said: str, notes: Sequence[str]) -> Markup:
        room = max(len(self._text(value, note)) for (_, value), note in zip(self.values, notes, strict=True)) * LETTER
        highest = max((value for _, value in self.values if value is not None), default=0.0)
        across = Scale(0.0, highest or 1.0, self.gutter, WIDTH - room - 20)
        height = ROW * len(self.values) + 8
        return svg(
            ids,
            self.title,
            said,
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
            tip(f"{name}: {self._text(value, note)}"),
            words(self.gutter - 8, middle + 4, cut(name, self.gutter - 12), "row", "end"),
            tag("g", block, class_=f"run {style}"),
            words(end + 7, middle + 4, self._text(value, note), "figure"),
        )

    def _text(self, value: float | None, note: str) -> str:
        unit = f" {self.unit}" if len(self.unit) <= 3 and value is not None else ""
        return f"{number(value, self.digits)}{unit}{f'  {note}' if note else ''}"
