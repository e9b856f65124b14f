"""Parallel coordinates: a line for each item over several axes, such as the parameters of trials and their metric."""

from collections.abc import Sequence
from dataclasses import dataclass

from yarn_plugin.quantities import count
from yarn_plugin.report.axes import Axis, Value
from yarn_plugin.report.figure import LETTER_WIDTH, WIDTH, Key, empty, figure, label_at, line, shorten, svg, tooltip
from yarn_plugin.report.markup import Ids, Markup, tag
from yarn_plugin.report.table import Cell, Column, Figure, Table

EDGE = 80.0


@dataclass(frozen=True, slots=True)
class Strand:
    """An item. `values`: on each axis; None: it has none there. `weight`: from 0, faint, to 1, strong."""

    name: str
    values: tuple[Value | None, ...]
    weight: float = 1.0
    bold: bool = False
    detail: str = ""


@dataclass(frozen=True, slots=True)
class ParallelChart:
    """Strands over axes, in the order given."""

    title: str
    axes: tuple[Axis, ...]
    strands: tuple[Strand, ...]
    legend: tuple[Key, ...] = ()
    height: float = 280.0

    def html(self, ids: Ids) -> Markup:
        """The chart as HTML."""
        if not self.strands or len(self.axes) < 2:
            return empty(ids, self.title, "No values.")
        return figure(ids, self.title, self.legend, self._draw(ids), self._table())

    def _draw(self, ids: Ids) -> Markup:
        apart = (WIDTH - 2 * EDGE) / (len(self.axes) - 1)
        places = [EDGE + apart * number for number in range(len(self.axes))]
        top, bottom = 34.0, 34.0 + self.height
        described = f"{count(len(self.strands), 'line')} over {', '.join(axis.label for axis in self.axes)}."
        strands = sorted(self.strands, key=lambda one: (one.bold, one.weight))
        return svg(
            ids,
            self.title,
            described,
            bottom + 12,
            # The axes last, so that their labels can be read.
            *(self._strand(one, places, top, bottom) for one in strands),
            *(_axis(axis, at, top, bottom, apart) for axis, at in zip(self.axes, places, strict=True)),
        )

    def _strand(self, strand: Strand, places: Sequence[float], top: float, bottom: float) -> Markup:
        path, is_begun = "", False
        for axis, at, value in zip(self.axes, places, strand.values, strict=True):
            if value is None:
                is_begun = False
                continue
            y = bottom - axis.share(value) * (bottom - top)
            path += f"{'L' if is_begun else 'M'}{at:.1f} {y:.1f}"
            is_begun = True
        lines = [f"{axis.label} {_text(value)}" for axis, value in zip(self.axes, strand.values, strict=True)]
        return tag(
            "g",
            tooltip("\n".join([strand.name, *lines, *([strand.detail] if strand.detail else [])])),
            tag("path", d=path, class_="reach"),
            tag(
                "path",
                d=path,
                class_=f"line {'c3' if strand.bold else 'c0'}",
                stroke_width=3.2 if strand.bold else 1.4,
                stroke_opacity=1.0 if strand.bold else 0.12 + 0.7 * strand.weight,
            ),
            class_="curve",
        )

    def _table(self) -> Table:
        columns = (Column(""), *(Column(axis.label, not axis.choices) for axis in self.axes))
        rows = tuple((one.name, *map(_cell, one.values)) for one in self.strands)
        return Table(columns, rows, caption=self.title)


def _axis(axis: Axis, at: float, top: float, bottom: float, apart: float) -> Markup:
    marks = axis.marks(5)
    return tag(
        "g",
        line(at, top, at, bottom, "base"),
        *(
            label_at(at + 5, bottom - share * (bottom - top) + 4, shorten(name, apart - 10), "tick halo")
            for share, name in marks
        ),
        label_at(at, 14, shorten(axis.label, max(apart - LETTER_WIDTH, 40)), "axis", "middle"),
    )


def _text(value: Value | None) -> str:
    return "–" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def _cell(value: Value | None) -> Cell:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None if value is None else str(value)
    return Figure(value, _text(value))
