"""How many rows each set of relations has, once some have been counted."""

from collections.abc import Mapping
from math import exp, log, sqrt

from qoop.estimate.correction import Measurement, corrections
from qoop.estimate.prior import Prior
from qoop.estimate.statistics import TableStatistics
from qoop.plans.graph import RelationSet


class Cardinalities:
    """Estimates for one graph, corrected by what was measured.

    Sets that were counted have that many rows; the logarithm of each error is spread over the filters and joins that
    may have caused it, by their doubt, so every related set is corrected too (correcting one count alone makes plans
    look good that avoid it).

    Args:
        counted: true row counts of sets.
        pessimism: how many standard deviations above what is expected doubtful filters and joins are taken to be;
            below 0, under it.
    """

    def __init__(self, prior: Prior, counted: Mapping[RelationSet, float], pessimism: float = 0.0) -> None:
        self.prior, self.graph = prior, prior.graph
        self._counted = dict(counted)
        doubts = [source.doubt for source in prior.sources]
        learned = corrections(doubts, self._measurements())
        self._factors = [factor + pessimism * doubt for factor, doubt in zip(learned, doubts, strict=True)]
        self._rows = {relations: max(rows, 1.0) for relations, rows in counted.items()}

    def rows(self, relations: RelationSet) -> float:
        """Rows of the join of a set of relations."""
        known = self._rows.get(relations)
        if known is None:
            error = sum(
                factor
                for source, factor in zip(self.prior.sources, self._factors, strict=True)
                if factor and source.relations & ~relations == 0
            )
            known = max(self.prior.rows(relations) * exp(error), 1.0)
            self._rows[relations] = known
        return known

    def width(self, relations: RelationSet) -> float:
        """Bytes of a row of a set in memory."""
        return self.prior.width(relations)

    def base(self, index: int) -> TableStatistics:
        """The statistics of a relation without its filters."""
        return self.prior.tables[index]

    def doubt(self, relations: RelationSet) -> float:
        """How wrong the estimate of a set may be: the standard deviation of its logarithm; 0 once it was counted."""
        if relations in self._counted:
            return 0.0
        involved = (source.doubt for source in self.prior.sources if source.relations & ~relations == 0)
        return sqrt(sum(doubt**2 for doubt in involved))

    def _measurements(self) -> list[Measurement]:
        return [
            Measurement(
                involved=tuple(
                    place for place, source in enumerate(self.prior.sources) if source.relations & ~relations == 0
                ),
                error=log(max(rows, 0.5)) - log(self.prior.rows(relations)),
            )
            for relations, rows in self._counted.items()
        ]
