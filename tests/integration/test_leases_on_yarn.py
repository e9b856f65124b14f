"""Leases on a real cluster: containers hold GPUs as leased, and no GPU is held twice, whatever is killed and when."""

import json
import os
import signal
import time

import pytest

from tests.eventually import eventually
from tests.integration.arbiter_process import run
from tests.integration.query_process import QueryProcess
from tests.leased.intervals import overlaps
from tests.leased.lab import BID_S, Lab
from tests.toys.stage import check_leases
from tpcds import data
from tpcds.answers import compare
from tpcds.queries import duckdb_text
from tpcds.reference import DuckDbEngine
from yarn_plugin.decide.commands import RecordRound
from yarn_plugin.decide.events import Solved

pytestmark = pytest.mark.integration

OFFERED = 8
"""GPUs of the cluster that the pool offers."""

PHASES = ("estimating", "offered", "solving", "revoking", "granting")
"""Of the second round; the first one has nothing to revoke."""

STOPPED_S = 6.0
"""Longer than the grace period and than the time that a decision waits for the solver."""


THREE_JOINS = 52
"""A query over three tables."""

IN_SQL = (
    *("--pool", "sql", "--executor-memory", "512m", "--executor-cores", "1", "--num-executors", "1"),
    *("--conf", "spark.executor.memoryOverhead=128m"),
)
"""An executor that has room beside the masters and the offered GPUs of a node."""


class Query:
    """A query on Spark in `root.sql`, which is told its share and tells when it expects to end."""

    def __init__(self, lab, folder):
        self._lab, self._folder, self._process = lab, folder, None
        self._data = data.open_data(data.ensure(0.1))

    def start(self):
        lab = self._lab
        self._process = QueryProcess(lab.cluster, lab.arbiter, self._data, THREE_JOINS, self._folder, *IN_SQL)

    def until_known(self):
        """Wait until the arbiter knows when it expects to end."""
        admin = self._lab.arbiter.admin()

        def is_known():
            assert self._process.running, f"it ended too early: {self._process.log()[-2000:]}"
            return any(one.pool == "sql" and one.standing and one.standing.rho for one in admin.list_apps())

        eventually(is_known, "the query has said when it expects to end", BID_S - 10)

    def finish(self):
        """Wait for its end, and check its answer."""
        engine = DuckDbEngine(self._data)
        expected = engine.run(duckdb_text(THREE_JOINS))
        engine.close()
        assert expected.rows
        assert compare(self._process.finish(), expected) == []

    def stop(self):
        if self._process is not None:
            self._process.stop()


@pytest.fixture
def query(lab, tmp_path):
    made = Query(lab, tmp_path / "query")
    yield made
    made.stop()


@pytest.fixture
def lab(cluster, tmp_path, request):
    # Under the matrix each phase of a round lasts as long as an arbiter that is stopped or starts.
    made = Lab(cluster, tmp_path, lease_s=30 if request.node.get_closest_marker("matrix") else 12)
    yield made
    made.close()


class Fault:
    """A signal for the arbiter or its solver in some phases of a round."""

    def __init__(self, lab, target, sent, number, *phases):
        self.lab, self.target, self.sent, self.number, self.phases = lab, target, sent, number, phases
        self.done = []

    def is_due(self, number, phase):
        return number == self.number and phase in self.phases

    def prepare(self):
        """Stop the solver, so that it is found solving."""
        if (solver := self.lab.solver()) is not None:
            os.kill(solver, signal.SIGSTOP)

    def strike(self, phase):
        arbiter, solver = self.lab.arbiter, None
        if phase == "solving":
            solver = eventually(self.lab.solver, "there is a solver")
            self.prepare()
        with self.lab.frozen(self.number, phase):
            if self.target == "solver":
                solver = self.lab.solver()
                os.kill(solver, self.sent)
            elif self.sent == signal.SIGKILL:
                arbiter.kill()
                solver = None
            else:
                time.sleep(STOPPED_S)
        if solver is not None and self.sent == signal.SIGSTOP:
            if self.target == "solver":
                time.sleep(STOPPED_S)
            os.kill(solver, signal.SIGCONT)
        if arbiter.process.poll() is not None:
            arbiter.start()
        self.done.append(phase)


