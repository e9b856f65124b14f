"""Random tables: columns of many types, joined by keys of few values, and their statements in SQL."""

from dataclasses import dataclass, replace
from random import Random


@dataclass(frozen=True)
class Kind:
    """A type. `values`: literals; `family`: kinds that may be equated; "": none.

    `groups`: equal values are the same value, so grouping by it leaves nothing open. `sorts`: it has an order.
    """

    sql: str
    values: tuple[str, ...]
    family: str = ""
    groups: bool = True
    sorts: bool = True


KINDS = {
    "int": Kind("INT", ("1", "2", "3", "4"), "exact"),
    "long": Kind("BIGINT", ("1", "2", "3"), "exact"),
    "decimal": Kind("DECIMAL(7,2)", ("1", "2", "3", "1.50"), "exact"),
    "wide": Kind("DECIMAL(12,4)", ("1", "2", "3", "1.5", "3.1250"), "exact"),
    "double": Kind("DOUBLE", ("0.5", "1.0", "2.0", "0.0D", "-0.0D", "CAST('NaN' AS DOUBLE)"), "approximate"),
    "text": Kind("STRING", ("'a'", "'b'", "'B'", "'a1'", "'a b'", "'1'", "'_x'", "''"), "text"),
    "number": Kind("STRING", ("'1'", "'2'", "'3'", "'01'", "'4'"), "digits"),
    "char": Kind("CHAR(4)", ("'a'", "'b'", "'B'", "'a1'", "'1'"), "text"),
    "varchar": Kind("VARCHAR(6)", ("'a'", "'b'", "'B'", "'a1'", "'1'"), "text"),
    "folded": Kind("STRING COLLATE UTF8_LCASE", ("'a'", "'A'", "'b'", "'B'", "'c'"), "folded", groups=False),
    "date": Kind("DATE", ("DATE '2000-01-01'", "DATE '2000-01-31'", "DATE '2000-02-29'", "DATE '2001-12-31'"), "date"),
    "time": Kind(
        "TIMESTAMP",
        (
            "TIMESTAMP '2000-01-01 00:30:00'",
            "TIMESTAMP '2000-01-01 23:30:00'",
            "TIMESTAMP '2000-03-26 02:30:00.123'",
            "TIMESTAMP '2000-02-29 08:00:00'",
        ),
        "time",
    ),
    "wall": Kind(
        "TIMESTAMP_NTZ", ("TIMESTAMP_NTZ '2000-01-01 00:30:00'", "TIMESTAMP_NTZ '2000-01-31 12:00:00'"), "wall"
    ),
    "truth": Kind("BOOLEAN", ("TRUE", "FALSE"), "truth"),
    "struct": Kind(
        "STRUCT<orderQty: INT, Tag: STRING>",
        ("named_struct('orderQty', 1, 'Tag', 'x')", "named_struct('orderQty', 2, 'Tag', NULL)"),
        "",
    ),
    "array": Kind("ARRAY<INT>", ("array(1, 2)", "array(3)", "array(2, NULL)", "array()"), ""),
    "map": Kind("MAP<STRING, INT>", ("map('x', 1)", "map('x', 2, 'Y', 3)", "map()"), "", groups=False, sorts=False),
    "whole": Kind("BIGINT", ("1", "2", "6", "10"), "exact"),
    "amount": Kind("DECIMAL(20,4)", ("1", "2.5", "6", "10"), "exact"),
    "ratio": Kind("DOUBLE", ("0.5", "1.0", "-0.0D", "CAST('NaN' AS DOUBLE)"), "approximate"),
    "phrase": Kind("STRING", ("'A'", "'#'", "'a-1'", "'2000-01-01'"), "text"),
}

COMPUTED = ("whole", "amount", "ratio", "phrase")
"""Kinds of computed values, which are seldom equal to those of other columns."""

KEYS = ("int", "int", "long", "decimal", "number", "text", "char", "date", "folded", "time")
"""Kinds of the second key of a table."""

OTHERS = ("int", "decimal", "wide", "double", "text", "varchar", "char", "date", "time", "wall", "truth", "struct",
          "array", "map", "long", "number")  # fmt: skip

