"""Engines and their answers: text in, answer out, and whether two answers are the same.

Rows are compared in their order, which the texts of `tpcds.queries` make total; columns by position, as engines name
unnamed columns differently. Integers, decimals, strings and dates must be equal; where one side is a float, both may
differ by RELATIVE of the larger: the rounding of `stddev_samp` and of sums of floats depends on the order of
evaluation.
"""

import math
from dataclasses import dataclass
from decimal import Decimal
from itertools import zip_longest
from typing import Any, Protocol

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class PlanFacts:
    """What an engine that switches plans did for one query.

    `join_trees` counts the trees considered, `stages` those executed; `reused`, `cancelled` and `backtracked` count
    stages. `one_stage_reason` says why the query was not split, where it was not.
    """

    join_trees: int
    stages: int
    switches: int
    reused: int
    cancelled: int
    backtracked: int
    one_stage_reason: str | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """The rows of a query in their order, with the seconds from text to last row."""

    columns: tuple[str, ...]
    rows: list[Row]
    seconds: float
    plan: PlanFacts | None = None


class Engine(Protocol):
    """Answers queries over one data set."""

    def run(self, sql: str) -> Answer:
        """Answer a query written in the engine's dialect.

        Raises:
            EngineError: the query failed.
        """
        ...


RELATIVE = 1e-9
MISSING = "no row"


@dataclass(frozen=True, slots=True)
class Difference:
    """One cell (or, without a column, the whole row or number of columns) in which two answers differ.

    Rows are counted from 1; row 0 stands for the answer as a whole.
    """

    row: int
    column: str | None
    left: Any
    right: Any

    def __str__(self) -> str:
        where = f"row {self.row}" if self.row else "answer"
        return f"{where}{f', {self.column}' if self.column else ''}: {_shown(self.left)} / {_shown(self.right)}"


def compare(left: Answer, right: Answer) -> list[Difference]:
    """All cells in which two answers differ; none if the answers are the same."""
    if len(left.columns) != len(right.columns):
        return [Difference(0, None, f"{len(left.columns)} columns", f"{len(right.columns)} columns")]
    found: list[Difference] = []
    for number, (one, other) in enumerate(zip_longest(left.rows, right.rows), 1):
        found += _row_differences(number, left.columns, one, other)
    return found


def _row_differences(number: int, columns: tuple[str, ...], one: Row | None, other: Row | None) -> list[Difference]:
    if one is None or other is None:
        return [Difference(number, None, MISSING if one is None else one, MISSING if other is None else other)]
    return [
        Difference(number, column, x, y)
        for column, x, y in zip(columns, one, other, strict=True)
        if not same_value(x, y)
    ]


def same_value(x: Any, y: Any) -> bool:
    """Whether two cells mean the same, see the module's rules."""
    if isinstance(x, float) or isinstance(y, float):
        return _is_number(x) and _is_number(y) and _close(float(x), float(y))
    if _is_number(x) and _is_number(y):
        return bool(x == y)
    return type(x) is type(y) and bool(x == y)


def _close(x: float, y: float) -> bool:
    return (math.isnan(x) and math.isnan(y)) or math.isclose(x, y, rel_tol=RELATIVE)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _shown(value: Any) -> str:
    text = "NULL" if value is None else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
