"""AlloX on the ledger: jobs that may run on a GPU or on a slot of cores, through the arbiter's step."""

import pytest

from tests.ledger_world import LedgerWorld
from yarn_plugin.decide.allocators.allox.allocator import Allox, note_of
from yarn_plugin.decide.allocators.allox.jobs import Jobs
from yarn_plugin.decide.allocators.allox.sampling import SampleRun
from yarn_plugin.decide.allocators.allox.settings import AlloxSettings
from yarn_plugin.decide.allocators.plan import Idle
from yarn_plugin.decide.events import JobsDeclared, NodesChanged, NodeUseChanged
from yarn_plugin.decide.mechanisms.allox import Job as MatchedJob
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


def matched(gpu_s, cores_s):
    """A job as it is matched."""
    return MatchedJob("train", "ann", (gpu_s, cores_s), (1.0, 1.0))


class World:
    """One application of one user, which declares jobs."""

    def __init__(self, *nodes, task_memory_mb=0, **settings):
        given = AlloxSettings(cpu_slot=SLOT, **settings)
        self.world = LedgerWorld.of("allox", *nodes, settings=given, task_memory_mb=task_memory_mb)
        self.app = self.world.arrive("ann")

    def declare(self, *jobs):
        self.world.take(JobsDeclared(self.app, jobs), 0.01)
        assert self.world.failure is None

    def sides(self):
        """Where each job runs: "gpu" or "cores"."""
        leases = [entry.leased for entry in self.world.state.ledger.leases.values()]
        return {lease.claim[1]: "gpu" if len(lease.holdings) == 2 else "cores" for lease in leases}

    def nodes(self):
        """Where something is leased."""
        leases = [entry.leased for entry in self.world.state.ledger.leases.values()]
        return {cell.partition("/")[0] for lease in leases for cell in lease.cells}


def test_the_job_that_gains_most_gets_the_gpu():
    at = World(node(0))
    at.declare(job("slow-on-both", 50, 60), job("fast-on-gpu", 10, 100))
    assert at.sides() == {"fast-on-gpu": "gpu", "slow-on-both": "cores"}
    notes = {entry.leased.claim[1]: entry.leased.note for entry in at.world.state.ledger.leases.values()}
    assert notes["fast-on-gpu"] == "on a GPU, where it is 10 times as fast as on a slot of cores"


def test_a_job_on_its_slower_side_is_told_how_many_jobs_gain_more_on_the_other():
    at = World(node(0))
    others = [job(f"short-{number}", 10, 100 + number) for number in range(3)]
    at.declare(job("long", 100, 610), *others, job("worse", 100, 200))
    notes = {entry.leased.claim[1]: entry.leased.note for entry in at.world.state.ledger.leases.values()}
    assert notes["worse"] == "on a slot of cores: a GPU is 2 times as fast, but 4 jobs gain more"
    assert note_of(matched(100.0, 610.0), 1, [matched(1.0, 9.0)]) == (
        "on a slot of cores: a GPU is 6.1 times as fast, but 1 job gains more"
    )


def test_a_job_on_its_slower_side_that_gains_most_is_done_sooner_there_than_by_waiting():
    at = World(node(0))
    at.declare(job("first", 100))
    at.declare(job("first", 100), job("second", 90, 120))
    notes = {entry.leased.claim[1]: entry.leased.note for entry in at.world.state.ledger.leases.values()}
    assert notes["second"] == "on a slot of cores: a GPU is 1.33 times as fast, but it is done sooner than waiting"


def test_the_waiting_jobs_are_looked_at_once_for_each_event(monkeypatch):
    looks, events = [], []
    waiting, propose = Jobs.waiting, Allox.propose
    monkeypatch.setattr(Jobs, "waiting", lambda *given: looks.append(1) or waiting(*given))
    monkeypatch.setattr(Allox, "propose", lambda *given: events.append(1) or propose(*given))
    World(node(0)).declare(job("first", 50, 60), job("second", 10, 100))
    assert len(looks) == len(events) > 0


