"""Cardinality estimates of sets of relations and of blocks, corrected by measured row counts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import exp, log, sqrt

import numpy as np

from qoop.estimate.prior import Prior
from qoop.estimate.statistics import UNKNOWN, ColumnStatistics, TableStatistics
from qoop.plans.graph import RelationSet, members
from qoop.plans.plan import Block
from qoop.plans.predicate import Column


@dataclass(frozen=True, slots=True)
class Measurement:
    """`error`: the logarithm of true over estimated rows. `involved`: the sources that may have caused it."""

    involved: tuple[int, ...]
    error: float


NOISE = 1e-3
"""Standard deviation of a measurement itself; it keeps the system solvable if two measurements coincide."""


class Corrections:
    """What measurements say of the logarithmic errors of sources, and how much of them stays uncertain.

    Errors are independent and normal with mean 0 and standard deviation `uncertainties`; each measurement is the sum of
    the errors of its sources. With W the variances and A the sources of each measurement, the conditional mean is
    W A' (A W A' + noise)^-1 b, and the conditional covariance W - W A' (A W A' + noise)^-1 A W (Gauss-Markov).
    """

    def __init__(self, uncertainties: Sequence[float], measurements: Sequence[Measurement]) -> None:
        self._variance = np.asarray(uncertainties, dtype=float) ** 2
        self._design = np.zeros((len(measurements), len(uncertainties)))
        for row, measurement in enumerate(measurements):
            self._design[row, list(measurement.involved)] = 1.0
        self._errors = np.asarray([measurement.error for measurement in measurements], dtype=float)
        self._gain = (self._design * self._variance) @ self._design.T + NOISE**2 * np.eye(len(measurements))

    def given(self, assumed: Sequence[float]) -> list[float]:
        """The most likely error of each source, if without measurements these were: what is measured stays as it is."""
        before = np.asarray(assumed, dtype=float)
        if not len(self._errors) or not len(before):
            return [float(value) for value in before]
        missing = np.linalg.solve(self._gain, self._errors - self._design @ before)
        return [float(value) for value in before + self._variance * (self._design.T @ missing)]

    def deviation(self, involved: Sequence[int]) -> float:
        """The standard deviation of the sum of these sources' errors."""
        places = list(involved)
        variance = float(self._variance[places].sum())
        if len(self._errors) and places:
            shared = self._design[:, places] @ self._variance[places]
            variance -= float(shared @ np.linalg.solve(self._gain, shared))
        return sqrt(max(variance, 0.0))


MAX_ERROR, MAX_ROWS = 100.0, 1e60
"""Limits beyond any that occur, of the logarithm of a correction and of rows, so that no estimate overflows."""


class Cardinalities:
    """Cardinality estimates for one join graph, corrected by measured row counts.

    A counted set has exactly its counted rows. The logarithm of its estimation error is attributed to the filters and
    joins that may have caused it, by their uncertainty, so every related set is corrected too: correcting one set alone
    would favour plans that avoid it.

    Args:
        counted: true row counts of sets.
        pessimism: by how many standard deviations uncertain filters and joins are assumed to exceed their expectation;
            negative: to fall below it.
    """

    def __init__(self, prior: Prior, counted: Mapping[RelationSet, float], pessimism: float = 0.0) -> None:
        self.prior, self.graph = prior, prior.graph
        self._counted = dict(counted)
        uncertainties = [source.uncertainty for source in prior.sources]
        self._corrections = Corrections(uncertainties, self._measurements())
        self._factors = self._corrections.given([pessimism * uncertainty for uncertainty in uncertainties])
        self._is_corrected = any(self._factors)
        self._rows = {relations: max(rows, 1.0) for relations, rows in counted.items()}

    def rows(self, relations: RelationSet) -> float:
        """Rows of the join of a set of relations."""
        known = self._rows.get(relations)
        if known is None:
            error = sum(self._factors[place] for place in self._involved(relations)) if self._is_corrected else 0.0
            known = min(max(self.prior.rows(relations) * exp(min(error, MAX_ERROR)), 1.0), MAX_ROWS)
            self._rows[relations] = known
        return known

    def width(self, relations: RelationSet) -> float:
        """Bytes of a row of a set of relations, in memory."""
        return self.prior.width(relations)

    def base(self, index: int) -> TableStatistics:
        """The statistics of a relation without its filters."""
        return self.prior.tables[index]

    def scanned(self, index: int) -> float:
        """The fraction of a table's rows that is read."""
        return self.prior.opened(index)

    def uncertainty(self, relations: RelationSet) -> float:
        """The standard deviation of the logarithm of a set's estimate; 0 once the set was counted."""
        if relations in self._counted:
            return 0.0
        return self._corrections.deviation(self._involved(relations))

    def _involved(self, relations: RelationSet) -> list[int]:
        """The places of the sources of error that lie within a set of relations, ascending."""
        found: list[int] = []
        for i in members(relations):
            found += [place for place, others in self._sources_of[i] if others & ~relations == 0]
        return sorted(found)

    @cached_property
    def _sources_of(self) -> list[list[tuple[int, RelationSet]]]:
        """For each relation, the sources of error of which it is the last, by place, and the relations of each.

        Many tables joined on one key have a source for each pair: most sets of relations include few of them.
        """
        found: list[list[tuple[int, RelationSet]]] = [[] for _ in self.graph.relations]
        for place, source in enumerate(self.prior.sources):
            found[source.relations.bit_length() - 1].append((place, source.relations))
        return found

    def _measurements(self) -> list[Measurement]:
        return [
            Measurement(
                involved=tuple(self._involved(relations)),
                error=log(max(rows, 0.5)) - log(self.prior.rows(relations)),
            )
            for relations, rows in self._counted.items()
        ]


