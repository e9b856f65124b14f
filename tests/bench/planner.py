"""The time of one replanning decision with up to 64 candidate plans, during TPC-DS queries with many joins."""

import statistics
import time
from typing import Any

from qoop.estimate.cost import CostModel
from qoop.parsing.statement import parse_statement
from qoop.planner import PlannedQuery, plan
from qoop.plans.candidates import CutPolicy
from qoop.replan.decision import Rules
from qoop.replan.events import Event, Planned, ShareChanged, StageFinished, TimerFired
from qoop.replan.machine import step
from qoop.replan.state import State
from qoop.tables.folder import FolderCatalogue
from tpcds import data
from tpcds.queries import spark_text

QUERIES = (17, 24, 25, 29, 31, 64, 72)
SCALE = 0.1
ROUNDS = 5


def measure() -> dict[str, Any]:
    """Milliseconds of a decision after a changed share, a finished stage, and a check of running stages."""
    catalogue = FolderCatalogue(data.ensure(SCALE))
    times: list[float] = []
    rows: list[tuple[int, int, float]] = []
    for query in QUERIES:
        planned = plan(parse_statement(spark_text(query)), catalogue, catalogue.statistics, CutPolicy(), CostModel())
        decisions = [spent for _ in range(ROUNDS) for spent in _decisions(planned)]
        times += decisions
        rows.append((query, len(planned.plans), statistics.median(decisions)))
    return {
        "decision_ms_p50": statistics.median(times),
        "decision_ms_p95": statistics.quantiles(times, n=20)[-1],
        "candidates_of_largest": max(plans for _, plans, _ in rows),
        "queries": [{"query": query, "candidates": plans, "ms_p50": ms} for query, plans, ms in rows],
    }


def _decisions(planned: PlannedQuery) -> list[float]:
    state = State(planned.plans, planned.estimator, planned.estimator, Rules())
    state, _ = step(state, 0.0, Planned(len(planned.plans), planned.join_trees))
    state, _ = step(state, 0.0, ShareChanged(4.0, None, "start", 0.0))
    first = next(iter(state.running))
    events: list[tuple[float, Event]] = [
        (1.0, ShareChanged(2.0, None, "another application arrived", 1.0)),
        (2.0, StageFinished(first, 10_000.0, 1e6, 2.0, 2.0)),
        (9.0, TimerFired()),
        (12.0, ShareChanged(4.0, None, "the other application ended", 12.0)),
    ]
    spent: list[float] = []
    for at, event in events:
        started = time.process_time()
        state, _ = step(state, at, event)
        spent.append(1e3 * (time.process_time() - started))
    return spent