def test_a_job_waits_for_a_gpu_that_is_worth_waiting_for():
    at = World(node(0))
    at.declare(job("first", 10))
    at.declare(job("first", 10), job("second", 10, 1000))
    assert at.sides() == {"first": "gpu"}
    assert set(at.world.state.ledger.idle.values()) == {Idle.NOT_FASTER}
    at.declare(job("second", 10, 1000))
    assert at.sides() == {"second": "gpu"}


@pytest.mark.parametrize("inline_jobs", [100, 0])
@pytest.mark.parametrize("sample_share", [0.0, 1.0])
def test_machines_of_nodes_that_others_use_wait_until_there_is_room(inline_jobs, sample_share):
    at = World(node(0, vcores=9), node(1), inline_jobs=inline_jobs, sample_share=sample_share, task_memory_mb=4096)
    used = Resources.of({MEMORY: 6144})
    at.world.take(NodeUseChanged((("n0:8041", used),)), 0.01)
    speeds = {} if sample_share else {"speeds": (1 / 10, 1 / 20)}
    jobs = [Job(f"job-{one}", "ann", demand=Demand((ON_GPU, ON_CORES)), work=100.0, **speeds) for one in range(4)]
    at.declare(*jobs)
    assert at.nodes() == {"n1"}
    at.world.take(NodeUseChanged((("n0:8041", Resources()),)), 0.01)
    assert at.nodes() == {"n0", "n1"}


@pytest.mark.parametrize("inline_jobs", [100, 0])
@pytest.mark.parametrize("sample_share", [0.0, 1.0])
def test_free_gpus_are_leased_beside_those_that_others_use(inline_jobs, sample_share):
    at = World(node(0, gpus=3), inline_jobs=inline_jobs, sample_share=sample_share, task_memory_mb=1024)
    at.world.take(NodeUseChanged((("n0:8041", Resources.of({GPU: 1})),)), 0.01)
    speeds = {} if sample_share else {"speeds": (1 / 10,)}
    at.declare(*(Job(f"job-{one}", "ann", demand=Demand((ON_GPU,)), work=100.0, **speeds) for one in range(3)))
    assert at.world.state.ledger.crowded == ("n0/2",)
    assert set(at.world.leases()[at.app]) - {"n0/1"} == {"n0", "n0/0"}


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


def test_another_policy_may_choose_for_comparison():
    # DRFA gives the free GPU to the job that is the shortest there, and the slot to what is left.
    at = World(node(0), policy="drfa", slots_per_gpu=4.0)
    at.declare(job("long", 100, 5000))
    at.declare(job("long", 100, 5000), job("bad-on-cores", 10, 5000), job("good-on-cores", 20, 30))
    assert at.sides() == {"long": "gpu", "good-on-cores": "cores"}
    notes = {entry.leased.claim[1]: entry.leased.note for entry in at.world.state.ledger.leases.values()}
    assert notes["good-on-cores"] == "on a slot of cores, by drfa"
    # AlloX would have the second job wait for the GPU.
    at.declare(job("bad-on-cores", 10, 5000), job("waits", 20, 5000))
    assert at.sides() == {"bad-on-cores": "gpu", "waits": "cores"}


@pytest.mark.parametrize(("slots_per_gpu", "started"), [(4.0, "bob-1"), (0.5, "ann-1")])
def test_drfa_counts_a_gpu_as_so_many_slots_between_users(slots_per_gpu, started):
    at = World(node(0, vcores=9), policy="drfa", slots_per_gpu=slots_per_gpu)
    apps = {user: at.world.arrive(user) for user in ("bob", "carol")} | {"ann": at.app}

    def declare(user, *jobs):
        at.world.take(JobsDeclared(apps[user], jobs), 0.01)

    of_ann, of_bob = job("ann-0", 100, tenant="ann"), job("bob-0", None, 100, tenant="bob")
    declare("ann", of_ann)
    declare("bob", of_bob)
    declare("carol", job("carol-0", None, 100, tenant="carol"))
    declare("ann", of_ann, job("ann-1", None, 100, tenant="ann"))
    declare("bob", of_bob, job("bob-1", None, 100, tenant="bob"))
    assert at.sides().keys() == {"ann-0", "bob-0", "carol-0"}
    declare("carol")
    assert at.sides().keys() == {"ann-0", "bob-0", started}


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


