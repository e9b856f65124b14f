"""From a statement to its candidate plans: parsing, estimates and enumeration in a row."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from qoop.as_written.causes import (
    AsWrittenCause,
    Construct,
    Excess,
    NothingLarge,
    NothingToReorder,
    NotRepeatable,
    TooMuch,
    Unrepeatable,
    Unsupported,
)
from qoop.errors import CannotSplitError
from qoop.estimate.cost import CostModel
from qoop.estimate.estimator import Estimator
from qoop.estimate.speed import NOMINAL, Line, at_speed
from qoop.estimate.statistics import TableStatistics
from qoop.parsing.moment import Moment, at_moment, names_moment, reads_moment
from qoop.parsing.query import QueryText, describe_query
from qoop.parsing.spark_sql import Catalogue
from qoop.parsing.statement import Statement
from qoop.plans.candidates import MAX_CANDIDATES, CutPolicy, RowEstimates, candidates, plan_of, with_fewer_stages
from qoop.plans.plan import Plan, PlanShape, Query, StageId, StageName
from qoop.plans.trees import JoinCost, shape
from qoop.replan.decision import Progress, Rules, evaluate, without_ruinous
from qoop.replan.needless_cuts import fastest_in_stages, without_needless_cuts

MAX_MERGED = 3
"""Of how many of the fastest plans a variant without needless stages is added."""

MAX_ADDED = 4 + MAX_MERGED
"""How many ways to run a query in fewer stages are added to its plans."""

PESSIMISM_LEVELS = (0.0, 1.0, -1.0)
"""Estimates under which the best plans are retained: as expected, with more rows, with fewer rows."""


MIN_QUERY_S = 1e-3
"""The least time that a query is assumed to take."""


@dataclass(frozen=True)
class Findings:
    """What earlier runs of a query over the same data have found.

    `counted`: the rows of stages that they stored. `tried`: their plans, which are candidates again. `given_up`: the
    signatures of plans that they had to give up, which are none.
    """

    counted: Mapping[StageName, float] = field(default_factory=dict)
    tried: tuple[PlanShape, ...] = ()
    given_up: frozenset[str] = frozenset()

    def __hash__(self) -> int:
        return hash((frozenset(self.counted.items()), self.tried, self.given_up))


NOTHING_FOUND = Findings()


@dataclass(frozen=True)
class PlannedQuery:
    """A query's candidate plans, most promising first, with its text and the initial estimates.

    `moment`: that of the query, if it reads the current date or time.
    """

    text: QueryText
    plans: tuple[Plan, ...]
    estimator: Estimator
    moment: Moment | None = None

    @property
    def join_trees(self) -> int:
        """The number of different join trees among the candidates, over all blocks."""
        trees = {(block, shape(part.tree)) for plan in self.plans for block, part in plan.block_plans.items()}
        return len(trees) - len(self.text.query.planned) + 1 if trees else 1

    def at_speed(self, line: Line, slots: float) -> tuple["PlannedQuery", float]:
        """The same plans at the speed of a machine, and the factor by which their estimates grow.

        The factor is that by which the line slows down the faster of the first and the last plan, as estimates of all
        plans would take long.
        """
        if line == NOMINAL:
            return self, 1.0
        numbers = sorted({0, len(self.plans) - 1})
        found = evaluate(self.plans, self.estimator, Progress(frozenset(), {}), slots, Rules(), numbers)
        nominal = max(min(one.seconds for one in found), MIN_QUERY_S)
        factor = line.seconds(nominal) / nominal
        return self.slower_by(factor), factor

    def slower_by(self, factor: float) -> "PlannedQuery":
        """The same plans on a machine that is slower by this factor."""
        return replace(self, estimator=self.estimator.with_model(at_speed(self.estimator.model, factor)))

    def one_stage_cause(self) -> AsWrittenCause | None:
        """Why every plan of the query is a single stage; None if some plan has several."""
        if any(len(plan.stages()) > 1 for plan in self.plans):
            return None
        planned = [self.text.query.blocks[block] for block in self.text.query.planned]
        if planned:
            return NothingLarge()
        return _nothing_to_reorder(self.text.query)


def _nothing_to_reorder(query: Query) -> AsWrittenCause:
    causes = tuple(dict.fromkeys(one.cause for one in query.blocks.values() if isinstance(one.cause, Unsupported)))
    return causes[0] if len(causes) == 1 else NothingToReorder(causes)


@contextmanager
def _limiting_depth() -> Iterator[None]:
    """What nests deeper than Python's stack is not split."""
    try:
        yield
    except RecursionError:
        raise CannotSplitError(TooMuch(Excess.NESTING)) from None


@_limiting_depth()
def plan(
    statement: Statement,
    catalogue: Catalogue,
    statistics: Callable[[str], TableStatistics],
    cut_policy: CutPolicy,
    model: CostModel,
    now: Callable[[], Moment] | None = None,
    fewer_stages: bool = False,
    findings: Findings = NOTHING_FOUND,
) -> PlannedQuery:
    """Make the candidate plans of a statement's query.

    Args:
        fewer_stages: add the query as written, and other ways to run it in fewer stages.
        now: the moment of the query; called if it reads the current date or time. Without it such a query is not split.
        findings: what earlier runs of the query have found.

    Raises:
        UnknownNameError: it names a table or a column that does not exist.
        CannotSplitError: it must run as a single stage.
    """
    if statement.query is None:
        raise CannotSplitError(Unsupported(Construct.NO_QUERY))
    query, moment = statement.query, None
    if names_moment(query):
        raise CannotSplitError(NotRepeatable(Unrepeatable.MOMENT_IN_TEXT))
    if now is not None and reads_moment(query):
        moment = now()
        query = at_moment(query, moment)
    text = describe_query(query, catalogue, statement.syntax)
    if not text.query.planned and not any(block.shared for block in text.query.blocks.values()):
        raise CannotSplitError(_nothing_to_reorder(text.query))
    tables = {table: statistics(table) for table in text.tables}
    estimator = Estimator(text.query, tables, model, _by_stage(text.query, findings.counted))
    estimators = [estimator.with_pessimism(level) if level else estimator for level in PESSIMISM_LEVELS]
    wanted = MAX_CANDIDATES - (MAX_ADDED if fewer_stages else 0)
    plans = candidates(text.query, [_estimates(one) for one in estimators], cut_policy, wanted)
    if fewer_stages:
        merged = [without_needless_cuts(one, estimator) for one in fastest_in_stages(plans, estimator, MAX_MERGED)]
        plans = with_fewer_stages([*plans, *merged], estimator.rows)
    plans = _with_tried(without_ruinous(plans, estimators), findings.tried)
    plans = [one for one in plans if one.signature not in findings.given_up] or plans
    return PlannedQuery(text, tuple(plans), estimator, moment)


def _with_tried(plans: Sequence[Plan], tried: Sequence[PlanShape]) -> list[Plan]:
    """The plans, with those of earlier runs before the last, which may be the query as written."""
    known = {plan.key for plan in plans}
    again = [one for old in tried if (one := plan_of(plans[0].query, old)) is not None and one.key not in known]
    return [*plans[:-1], *again, plans[-1]]


def _by_stage(query: Query, counted: Mapping[StageName, float]) -> dict[StageId, float]:
    """The row counts of the stages that the query has, by their ids."""
    stages = {query.stage_of(name): rows for name, rows in counted.items()}
    return {stage: rows for stage, rows in stages.items() if stage is not None}


def _estimates(estimator: Estimator) -> Callable[[str], tuple[JoinCost, RowEstimates]]:
    return lambda block: (estimator.join_cost(block), estimator.rows[block])
