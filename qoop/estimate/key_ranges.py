"""Which rows of each relation find partners, from the ranges of the keys that they are joined on.

A calendar has the days of two centuries, a fact table those of five years: joined, most of the calendar drops out, and
what a filter selects of it (a month) is taken to be days that the facts have. Ranges pass from join to join: inventory
that is joined to the sales of a year by way of two calendars and the week is that of this year.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import expm1, inf, log, nan

import numpy as np
from numpy.typing import NDArray

from qoop.estimate.selectivity import MIN_PASSING_ROWS
from qoop.estimate.statistics import TableStatistics
from qoop.plans.graph import JoinGraph, RelationSet
from qoop.plans.predicate import Column

Mask = NDArray[np.bool_]
Bounds = tuple[float, float]

NARROWED = 0.7
"""Ranges matter where at most this part of a column's range is joined."""

MAX_FOLLOWED = 10
"""How many relations' ranges are followed, as each combination of them is looked at once."""

CLUSTERED = 0.7
"""A sample that has less than this part of the different values that random rows would have is from few places."""

ROUNDS = 3
"""How often ranges are passed on: as from one fact table to its calendar, to another calendar, to its facts."""


@dataclass(frozen=True, slots=True)
class JoinedRanges:
    """The ranges of keys in the join of a set of relations.

    `bounds`: the common range of each equality class, by its place in the graph. `fractions`: the part of each
    relation's filtered rows that is within the ranges of its keys. `inside`: the sampled rows that are, and that pass.
    """

    bounds: dict[int, Bounds]
    fractions: dict[int, float] = field(default_factory=dict)
    inside: dict[int, Mask] = field(default_factory=dict)

    @property
    def log_fraction(self) -> float:
        """The logarithm of the product of all fractions."""
        return sum(map(log, self.fractions.values()))