def unknown(name, work=1000.0, tenant="ann"):
    """A job that can run on both sides, at speeds that nobody knows."""
    return Job(name, tenant, demand=Demand((ON_GPU, ON_CORES)), speeds=(None, None), work=work)


class Sampled(World):
    """A pool that samples jobs; on GPUs a batch takes a tenth of a second, on cores three."""

    def __init__(self, *nodes, **settings):
        super().__init__(*nodes, **{"sample_share": 0.5, **settings})

    def samples(self):
        leases = [entry.leased for entry in self.world.state.ledger.leases.values()]
        return [one for one in leases if one.kind == "sample" and one.phase == "held"]

    def answer(self, lease, seconds=None, batches=None):
        on_gpu = len(lease.holdings) == 2
        done = batches or float(lease.note.split(": ")[1].split(" of ")[0])
        took = seconds or done * (0.1 if on_gpu else 3.0)
        self.world.say(self.app, SampleRun(lease.claim[1], lease.alternative, done, took))
        assert self.world.failure is None
        entry = next((one for one in self.world.state.ledger.leases.values() if one.key == lease.key), None)
        if entry is not None:
            self.world.say(self.app, Release(entry.id))

    def running(self):
        leases = [entry.leased for entry in self.world.state.ledger.leases.values() if entry.leased.kind != "sample"]
        return {one.claim[1]: "gpu" if len(one.holdings) == 2 else "cores" for one in leases}


def test_a_job_of_unknown_speed_is_sampled_twice_a_side_and_then_matched():
    at = Sampled(node(0))
    at.declare(unknown("train"))
    assert [one.note for one in at.samples()] == [
        "sample 1 of 2 on a GPU: 10 of 1000",
        "sample 1 of 2 on a slot of cores: 10 of 1000",
    ]
    on_gpu, on_cores = at.samples()
    at.answer(on_cores)
    at.answer(on_gpu)
    assert [one.note for one in at.samples()] == [
        "sample 2 of 2 on a slot of cores: 20 of 1000",
        "sample 2 of 2 on a GPU: 20 of 1000",
    ]
    for lease in at.samples():
        at.answer(lease)
    assert at.running() == {"train": "gpu"}
    (entry,) = at.world.state.ledger.leases.values()
    assert entry.leased.note == "on a GPU, where it is 30 times as fast as on a slot of cores"


def test_a_job_starts_on_the_side_that_is_known_and_waits_for_no_other():
    at = Sampled(node(0), node(1))
    at.declare(unknown("first"), unknown("second"))
    for _ in range(2):
        at.answer(next(one for one in at.samples() if one.claim[1] == "first" and len(one.holdings) == 2))
    assert at.running() == {"first": "gpu"}


def test_samples_hold_their_share_of_the_machines():
    at = Sampled(*(node(number) for number in range(4)), sample_share=0.25)
    at.declare(*(unknown(f"job-{number}") for number in range(6)))
    assert len(at.samples()) == 2, "one of four GPUs, one of four slots"


def test_a_sample_that_dies_is_run_again_and_a_finished_one_never():
    at = Sampled(node(0))
    at.declare(unknown("train"))
    at.answer(next(one for one in at.samples() if len(one.holdings) == 2))
    at.world.take(NodesChanged((), ("n0:8041",)), 1.0)
    assert at.samples() == []
    at.world.take(NodesChanged((node(1),), ()), 1.0)
    assert sorted(one.note for one in at.samples()) == [
        "sample 1 of 2 on a slot of cores: 10 of 1000",
        "sample 2 of 2 on a GPU: 20 of 1000",
    ]


