"""Engines and their answers: text in, answer out, and whether two answers are the same.

Rows are compared in their order, which the texts of `tpcds.queries` make total; columns by position, as engines name
unnamed columns differently. Integers, decimals, strings and dates must be equal; where one side is a float, both may
differ by RELATIVE_TOLERANCE of the larger: the rounding of `stddev_samp` and of sums of floats depends on the order of
evaluation.
"""

import math
from dataclasses import dataclass
from decimal import Decimal
from itertools import zip_longest
from typing import Any, Protocol

from yarn_plugin.quantities import count

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class PlanCounts:
    """Plan counts of one query on an engine that switches plans.

    `join_trees`: trees considered. `stages`: stages run. `reused`, `cancelled`, `unused` (finished, but not
    read after a switch) count stages over all switches. `one_stage_reason`: why the query ran as one stage.
    """

    join_trees: int
    stages: int
    switches: int
    reused: int
    cancelled: int
    unused: int
    one_stage_reason: str | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """The rows of a query in order; `seconds`: from the text to the last row."""

    columns: tuple[str, ...]
    rows: list[Row]
    seconds: float
    plan: PlanCounts | None = None


class Engine(Protocol):
    """Answers queries over one data set."""

    def run(self, sql: str) -> Answer:
        """Answer a query written in the engine's dialect.

        Raises:
            EngineError: the query failed.
        """
        ...


RELATIVE_TOLERANCE = 1e-9
MISSING_ROW = "no row"


@dataclass(frozen=True, slots=True)
class Difference:
    """A cell in which two answers differ; without a column, a missing row or the number of columns.

    Rows are numbered from 1; row 0 is the answer as a whole.
    """

    row: int
    column: str | None
    left: Any
    right: Any

    def __str__(self) -> str:
        row = f"row {self.row}" if self.row else "answer"
        column = f", column {self.column}" if self.column else ""
        return f"{row}{column}: {_shown(self.left)} instead of {_shown(self.right)}"


def compare(left: Answer, right: Answer) -> list[Difference]:
    """All differences between two answers; empty if they are the same."""
    if len(left.columns) != len(right.columns):
        return [Difference(0, None, count(len(left.columns), "column"), count(len(right.columns), "column"))]
    differences: list[Difference] = []
    for number, rows in enumerate(zip_longest(left.rows, right.rows), 1):
        differences += _row_differences(number, left.columns, *rows)
    return differences


def _row_differences(number: int, columns: tuple[str, ...], left: Row | None, right: Row | None) -> list[Difference]:
    if left is None or right is None:
        return [
            Difference(number, None, MISSING_ROW if left is None else left, MISSING_ROW if right is None else right)
        ]
    return [
        Difference(number, column, x, y)
        for column, x, y in zip(columns, left, right, strict=True)
        if not is_same_value(x, y)
    ]


def is_same_value(x: Any, y: Any) -> bool:
    """Whether two cells are equal by the rules of this module."""
    if isinstance(x, float) or isinstance(y, float):
        return _is_number(x) and _is_number(y) and _is_close(float(x), float(y))
    if _is_number(x) and _is_number(y):
        return bool(x == y)
    return type(x) is type(y) and bool(x == y)


def _is_close(x: float, y: float) -> bool:
    return (math.isnan(x) and math.isnan(y)) or math.isclose(x, y, rel_tol=RELATIVE_TOLERANCE)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _shown(value: Any) -> str:
    text = "NULL" if value is None else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
