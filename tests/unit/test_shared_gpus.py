"""Workers that share GPUs, through the arbiter's step: who is placed beside whom, who waits, who is moved."""

import pytest

from tests.lease_world import node
from tests.ledger_world import LedgerWorld
from yarn_plugin.decide.allocators.shared_gpus import SharedGpusSettings, Slowdown
from yarn_plugin.decide.commands import ListContainers
from yarn_plugin.decide.events import JobsDeclared, NodesChanged
from yarn_plugin.decide.mechanisms.interference import Interference, Pair, Profile
from yarn_plugin.errors import BadInputError
from yarn_plugin.model.auction import Release
from yarn_plugin.model.causes import BeyondLease
from yarn_plugin.model.resources import GPU, GPU_MEMORY, GPU_MILLI, Resources
from yarn_plugin.model.share import Demand, Gang, GpuPart, Job, Pods

KINDS = {name: Profile() for name in ("calm", "quiet", "loud")}
PAIRS = (
    *(Pair(a, b, 0.05) for a in ("calm", "quiet") for b in ("calm", "quiet")),
    Pair("calm", "loud", 0.9),
    Pair("loud", "calm", 0.1),
    Pair("loud", "loud", 0.9),
)


def job(name, kind="calm", computing=0.3, memory=0.2, increment=0.0, probability=0.0, pods=1, **more):
    part = GpuPart(computing, memory, memory + increment, probability, kind)
    demand = Demand((Resources.of({GPU: pods}),))
    return Job(name, "ann", demand=demand, gang=Gang((Pods(pods, 1),)), sharing=part, **more)


class World:
    """One application, which declares jobs."""

    def __init__(self, *nodes, interference=None, memory=16_000, **settings):
        known = interference or Interference(KINDS, PAIRS)
        settings = SharedGpusSettings(known, **settings)
        self.world = LedgerWorld.of("shared_gpus", *nodes, settings=settings, gpu_memory_mb=memory)
        self.app = self.world.arrive("ann")

    def declare(self, *jobs, app=None):
        self.world.take(JobsDeclared(app or self.app, jobs), 0.01)
        assert self.world.failure is None

    def say(self, slowdown, name, member=0):
        self.world.say(self.app, Slowdown(slowdown, name, member))
        assert self.world.failure is None

    def listed(self):
        """Whether the containers of an application were looked at, as it has more than its leases."""
        commands = [command for step in self.world.stage.decided for command in step.commands]
        return [one for one in commands if isinstance(one, ListContainers) and isinstance(one.cause, BeyondLease)]

    def leases(self):
        return [entry.leased for entry in self.world.state.ledger.leases.values() if entry.is_started]

    def gpus(self):
        """The jobs of the workers on each GPU."""
        found = {}
        for lease in self.leases():
            for cell in lease.cells:
                found.setdefault(cell, []).append(lease.claim[1])
        return {gpu: sorted(jobs) for gpu, jobs in found.items()}


def test_two_jobs_that_hardly_disturb_each_other_share_a_gpu():
    at = World(node("n1", 2))
    at.declare(job("a", "calm"), job("b", "quiet"))
    assert at.gpus() == {"n1/0": ["a", "b"]}
    (holding,) = at.leases()[0].holdings
    assert holding.amounts == Resources.of({GPU_MILLI: 300, GPU_MEMORY: 3200})


def test_jobs_that_disturb_each_other_do_not():
    at = World(node("n1", 2))
    at.declare(job("a", "calm"), job("b", "loud"))
    assert at.gpus() == {"n1/0": ["a"], "n1/1": ["b"]}


@pytest.mark.parametrize("kind", ["", "stranger"])
def test_a_job_of_a_kind_that_is_not_known_is_alone(kind):
    at = World(node("n1", 3))
    at.declare(job("a", "calm"), job("b", kind), job("c", kind))
    assert sorted(at.gpus().values()) == [["a"], ["b"], ["c"]]


def test_one_increment_always_fits():
    at = World(node("n1", 2), max_collision=1.0)
    at.declare(*(job(name, increment=0.7, probability=0.5) for name in "ab"))
    assert sorted(at.gpus().values()) == [["a"], ["b"]], "0.2 + 0.2 + 0.7 is more than a GPU"


def test_workers_that_collide_too_often_do_not_share():
    at = World(node("n1", 2))
    at.declare(*(job(name, increment=0.4, probability=0.5) for name in "ab"))
    assert sorted(at.gpus().values()) == [["a"], ["b"]]


def test_applications_share_no_gpu_unless_the_pool_allows_it():
    for across, gpus in ((False, 2), (True, 1)):
        at = World(node("n1", 2), across_applications=across)
        bob = at.world.arrive("bob")
        at.declare(job("a"))
        at.declare(job("b"), app=bob)
        assert len(at.gpus()) == gpus


def test_a_job_whose_workers_do_not_all_fit_waits_and_blocks_nobody():
    at = World(node("n1", 1))
    at.declare(job("large", "loud", pods=2), job("small"))
    assert at.gpus() == {"n1/0": ["small"]}


