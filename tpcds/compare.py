"""Whether two engines gave the same answer.

Rows are compared in their order, which the texts of `tpcds.queries` make total; columns by position, as engines name
unnamed columns differently. Integers, decimals, strings and dates must be equal; where one side is a float, both may
differ by RELATIVE of the larger: the rounding of `stddev_samp` and of sums of floats depends on the order of
evaluation.
"""

import math
from dataclasses import dataclass
from decimal import Decimal
from itertools import zip_longest
from typing import Any

from tpcds.engines import Answer, Row

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
