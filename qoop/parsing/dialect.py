"""Spark's SQL as sqlglot reads and writes it, and what it does not write again as it was."""

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
