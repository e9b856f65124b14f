"""AlloX on the ledger: jobs that may run on a GPU or on a slot of cores, through the arbiter's step."""

import pytest

from tests.ledger_world import LedgerWorld
from yarn_plugin.decide.allocators.allox import AlloxSettings
from yarn_plugin.decide.allocators.plan import Idle
from yarn_plugin.decide.events import JobsDeclared, NodesChanged
from yarn_plugin.errors import BadInputError
from yarn_plugin.model.auction import Release
from yarn_plugin.model.cluster import Node
from yarn_plugin.model.resources import GPU, MEMORY, VCORES, Resources
from yarn_plugin.model.share import Demand, Job

SLOT = {VCORES: 4, MEMORY: 4096}
ON_GPU, ON_CORES = Resources.of({GPU: 1, VCORES: 1}), Resources.of({VCORES: 4, MEMORY: 2048})


def node(number, gpus=1, vcores=5):
    return Node(f"n{number}:8041", f"n{number}", Resources.of({GPU: gpus, VCORES: vcores, MEMORY: 8192}))


def job(name, gpu_s=None, cores_s=None, tenant="ann"):
    """A job that takes so many seconds on a GPU, and on a slot of cores; None: it has no such alternative."""
    sides = [(ON_GPU, gpu_s), (ON_CORES, cores_s)]
    usable = [(amounts, 1.0 / seconds) for amounts, seconds in sides if seconds is not None]
    demand = Demand(tuple(amounts for amounts, _ in usable))
    return Job(name, tenant, demand=demand, speeds=tuple(speed for _, speed in usable), work=1.0)


class World:
    """One application of one user, which declares jobs."""

    def __init__(self, *nodes, **settings):
        self.world = LedgerWorld.of("allox", *nodes, settings=AlloxSettings(cpu_slot=SLOT, **settings))
        self.app = self.world.arrive("ann")

    def declare(self, *jobs):
        self.world.take(JobsDeclared(self.app, jobs), 0.01)
        assert self.world.failure is None

    def sides(self):
        """Where each job runs: "gpu" or "cores"."""
        leases = [entry.leased for entry in self.world.state.ledger.leases.values()]
        return {lease.claim[1]: "gpu" if len(lease.holdings) == 2 else "cores" for lease in leases}


def test_the_job_that_gains_most_gets_the_gpu():
    at = World(node(0))
    at.declare(job("slow-on-both", 50, 60), job("fast-on-gpu", 10, 100))
    assert at.sides() == {"fast-on-gpu": "gpu", "slow-on-both": "cores"}
    notes = {entry.leased.claim[1]: entry.leased.note for entry in at.world.state.ledger.leases.values()}
    assert notes["fast-on-gpu"] == "on a GPU, where it is 10 times as fast as on a slot of cores"


def test_a_job_waits_for_a_gpu_that_is_worth_waiting_for():
    at = World(node(0))
    at.declare(job("first", 10))
    at.declare(job("first", 10), job("second", 10, 1000))
    assert at.sides() == {"first": "gpu"}
    assert set(at.world.state.ledger.idle.values()) == {Idle.NOT_FASTER}
    at.declare(job("second", 10, 1000))
    assert at.sides() == {"second": "gpu"}


def test_users_with_less_progress_come_first():
    at = World(node(0), node(1), alpha=0.0)
    at.declare(*(job(f"ann-{number}", 10, tenant="ann") for number in range(2)), job("bob", 500, tenant="bob"))
    assert at.sides() == {"ann-0": "gpu", "bob": "gpu"}


def test_a_job_that_is_larger_than_a_machine_waits_and_blocks_nobody():
    at = World(node(0))
    large = Job("large", "ann", demand=Demand((Resources.of({GPU: 2}), Resources.of({VCORES: 64}))))
    at.declare(large, job("small", 10, 20))
    assert at.sides() == {"small": "gpu"}


def test_a_machine_that_was_given_back_is_not_leased_to_the_same_job_again():
    at = World(node(0))
    at.declare(job("done", 10), job("next", 20))
    (lease,) = at.world.state.ledger.leases.values()
    assert lease.leased.claim[1] == "done"
    at.world.say(at.app, Release(lease.id))
    assert at.sides() == {"next": "gpu"}


def test_jobs_of_a_lost_node_start_elsewhere():
    at = World(node(0))
    at.declare(job("train", 10))
    at.world.take(NodesChanged((), ("n0:8041",)), 1.0)
    assert at.sides() == {}
    at.world.take(NodesChanged((node(1),), ()), 1.0)
    assert at.sides() == {"train": "gpu"}


def test_a_long_queue_is_matched_in_the_worker_process():
    at = World(node(0), node(1), inline_jobs=2)
    at.declare(*(job(f"job-{number}", 10 + number, 30 + number) for number in range(6)))
    assert len(at.sides()) == 4, "two GPUs and a slot on each node"
    assert at.world.state.allocated.round >= 1


@pytest.mark.parametrize(
    ("field", "value"),
    [("cpu_slot", {VCORES: 4}), ("cpu_slot", {GPU: 1, MEMORY: 1}), ("alpha", 1.5), ("unknown_s", 0), ("retry_s", -1)],
)
def test_bad_settings_are_refused(field, value):
    with pytest.raises(BadInputError, match=field):
        AlloxSettings(**{field: value})
