"""The selectivity of filters, measured on a sample of a table."""

import operator
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from qoop.estimate.statistics import ColumnStatistics, TableStatistics, Value
from qoop.plans.predicate import (
    AllOf,
    AnyOf,
    Column,
    Compare,
    CompareColumns,
    Form,
    InList,
    IsNull,
    Like,
    Not,
    Opaque,
    Predicate,
)

RANGE = 0.3
"""The fraction of the rows that a comparison keeps if the values of the column are not known."""

EQUAL = 0.1
"""The fraction that has a given value of a column of which nothing is known (Selinger et al., SIGMOD 1979, table 1)."""

OPAQUE = 0.1
"""Assumed selectivity of a filter that only Spark can evaluate; subqueries and functions mostly select few rows."""

COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True, slots=True)
class Selectivity:
    """The fraction of rows that pass, and the standard deviation of its logarithm.

    `passing`: which rows of the sample pass the filters that can be evaluated on it; None if none can.
    """

    fraction: float
    uncertainty: float
    passing: tuple[bool, ...] | None = None


MIN_PASSING_ROWS = 5
"""Sample rows that must pass for their number to be significant."""


def filter_selectivity(filters: Sequence[Predicate], table: TableStatistics) -> Selectivity:
    """The fraction that passes all filters, evaluated together on the sample to account for correlations."""
    known = [predicate.form for predicate in filters if not _is_opaque(predicate.form)]
    opaque = len(filters) - len(known)
    sampled = [form for form in known if _columns_sampled(form, table)]
    others = [form for form in known if form not in sampled]
    evaluated = _evaluated(AllOf(tuple(sampled)), table) if sampled else Selectivity(1.0, 0.0)
    if others:
        guessed = _evaluated(AllOf(tuple(others)), table)
        fraction = evaluated.fraction * guessed.fraction
        uncertainty = (evaluated.uncertainty**2 + guessed.uncertainty**2) ** 0.5
        evaluated = Selectivity(fraction, uncertainty, evaluated.passing)
    if not opaque:
        return evaluated
    return Selectivity(
        evaluated.fraction * OPAQUE**opaque, evaluated.uncertainty + 1.5 * min(opaque, 2), evaluated.passing
    )


def _evaluated(form: Form, table: TableStatistics) -> Selectivity:
    count = table.sampled
    if not count or not _columns_sampled(form, table):
        return Selectivity(max(_guessed(form, table), 1e-9), 1.0)
    passes = tuple(one is True for one in _holds(form, table)[:count])
    passing = sum(passes)
    if count >= table.rows:
        return Selectivity(max(passing, 0.5) / count, 0.0, passes)
    if passing >= MIN_PASSING_ROWS:
        return Selectivity(passing / count, min(1.0, passing**-0.5), passes)
    # Too few pass: combine the sample with the distinct counts.
    guess = passing / count if passing else min(_guessed(form, table), 1.0 / count)
    return Selectivity(max(guess, 1.0 / max(table.rows, 1.0)), 1.0, passes)


def _holds(form: Form, table: TableStatistics) -> list[bool | None]:
    """For each row of the sample: SQL's three-valued logic; None is unknown. Column by column, as that is fast."""
    match form:
        case Compare(column, op, value):
            return _by_value(table.sample[column.name], lambda one: _compared(one, op, value))
        case CompareColumns(left, op, right, offset):
            others = [
                other + offset if offset and isinstance(other, int | float) else other
                for other in table.sample[right.name]
            ]
            pairs = zip(table.sample[left.name], others, strict=False)
            return [_compared(one, op, other) for one, other in pairs]
        case InList(column, values):
            return _by_value(table.sample[column.name], _among(values))
        case Like(column, pattern):
            matches = _like(pattern).fullmatch
            return _by_value(table.sample[column.name], lambda one: None if one is None else bool(matches(str(one))))
        case IsNull(column):
            return [one is None for one in table.sample[column.name]]
        case Not(part):
            return [None if inner is None else not inner for inner in _holds(part, table)]
        case AllOf(parts):
            rows = _each_row(parts, table)
            return [False if False in row else None if None in row else True for row in rows]
        case AnyOf(parts):
            rows = _each_row(parts, table)
            return [True if True in row else None if None in row else False for row in rows]
        case Opaque():
            return [True] * table.sampled


def _each_row(parts: Sequence[Form], table: TableStatistics) -> Iterable[tuple[bool | None, ...]]:
    """For each row of the sample, which parts hold."""
    return zip(*(_holds(part, table) for part in parts), strict=False) if parts else [()] * table.sampled


def _by_value(values: Sequence[Value], holds: Callable[[Value], bool | None]) -> list[bool | None]:
    """Whether a filter holds for each value, asked once per different one; all are of one type."""
    known = {value: holds(value) for value in set(values)}
    return [known[value] for value in values]