class KeyRanges:
    """The ranges of the keys of a join graph.

    Args:
        tables: the statistics of each relation.
        passing: which rows of each relation's sample pass its filters; None: that is not known.
    """

    def __init__(self, graph: JoinGraph, tables: Sequence[TableStatistics], passing: Sequence[Mask | None]) -> None:
        self._graph, self._tables, self._passing = graph, tables, passing
        self._samples: dict[Column, NDArray[np.float64]] = {}
        self._joined: dict[RelationSet, JoinedRanges] = {}
        self._ranged = {
            place: [(graph.index(column.relation), column) for column in known]
            for place, columns in enumerate(graph.classes)
            if len(known := [column for column in sorted(columns) if self._span(column) is not None]) > 1
        }
        self._narrowed = self._find_narrowed()

    def joined(self, relations: RelationSet) -> JoinedRanges:
        """The ranges in the join of a set of relations."""
        followed = relations & self._touched(self._narrowed)
        known = self._joined.get(followed)
        if known is None:
            bounds = self._bounds(followed, self._narrowed)
            known = self._joined[followed] = JoinedRanges(bounds, *self._within(followed, bounds))
        return known

    def overlap(self, column: Column, bounds: Bounds) -> float:
        """The part of a column's range that is within bounds; all if its range is not known."""
        span = self._span(column)
        if span is None:
            return 1.0
        low, high = max(span[0], bounds[0]), min(span[1], bounds[1])
        return min(max((high - low + 1.0) / (span[1] - span[0] + 1.0), 1e-9), 1.0)

    def _find_narrowed(self) -> list[int]:
        """The classes that ranges matter for, those most that matter most."""
        everywhere = self._bounds(self._touched(self._ranged), list(self._ranged))
        least = {
            place: min(self.overlap(column, bounds) for _, column in self._ranged[place])
            for place, bounds in everywhere.items()
        }
        narrowed: list[int] = []
        for place in sorted((place for place in least if least[place] < NARROWED), key=lambda place: least[place]):
            if self._touched([*narrowed, place]).bit_count() <= MAX_FOLLOWED:
                narrowed.append(place)
        return sorted(narrowed)

    def _touched(self, places: Iterable[int]) -> RelationSet:
        found = 0
        for place in places:
            found |= self._graph.class_sets[place]
        return found

    def _bounds(self, relations: RelationSet, places: Sequence[int]) -> dict[int, Bounds]:
        """The common range of each class that joins several of these relations."""
        bounds: dict[int, Bounds] = {}
        keys: dict[int, list[tuple[int, Column]]] = {}
        for place in places:
            joined = [(index, column) for index, column in self._ranged[place] if relations >> index & 1]
            spans = [span for _, column in joined if (span := self._span(column)) is not None]
            low, high = max((span[0] for span in spans), default=inf), min((span[1] for span in spans), default=-inf)
            if len(joined) > 1 and low <= high:
                bounds[place] = (low, high)
                for index, column in joined:
                    keys.setdefault(index, []).append((place, column))
        for _ in range(ROUNDS):
            before = dict(bounds)
            for index, of_relation in keys.items():
                self._narrow(bounds, index, of_relation)
            if bounds == before:
                break
        return bounds

    def _narrow(self, bounds: dict[int, Bounds], index: int, keys: Sequence[tuple[int, Column]]) -> None:
        """Narrow the ranges of a relation's keys to those of the sampled rows that pass its filters and have the keys.

        The outermost sampled values are on average one distance between neighbours from the ends of the range.
        """
        if len(keys) == 1 and self._passing[index] is None:
            return
        inside = self._inside(bounds, index, keys)
        if inside is None or np.count_nonzero(inside) < MIN_PASSING_ROWS or inside.all():
            return
        for place, column in keys:
            values = self._sample(column)[inside]
            low, high = float(values.min()), float(values.max())
            gap = (high - low) / (len(values) - 1)
            bounds[place] = (max(bounds[place][0], low - gap), min(bounds[place][1], high + gap))

    def _inside(
        self, bounds: dict[int, Bounds], index: int, keys: Sequence[tuple[int, Column]], filtered: bool = True
    ) -> Mask | None:
        """The sampled rows within the ranges of these keys; None if there is no sample."""
        passing = self._passing[index] if filtered else None
        inside = passing if passing is not None else np.ones(self._tables[index].sampled, dtype=np.bool_)
        for place, column in keys:
            values = self._sample(column)
            if len(values) != len(inside) or not len(inside):
                return None
            low, high = bounds[place]
            inside = inside & (values >= low) & (values <= high)
        return inside

    def _within(self, relations: RelationSet, bounds: dict[int, Bounds]) -> tuple[dict[int, float], dict[int, Mask]]:
        keys: dict[int, list[tuple[int, Column]]] = {}
        for place in bounds:
            for index, column in self._ranged[place]:
                if relations >> index & 1:
                    keys.setdefault(index, []).append((place, column))
        fractions = {index: self._fraction(bounds, index, of_relation) for index, of_relation in keys.items()}
        inside = {index: self._inside(bounds, index, of_relation) for index, of_relation in keys.items()}
        return fractions, {index: rows for index, rows in inside.items() if rows is not None}

    def _fraction(self, bounds: dict[int, Bounds], index: int, keys: Sequence[tuple[int, Column]]) -> float:
        """The part of a relation's filtered rows within the ranges of its keys.

        Filters that no sampled row passes are taken to select rows that have partners: users ask for what there is.
        """
        passing = self._passing[index]
        among = np.count_nonzero(passing) if passing is not None else 0
        if passing is not None and not among:
            return 1.0
        ranged, count = self._unfiltered(bounds, index, keys)
        if passing is None or not count:
            return ranged
        both = self._inside(bounds, index, keys)
        found = max(float(np.count_nonzero(both)), 0.5) if both is not None else 0.5
        lift = (found / count) / (float(among) / len(passing))
        return float(min(max(ranged * lift, 1e-9), 1.0))

    def _unfiltered(
        self, bounds: dict[int, Bounds], index: int, keys: Sequence[tuple[int, Column]]
    ) -> tuple[float, float]:
        """The part of all rows of a relation within these ranges, and how many of its sample are.

        Of the narrowest range by its width, of the others by the sample where that has such rows. Otherwise they are
        taken to be related: each counts half as much as the one before, in the exponent.
        """
        ordered = sorted(keys, key=lambda key: self.overlap(key[1], bounds[key[0]]))
        parts = [self.overlap(column, bounds[place]) for place, column in ordered]
        first, every = (self._inside(bounds, index, some, filtered=False) for some in (ordered[:1], ordered))
        if first is None or every is None:
            of_first, of_all = 0, 0
        else:
            of_first, of_all = int(np.count_nonzero(first)), int(np.count_nonzero(every))
        if of_first >= MIN_PASSING_ROWS:
            return float(parts[0] * max(of_all, 0.5) / of_first), float(of_all)
        fraction, exponent = 1.0, 1.0
        for part in parts:
            fraction, exponent = fraction * part**exponent, exponent / 2.0
        return fraction, float(of_all)

    def _span(self, column: Column) -> Bounds | None:
        known = self._tables[self._graph.index(column.relation)].column(column.name)
        return None if known.low is None or known.high is None else (known.low, known.high)

    def _sample(self, column: Column) -> NDArray[np.float64]:
        """The sampled values of a column, which are within no range if they are no numbers; none if the column is
        sorted and the sample from few parts of the table, so that it does not show which values occur."""
        known = self._samples.get(column)
        if known is None:
            table = self._tables[self._graph.index(column.relation)]
            values = table.sample.get(column.name, ())
            distinct = max(table.column(column.name).distinct, 1.0)
            expected = distinct * -expm1(-len(values) / distinct)
            if len(set(values)) < CLUSTERED * expected:
                values = ()
            numbers = [float(one) if isinstance(one, int | float) else nan for one in values]
            known = self._samples[column] = np.asarray(numbers, dtype=np.float64)
        return known
