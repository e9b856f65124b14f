"""HiveD's virtual clusters on the ledger: gangs of jobs, evictions, downgrades, bad nodes and reconfigurations, through
the arbiter's step."""

from dataclasses import replace

import pytest

from tests.ledger_world import LedgerWorld, pool
from tests.small_cells import HOSTS, spec
from yarn_plugin.decide.allocators.buddy_cells import BuddyCellsSettings
from yarn_plugin.decide.events import Configured, JobsDeclared, NodesChanged, PoolReconfigured
from yarn_plugin.decide.mechanisms.buddy_cells.errors import InfeasibleError
from yarn_plugin.decide.mechanisms.buddy_cells.invariants import validate
from yarn_plugin.decide.pools.commands import Downgrade, Grant, Revoke
from yarn_plugin.model.auction import Release
from yarn_plugin.model.causes import CellsReconfigured, Evicted, QuotaReduced
from yarn_plugin.model.cluster import Node
from yarn_plugin.model.resources import GPU, Resources
from yarn_plugin.model.share import Gang, Job, Pods

NODES = tuple(Node(f"{host}:8041", host, Resources.of({GPU: 4, "vcores": 8})) for host in HOSTS)


HALVES = spec(prod={"rack": 1}, research={"node": 1, "pair": 2})


class World(LedgerWorld):
    """`LedgerWorld`, whose mechanism is checked after every step too."""

    def check(self):
        super().check()
        if self.stage.intake.state.pool_states.get("gpu"):
            validate(self.state.allocated.cells.cluster)

    def declare(self, app, *jobs):
        return self.take(JobsDeclared(app, jobs), 0.01)

    def configure(self, cells, **settings):
        made = pool("cells", BuddyCellsSettings(cells, **settings))
        return self.take(PoolReconfigured(made), 1.0)

    def gpus_of(self, app):
        return len(self.leases().get(app, ()))


def world(cells=HALVES, **settings):
    made = World(LedgerWorld.of("cells", *NODES, settings=BuddyCellsSettings(cells, **settings)).stage)
    assert made.failure is None
    return made


def job(name, tenant, *pods, **more):
    return Job(name, tenant, gang=Gang(tuple(Pods(1, size) for size in pods)), **more)


def test_a_gang_gets_the_cells_of_its_virtual_cluster_and_no_more():
    at = world()
    app = at.arrive("prod")
    at.declare(app, job("first", "prod", 4, 4))
    assert at.gpus_of(app) == 8
    at.declare(app, job("first", "prod", 4, 4), job("second", "prod", 1))
    assert at.gpus_of(app) == 8
    assert at.state.allocated.waits == {f"{app}/second": "insufficient_capacity"}
    at.declare(app, job("second", "prod", 1))
    assert at.gpus_of(app) == 1


def test_guaranteed_work_evicts_opportunistic_gangs_whole_and_starts_once_they_left():
    at = world()
    low, high = at.arrive("research"), at.arrive("prod")
    at.declare(low, *(job(f"low-{number}", "research", 2, 2, priority=-1) for number in range(4)))
    at.run(low, n0=[4], n1=[4], n2=[4], n3=[4])
    assert at.gpus_of(low) == 16
    at.declare(high, job("urgent", "prod", 4, 4))
    revoked = at.sent(Revoke)
    assert {one.cause for one in revoked} == {Evicted(high, "urgent", "prod", 0)}
    assert len(revoked) == 4, "the leases of both pods of two gangs"
    assert at.gpus_of(high) == 0
    left = {one.lease for one in revoked}
    stays = [
        cell.partition(":")[0]
        for entry in at.state.ledger.leases.values()
        if entry.app == low and entry.id not in left
        for cell in entry.leased.cells
    ]
    at.wait(40.0)
    assert at.gpus_of(high) == 0, "containers of its victims still run"
    at.run(low, **{host: [stays.count(host)] for host in set(stays)})
    assert (at.gpus_of(high), at.gpus_of(low)) == (8, 8)