def two_rounds(lab, *faults, query=None):
    """ann and eve share the GPUs; at the end of their leases bob takes a part of them; all three end. The query runs
    beside them from the first round to the second one; while that one waits for bids, both kinds are listed."""
    both, all_three = ("ann", "eve"), ("ann", "eve", "bob")

    def reach(number, phase):
        lab.until(number, phase)
        for fault in faults:
            if fault.is_due(number, phase):
                fault.strike(phase)

    def let_bid(number, *names):
        for fault in faults:
            if fault.is_due(number, "solving"):
                fault.prepare()
        lab.let("bid", *names)
        reach(number, "solving")

    for step in ("estimate", "bid"):
        lab.hold(step, *all_three)
    lab.hold("place", *both)
    lab.hold("register", "bob")
    for name in all_three:
        lab.submit(name, work_s=400)
    batch = lab.submit_batch()
    reach(1, "estimating")
    eventually(lambda: lab.members() == 2, "both take part")
    lab.let("estimate", *both)
    reach(1, "offered")
    let_bid(1, *both)
    reach(1, "granting")
    lab.let("place", *both)
    lab.let("register", "bob")
    eventually(lambda: len(lab.gpus_of(*both)) == OFFERED, "all GPUs are in use")
    if query is not None:
        query.start()
    lab.hold("bid", *all_three)
    eventually(lambda: lab.members() == 3, "bob takes part")
    lab.hold("vacate", *both)
    reach(2, "estimating")
    lab.let("estimate", "bob")
    reach(2, "offered")
    if query is not None:
        query.until_known()
        check_listed(lab)
    lab.hold("place", "bob")
    let_bid(2, *all_three)
    reach(2, "revoking")
    lab.let("vacate", *both)
    reach(2, "granting")
    lab.let("place", "bob")
    eventually(lambda: lab.gpus_of("bob"), "bob takes over GPUs")
    lab.finish(*all_three)
    lab.until_ended(batch)
    if query is not None:
        query.finish()


def check_listed(lab):
    """`yarn-plugin apps` lists leased and shared applications with what they may use and their fairness."""
    results = lab.folder / "apps.json"
    access = ("--arbiter", lab.arbiter.url, "--token-file", lab.arbiter.admin_token_file)
    done = run("apps", *access, "--json", results)
    assert done.returncode == 0, done.stderr
    rows = {row.split()[0]: row.split() for row in done.stdout.splitlines() if row.startswith("app_")}
    listed = {one["name"]: one for one in json.loads(results.read_text())["apps"]}
    (name,) = [name for name, one in listed.items() if one["pool"] == "sql" and one["registered"]]
    assert listed.keys() >= {"ann", "eve", "bob"}
    for one, guarantee in (("ann", 1 / 3), ("eve", 1 / 3), (name, 1.0)):
        standing = listed[one]["standing"]
        assert standing["guarantee"] == pytest.approx(guarantee, abs=0.01), one
        assert standing["entitlement"] > 0, one
        assert standing["rho"] > 0, one
        assert {f"{standing['entitlement']:.1%}", f"{standing['rho']:.2f}"} <= set(rows[listed[one]["app"]]), one
    assert [listed[one]["standing"]["entitlement"] for one in ("ann", "eve")] == [0.5, 0.5]
    assert listed["bob"]["standing"]["entitlement"] == 0.0
    assert listed[name]["share"]["guarantee"]["resources"]["memory-mb"] > 0


def check(lab, *faults):
    """No GPU was held twice, the rounds are complete, and all faults struck."""
    recorded = lab.intervals()
    assert not overlaps(recorded)
    taken_over = lab.gpus_of("bob") & lab.gpus_of("ann", "eve")
    assert taken_over == lab.gpus_of("bob"), "bob's GPUs were others' before"
    replayed = lab.replayed()
    assert replayed.different == 0
    rounds = [command.cause for one in replayed.history for command in one.commands if isinstance(command, RecordRound)]
    assert [one.round for one in rounds][:2] == [1, 2]
    assert not any(one.error for one in rounds)
    assert check_leases(replayed.history) > OFFERED
    for fault in faults:
        assert fault.done == list(fault.phases)
    return replayed.history


def test_two_rounds_beside_a_query_with_the_arbiter_and_the_solver_killed(lab, query):
    faults = (
        Fault(lab, "arbiter", signal.SIGKILL, 1, "estimating"),
        Fault(lab, "solver", signal.SIGKILL, 2, "solving"),
    )
    two_rounds(lab, *faults, query=query)
    history = check(lab, *faults)
    assert [one.event.kind for one in history if isinstance(one.event, Solved)][:3] == ["done", "lost", "done"]


STRUCK = {
    "arbiter-killed-first": [("arbiter", signal.SIGKILL, 1, "estimating", "offered", "solving", "granting")],
    "arbiter-killed": [("arbiter", signal.SIGKILL, 2, *PHASES)],
    "arbiter-stopped": [("arbiter", signal.SIGSTOP, 2, *PHASES)],
    "solver-stopped": [("solver", signal.SIGSTOP, 2, *PHASES)],
    # A killed solver is started again by the next problem.
    "solver-killed": [
        ("solver", signal.SIGKILL, 1, "solving", "granting"),
        ("solver", signal.SIGKILL, 2, "solving", "revoking"),
    ],
    "solver-killed-before": [("solver", signal.SIGKILL, 2, "estimating", "solving", "granting")],
    "solver-killed-offered": [("solver", signal.SIGKILL, 2, "offered", "solving")],
}


@pytest.mark.matrix
@pytest.mark.parametrize("struck", STRUCK.values(), ids=STRUCK)
def test_no_gpu_is_held_twice_whatever_is_struck(lab, struck):
    faults = [Fault(lab, *one) for one in struck]
    two_rounds(lab, *faults)
    check(lab, *faults)