NAMES = {
    "int": ("n", "Qty"), "long": ("l", "bigOne"), "decimal": ("m", "unitPrice"), "wide": ("w", "Rate"),
    "double": ("f", "Ratio"), "text": ("s", "Name"), "number": ("code", "Code"), "char": ("h", "Mark"),
    "varchar": ("v", "Label"), "folded": ("c", "Nick"), "date": ("d", "soldOn"), "time": ("ts", "At"),
    "wall": ("tn", "wallTime"), "truth": ("b", "isOpen"), "struct": ("st", "Line"), "array": ("ar", "Parts"),
    "map": ("mp", "Tags"),
}  # fmt: skip


@dataclass(frozen=True)
class Column:
    """A column: its name and the name of its kind."""

    name: str
    kind: str


@dataclass(frozen=True)
class Table:
    """A table and its rows, as literals.

    `stored`: a table of files, else a temporary view of its rows. `analysed`: a view that Spark keeps as a plan, as it
    does for a frame, not as text that is parsed and analysed each time.
    """

    name: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    stored: bool = False
    cased: bool = False
    analysed: bool = False

    def statements(self) -> list[str]:
        """The statements that make it."""
        rows = ", ".join(f"({', '.join(row)})" for row in self.rows)
        if self.stored:
            columns = ", ".join(f"{column.name} {KINDS[column.kind].sql}" for column in self.columns)
            made = [f"DROP TABLE IF EXISTS {self.name}", f"CREATE TABLE {self.name} ({columns}) USING parquet"]
            return [*made, f"INSERT INTO {self.name} VALUES {rows}"] if rows else made
        return [f"CREATE OR REPLACE TEMPORARY VIEW {self.name} AS {self.query()}"]

    def changed(self, random: Random) -> "Table":
        """The table with other rows, as many."""
        return replace(self, rows=rows(random, self.columns, len(self.rows)))

    def query(self) -> str:
        """The query of the view."""
        rows = ", ".join(f"({', '.join(row)})" for row in self.rows)
        typed = ", ".join(
            f"CAST(v.c{place} AS {KINDS[column.kind].sql}) AS {column.name}"
            for place, column in enumerate(self.columns)
        )
        names = ", ".join(f"c{place}" for place in range(len(self.columns)))
        none = f"({', '.join('NULL' for _ in self.columns)})"
        where = "" if rows else " WHERE FALSE"
        return f"SELECT {typed} FROM VALUES {rows or none} AS v({names}){where}"


def tables(random: Random) -> tuple[Table, ...]:
    """Six tables, the last two of files: one has CHAR and VARCHAR columns. A seventh has names that differ in case."""
    found = []
    for name in ("r", "q", "p", "o", "files", "chars"):
        stored = name in ("files", "chars")
        found.append(_table(random, name, stored, ("char", "varchar") if name == "chars" else ()))
    cased = (Column("k", "int"), Column("a", "int"), Column("A", "text"), Column("K", "int"))
    found.append(Table("cased", cased, rows(random, cased, 9), cased=True))
    return tuple(found)


def _table(random: Random, name: str, stored: bool, more: tuple[str, ...]) -> Table:
    def allowed(kinds: tuple[str, ...]) -> list[str]:
        # Views cannot have columns of CHAR and VARCHAR; Spark does not know that two maps in VALUES are equal.
        return [kind for kind in kinds if stored or kind not in ("char", "varchar", "map")]

    kinds = ["int", random.choice(allowed(KEYS)), *more]
    kinds += random.sample(allowed(OTHERS), 5)
    taken = {"k", "g"}
    columns = [Column("k", kinds[0]), Column("g", kinds[1])]
    for kind in kinds[2:]:
        column = next((one for one in random.sample(NAMES[kind], 2) if one.lower() not in taken), None)
        if column is not None:
            taken.add(column.lower())
            columns.append(Column(column, kind))
    count = 0 if random.random() < 0.01 else random.randint(8, 13)
    return Table(name, tuple(columns), rows(random, tuple(columns), count), stored, analysed=name in ("q", "p", "o"))


def rows(random: Random, columns: tuple[Column, ...], count: int) -> tuple[tuple[str, ...], ...]:
    """Rows of literals; some values are NULL.

    Half of the values of a row have the same place among those of their kinds, so that rows that are equal in one
    column are often equal in others, and joins by several columns find some.
    """
    return tuple(tuple(_value(random, column, place) for column in columns) for place in range(count))


def _value(random: Random, column: Column, place: int) -> str:
    values = KINDS[column.kind].values
    if random.random() < 0.1:
        return "NULL"
    return values[place % 4 % len(values)] if random.random() < 0.55 else random.choice(values)