def test_lazy_gangs_go_on_as_opportunistic_work_and_are_promoted_again():
    at = world()
    app = at.arrive("research")
    lazy = job("lazy", "research", 4, lazy_preemption=True)
    at.declare(app, lazy, job("pairs", "research", 2, 2))
    before = at.leases()
    at.declare(app, lazy, job("pairs", "research", 2, 2), job("urgent", "research", 4, priority=5))
    assert [one.to for one in at.sent(Downgrade)] == ["opportunistic"]
    assert set(before[app]) <= set(at.leases()[app]), "it goes on where it runs"
    at.declare(app, lazy, job("pairs", "research", 2, 2))
    assert [one.to for one in at.sent(Downgrade)] == ["opportunistic", "guaranteed"]


def test_a_cancelled_eviction_spares_its_victims():
    at = world()
    low, high = at.arrive("research"), at.arrive("prod")
    at.declare(low, *(job(f"low-{number}", "research", 4, priority=-1) for number in range(4)))
    at.run(low, n0=[4], n1=[4], n2=[4], n3=[4])
    at.declare(high, job("urgent", "prod", 4, 4))
    assert len(at.sent(Revoke)) == 2
    at.declare(high)
    at.wait(40.0)
    assert at.gpus_of(low) == 16


def evicting():
    """Opportunistic gangs of two pods of four GPUs on all nodes, one of which a gang of `high` evicts."""
    at = world()
    low, high = at.arrive("research"), at.arrive("prod")
    at.declare(low, *(job(f"low-{number}", "research", 4, 4, priority=-1) for number in range(2)))
    at.run(low, n0=[4], n1=[4], n2=[4], n3=[4])
    at.declare(high, job("urgent", "prod", 4))
    first, second = (one.lease for one in at.sent(Revoke))
    entries = {entry.id: entry for entry in at.state.ledger.leases.values()}
    return at, low, high, entries[first], entries[second]


def test_a_gang_that_has_vacated_some_of_its_cells_is_not_spared():
    at, low, high, first, _ = evicting()
    given = first.gpus[:2]
    host = given[0].partition(":")[0]
    at.run(low, **{host: [1, 1]})
    at.say(low, Release(first.id, given))
    at.declare(high)
    at.run(low, **{name: [] for name in {one.partition(":")[0] for one in (*first.gpus, *at.leases()[low])}})
    at.wait(40.0)
    assert at.gpus_of(low) == 16, "it begins anew, as a whole"


@pytest.mark.parametrize("number", [2, 4])
def test_what_a_gang_vacates_before_it_hears_that_it_is_spared_is_leased_to_it_again(number):
    at, low, high, first, _ = evicting()
    at.declare(high)
    given = first.gpus[:number]
    host = given[0].partition(":")[0]
    at.run(low, **{host: [1] * (4 - number)})
    at.say(low, Release(first.id, given))
    at.run(low, **{host: []})
    at.wait(40.0)
    assert at.gpus_of(low) == 16
    assert {entry.leased.claim[1] for entry in at.state.ledger.leases.values()} == {"low-0", "low-1"}


def test_a_pod_that_lost_its_node_returns_with_it():
    at = world()
    app = at.arrive("prod")
    at.declare(app, job("gang", "prod", 4, 4))
    held = at.leases()[app]
    lost = held[0].partition("/")[0]
    gone = next(node for node in NODES if node.host == lost.partition(":")[0])
    at.take(NodesChanged((), (gone.id,)), 1.0)
    assert at.gpus_of(app) == 4
    at.take(NodesChanged((gone,), ()), 1.0)
    assert at.leases()[app] == held


def test_a_smaller_quota_downgrades_and_a_smaller_cluster_revokes():
    at = world()
    app = at.arrive("research")
    at.declare(app, job("node", "research", 4), job("pairs", "research", 2, 2))
    at.configure(spec(prod={"rack": 1}, research={"pair": 2}), notice_s=0)
    (downgrade,) = at.sent(Downgrade)
    assert (downgrade.to, downgrade.cause) == ("opportunistic", QuotaReduced("node", "research"))
    assert downgrade.effective_at is None
    assert at.gpus_of(app) == 8
    half = spec(research={"node": 1})
    half = replace(half, cells=half.cells[:1])
    at.configure(half)
    assert at.failure is None
    assert all(one.cause == CellsReconfigured() for one in at.sent(Revoke))


def kinds(at, app):
    return {entry.leased.claim[1]: entry.leased.kind for entry in at.state.ledger.leases.values() if entry.app == app}


