"""Upright bars: one or more figures for each of many things, in their order."""

from collections.abc import Sequence
from dataclasses import dataclass

from yarn_plugin.report.figure import RIGHT, WIDTH, Key, colour, empty, figure, svg, tip, up_axis, words
from yarn_plugin.report.markup import Ids, Markup, tag
from yarn_plugin.report.numbers import Scale, ceiling, number
from yarn_plugin.report.table import Column, Table

GUTTER, LEAST_LABEL = 56.0, 15.0


@dataclass(frozen=True, slots=True)
class ColumnSeries:
    """A value for each name; None: there is none."""

    name: str
    values: tuple[float | None, ...]
    colour: int | None = 0


@dataclass(frozen=True, slots=True)
class ColumnChart:
    """Columns from 0 up: for each name one per series, or `stacked` on each other."""

    title: str
    unit: str
    names: tuple[str, ...]
    series: tuple[ColumnSeries, ...]
    across: str = ""
    stacked: bool = False
    digits: int | None = None
    height: float = 200.0

    def html(self, ids: Ids) -> Markup:
        """The chart as HTML."""
        if not self.names or not self.series:
            return empty(ids, self.title, "There are no figures.")
        said = self._describe()
        legend = [Key(one.name, "block", colour(one.colour)) for one in self.series] if len(self.series) > 1 else []
        return figure(ids, self.title, legend, self._draw(ids, said), self._table())

    def _draw(self, ids: Ids, said: str) -> Markup:
        top, bottom = 26.0, 26.0 + self.height
        up = Scale(0.0, ceiling(max(map(self._height, range(len(self.names)))), 4), bottom, top)
        return svg(
            ids,
            self.title,
            said,
            bottom + 38,
            up_axis(up, GUTTER, WIDTH - RIGHT, self.unit),
            *(self._column(place, up) for place in range(len(self.names))),
            words((GUTTER + WIDTH - RIGHT) / 2, bottom + 31, self.across, "axis", "middle"),
        )

    def _height(self, place: int) -> float:
        values = [one.values[place] or 0.0 for one in self.series]
        return sum(values) if self.stacked else max(values)

    def _column(self, place: int, up: Scale) -> Markup:
        slot = (WIDTH - RIGHT - GUTTER) / len(self.names)
        left, name = GUTTER + slot * place, self.names[place]
        told = [f"{one.name}: {number(one.values[place], self.digits)} {self.unit}" for one in self.series]
        # Labels that would run into each other are left out; pointing at a column tells all.
        wide = max(LEAST_LABEL, max(map(len, self.names)) * 7.0 + 3)
        labelled = place % max(1, -int(-wide // slot)) == 0
        return tag(
            "g",
            tip("\n".join([f"{self.across} {name}".strip(), *told])),
            tag("rect", x=left, y=up.end, width=slot, height=up.start - up.end, class_="strip"),
            *self._blocks(place, up, left + slot * 0.12, min(slot * 0.76, 60.0)),
            words(left + slot / 2, up.start + 15, name, "tick", "middle") if labelled else None,
        )

    def _blocks(self, place: int, up: Scale, left: float, width: float) -> Sequence[Markup]:
        blocks, base = [], 0.0
        each = width if self.stacked else width / len(self.series)
        for number_, one in enumerate(self.series):
            value = one.values[place]
            if value is None:
                continue
            x = left if self.stacked else left + each * number_
            y = up(base + value)
            block = tag("rect", x=x, y=y, width=each, height=up(base) - y, class_="block")
            blocks.append(tag("g", block, class_=f"run {colour(one.colour)}"))
            base += value if self.stacked else 0.0
        return blocks

    def _describe(self) -> str:
        said = []
        for one in self.series:
            known = [(value, name) for value, name in zip(one.values, self.names, strict=True) if value is not None]
            if known:
                value, name = max(known, key=lambda pair: pair[0])
                said.append(f"{one.name}: {len(known)} figures, the highest {number(value, self.digits)} for {name}")
        return f"In {self.unit}. {'; '.join(said) or 'No figures'}."

    def _table(self) -> Table:
        columns = [Column(one.name, figures=True, digits=self.digits) for one in self.series]
        rows = ((name, *(one.values[place] for one in self.series)) for place, name in enumerate(self.names))
        return Table((Column(self.across or "name"), *columns), tuple(rows), caption=f"{self.title} ({self.unit})")
