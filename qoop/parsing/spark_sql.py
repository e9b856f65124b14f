"""Spark SQL as the planner knows it: dialect, types, and the catalogue of tables."""

from typing import Protocol

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ErrorLevel, UnsupportedError

from qoop.errors import CannotSplitError


class SparkSQL(Spark):
    """Spark 4: a quote that is written twice stands for itself ('it''s')."""

    class Tokenizer(Spark.Tokenizer):
        """Splits a text into words."""

        STRING_ESCAPES = ["\\", "'", '"']  # noqa: RUF012 - as its base class has it


DIALECT = SparkSQL

CHANGED = (exp.PercentileCont, exp.PercentileDisc)
"""Written again, these are approximations, and of the wrong order."""


def check_can_be_written(tree: exp.Expr) -> None:
    """Check that the text made of a tree says what the user's text said.

    Raises:
        CannotSplitError: it does not, or nobody knows.
    """
    for node in tree.walk():
        if isinstance(node, CHANGED):
            raise CannotSplitError(f"the planner does not write {node.sql_name()} as it was")
        if isinstance(node, exp.Star) and isinstance(node.parent, exp.Func) and not isinstance(node.parent, exp.Count):
            raise CannotSplitError(f"{node.parent.sql_name()}(*) reads all columns as one value")
    try:
        tree.sql(DIALECT, unsupported_level=ErrorLevel.RAISE)
    except UnsupportedError as problem:
        raise CannotSplitError(f"the planner does not write it as it was: {problem}") from None


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
