"""An arbiter begins with an empty journal, and applications that register again have records of their leases."""

from dataclasses import replace

import pytest

from tests.lease_world import containers, node
from tests.ledger_world import LedgerWorld
from tests.small_cells import HOSTS, spec
from tests.toys.stage import admitted, sent
from yarn_plugin.decide.allocators.allox.settings import AlloxSettings
from yarn_plugin.decide.allocators.auction import AuctionSettings
from yarn_plugin.decide.allocators.buddy_cells import BuddyCellsSettings
from yarn_plugin.decide.allocators.gpu_queues import GpuQueuesSettings
from yarn_plugin.decide.allocators.job_rounds import JobRoundsSettings
from yarn_plugin.decide.commands import SignalContainers
from yarn_plugin.decide.events import (
    AppsChanged,
    Configured,
    ContainersListed,
    JobsDeclared,
    Looked,
    ManagerLost,
    ManagerReached,
    Registered,
    Superseded,
)
from yarn_plugin.decide.pools.commands import Grant, Refuse
from yarn_plugin.model.cluster import Capabilities, YarnApp
from yarn_plugin.model.resources import GPU, Resources
from yarn_plugin.model.share import Demand, Gang, Job, LeaseRecord, Pods

OLD = "application_1_0999"
ONE_GPU = Demand((Resources.of({GPU: 1}),))


def gpus(host, *numbers):
    return tuple(f"{host}/{number}" for number in numbers)


class World(LedgerWorld):
    """Applications run that the arbiter does not know."""

    @staticmethod
    def begin(allocator="fifo", nodes=("n0", "n1", "n2"), **parameters):
        given = [node(host, 4) for host in nodes]
        return World(LedgerWorld.of(allocator, *given, grace_s=5.0, records_s=60.0, **parameters).stage)

    def runs(self, yarn_app=OLD, **on):
        """YARN shows an application with containers of so many GPUs on these hosts."""
        found = containers(yarn_app, on)
        used = sum((one.resources for one in found), Resources())
        queue = self.stage.intake.state.pools[-1].queue + ".old"
        self.take(AppsChanged((YarnApp(yarn_app, "old", "ann", queue, False, 1.0, used, Resources(), len(found)),), ()))
        self.lists(found, self.name_of(yarn_app))
        return found

    def name_of(self, yarn_app):
        known = self.stage.intake.state.yarn_apps
        return next((app for app, name in known.items() if name == yarn_app), yarn_app)

    def lists(self, containers, app):
        return self.take(ContainersListed(app, tuple(containers)), 0.01)

    def registers(self, *leases, yarn_app=OLD, demand=None, jobs=()):
        demand = None if demand is None else Demand((Resources.of({GPU: demand}),))
        event = Registered(f"again-{yarn_app}", "old", "ann", "gpu", 1.0, demand, None, yarn_app, None, jobs, leases)
        self.decided = self.take(event, 0.01)
        return admitted(self.decided[-1])

    def refused(self, decided=None):
        return [(one.cause.gpus, one.cause.why) for one in sent(decided or self.stage.decided, Refuse)]

    def adopted(self, app):
        """The GPUs of the leases that go on since an application has registered. It may have been granted others."""
        return [
            tuple(sorted(holding.cell for holding in lease.holdings))
            for one in sent(self.decided, Grant)
            if one.app == app and "recorded" in str(one.cause)
            for lease in one.leases
        ]


def gang(*sizes):
    return Gang(tuple(Pods(1, size) for size in sizes))


def test_leases_go_on_as_their_application_recorded_them():
    world = World.begin()
    containers = world.runs(n0=[2], n1=[1])
    other = world.arrive("other", {GPU: 2})
    assert world.leases() == {other: list(gpus("n2", 0, 1))}, "nobody gets GPUs that are in use"
    jobs = (Job("train", "ann", gang=gang(2)), Job("test", "ann", gang=gang(1)))
    old = world.registers(
        LeaseRecord("gpu#7", gpus("n0", 2, 3), "train"), LeaseRecord("gpu#9", gpus("n1", 1), "test"), jobs=jobs
    )
    assert world.leases()[old] == [*gpus("n0", 2, 3), *gpus("n1", 1)]
    granted = [lease for one in sent(world.decided, Grant) for lease in one.leases]
    assert {one.job: sorted(h.cell for h in one.holdings) for one in granted} == {
        "train": list(gpus("n0", 2, 3)),
        "test": list(gpus("n1", 1)),
    }
    world.lists(containers, old)
    world.wait(600.0)
    assert len(world.leases()[old]) == 3 and not world.refused()
    assert not [one for d in world.stage.decided for one in d.commands if isinstance(one, SignalContainers)]