class PrunedCardinalities:
    """The cardinalities in a stage that skips partitions of tables: rows in partitions that Spark skips do not count.

    Args:
        pruners: for each table, by its index, the relations in the stage by which its partitions are skipped.
    """

    def __init__(self, rows: Cardinalities, pruners: Mapping[int, RelationSet]) -> None:
        self._all, self._pruners, self.graph = rows, pruners, rows.graph
        self.width, self.base = rows.width, rows.base

    def rows(self, relations: RelationSet) -> float:
        """Rows of the join of a set of relations."""
        every, joined, least = self._all.rows(relations), relations, 1.0
        for index, pruners in self._pruners.items():
            if relations >> index & 1:
                joined |= pruners
                least *= self._least(index)
        return max(min(every, self._all.rows(joined)), least * every) if joined != relations else every

    def scanned(self, index: int) -> float:
        """The fraction of a table's rows that is read."""
        return self._all.scanned(index) * self.rows(1 << index) / self._all.rows(1 << index)

    def _least(self, index: int) -> float:
        """The fraction of a table in one partition, which is read whatever else the join leaves."""
        table = self.base(index)
        return 1.0 / max(max(table.column(name).distinct for name in table.partitioned_by), 1.0)


HAVING = 0.5
"""Assumed selectivity of HAVING and of joins and conditions outside the core."""


def result_statistics(
    block: Block, rows: Cardinalities | None, tables: Mapping[str, TableStatistics]
) -> TableStatistics:
    """Estimate the statistics of a block's result from those of its inputs."""
    if rows is None or block.graph is None:
        parts = [tables.get(name, UNKNOWN) for name in block.outer_sources]
        read = [part.rows for part in parts]
        count = max(sum(read) if block.is_union else max(read, default=UNKNOWN.rows), 1.0)
        columns = _of_union(parts, count) if block.is_union else {}
        return TableStatistics(count, count * 8.0 * len(block.outputs), columns)
    core = rows.rows(block.graph.all_relations)
    groups = core
    if block.keys is not None:
        groups = _groups(rows, block.keys, core)
    count = max(groups * (HAVING if block.outer_sources else 1.0), 1.0)
    columns = {
        output.name: ColumnStatistics(
            min(_distinct(rows, output.column, core), count), width=_width(rows, output.column)
        )
        for output in block.outputs
        if output.column is not None
    }
    return TableStatistics(count, count * 8.0 * len(block.outputs), columns)


def _groups(rows: Cardinalities, keys: Sequence[Column], core: float) -> float:
    """The groups of a core's rows: of each relation at most as many combinations of its keys as it has rows."""
    of_relation: dict[str, float] = {}
    for key in keys:
        bit = rows.graph.bit[key.relation]
        joined = rows.rows(bit) * rows.prior.joined_part(bit.bit_length() - 1)
        of_relation[key.relation] = min(of_relation.get(key.relation, 1.0) * _distinct(rows, key, core), joined)
    groups = 1.0
    for combinations in of_relation.values():
        groups = min(groups * max(combinations, 1.0), core)
    return groups


def _of_union(parts: Sequence[TableStatistics], rows: float) -> dict[str, ColumnStatistics]:
    """The columns of a union, which mostly have the same values in all its parts."""
    names = set[str]().union(*(part.columns for part in parts))
    columns = {name: [part.columns[name] for part in parts if name in part.columns] for name in names}
    return {
        name: ColumnStatistics(min(max(one.distinct for one in some), rows), width=max(one.width for one in some))
        for name, some in columns.items()
    }


def _distinct(rows: Cardinalities, column: Column, limit: float) -> float:
    index = rows.graph.index(column.relation)
    leaf = rows.rows(1 << index)
    return max(min(rows.prior.distinct(column), leaf, limit), 1.0)


def _width(rows: Cardinalities, column: Column) -> float:
    return rows.base(rows.graph.index(column.relation)).column(column.name).width
