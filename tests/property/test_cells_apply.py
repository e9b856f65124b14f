"""A new cells file on a pool with running gangs does what `plan` said of it."""

import random
from dataclasses import replace

import pytest

from tests.ledger_world import LedgerWorld, pool
from tests.small_cells import HOSTS, spec
from yarn_plugin.api import cells
from yarn_plugin.decide.allocators.buddy_cells import BuddyCellsSettings
from yarn_plugin.decide.events import JobsDeclared, PoolReconfigured
from yarn_plugin.decide.mechanisms.buddy_cells.cluster import Cluster
from yarn_plugin.decide.mechanisms.buddy_cells.errors import CellFileError
from yarn_plugin.decide.mechanisms.buddy_cells.invariants import validate
from yarn_plugin.decide.pools.commands import Downgrade, Revoke
from yarn_plugin.model.causes import CellsReconfigured, QuotaReduced
from yarn_plugin.model.cluster import Node
from yarn_plugin.model.resources import GPU, Resources
from yarn_plugin.model.share import Gang, Job, Pods

NODES = tuple(Node(f"{host}:8041", host, Resources.of({GPU: 4, "vcores": 8})) for host in HOSTS)


def random_cells(draw):
    """Feasible quotas of two virtual clusters; now and then a rack is missing."""
    while True:
        quotas = {
            name: {kind: draw.randint(0, most) for kind, most in (("rack", 1), ("node", 2), ("pair", 3), ("gpu", 3))}
            for name in ("a", "b")
        }
        made = spec(**quotas)
        if draw.random() < 0.6:
            made = replace(made, cells=made.cells[:1])
        try:
            Cluster(made)
        except CellFileError:
            continue
        return made


def random_job(draw, name, tenant):
    gang = Gang((Pods(draw.randint(1, 2), draw.choice([1, 1, 2, 4])),))
    return Job(name, tenant, priority=draw.choice([-1, 0, 0, 1, 5]), gang=gang, lazy_preemption=draw.random() < 0.3)


def kinds(world):
    """The class of each gang that has begun."""
    entries = world.state.ledger.leases.values()
    return {f"{one.app}/{one.leased.claim[1]}": one.leased.kind for one in entries if one.is_started}


@pytest.mark.parametrize("notice_s", [0.0, 30.0])
def test_a_new_file_does_what_the_plan_said(notice_s):
    reached = set()
    for seed in range(25):
        reached |= reconfigure_at_random(random.Random(f"{seed} {notice_s}"), notice_s)
    assert reached == {"downgraded", "outside", "unchanged"}


def reconfigure_at_random(draw, notice_s):
    """Which kinds of change there were."""
    world = LedgerWorld.of("cells", *NODES, settings=BuddyCellsSettings(random_cells(draw), notice_s=notice_s))
    apps = {tenant: world.arrive(tenant) for tenant in ("a", "b")}
    for tenant, app in apps.items():
        jobs = [random_job(draw, f"j{number}", tenant) for number in range(6)]
        world.take(JobsDeclared(app, tuple(jobs)), 0.01)
    # Jobs that wait would take what others give up: the plan is about those that run.
    world.wait(40.0)
    running = kinds(world)
    for app in apps.values():
        kept = tuple(job for job in world.stage.intake.state.jobs[app] if f"{app}/{job.name}" in running)
        world.take(JobsDeclared(app, kept), 0.01)
    before = kinds(world)

    changed = pool("cells", BuddyCellsSettings(random_cells(draw), notice_s=notice_s))
    said = cells.describe_change(cells.find_pool(world.stage.intake.state, "gpu"), changed)
    world.take(PoolReconfigured(changed), 1.0)
    told = {f"{one.app}/{one.cause.job}" for one in world.sent(Downgrade) if isinstance(one.cause, QuotaReduced)}
    assert told == set(said.downgraded), "those are told, and nobody else"
    if said.in_s:
        assert kinds(world) == before, "nothing changes within the notice"
        world.wait(said.in_s + 1.0)
    after = kinds(world)
    assert {name for name in before if (before[name], after[name]) == ("guaranteed", "opportunistic")} == told
    revoked = {one.lease for one in world.sent(Revoke) if one.cause == CellsReconfigured()}
    entries = world.state.ledger.leases.values()
    left = {f"{one.app}/{one.leased.claim[1]}" for one in entries if one.id in revoked}
    assert left == set(said.outside)
    assert world.failure is None
    validate(world.state.allocated.cells.cluster)
    return {*["downgraded"] * bool(told), *["outside"] * bool(left), *["unchanged"] * bool(said.unchanged)}