def cells(**quotas):
    return {"allocator": "cells", "nodes": HOSTS, "settings": BuddyCellsSettings(spec(**quotas))}


def classes(world, app):
    """The GPUs and the class of each lease of an application, as it was told."""
    granted = [lease for one in sent(world.stage.decided, Grant) if one.app == app for lease in one.leases]
    return {tuple(sorted(holding.cell for holding in one.holdings)): one.kind for one in granted}


def test_a_gang_of_a_virtual_cluster_is_guaranteed_again():
    world = World.begin(**cells(prod={"node": 2}, other={"rack": 1}))
    world.runs(n0=[4], n2=[4])
    jobs = (Job("train", "prod", gang=gang(4, 4)),)
    old = world.registers(
        LeaseRecord("gpu#1", gpus("n0", 0, 1, 2, 3), "train"), LeaseRecord("gpu#2", gpus("n2", 0, 1, 2, 3), "train"),
        jobs=jobs,
    )  # fmt: skip
    # Bound to n0 and n2, the quota of two nodes would leave no rack for the other virtual cluster.
    assert classes(world, old) == dict.fromkeys([gpus("n0", 0, 1, 2, 3), gpus("n2", 0, 1, 2, 3)], "opportunistic")

    world = World.begin(**cells(prod={"node": 2}, other={"rack": 1}))
    world.runs(n0=[4], n1=[4])
    old = world.registers(
        LeaseRecord("gpu#1", gpus("n0", 0, 1, 2, 3), "train"), LeaseRecord("gpu#2", gpus("n1", 0, 1, 2, 3), "train"),
        jobs=jobs,
    )  # fmt: skip
    assert classes(world, old) == dict.fromkeys([gpus("n0", 0, 1, 2, 3), gpus("n1", 0, 1, 2, 3)], "guaranteed")
    other = world.arrive("other")
    world.take(JobsDeclared(other, (Job("b", "other", gang=gang(4, 4)),)), 0.01)
    assert world.leases()[other] == [*gpus("n2", 0, 1, 2, 3), *gpus("n3", 0, 1, 2, 3)]


def test_what_a_quota_does_not_cover_goes_on_as_opportunistic_work():
    world = World.begin(**cells(prod={"pair": 1, "node": 1}, other={"rack": 1}))
    world.runs(n0=[2, 2], n1=[4])
    jobs = tuple(Job(name, "prod", gang=gang(size)) for name, size in (("a", 2), ("b", 2), ("c", 4)))
    old = world.registers(
        LeaseRecord("gpu#1", gpus("n0", 0, 1), "a"),
        LeaseRecord("gpu#2", gpus("n0", 2, 3), "b"),
        LeaseRecord("gpu#3", gpus("n1", 0, 1, 2, 3), "c"),
        jobs=jobs,
    )
    assert classes(world, old) == {
        gpus("n0", 0, 1): "guaranteed",
        gpus("n0", 2, 3): "opportunistic",
        gpus("n1", 0, 1, 2, 3): "guaranteed",
    }
    assert not world.refused()
    eve = world.arrive("other")
    world.take(JobsDeclared(eve, (Job("b", "other", gang=gang(4, 4)),)), 0.01)
    world.wait(10.0)
    assert world.leases()[eve] == [*gpus("n2", 0, 1, 2, 3), *gpus("n3", 0, 1, 2, 3)]