SMALLER = spec(prod={"rack": 1}, research={"pair": 2})


def test_owners_of_jobs_that_a_new_quota_downgrades_are_told_before():
    at = world()
    app = at.arrive("research")
    at.declare(app, job("node", "research", 4), job("pairs", "research", 2, 2))
    at.configure(SMALLER)
    (told,) = at.sent(Downgrade)
    assert (told.to, told.cause) == ("opportunistic", QuotaReduced("node", "research"))
    assert told.effective_at == at.stage.clock.time + 30.0
    at.wait(29.0)
    assert set(kinds(at, app).values()) == {"guaranteed"}
    at.declare(app, job("node", "research", 4), job("pairs", "research", 2, 2), job("late", "research", 2))
    at.wait(2.0)
    assert kinds(at, app) == {"node": "opportunistic", "pairs": "guaranteed"}
    assert [(one.to, one.effective_at) for one in at.sent(Downgrade)[1:]] == [("opportunistic", None)]
    assert at.state.allocated.cells.cluster.spec == SMALLER


def test_a_change_that_is_taken_back_in_time_downgrades_nobody():
    at = world()
    app = at.arrive("research")
    at.declare(app, job("node", "research", 4))
    at.configure(spec(prod={"rack": 1}, research={"pair": 1}))
    at.wait(20.0)
    at.configure(HALVES)
    assert [one.to for one in at.sent(Downgrade)] == ["opportunistic", "guaranteed"]
    at.wait(40.0)
    assert kinds(at, app) == {"node": "guaranteed"}
    assert at.state.allocated.cells.cluster.spec == HALVES


def test_a_restart_in_the_notice_keeps_its_time():
    at = world()
    app = at.arrive("research")
    at.declare(app, job("node", "research", 4), job("pairs", "research", 2, 2))
    at.configure(SMALLER)
    at.wait(20.0)
    at.take(Configured(at.stage.intake.state.pools), 1.0)
    assert len(at.sent(Downgrade)) == 1, "it was told already"
    at.wait(10.0)
    assert kinds(at, app) == {"node": "opportunistic", "pairs": "guaranteed"}


def test_a_gang_keeps_its_guarantee_where_the_new_quota_has_other_cells_for_it():
    at = world()
    app = at.arrive("research")
    at.declare(app, job("node", "research", 4))
    at.configure(spec(research={"rack": 1}))
    assert not at.sent(Downgrade)
    assert kinds(at, app) == {"node": "guaranteed"}


def test_tenants_without_a_virtual_cluster_wait_or_use_the_default_one():
    at = world()
    stranger = at.arrive("stranger")
    at.declare(stranger, job("train", "stranger", 2))
    assert at.gpus_of(stranger) == 0
    assert at.state.allocated.waits == {f"{stranger}/train": "no virtual cluster"}
    at = world(default_cluster="research")
    stranger = at.arrive("stranger")
    at.declare(stranger, job("train", "stranger", 2))
    assert at.gpus_of(stranger) == 2


def test_an_application_without_jobs_gets_the_gpus_of_its_demand():
    at = world()
    app = at.arrive("prod", {GPU: 6})
    assert at.gpus_of(app) == 6
    (grant,) = at.sent(Grant)
    assert sorted(len(lease.holdings) for lease in grant.leases) == [2, 4]


def test_opportunistic_work_takes_turns_over_tenants():
    at = world(default_cluster="prod", promotes=False)
    first, second = at.arrive("one"), at.arrive("two")
    at.declare(first, *(job(f"low-{number}", "one", 4, priority=-1) for number in range(4)))
    at.declare(second, *(job(f"low-{number}", "two", 4, priority=-1) for number in range(2)))
    assert (at.gpus_of(first), at.gpus_of(second)) == (16, 0)
    at.declare(first, *(job(f"low-{number}", "one", 4, priority=-1) for number in range(2, 6)))
    assert (at.gpus_of(first), at.gpus_of(second)) == (8, 8)


def test_quotas_that_cannot_be_served_are_refused():
    with pytest.raises(InfeasibleError, match="virtual_clusters: chain rack"):
        BuddyCellsSettings(spec(prod={"rack": 2, "node": 1}))
