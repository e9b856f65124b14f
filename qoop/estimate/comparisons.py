"""The selectivity of conditions that compare columns of two relations, from samples of both."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qoop.estimate.key_ranges import Mask
from qoop.estimate.selectivity import MIN_PASSING_ROWS
from qoop.estimate.statistics import TableStatistics, Value
from qoop.plans.graph import JoinGraph
from qoop.plans.predicate import Column, CompareColumns, Predicate

ACROSS_OPAQUE, ACROSS_RANGE, ACROSS_DIFFERENT = 0.3, 1 / 3, 0.9

MIN_FRACTION = 1e-3
"""Samples that show fewer pairs do not show that there are none: columns may be related."""

Values = NDArray[Any]


class Comparisons:
    """The conditions of a join graph that read several relations.

    Args:
        tables: the statistics of each relation.
        passing: which rows of each relation's sample pass its filters; None: that is not known.
    """

    def __init__(self, graph: JoinGraph, tables: Sequence[TableStatistics], passing: Sequence[Mask | None]) -> None:
        self._graph, self._tables, self._passing = graph, tables, passing
        self._values: dict[tuple[Column, float], Values | None] = {}

    def selectivity(self, predicate: Predicate, inside: Mapping[int, Mask] | None = None) -> float:
        """The part of all pairs that meets a condition; `inside`: which sampled rows of relations are joined at all."""
        match predicate.form:
            case CompareColumns(left, "=", right, _):
                return 1.0 / max(self.distinct_of_equal((left, right)))
            case CompareColumns(left, op, right, offset):
                found = self._of_samples(left, op, right, offset, inside or {})
                if found is not None:
                    return found
                return ACROSS_DIFFERENT if op == "<>" else ACROSS_RANGE
        return 0.01 if predicate.is_equijoin else ACROSS_OPAQUE

    def distinct_of_equal(self, columns: Sequence[Column]) -> list[float]:
        """The distinct values of columns that are equated; one of which nothing is known has those of the others."""
        tables = [self._tables[self._graph.index(column.relation)] for column in columns]
        pairs = list(zip(tables, columns, strict=True))
        known = [table.columns[column.name].distinct for table, column in pairs if column.name in table.columns]
        most = max(known, default=None)
        found = [
            most if most is not None and column.name not in table.columns else table.column(column.name).distinct
            for table, column in pairs
        ]
        return [max(min(distinct, table.rows), 1.0) for distinct, table in zip(found, tables, strict=True)]

    def _of_samples(
        self, left: Column, op: str, right: Column, offset: float, inside: Mapping[int, Mask]
    ) -> float | None:
        """The part of the pairs of sampled rows; None if one has too few."""
        one, other = self._sampled(left, 0.0, inside), self._sampled(right, offset, inside)
        if one is None or other is None:
            return None
        ordered = np.sort(other)
        below, upto = (np.searchsorted(ordered, one, side).mean() / len(other) for side in ("left", "right"))
        fraction = {
            "<": 1.0 - upto, "<=": 1.0 - below, ">": below, ">=": upto, "<>": 1.0 - (upto - below),
        }[op]  # fmt: skip
        nulls = [self._tables[self._graph.index(column.relation)].column(column.name).nulls for column in (left, right)]
        return max(float(fraction) * (1.0 - nulls[0]) * (1.0 - nulls[1]), MIN_FRACTION)

    def _sampled(self, column: Column, offset: float, inside: Mapping[int, Mask]) -> Values | None:
        """The sampled values of a column in the rows that are joined; in those that pass the filters if these are too
        few, and in all if these are too. None if that is no sample of the column."""
        index = self._graph.index(column.relation)
        values = self._known_values(column, offset)
        if values is None:
            return None
        known = values == values  # NaN is NULL.
        for rows in (inside.get(index), self._passing[index]):
            if rows is not None and len(rows) == len(values) and np.count_nonzero(rows & known) >= MIN_PASSING_ROWS:
                joined: Values = values[rows & known]
                return joined
        found: Values = values[known]
        return found if len(found) >= MIN_PASSING_ROWS else None

    def _known_values(self, column: Column, offset: float) -> Values | None:
        key = column, offset
        if key not in self._values:
            sample = self._tables[self._graph.index(column.relation)].sample.get(column.name, ())
            self._values[key] = comparable(sample, offset)
        return self._values[key]


def comparable(values: Sequence[Value], offset: float = 0.0) -> Values | None:
    """Values as numbers, plus `offset`: dates and times as days; NULL is NaN. None if they are texts."""
    try:
        return np.asarray([np.nan if one is None else _number(one) for one in values]) + offset
    except (ValueError, OverflowError):
        return None


def _number(value: Value) -> float:
    if not isinstance(value, str):
        return float(value or 0.0)
    if value[4:5] != "-":
        # NumPy takes any number for a year.
        raise ValueError(value)
    return float(np.datetime64(value, "s").astype(np.int64)) / 86_400.0