def test_records_that_cannot_be_true_are_refused():
    world = World.begin()
    world.runs(n0=[2])
    world.runs("application_1_0998", n0=[1], n1=[1])
    first = world.registers(LeaseRecord("gpu#1", gpus("n0", 0, 1)), demand=2)
    second = world.registers(
        LeaseRecord("gpu#1", gpus("n0", 0)),
        LeaseRecord("gpu#2", gpus("n1", 0, 1)),
        LeaseRecord("gpu#3", gpus("n1", 0)),
        LeaseRecord("gpu#4", ("n9/0", "n1", "no such cell")),
        yarn_app="application_1_0998",
        demand=1,
    )
    assert world.leases() == {first: list(gpus("n0", 0, 1)), second: list(gpus("n1", 0))}
    assert sorted(world.refused()) == [
        (gpus("n0", 0), "leased"),
        (gpus("n1", 1), "unused"),
        (("n9/0", "n1", "no such cell"), "unknown"),
    ]


def test_nothing_is_leased_of_nodes_that_are_in_use_until_all_could_register_again():
    world = World.begin(nodes=("n0",))
    world.runs(n0=[2])
    other = world.arrive("other", {GPU: 1})
    world.wait(50.0)
    assert world.leases() == {}
    world.wait(10.0)
    assert world.leases() == {other: list(gpus("n0", 0))}, "which of them are in use is not known"


def test_their_time_begins_when_yarn_answers():
    world = World.begin(nodes=("n0",))
    world.take(ManagerLost("no answer"))
    world.wait(100.0)
    world.take(ManagerReached("http://rm", Capabilities("3.5.0", True, True)))
    world.take(Looked())
    world.runs(n0=[2])
    other = world.arrive("other", {GPU: 1})
    world.wait(50.0)
    assert world.leases() == {}
    old = world.registers(LeaseRecord("gpu#1", gpus("n0", 0, 1)), demand=2)
    assert world.leases() == {old: list(gpus("n0", 0, 1)), other: list(gpus("n0", 2))}


def test_an_arbiter_that_controls_a_pool_again_leases_nothing_before_it_has_polled_yarn():
    """Meanwhile another arbiter may have leased GPUs to applications that this one has not seen yet."""
    world = World.begin(nodes=("n0",))
    app = world.arrive("other", {GPU: 1})
    assert world.leases() == {app: list(gpus("n0", 0))}
    world.take(Superseded("http://another"))
    world.take(Configured(world.stage.intake.state.pools))
    assert world.leases() == {}
    world.runs(n0=[2])
    world.take(Looked())
    world.wait(50.0)
    assert world.leases() == {}


def test_records_are_refused_while_the_master_of_their_application_starts_again():
    world = World.begin("job_rounds", settings=JobRoundsSettings(lease_s=600.0))
    world.runs(n0=[2])
    running = world.stage.intake.state.cluster.apps[OLD]
    world.take(AppsChanged((replace(running, waiting=True),), ()))
    world.registers(LeaseRecord("gpu#1", gpus("n0", 0, 1)))
    assert world.refused() == [(gpus("n0", 0, 1), "policy")]


@pytest.mark.parametrize(
    ("allocator", "settings"),
    [
        ("fifo", None),
        ("gpu_queues", GpuQueuesSettings()),
        ("themis", AuctionSettings(lease_s=600.0)),
        ("job_rounds", JobRoundsSettings(lease_s=600.0)),
        ("allox", AlloxSettings()),
        ("cells", BuddyCellsSettings(spec(prod={"rack": 2}), default_cluster="prod")),
    ],
)
def test_every_allocator_goes_on_with_a_lease(allocator, settings):
    world = World.begin(allocator, HOSTS, settings=settings)
    containers = world.runs(n0=[1])
    until = world.stage.clock.time + 100.0
    old = world.registers(
        LeaseRecord("gpu#1", gpus("n0", 2), "train", until), jobs=(Job("train", "ann", demand=ONE_GPU),)
    )
    assert {app: [cell for cell in held if "/" in cell] for app, held in world.leases().items()} == {old: ["n0/2"]}
    assert not world.refused()
    world.lists(containers, old)
    other = world.arrive("other", {GPU: 4})
    world.wait(95.0)
    assert "n0/2" in world.leases()[old] and "n0/2" not in world.leases().get(other, ())
    ends = [lease.until for one in sent(world.decided, Grant) for lease in one.leases]
    assert ends == [until if allocator in ("themis", "job_rounds") else None]
