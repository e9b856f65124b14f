"""Processes killed while a query runs on the real cluster: its answer is right, and no step is repeated.

Each case kills processes with -9 while stages run, or while a switch waits for stages to stop; the query's journal
shows in which of the two they were killed. `make test` runs one case, `make test-all` all of them.
"""

import pytest

from tests.eventually import eventually
from tests.integration.arbiter_process import check_journal
from tests.integration.query_process import (
    EndedTooSoonError,
    QueryProcess,
    executors,
    kill,
    stage_runs_after_one_has_finished,
    yarn_app,
)
from tests.spark.query_journal import check_query_journal
from tpcds import data
from tpcds.answers import compare
from tpcds.queries import duckdb_text
from tpcds.reference import DuckDbEngine

pytestmark = pytest.mark.integration

MANY_JOINS = 25
"""Three fact tables in several joins: stages run concurrently, and a switch makes some of them unneeded."""


@pytest.fixture(scope="module")
def tables():
    return data.open_data(data.ensure(0.1))


@pytest.fixture(scope="module")
def expected(tables):
    engine = DuckDbEngine(tables)
    yield engine.run(duckdb_text(MANY_JOINS))
    engine.close()


@pytest.fixture
def submit(cluster, arbiter, tables, tmp_path):
    """Submit the query, each time in a new directory."""
    made = []

    def one(*more):
        made.append(QueryProcess(cluster, arbiter, tables, MANY_JOINS, tmp_path / f"query-{len(made)}", *more))
        return made[-1]

    yield one
    for query in made:
        query.stop()


def kill_arbiter(cluster, arbiter, app):
    arbiter.kill()


def kill_manager(cluster, arbiter, app):
    kill(cluster.daemons["rm"])


def kill_node(cluster, arbiter, app):
    """Kill a node with an executor, and its processes, as when a machine fails."""
    victim = executors(app)[0]
    host = victim.cmdline()[victim.cmdline().index("--hostname") + 1]
    kill(cluster.daemons[f"nm-{host}"])
    for process in executors(app):
        if host in process.cmdline():
            process.kill()


def kill_executor(cluster, arbiter, app):
    kill(executors(app)[0].pid)


def kill_arbiter_and_executor(cluster, arbiter, app):
    kill_executor(cluster, arbiter, app)
    kill_arbiter(cluster, arbiter, app)


def kill_all_executors(cluster, arbiter, app):
    for process in executors(app):
        kill(process.pid)


VICTIMS = {
    "arbiter": kill_arbiter,
    "resource manager": kill_manager,
    "node": kill_node,
    "executor": kill_executor,
    "all executors": kill_all_executors,
    "arbiter and executor": kill_arbiter_and_executor,
}
ALWAYS_RUN = {("arbiter and executor", "switching")}
CASES = [
    pytest.param(
        victim, phase, id=f"{victim}-{phase}", marks=() if (victim, phase) in ALWAYS_RUN else pytest.mark.matrix
    )
    for victim in VICTIMS
    for phase in ("running", "switching")
]


def strike_one_in(phase, arbiter, submit, strike, follower=None, attempts=3):
    """Submit a query and strike in a phase; returns the query, its application, its journal then, and the follower
    that takes a half of the cluster for a switch.

    It may be that no switch has to wait for a stage: then another query is submitted.
    """
    query, others = submit(), {follower.app} if follower is not None else set()
    app = eventually(lambda: min(registered(arbiter) - others, default=None), "the query is registered")
    on_yarn = yarn_app(arbiter, app)
    try:
        query.wait_for_phase("running", stage_runs_after_one_has_finished)
        if phase == "switching" and follower is None:
            follower = arbiter.register("takes a half")
        return query, app, query.strike_in(phase, lambda: strike(on_yarn)), follower
    except EndedTooSoonError:
        if attempts == 1:
            raise
    query.finish()
    eventually(lambda: app not in registered(arbiter), "the query is deregistered")
    return strike_one_in(phase, arbiter, submit, strike, follower, attempts - 1)


def registered(arbiter):
    return {one.app for one in arbiter.admin().list_apps()}


@pytest.mark.parametrize(("victim", "phase"), CASES)
def test_a_query_survives_a_kill(victim, phase, cluster, arbiter, submit, expected):
    query, app, before, follower = strike_one_in(
        phase, arbiter, submit, lambda on_yarn: VICTIMS[victim](cluster, arbiter, on_yarn)
    )
    if "arbiter" in victim:
        eventually(
            lambda: "the last known share stays" in query.log(), "the query warns that the arbiter does not answer"
        )
        arbiter.start()
    if victim == "resource manager":
        cluster.start("rm")
    if phase == "running":
        follower = arbiter.register("takes a half later")
    rows = query.finish()
    records = query.records()
    check_query_journal(records)
    assert records[: len(before)] == before, "what was written before the kill stays"
    assert rows.rows
    assert compare(rows, expected) == []
    eventually(lambda: app not in registered(arbiter), "the query is deregistered")
    check_journal(arbiter.journal(), [follower])
    follower.close()
