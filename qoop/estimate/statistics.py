"""What is known of tables before anything has run."""

from dataclasses import dataclass, field

from qoop.plans.predicate import Literal

Value = Literal | None


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """`distinct`: how many different values; `nulls`: which fraction is NULL; `width`: bytes of a value in memory.

    `low`, `high`: the least and the largest value, of numbers; None where they are not known.
    """

    distinct: float
    nulls: float = 0.0
    width: float = 8.0
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class TableStatistics:
    """Rows, bytes as stored, columns, and some of the rows (`sample`: aligned values by column) to try filters on."""

    rows: float
    bytes: float
    columns: dict[str, ColumnStatistics] = field(default_factory=dict)
    sample: dict[str, tuple[Value, ...]] = field(default_factory=dict)

    def column(self, name: str) -> ColumnStatistics:
        """A column's statistics; guessed where there are none."""
        return self.columns.get(name) or ColumnStatistics(distinct=max(self.rows**0.75, 1.0))

    @property
    def sampled(self) -> int:
        """How many rows the sample has."""
        return min((len(values) for values in self.sample.values()), default=0)


UNKNOWN = TableStatistics(rows=100_000.0, bytes=10_000_000.0)
"""Stands for a table of which nothing is known."""


def distinct_values(sample: tuple[Value, ...], rows: float, span: float | None) -> float:
    """How many different values a column of `rows` has, from a sample of it.

    The guaranteed-error estimator: values seen once stand for sqrt(rows / sampled) values each (Charikar et al.,
    PODS 2000, section 4). `span`: for whole numbers and dates, how many values lie between the least and the largest.
    """
    seen: dict[Value, int] = {}
    for value in sample:
        if value is not None:
            seen[value] = seen.get(value, 0) + 1
    if not seen:
        return 1.0
    once = sum(1 for count in seen.values() if count == 1)
    repeated = len(seen) - once
    estimate = (rows / len(sample)) ** 0.5 * once + repeated if repeated else rows
    return max(min(estimate, rows, span if span is not None else rows), 1.0)
