"""What the planner must know of tables: their columns and types."""

from typing import Protocol

Types = dict[str, str]
"""Column name (lower case) to the engine's type name, such as `bigint` or `decimal(7,2)`."""


class Catalogue(Protocol):
    """Where tables are looked up. An implementation belongs to the engine, or to a folder of files."""

    def columns(self, table: str) -> Types | None:
        """The columns of a table by its name as written (`db.name`), in order; None when there is none."""
        ...


FAMILIES = {
    "exact": ("tinyint", "smallint", "int", "integer", "bigint", "long", "decimal", "numeric", "byte", "short"),
    # Not char: it is compared with blanks after it, or without, as the other side is.
    "text": ("string", "varchar", "text"),
    "date": ("date",),
    # Apart: two wall times can be one instant.
    "time": ("timestamp", "timestamp_ltz"),
    "wall time": ("timestamp_ntz",),
    "truth": ("boolean", "bool"),
    "approximate": ("float", "double", "real"),
}


def family(type_name: str | None) -> str | None:
    """Types between which equality is transitive: '01' = 1 and 1 = '1' do not make '01' = '1'. None: not known."""
    base = (type_name or "").lower().partition("(")[0].strip()
    return next((name for name, types in FAMILIES.items() if base in types), None)
