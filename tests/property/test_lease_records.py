"""Whatever applications have records of: what is leased is theirs as far as YARN shows, and nobody else's."""

import hypothesis.strategies as st
from hypothesis import given, settings

from tests.small_cells import HOSTS, spec
from tests.unit.test_lease_records import World, gang, gpus
from yarn_plugin.decide.allocators.auction import AuctionSettings
from yarn_plugin.decide.allocators.buddy_cells import BuddyCellsSettings
from yarn_plugin.decide.allocators.gpu_queues import GpuQueuesSettings
from yarn_plugin.model.share import Job, LeaseRecord

ALLOCATORS = {
    "fifo": None,
    "gpu_queues": GpuQueuesSettings(max_gpus={"ann": 5}),
    "themis": AuctionSettings(lease_s=60.0),
    "cells": BuddyCellsSettings(spec(ann={"pair": 2, "node": 1}, eve={"rack": 1}), default_cluster="eve"),
}
CELLS = [gpu for host in HOSTS for gpu in gpus(host, 0, 1, 2, 3)]
NAMES = ("application_1_0997", "application_1_0998", "application_1_0999")

leases = st.builds(
    LeaseRecord,
    st.sampled_from(["gpu#1", "gpu#2"]),
    st.lists(st.sampled_from([*CELLS, "n9/0", "n0"]), min_size=1, max_size=4, unique=True).map(tuple),
    st.sampled_from(["a", "b", ""]),
    st.one_of(st.none(), st.floats(0.0, 1e9)),
)
jobs = st.lists(st.sampled_from([1, 2, 4]), min_size=1, max_size=3).flatmap(
    lambda sizes: st.sampled_from([0, -1]).map(lambda priority: (gang(*sizes), priority))
)
apps = st.fixed_dictionaries(
    {
        "on": st.dictionaries(st.sampled_from(HOSTS), st.lists(st.sampled_from([1, 2]), min_size=1, max_size=2)),
        "records": st.lists(leases, max_size=4),
        "jobs": st.dictionaries(st.sampled_from(["a", "b"]), jobs, max_size=2),
    }
)


def used_on(on):
    return {host: sum(counts) for host, counts in on.items()}


@settings(max_examples=25)
@given(st.sampled_from(sorted(ALLOCATORS)), st.lists(apps, min_size=1, max_size=3), st.integers(0, 3))
def test_records_are_never_worth_more_than_what_yarn_shows(allocator, found, broken):
    nodes = HOSTS[broken:] or HOSTS
    world = World.begin(allocator, nodes, settings=ALLOCATORS[allocator])
    left = dict.fromkeys(HOSTS, 4)
    for app, name in zip(found, NAMES, strict=False):
        app["on"] = {host: counts for host, counts in app["on"].items() if sum(counts) <= left[host]}
        for host, counts in app["on"].items():
            left[host] -= sum(counts)
        world.runs(name, **app["on"])
    for app, name in zip(found, NAMES, strict=False):
        declared = tuple(Job(job, "ann", gang=pods, priority=rank) for job, (pods, rank) in app["jobs"].items())
        before = {gpu for held in world.leases().values() for gpu in held}
        own = world.registers(*app["records"], yarn_app=name, jobs=declared)
        assert world.failure is None
        adopted = {gpu for one in world.adopted(own) for gpu in one}
        recorded = {gpu for one in app["records"] for gpu in one.gpus}
        assert adopted <= recorded and not adopted & before
        for host in HOSTS:
            assert sum(gpu.startswith(f"{host}/") for gpu in adopted) <= used_on(app["on"]).get(host, 0)
        refused = {gpu for cells, _ in world.refused(world.decided) for gpu in cells}
        assert adopted | refused == recorded, "each is either leased or refused, and its application knows"
        assert not adopted & refused
    world.wait(200.0)
    assert world.failure is None
