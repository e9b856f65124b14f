"""Cardinality estimates from statistics alone, and the sources of their errors."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from math import exp, log
from typing import NamedTuple

import numpy as np

from qoop.estimate.comparisons import Comparisons
from qoop.estimate.key_ranges import Bounds, JoinedRanges, KeyRanges
from qoop.estimate.selectivity import MIN_PASSING_ROWS, Selectivity, filter_selectivity
from qoop.estimate.statistics import ColumnStatistics, TableStatistics, Value, distinct_values
from qoop.plans.graph import JoinGraph, RelationSet, members
from qoop.plans.predicate import Column, Compare, CompareColumns, InList


class ErrorSource(NamedTuple):
    """A filter or join whose selectivity is uncertain: its relations, and the standard deviation of its logarithm."""

    relations: RelationSet
    uncertainty: float


class _Pair(NamedTuple):
    """Two relations joined by several equalities, and the logarithm by which the estimate would be too small.

    `equalities`: the places of classes, and after these those of conditions.
    """

    relations: RelationSet
    equalities: tuple[int, ...]
    excess: float


class Prior:
    """Estimates for one join graph before any stage has run; a set's estimate does not depend on a join tree.

    `sources`: the uncertain filters and joins.
    """

    def __init__(
        self,
        graph: JoinGraph,
        tables: Mapping[str, TableStatistics],
        selectivities: Mapping[int, Selectivity] | None = None,
    ) -> None:
        """`selectivities`: known selectivities of the filters of relations, by index."""
        self.graph = graph
        self.tables = [tables[relation.source] for relation in graph.relations]
        known = selectivities or {}
        self._selectivities = [
            known.get(place) or filter_selectivity(relation.filters, self.tables[place])
            for place, relation in enumerate(graph.relations)
        ]
        self._leaf = [
            max(table.rows * part.fraction, 1.0) for table, part in zip(self.tables, self._selectivities, strict=True)
        ]
        passing = [
            None if part.passing is None else np.asarray(part.passing, dtype=np.bool_) for part in self._selectivities
        ]
        self._comparisons = Comparisons(graph, self.tables, passing)
        self._ranges = KeyRanges(graph, self.tables, passing)
        self._equal: dict[tuple[int, RelationSet, Bounds | None], float] = {}
        self._pairs = self._find_pairs()
        self._rows: dict[RelationSet, float] = {}
        self._widths: dict[RelationSet, float] = {}
        self._opened: dict[int, float] = {}
        filters = [
            ErrorSource(1 << i, part.uncertainty) for i, part in enumerate(self._selectivities) if part.uncertainty > 0
        ]
        self.sources = [*filters, *self._join_sources()]

    def with_tables(self, tables: Mapping[str, TableStatistics]) -> "Prior":
        """The estimates with other statistics; filters (most of the work) are evaluated only where these differ."""
        same = {
            place: selectivity
            for place, (relation, selectivity) in enumerate(zip(self.graph.relations, self._selectivities, strict=True))
            if tables[relation.source] == self.tables[place]
        }
        return self if len(same) == len(self._selectivities) else Prior(self.graph, tables, same)

    def rows(self, relations: RelationSet) -> float:
        """Rows of the join of a set of relations."""
        known = self._rows.get(relations)
        if known is None:
            known = exp(self._log_prior(relations))
            self._rows[relations] = known
        return known

    def width(self, relations: RelationSet) -> float:
        """Bytes of a row of a set of relations, in memory."""
        known = self._widths.get(relations)
        if known is None:
            known = 8.0 + sum(self._statistics(column).width for column in self.graph.outputs(relations))
            self._widths[relations] = known
        return known

    def joined_part(self, index: int) -> float:
        """The part of a relation's filtered rows that is within the ranges of its keys in the join of all relations."""
        return self._ranges.joined(self.graph.all_relations).fractions.get(index, 1.0)

    def distinct(self, column: Column) -> float:
        """The distinct values of a column in the join of all relations."""
        index = self.graph.index(column.relation)
        known, rows = self._statistics(column), max(self._leaf[index] * self.joined_part(index), 1.0)
        limits = [known.distinct, rows]
        for predicate in self.graph.relations[index].filters:
            match predicate.form:
                case Compare(of, "=", _) if of == column:
                    return 1.0
                case InList(of, values) if of == column:
                    limits.append(len(values))
        seen = self._joined_sample(index, column)
        if seen:
            limits.append(distinct_values(seen, rows, None))
        numbers = [value for value in seen if isinstance(value, int | float)]
        if len(numbers) >= MIN_PASSING_ROWS and known.low is not None and known.high is not None:
            width = (max(numbers) - min(numbers)) * (len(numbers) + 1) / (len(numbers) - 1)
            limits.append(known.distinct * (width + 1.0) / (known.high - known.low + 1.0))
        return max(min(limits), 1.0)

    def _joined_sample(self, index: int, column: Column) -> tuple[Value, ...]:
        """The sampled values of a column in rows that are within the ranges of all keys, and pass the filters."""
        joined, passing = self._ranges.joined(self.graph.all_relations), self._selectivities[index].passing
        inside, sample = joined.inside.get(index, passing), self.tables[index].sample.get(column.name, ())
        if inside is None or len(inside) != len(sample):
            return ()
        return tuple(value for value, passes in zip(sample, inside, strict=True) if passes)

    def opened(self, index: int) -> float:
        """The fraction of a table in partitions that its own filters leave."""
        known = self._opened.get(index)
        if known is None:
            table = self.tables[index]
            filters = self.graph.relations[index].filters if table.partitioned_by else ()
            of_partitions = [one for one in filters if {column.name for column in one.columns} <= table.partitioned_by]
            known = filter_selectivity(of_partitions, table).fraction if of_partitions else 1.0
            self._opened[index] = known
        return known

    @cached_property
    def partitioned(self) -> RelationSet:
        """The tables of which Spark can skip partitions."""
        return sum(1 << i for i, table in enumerate(self.tables) if table.partitioned_by)

    def _log_prior(self, relations: RelationSet) -> float:
        optional = [i for i in members(relations) if self._joined_to(1 << i) & relations]
        total = sum(log(self._leaf[i]) for i in members(relations) if i not in optional)
        # Each row of the others stays.
        total += sum(max(self._log_matches(i), 0.0) for i in optional)
        ranges = self._ranges.joined(relations)
        total += ranges.log_fraction
        for place, touched in enumerate(self.graph.class_sets):
            if (touched & relations).bit_count() > 1:
                total += self._class_selectivity(place, touched & relations, ranges)
        for predicate, touched in zip(self.graph.predicates, self.graph.predicate_sets, strict=True):
            if touched & ~relations == 0:
                total += log(self._comparisons.selectivity(predicate, ranges.inside))
        return total + self._composite_keys(relations)

    def _joined_to(self, relation: RelationSet) -> RelationSet:
        return self.graph.optional.get(relation, 0)

    def _log_matches(self, index: int) -> float:
        """The logarithm of how many rows of a left-joined relation match a row."""
        on = self.graph.relations[index].on
        return log(self._leaf[index]) + sum(log(self._comparisons.selectivity(one)) for one in on)

    def _class_selectivity(self, place: int, relations: RelationSet, ranges: JoinedRanges) -> float:
        """The logarithm of the selectivity of a class's equalities over the product of these relations.

        Values outside the common range match nothing. Within it containment is assumed: the selectivity is 1 / the
        product of all distinct counts but the smallest, before filters (a filter on a key removes values, and with them
        the matching rows).
        """
        bounds = ranges.bounds.get(place)
        known = self._equal.get((place, relations, bounds))
        if known is None:
            joined = [one for one in self.graph.classes[place] if self.graph.bit[one.relation] & relations]
            distinct = self._comparisons.distinct_of_equal(joined)
            parts = [1.0 if bounds is None else self._ranges.overlap(column, bounds) for column in joined]
            within = sorted(max(count * part, 1.0) for count, part in zip(distinct, parts, strict=True))
            known = self._equal[place, relations, bounds] = -sum(map(log, within[1:]))
        return known

    def _statistics(self, column: Column) -> ColumnStatistics:
        return self.tables[self.graph.index(column.relation)].column(column.name)

    def _composite_keys(self, relations: RelationSet) -> float:
        """Correct joins on several columns: together these have no more values than the larger relation has rows.

        Each further relation is joined once, so of relations that all share these columns only some pairs count.
        """
        pairs = [pair for pair in self._pairs if pair.relations & ~relations == 0]
        if len(pairs) < 2:
            return sum(pair.excess for pair in pairs)
        total = 0.0
        linked: dict[int, list[RelationSet]] = {}
        for pair in pairs:
            new = [index for index in pair.equalities if not _are_linked(linked.get(index, []), pair.relations)]
            if len(new) > 1:
                is_whole = len(new) == len(pair.equalities)
                total += pair.excess if is_whole else max(self._excess(pair.relations, new), 0.0)
            for index in new:
                linked[index] = _linked(linked.get(index, []), pair.relations)
        return total

    def _find_pairs(self) -> list["_Pair"]:
        """The pairs joined by several equalities whose independent selectivities are too small, largest error first."""
        found: list[_Pair] = []
        equalities = self._equalities
        for i in range(len(self.graph.relations)):
            for j in range(i):
                pair = 1 << i | 1 << j
                shared = [index for index, (touched, _) in enumerate(equalities) if touched & pair == pair]
                excess = self._excess(pair, shared) if len(shared) > 1 else 0.0
                if excess > 0:
                    found.append(_Pair(pair, tuple(shared), excess))
        return sorted(found, key=lambda one: -one.excess)

    @cached_property
    def _equalities(self) -> list[tuple[RelationSet, frozenset[Column]]]:
        """The relations and columns of each class, and of each condition that equates columns (`a = b + 1`)."""
        found = list(zip(self.graph.class_sets, self.graph.classes, strict=True))
        for predicate, touched in zip(self.graph.predicates, self.graph.predicate_sets, strict=True):
            equates = isinstance(predicate.form, CompareColumns) and predicate.form.op == "="
            found.append((touched, predicate.columns) if equates else (0, frozenset()))
        return found

    def _excess(self, pair: RelationSet, equalities: Sequence[int]) -> float:
        """The logarithm by which the independent selectivities of these equalities are too small for a pair."""
        i, j = members(pair)
        values = [max(self._comparisons.distinct_of_equal(self._columns_of(index, pair))) for index in equalities]
        return sum(map(log, values)) - log(max(self.tables[i].rows, self.tables[j].rows, 1.0))

    def _columns_of(self, equality: int, relations: RelationSet) -> list[Column]:
        return [one for one in self._equalities[equality][1] if self.graph.bit[one.relation] & relations]

    def _join_sources(self) -> list[ErrorSource]:
        """The uncertain joins: least where one side is an unfiltered key, most where values repeat on both sides."""
        found: list[ErrorSource] = []
        for columns, touched in zip(self.graph.classes, self.graph.class_sets, strict=True):
            indices = list(members(touched))
            for i in indices:
                for j in (other for other in indices if other < i):
                    found.append(ErrorSource(1 << i | 1 << j, self._join_uncertainty(columns, i, j)))
        found += [ErrorSource(touched, 1.0) for touched in self.graph.predicate_sets]
        found += [ErrorSource(one | other, 1.0) for one, other in self.graph.optional.items()]
        return [source for source in found if source.uncertainty > 0]

    def _join_uncertainty(self, columns: frozenset[Column], i: int, j: int) -> float:
        keys = [self.tables[k].rows <= 1.05 * self._base_distinct(columns, k) for k in (i, j)]
        filtered = [self._leaf[k] < self.tables[k].rows for k in (i, j)]
        if any(key and not is_filtered for key, is_filtered in zip(keys, filtered, strict=True)):
            return 0.1
        return 0.5 if any(keys) else 1.5

    def _base_distinct(self, columns: frozenset[Column], index: int) -> float:
        alias = self.graph.relations[index].alias
        return max(self.tables[index].column(column.name).distinct for column in columns if column.relation == alias)


def _are_linked(groups: Sequence[RelationSet], pair: RelationSet) -> bool:
    return any(pair & ~group == 0 for group in groups)


def _linked(groups: Sequence[RelationSet], pair: RelationSet) -> list[RelationSet]:
    """The groups with those that a pair touches united."""
    united = pair
    for group in groups:
        if group & pair:
            united |= group
    return [united, *(group for group in groups if not group & pair)]
