"""Statistics of tables and columns."""

from dataclasses import dataclass, field, replace

from qoop.plans.predicate import Literal

Value = Literal | None


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """`distinct`: distinct values. `nulls`: the fraction of NULLs. `width`: bytes of a value in memory.

    `low`, `high`: the smallest and largest value of a numeric column; None if unknown.
    """

    distinct: float
    nulls: float = 0.0
    width: float = 8.0
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class TableStatistics:
    """Rows, bytes as stored, columns, and a sample of rows to evaluate filters on (aligned values by column).

    `partitioned_by`: the columns by which Spark can skip files; names are those of `columns`. `files`: their number;
    0 if that is not known.
    """

    rows: float
    bytes: float
    columns: dict[str, ColumnStatistics] = field(default_factory=dict)
    sample: dict[str, tuple[Value, ...]] = field(default_factory=dict)
    partitioned_by: frozenset[str] = frozenset()
    files: float = 0.0

    def column(self, name: str) -> ColumnStatistics:
        """The statistics of a column; a guess if there are none."""
        return self.columns.get(name) or ColumnStatistics(distinct=max(self.rows**0.75, 1.0))

    @property
    def sampled(self) -> int:
        """Rows in the sample."""
        return min((len(values) for values in self.sample.values()), default=0)


def with_rows(known: TableStatistics, rows: float) -> TableStatistics:
    """The statistics of a table that turned out to have so many rows."""
    columns = {name: replace(column, distinct=min(column.distinct, rows)) for name, column in known.columns.items()}
    return replace(known, rows=rows, bytes=known.bytes * rows / max(known.rows, 1.0), columns=columns)


UNKNOWN = TableStatistics(rows=100_000.0, bytes=10_000_000.0)
"""The assumed statistics of an unknown table."""


def distinct_values(sample: tuple[Value, ...], rows: float, span: float | None) -> float:
    """Estimate the distinct values of a column of `rows` rows from a sample.

    The guaranteed-error estimator: each value that occurs once in the sample stands for sqrt(rows / sampled) values
    (Charikar et al., PODS 2000, section 4). `span`: for integers and dates, the number of values in their range.
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
