"""Processes killed while a query runs on the real cluster: the answer is right, and nothing happens twice.

Each case kills one process with -9 while stages run, or while a switch waits for stages to stop; the query's journal
proves in which of the two the kill fell. `make test` runs one case for each process, `make test-all` all of them.
"""

import time

import pytest

from tests.integration.arbiter_process import check_journal
from tests.integration.query_process import (
    QueryProcess,
    check_query_journal,
    executors,
    fell_in,
    kill,
    stage_runs_after_one_has_finished,
    yarn_app,
)
from tests.integration.sleepers import eventually
from tpcds import data
from tpcds.answers import compare
from tpcds.queries import duckdb_text
from tpcds.reference import DuckDbEngine

pytestmark = pytest.mark.integration

MANY_JOINS = 25
"""Three fact tables under several joins: stages run side by side, and a switch finds some that it does not need."""


@pytest.fixture(scope="module")
def tables():
    return data.open_data(data.ensure(0.1))


@pytest.fixture(scope="module")
def truth(tables):
    engine = DuckDbEngine(tables)
    yield engine.run(duckdb_text(MANY_JOINS))
    engine.close()


@pytest.fixture
def submit(cluster, arbiter, tables, tmp_path):
    """Submits the query; a folder of its own for each."""
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
    """A node that holds an executor, and all of the node: what it started dies with a machine that is lost."""
    victim = executors(app)[0]
    host = victim.cmdline()[victim.cmdline().index("--hostname") + 1]
    at = kill(cluster.daemons[f"nm-{host}"])
    for process in executors(app):
        if host in process.cmdline():
            process.kill()
    return at


def kill_executor(cluster, arbiter, app):
    return kill(executors(app)[0].pid)


def kill_all_executors(cluster, arbiter, app):
    return min(kill(process.pid) for process in executors(app))


VICTIMS = {
    "arbiter": kill_arbiter,
    "resource manager": kill_manager,
    "node": kill_node,
    "executor": kill_executor,
    "all executors": kill_all_executors,
}
SHOWN = {("arbiter", "switching"), ("executor", "switching")}
CASES = [
    pytest.param(victim, phase, id=f"{victim}-{phase}", marks=() if (victim, phase) in SHOWN else pytest.mark.matrix)
    for victim in VICTIMS
    for phase in ("running", "switching")
]


@pytest.mark.parametrize(("victim", "phase"), CASES)
def test_a_query_survives_a_kill(victim, phase, cluster, arbiter, submit, truth):
    query = submit()
    app = eventually(lambda: next((one.app for one in arbiter.admin().list_apps()), None), "the query is registered")
    on_yarn = yarn_app(arbiter, app)
    query.reach("running", stage_runs_after_one_has_finished)
    if phase == "switching":
        follower = arbiter.register("takes a half")
        query.reach(phase)
    killed_at = VICTIMS[victim](cluster, arbiter, on_yarn)
    if victim == "arbiter":
        eventually(lambda: "the last known share stays" in query.log(), "the query says that the arbiter is away")
        arbiter.start()
    if victim == "resource manager":
        cluster.start("rm")
    if phase == "running":
        follower = arbiter.register("takes a half later")
    rows = query.finish()
    assert fell_in(query.records(), phase, killed_at)
    check_query_journal(query.records())
    assert rows.rows
    assert compare(rows, truth) == []
    eventually(lambda: app not in {one.app for one in arbiter.admin().list_apps()}, "the query is deregistered")
    check_journal(arbiter.journal(), [follower])
    follower.close()