def _among(values: Iterable[Value]) -> Callable[[Value], bool | None]:
    """Whether a value is one of others, of which there may be thousands; texts and numbers are compared as numbers."""
    options = {value for value in values if value is not None}
    texts, numbers = ({one for one in options if isinstance(one, str) == are_texts} for are_texts in (True, False))
    read, kept = ({_as_number(one) for one in kind} - {None} for kind in (texts, numbers))

    def holds(one: Value) -> bool | None:
        if one is None:
            return None
        return one in options or (_as_number(one) in (kept if isinstance(one, str) else read))

    return holds


def _as_number(value: Value) -> float | None:
    try:
        return None if value is None else float(value)
    except (ValueError, OverflowError):
        return None


def _compared(left: Value, op: str, right: Value) -> bool | None:
    if left is None or right is None:
        return None
    if isinstance(left, str) != isinstance(right, str):
        try:
            left, right = float(left), float(right)
        except ValueError:
            return None
    return COMPARISONS[op](left, right)  # type: ignore[arg-type]


@lru_cache(maxsize=256)
def _like(pattern: str) -> re.Pattern[str]:
    parts = (".*" if letter == "%" else "." if letter == "_" else re.escape(letter) for letter in pattern)
    return re.compile("".join(parts), re.DOTALL)


def _guessed(form: Form, table: TableStatistics) -> float:
    """The selectivity without a sample, assuming uniform values and independent columns."""
    match form:
        case Compare(column, "=", _):
            return _of_value(column, table)
        case InList(column, values):
            return min(len(values) * _of_value(column, table), 1.0)
        case CompareColumns(left, "=", right, _):
            return 1.0 / max(table.column(left.name).distinct, table.column(right.name).distinct)
        case Compare(_, "<>", _) | CompareColumns(_, "<>", _, _):
            return 0.9
        case IsNull(column):
            return max(table.column(column.name).nulls, 0.01)
        case Not(part):
            return max(1.0 - _guessed(part, table), 0.05)
        case AllOf(parts):
            return _all_of(parts, table)
        case AnyOf(parts):
            return 1.0 - _product(1.0 - _guessed(part, table) for part in parts)
        case Opaque():
            return OPAQUE
        case Compare(column, op, int() | float() as value):
            return _of_range(table.column(column.name), op, value)
        case _:
            return RANGE


def _of_value(column: Column, table: TableStatistics) -> float:
    """The fraction of rows with one value of a column; of computed columns nothing is known, and many are constants."""
    known = table.columns.get(column.name)
    return 1.0 / known.distinct if known is not None else EQUAL


def _all_of(parts: Sequence[Form], table: TableStatistics) -> float:
    """The product of the parts; a lower and an upper bound of a column leave what both do not exclude."""
    ranges: dict[Column, list[float]] = {}
    others = 1.0
    for part in parts:
        match part:
            case Compare(column, "<" | "<=" | ">" | ">=", int() | float()):
                ranges.setdefault(column, []).append(_guessed(part, table))
            case _:
                others *= _guessed(part, table)
    for column, kept in ranges.items():
        known = table.column(column.name)
        bounded = len(kept) > 1 and known.low is not None and known.high is not None
        others *= max(sum(kept) - (len(kept) - 1), 1.0 / known.distinct) if bounded else _product(kept)
    return others


def _of_range(column: ColumnStatistics, op: str, value: float) -> float:
    """The fraction of values below or above one, if they are spread evenly between the lowest and the highest."""
    low, high = column.low, column.high
    if low is None or high is None or op not in ("<", "<=", ">", ">="):
        return RANGE
    if low == high:
        return (1.0 - column.nulls) * (_compared(low, op, value) is True)
    # Of whole numbers the bound itself is one of the values.
    step = 1.0 if all(float(one).is_integer() for one in (low, high, value)) else 0.0
    span = high - low + step
    below = (value - low + step * (op in ("<=", ">"))) / span
    return (1.0 - column.nulls) * min(max(below if op in ("<", "<=") else 1.0 - below, 0.0), 1.0)


def _product(factors: Iterable[float]) -> float:
    result = 1.0
    for factor in factors:
        result *= factor
    return result


def _is_opaque(form: Form) -> bool:
    match form:
        case Opaque():
            return True
        case AllOf(parts) | AnyOf(parts):
            return any(_is_opaque(part) for part in parts)
        case Not(part):
            return _is_opaque(part)
    return False


def _columns_sampled(form: Form, table: TableStatistics) -> bool:
    match form:
        case AllOf(parts) | AnyOf(parts):
            return all(_columns_sampled(part, table) for part in parts)
        case Not(part):
            return _columns_sampled(part, table)
        case CompareColumns(left, _, right, _):
            return left.name in table.sample and right.name in table.sample
        case Compare(column, _, _) | InList(column, _) | Like(column, _) | IsNull(column):
            return column.name in table.sample
    return False
