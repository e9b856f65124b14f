"""Leases on a real cluster: containers hold GPUs as leased, and no GPU is held twice, whatever is killed and when."""

import os
import signal
import time

import pytest

from tests.integration.sleepers import eventually
from tests.leased.intervals import overlaps
from tests.leased.lab import Lab
from tests.toys.stage import check_leases
from yarn_plugin.decide.commands import RecordRound
from yarn_plugin.decide.events import Solved

pytestmark = pytest.mark.integration

OFFERED = 8
"""GPUs of the cluster that the pool offers."""

PHASES = ("estimating", "offered", "solving", "revoking", "granting")
"""Of the second round; the first one has nothing to revoke."""

STOPPED_S = 6.0
"""Longer than the grace period and than the time that a decision waits for the solver."""


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


def two_rounds(lab, *faults):
    """ann and eve share the GPUs; at the end of their leases bob takes a part of them; all three end."""
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
    lab.hold("bid", *all_three)
    eventually(lambda: lab.members() == 3, "bob takes part")
    lab.hold("vacate", *both)
    reach(2, "estimating")
    lab.let("estimate", "bob")
    reach(2, "offered")
    lab.hold("place", "bob")
    let_bid(2, *all_three)
    reach(2, "revoking")
    lab.let("vacate", *both)
    reach(2, "granting")
    lab.let("place", "bob")
    eventually(lambda: lab.gpus_of("bob"), "bob takes over GPUs")
    lab.finish(*all_three)
    lab.until_ended(batch)


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


def test_two_rounds_with_the_arbiter_and_the_solver_killed(lab):
    faults = (
        Fault(lab, "arbiter", signal.SIGKILL, 1, "estimating"),
        Fault(lab, "solver", signal.SIGKILL, 2, "solving"),
    )
    two_rounds(lab, *faults)
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