def test_a_sample_far_behind_is_abandoned_and_the_job_is_known_to_be_slow_there():
    at = Sampled(node(0), sample_s=30.0)
    at.declare(unknown("train"))
    at.answer(next(one for one in at.samples() if len(one.holdings) == 2))
    at.world.wait(31.0)
    # The other sample took 1 s: 5 s are far behind.
    assert not any(one.claim[1] == "train" and len(one.holdings) == 1 for one in at.samples())
    measured = at.world.state.allocated.samples.of("ann/train/1/memory-mb=2048,vcores=4")
    assert measured.is_abandoned
    assert measured.seconds(1000.0) >= 750


def test_an_application_may_run_the_samples_of_a_job_one_after_the_other():
    at = Sampled(node(0), sample_s=30.0)
    at.declare(unknown("train"))
    on_gpu, on_cores = at.samples()
    at.world.wait(25.0)
    at.answer(on_gpu, seconds=5.0)
    at.world.wait(20.0)
    assert on_cores.key in {one.key for one in at.samples()}, "its time counts since the other one is done"
    at.world.wait(15.0)
    measured = at.world.state.allocated.samples.of("ann/train/1/memory-mb=2048,vcores=4")
    assert measured.is_abandoned
    assert measured.samples[0].seconds == pytest.approx(25.0, abs=1.0)


def test_a_job_that_starts_has_no_sample_any_more_and_none_of_them_has_died():
    at = Sampled(node(0))
    at.declare(unknown("train"))
    for _ in range(2):
        at.answer(next(one for one in at.samples() if len(one.holdings) == 2))
    assert at.running() == {"train": "gpu"}
    assert at.samples() == []
    assert at.world.state.allocated.samples.open == {}
    at.world.wait(60.0)
    assert at.world.state.allocated.samples.of("ann/train/1/memory-mb=2048,vcores=4").deaths == 0


def test_a_repeated_job_is_not_sampled_again():
    at = Sampled(node(0))
    at.declare(unknown("train"))
    while at.samples():
        at.answer(at.samples()[0])
    assert at.running() == {"train": "gpu"}
    at.declare()
    at.declare(unknown("train", work=500.0))
    assert at.samples() == []
    assert at.running() == {"train": "gpu"}


def test_what_a_running_job_reports_says_when_its_machine_is_free():
    at = Sampled(node(0))
    at.declare(unknown("train"))
    while at.samples():
        at.answer(at.samples()[0])
    at.world.wait(50.0)
    at.world.say(at.app, SampleRun("train", 0, 250.0, 50.0))
    (running,) = at.world.state.allocated.running.values()
    assert running.ends_at - at.world.stage.clock.time == pytest.approx(150.0)


def test_a_user_who_waits_for_too_long_comes_first_at_any_alpha():
    at = World(node(0), alpha=1.0, patience_s=100.0)
    bobs = Job("long", "bob", demand=Demand((ON_GPU,)), speeds=(1 / 900,), work=1.0)
    at.declare(job("short-0", 10), bobs)
    for number in range(1, 40):
        at.world.wait(10.0)
        if at.sides().keys() == {"long"}:
            break
        at.declare(job(f"short-{number}", 10), bobs)
    assert at.sides() == {"long": "gpu"}
    assert 9 <= number <= 12


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("sample_share", 2.0),
        ("sample_s", 0),
        ("patience_s", -1),
        ("cpu_slot", {VCORES: 4}),
        ("cpu_slot", {GPU: 1, MEMORY: 1}),
        ("alpha", 1.5),
        ("unknown_s", 0),
        ("retry_s", -1),
        ("slots_per_gpu", 0),
    ],
)
def test_bad_settings_are_refused(field, value):
    with pytest.raises(BadInputError, match=field):
        AlloxSettings(**{field: value})