def test_workers_of_a_job_start_together_and_whole_gpus_are_not_shared():
    at = World(node("n1", 2))
    at.declare(job("pair", pods=2), Job("whole", "ann", demand=Demand((Resources.of({GPU: 1}),))))
    assert at.gpus() == {"n1/0": ["whole"], "n1/1": ["pair", "pair"]}


def test_where_gpus_cannot_be_shared_each_worker_has_one():
    at = World(node("n1", 2), memory=None)
    at.declare(job("a"), job("b"))
    assert sorted(at.gpus().values()) == [["a"], ["b"]]


def test_a_worker_that_gave_its_part_back_is_done():
    at = World(node("n1", 1))
    at.declare(job("a"), job("b"))
    (lease, _) = list(at.world.state.ledger.leases.values())
    at.world.say(at.app, Release(lease.id))
    assert at.gpus() == {"n1/0": ["b"]}


def test_workers_of_a_lost_node_start_elsewhere():
    at = World(node("n1", 1))
    at.declare(job("a"), job("b"))
    at.world.take(NodesChanged((), (node("n1", 1).id,)), 1.0)
    assert at.gpus() == {}
    at.world.take(NodesChanged((node("n2", 1),), ()), 1.0)
    assert at.gpus() == {"n2/0": ["a", "b"]}


def test_a_long_queue_is_packed_in_the_worker_process():
    at = World(node("n1", 4), pack_jobs=4)
    at.declare(*(job(f"job-{number}", computing=0.25) for number in range(8)))
    assert at.world.state.allocated.round == 1
    assert sorted(map(len, at.gpus().values())) == [4, 4]


def test_a_worker_that_turns_out_greedy_is_moved_and_replaces_itself():
    at = World(node("n1", 2), old_weight=0.0)
    at.declare(job("victim", "calm"), job("greedy", "quiet"))
    assert at.gpus() == {"n1/0": ["greedy", "victim"]}
    at.say(0.6, "victim")
    at.world.wait(60.0)
    assert sorted(at.gpus().values()) == [["greedy"], ["victim"]]
    assert at.world.state.allocated.learned[at.app]["calm"]["quiet"] == pytest.approx(0.6)
    # They are not put together again.
    at.declare()
    at.declare(job("victim", "calm"), job("greedy", "quiet"))
    assert len(at.gpus()) == 2


def test_the_container_that_hosts_the_sharers_of_a_gpu_is_not_beyond_their_leases():
    at = World(node("n1", 2))
    at.declare(job("a"), job("b"))
    assert at.gpus() == {"n1/0": ["a", "b"]}
    at.world.run(at.app, n1=(1,))
    at.world.wait(100.0)
    assert not at.listed()
    at.world.run(at.app, n1=(1, 2))
    at.world.wait(100.0)
    assert at.listed()


def test_a_measurement_is_averaged_so_that_one_moves_nobody():
    at = World(node("n1", 2), old_weight=0.9)
    at.declare(job("victim", "calm"), job("greedy", "quiet"))
    at.say(0.6, "victim")
    assert at.gpus() == {"n1/0": ["greedy", "victim"]}
    for _ in range(5):
        at.say(0.6, "victim")
    at.world.wait(60.0)
    assert len(at.gpus()) == 2


def test_nobody_is_moved_where_that_would_not_help_or_costs_more_than_the_budget():
    for nodes, settings in (((node("n1", 1),), {}), ((node("n1", 2),), {"move_budget_s": 10.0})):
        at = World(*nodes, old_weight=0.0, **settings)
        at.declare(job("victim", "calm"), job("greedy", "quiet"))
        at.say(0.6, "victim")
        at.world.wait(200.0)
        assert at.gpus() == {"n1/0": ["greedy", "victim"]}


def test_what_one_application_measures_changes_nothing_for_another():
    at = World(node("n1", 4), old_weight=0.0)
    bob = at.world.arrive("bob")
    at.declare(job("victim", "calm"), job("greedy", "quiet"))
    at.say(0.6, "victim")
    at.world.wait(60.0)
    at.declare(job("victim", "calm"), job("greedy", "quiet"), app=bob)
    mine = [lease.cells for lease in at.leases() if lease.claim[0] == bob]
    assert len(set(mine)) == 1


@pytest.mark.parametrize(
    ("field", "value"),
    [("max_collision", 2), ("max_slowdown", -1), ("old_weight", 1.5), ("retry_s", 0), ("pack_jobs", 0), ("move_s", -1)],
)
def test_bad_settings_are_refused(field, value):
    with pytest.raises(BadInputError, match=field):
        SharedGpusSettings(**{field: value})


def test_pairs_of_unknown_kinds_are_refused():
    with pytest.raises(BadInputError, match=r"pairs\.0\.beside 'b': must be one of kinds"):
        Interference({"a": Profile()}, (Pair("a", "b", 0.1),))
    with pytest.raises(BadInputError, match="slowdown"):
        Interference({"a": Profile()}, (Pair("a", "a", float("nan")),))
