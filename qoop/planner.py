"""From a statement to its candidate plans: parsing, estimates and enumeration in a row."""

from collections.abc import Callable
from dataclasses import dataclass

from qoop.errors import CannotSplitError
from qoop.estimate.cost import CostModel
from qoop.estimate.estimator import Estimator
from qoop.estimate.statistics import TableStatistics
from qoop.parsing.query import QueryText, describe_query
from qoop.parsing.spark_sql import Catalogue
from qoop.parsing.statement import Statement
from qoop.plans.candidates import CutPolicy, RowEstimates, candidates
from qoop.plans.plan import Plan, Query
from qoop.plans.trees import JoinCost, shape

PESSIMISM_LEVELS = (0.0, 1.0, -1.0)
"""Estimates under which the best plans are retained: as expected, with more rows, with fewer rows."""


@dataclass(frozen=True)
class PlannedQuery:
    """A query's candidate plans, most promising first, with its text and the initial estimates."""

    text: QueryText
    plans: tuple[Plan, ...]
    estimator: Estimator

    @property
    def join_trees(self) -> int:
        """The number of different join trees among the candidates, over all blocks."""
        trees = {(block, shape(part.tree)) for plan in self.plans for block, part in plan.block_plans.items()}
        return len(trees) - len(self.text.query.planned) + 1 if trees else 1

    def one_stage_reason(self) -> str | None:
        """Why every plan of the query is a single stage; None if some plan has several."""
        if any(len(plan.stages()) > 1 for plan in self.plans):
            return None
        planned = [self.text.query.blocks[block] for block in self.text.query.planned]
        if planned:
            return "no intermediate result is joined with another large input, so splitting the query would not pay off"
        return _reasons(self.text.query)


def _reasons(query: Query) -> str:
    reasons = {block.reason for block in query.blocks.values() if block.reason}
    return "; ".join(sorted(reasons)) or "the query has no joins"


def plan(
    statement: Statement,
    catalogue: Catalogue,
    statistics: Callable[[str], TableStatistics],
    cut_policy: CutPolicy,
    model: CostModel,
) -> PlannedQuery:
    """Make the candidate plans of a statement's query.

    Raises:
        UnknownNameError: it names a table or a column that does not exist.
        CannotSplitError: it must run as a single stage.
    """
    if statement.query is None:
        raise CannotSplitError("the statement contains no query")
    text = describe_query(statement.query, catalogue)
    if not text.query.planned and not any(block.shared for block in text.query.blocks.values()):
        raise CannotSplitError(_reasons(text.query))
    estimator = Estimator(text.query, {table: statistics(table) for table in text.tables}, model)
    views = [_estimates(estimator.with_pessimism(level) if level else estimator) for level in PESSIMISM_LEVELS]
    return PlannedQuery(text, tuple(candidates(text.query, views, cut_policy)), estimator)


def _estimates(estimator: Estimator) -> Callable[[str], tuple[JoinCost, RowEstimates]]:
    return lambda block: (estimator.join_cost(block), estimator.rows[block])
