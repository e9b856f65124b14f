"""Tables and their cells."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from yarn_plugin.quantities import NOTHING, number
from yarn_plugin.report.markup import Ids, Markup, join, tag

Tone = Literal["plain", "good", "bad", "warn", "accent"]


@dataclass(frozen=True, slots=True)
class Badge:
    """A word that stands out."""

    text: str
    tone: Tone = "plain"

    def html(self) -> Markup:
        """The badge as HTML."""
        return tag("span", self.text, class_=f"badge {self.tone}")


@dataclass(frozen=True, slots=True)
class Meter:
    """A value with a bar that shows it as a part of `of`; `text` is the value as it is shown."""

    value: float
    of: float
    text: str

    def html(self) -> Markup:
        """The meter as HTML."""
        share = max(0.0, min(self.value / self.of, 1.0)) if self.of > 0 else 0.0
        bar = tag("span", tag("span", style=f"width:{100 * share:.1f}%"), class_="bar", aria_hidden="true")
        return tag("span", bar, tag("span", self.text), class_="meter")


@dataclass(frozen=True, slots=True)
class Figure:
    """A number whose text is not that of its column's other numbers, such as one of many magnitudes."""

    value: float
    text: str


Cell = str | int | float | Badge | Meter | Figure | None


@dataclass(frozen=True, slots=True)
class Column:
    """A column; numeric ones are right-aligned, with `digits` decimals (None: as many as three digits need)."""

    name: str
    numeric: bool = False
    digits: int | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """A table; a click on a column's name sorts by it. `caption` is above the table, `note` below."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    caption: str | None = None
    note: str | None = None
    empty: str = "Nothing to show."

    def html(self, ids: Ids) -> Markup:
        """The table as HTML."""
        if not self.rows:
            return tag("p", self.empty, class_="muted")
        heads = (_head(column) for column in self.columns)
        body = (tag("tr", *_cells(self.columns, row)) for row in self.rows)
        table = tag(
            "table",
            tag("caption", self.caption) if self.caption else None,
            tag("thead", tag("tr", *heads)),
            tag("tbody", *body),
        )
        note = tag("p", self.note, class_="muted") if self.note else None
        return join(tag("div", table, class_="scroll", tabindex="0", role="group", aria_label=self._name()), note)

    def _name(self) -> str:
        return self.caption or f"Table of {', '.join(column.name for column in self.columns if column.name)}"


def table_of(
    columns: Sequence[str], rows: Iterable[Sequence[object]], note: str | None = None, empty: str = "Nothing to show."
) -> Table:
    """The table that a terminal shows: the name of a numeric column begins with #."""
    heads = tuple(Column(name.removeprefix("#"), numeric=name.startswith("#")) for name in columns)
    cells = tuple(tuple(cell if isinstance(cell, Badge) else str(cell) for cell in row) for row in rows)
    return Table(heads, cells, note=note, empty=empty)


def _head(column: Column) -> Markup:
    name = tag("button", column.name, type="button") if column.name else None
    return tag("th", name, scope="col", class_="figure" if column.numeric else None)


def _cells(columns: tuple[Column, ...], row: tuple[Cell, ...]) -> list[Markup]:
    cells = []
    for place, (column, cell) in enumerate(zip(columns, row, strict=True)):
        kind = "figure" if column.numeric else None
        scope = None if place else "row"
        cells.append(tag("td" if place else "th", _shown(column, cell), class_=kind, scope=scope, data_key=_key(cell)))
    return cells


def _shown(column: Column, cell: Cell) -> str:
    match cell:
        case Badge() | Meter():
            return cell.html()
        case Figure(text=text):
            return text
        case None:
            return NOTHING if column.numeric else ""
        case bool() | str():
            return str(cell)
    return number(cell, column.digits)


def _key(cell: Cell) -> str | float | None:
    """The sort key of a cell, where it is not the text."""
    match cell:
        case Meter(value) | Figure(value):
            return repr(value)
        case int() | float():
            return repr(cell)
    return None
