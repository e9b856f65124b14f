"""Processes killed while a query runs on the real cluster: its answer is right, and no step is repeated.

Each case kills processes with -9 while stages run, or while a switch waits for stages to stop; the query's journal
shows in which of the two it was killed. `make test` runs one case, `make test-all` all of them.
"""

import time

import pytest

from tests.integration.arbiter_process import check_journal
from tests.integration.query_process import (
    QueryProcess,
    check_query_journal,
    executors,
    kill,
    stage_runs_after_one_has_finished,
    was_killed_in,
    yarn_app,
)
from tests.integration.sleepers import eventually
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
    at = time.time()
    arbiter.kill()
    return at


def kill_manager(cluster, arbiter, app):
    return kill(cluster.daemons["rm"])


def kill_node(cluster, arbiter, app):
    """Kill a node with an executor, and its processes, as when a machine fails."""
    victim = executors(app)[0]
    host = victim.cmdline()[victim.cmdline().index("--hostname") + 1]
    at = kill(cluster.daemons[f"nm-{host}"])
    for process in executors(app):
        if host in process.cmdline():
            process.kill()
    return at


def kill_executor(cluster, arbiter, app):
    return kill(executors(app)[0].pid)


def kill_arbiter_and_executor(cluster, arbiter, app):
    at = kill_executor(cluster, arbiter, app)
    kill_arbiter(cluster, arbiter, app)
    return at


def kill_all_executors(cluster, arbiter, app):
    return min(kill(process.pid) for process in executors(app))


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


@pytest.mark.parametrize(("victim", "phase"), CASES)
def test_a_query_survives_a_kill(victim, phase, cluster, arbiter, submit, expected):
    query = submit()
    app = eventually(lambda: next((one.app for one in arbiter.admin().list_apps()), None), "the query is registered")
    on_yarn = yarn_app(arbiter, app)
    query.wait_for_phase("running", stage_runs_after_one_has_finished)
    if phase == "switching":
        follower = arbiter.register("takes a half")
    killed_at = query.strike_in(phase, lambda: VICTIMS[victim](cluster, arbiter, on_yarn))
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
    assert was_killed_in(query.records(), phase, killed_at)
    check_query_journal(query.records())
    assert rows.rows
    assert compare(rows, expected) == []
    eventually(lambda: app not in {one.app for one in arbiter.admin().list_apps()}, "the query is deregistered")
    check_journal(arbiter.journal(), [follower])
    follower.close()
