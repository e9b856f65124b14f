"""How long one re-planning decision takes, with 64 candidate plans: in the middle of TPC-DS queries with many joins."""

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
    """Milliseconds of a decision: on a changed share, on a finished stage, on a check of running stages."""
    catalogue = FolderCatalogue(data.ensure(SCALE))
    times: list[float] = []
    rows: list[tuple[int, int, float]] = []
    for query in QUERIES:
        planned = plan(parse_statement(spark_text(query)), catalogue, catalogue.statistics, CutPolicy(), CostModel())
        found = [spent for _ in range(ROUNDS) for spent in _decisions(planned)]
        times += found
        rows.append((query, len(planned.plans), statistics.median(found)))
    return {
        "decision_ms_p50": statistics.median(times),
        "decision_ms_p95": statistics.quantiles(times, n=20)[-1],
        "candidates_of_largest": max(plans for _, plans, _ in rows),
        "queries": [{"query": query, "candidates": plans, "ms_p50": ms} for query, plans, ms in rows],
    }


def _decisions(planned: PlannedQuery) -> list[float]:
    state = State(planned.plans, planned.estimator, planned.estimator, Rules())
    state, _ = step(state, 0.0, Planned(len(planned.plans), planned.join_trees))
    state, _ = step(state, 0.0, ShareChanged(4.0, None, "begin", 0.0))
    first = next(iter(state.running))
    events: list[tuple[float, Event]] = [
        (1.0, ShareChanged(2.0, None, "another arrived", 1.0)),
        (2.0, StageFinished(first, 10_000.0, 1e6, 2.0, 2.0)),
        (9.0, TimerFired()),
        (12.0, ShareChanged(4.0, None, "it ended", 12.0)),
    ]
    spent: list[float] = []
    for at, event in events:
        began = time.process_time()
        state, _ = step(state, at, event)
        spent.append(1e3 * (time.process_time() - began))
    return spent
