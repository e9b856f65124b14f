"""How wrong estimates of rows are before anything has run: the joins of all TPC-DS queries, counted in DuckDB.

Every join of up to `PLANS` plans of each query is run; the factor is that by which its estimate is too large or too
small. Spark is not needed. `ESTIMATES_SCALE` (1) and `ESTIMATES_QUERIES` (such as 17,72) change what is run.
"""

import math
import os
import statistics
import threading
from collections.abc import Iterator
from typing import Any

import duckdb
import sqlglot

from qoop.errors import CannotSplitError
from qoop.estimate.cost import CostModel
from qoop.parsing.render import stage_query
from qoop.parsing.spark_sql import DIALECT
from qoop.parsing.statement import parse_statement
from qoop.planner import PlannedQuery, plan
from qoop.plans.candidates import CutPolicy
from qoop.plans.plan import RESULT, Plan, StageId, view_name
from qoop.tables.folder import FolderCatalogue
from tpcds import data
from tpcds.queries import parse_numbers, spark_text
from yarn_plugin.console import out

PLANS = 12
MAX_JOIN_S = 10.0
"""A join that takes longer, such as one of few filters, is left out, with what is joined to it."""


def measure() -> dict[str, Any]:
    """The factors by which estimates are wrong: over all joins, and the worst of each query."""
    scale = float(os.environ.get("ESTIMATES_SCALE", "1"))
    queries = parse_numbers(os.environ.get("ESTIMATES_QUERIES", "1-99"))
    catalogue = FolderCatalogue(data.ensure(scale))
    worst: dict[int, float] = {}
    factors: list[float] = []
    for query in queries:
        found = _factors(query, catalogue)
        if found:
            factors += found
            worst[query] = max(found)
            out.print(
                f"  query {query}: {len(found)} joins, median {statistics.median(found):.2f}, worst {max(found):.1f}"
            )
    return {
        "joins": len(factors),
        "factor_median": statistics.median(factors),
        "factor_geometric_mean": math.exp(statistics.fmean(map(math.log, factors))),
        "factor_p90": statistics.quantiles(factors, n=10)[-1],
        "factor_worst": max(factors),
        "worst_of_query_median": statistics.median(worst.values()),
        "worst_of_queries": [{"query": query, "factor": factor} for query, factor in worst.items()],
    }


def _factors(query: int, catalogue: FolderCatalogue) -> list[float]:
    statement = parse_statement(spark_text(query))
    everywhere = CutPolicy(everywhere=True)
    try:
        planned = plan(statement, catalogue, catalogue.statistics, everywhere, CostModel())
    except CannotSplitError:
        return []
    rows: dict[StageId, float | None] = {}
    with duckdb.connect() as database:
        for table, files in catalogue.tables.items():
            database.execute(f"CREATE VIEW {table} AS SELECT * FROM read_parquet({[str(file) for file in files]})")
        for one in planned.plans[:PLANS]:
            _count(database, planned, one, rows)
    estimated = {stage: max(planned.estimator.stage_rows(stage), 1.0) for stage in rows}
    return [
        math.exp(abs(math.log(estimated[stage] / max(count, 1.0))))
        for stage, count in rows.items()
        if count is not None
    ]


def _count(
    database: duckdb.DuckDBPyConnection, planned: PlannedQuery, one: Plan, rows: dict[StageId, float | None]
) -> None:
    """Add the rows of a plan's stages, each of which is stored; None if it took too long."""
    for stage, reads in _in_order(one):
        if stage in rows:
            continue
        rows[stage] = None
        if any(rows[other] is None for other in reads):
            continue
        text = sqlglot.transpile(stage_query(planned.text, one, stage, reads), read=DIALECT, write="duckdb")[0]
        timer = threading.Timer(MAX_JOIN_S, database.interrupt)
        timer.start()
        try:
            database.execute(f'CREATE TEMP TABLE "{view_name(stage)}" AS {text}')
            (rows[stage],) = database.sql(f'SELECT count(*) FROM "{view_name(stage)}"').fetchone() or (None,)
        except duckdb.InterruptException:
            continue
        finally:
            timer.cancel()


def _in_order(one: Plan) -> Iterator[tuple[StageId, list[StageId]]]:
    """A plan's stages but the result, each with those that it reads, which come before it."""
    done: frozenset[StageId] = frozenset()
    for stage in one.stages():
        if stage != RESULT:
            yield stage, sorted(one.reads(stage, done))
            done |= {stage}
