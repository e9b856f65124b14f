"""The contract of allocators, rule by rule (yarn_plugin/decide/allocators/__init__.py), for each allocator.

Each runs through the arbiter's own step: applications come and go, nodes are lost and come back, time passes, the
arbiter restarts. What it was told and what it planned is recorded.
"""

import json
from collections import Counter
from dataclasses import replace

import pytest

from tests.lease_world import node
from tests.ledger_world import LedgerWorld
from tests.recorded_allocator import Recorded
from tests.small_cells import HOSTS, spec
from tests.toys.auction import Provoke
from tests.toys.registry import TOYS
from tests.toys.stage import check_agreement, sent
from yarn_plugin.decide.allocators.buddy_cells import BuddyCellsSettings
from yarn_plugin.decide.allocators.happenings import Broken, Freed, Started, Unplaced, Vacated
from yarn_plugin.decide.events import Configured, NodesChanged
from yarn_plugin.decide.pools.commands import Grant
from yarn_plugin.drive.registry import journal_tags
from yarn_plugin.journal.codec import Codec
from yarn_plugin.journal.records import RecordFile
from yarn_plugin.model.resources import GPU

CODEC = Codec(journal_tags(TOYS))
PROVOKE = "toy-auction.provoke"
"""The message on which some allocators raise."""


def recorded(name):
    """The registry with an allocator whose calls are recorded, and the list of them."""
    kind, calls = TOYS.allocators[name], []

    def make(settings, kinds):
        return Recorded(kind.make(settings, kinds), calls)

    return replace(TOYS, allocators={**TOYS.allocators, name: replace(kind, make=make)}), calls


CELLS = BuddyCellsSettings(spec(prod={"rack": 2}), default_cluster="prod")
GUESTS = ("fifo", "themis", "tiresias", "toy-in-turn", "toy-table")
SETTINGS = {
    "cells": CELLS,
    **{f"cells/{guest}": replace(CELLS, inside={"prod": guest}) for guest in GUESTS},
}
"""Of allocators that need some. `cells/fifo`: `cells` with `fifo` inside."""


def nodes_of(name):
    """The nodes of an allocator's pool, by host: those that its settings name, if they do."""
    hosts, gpus = (HOSTS, 4) if name in SETTINGS else (("n1", "n2"), 2)
    return {host: node(host, gpus) for host in hosts}


def weeks(world, name):
    """What happens to every allocator."""
    a, b, c = (world.arrive(name, {GPU: gpus}) for name, gpus in (("a", 2), ("b", 1), ("c", 2)))
    world.wait(5.0)
    big = world.arrive("big", {GPU: 2}, weight=3.0)
    world.wait(60.0)
    world.run(a, n1=(1, 1))
    lost = nodes_of(name)["n2"]
    world.take(NodesChanged((), (lost.id,), (lost,)), 0.01)
    world.wait(60.0)
    world.take(NodesChanged((lost,), ()), 0.01)
    world.leave(b)
    world.wait(60.0)
    world.take(Configured(world.stage.intake.state.pools), 0.01)
    world.arrive("d", {GPU: 4}, {GPU: 1}, {"vcores": 2})
    world.wait(100.0)
    world.leave(big)
    world.leave(a)
    world.wait(100.0)
    world.leave(c)
    world.wait(100.0)


def started(name, journal=None, **settings):
    allocator = name.partition("/")[0]
    registry, calls = recorded(allocator)
    nodes, given = nodes_of(name).values(), SETTINGS.get(name)
    world = LedgerWorld.of(allocator, *nodes, settings=given, registry=registry, journal=journal, **settings)
    return world, calls


@pytest.fixture(params=sorted({*TOYS.allocators, *SETTINGS}))
def name(request):
    return request.param


def test_1_it_is_replayed_byte_for_byte(name, tmp_path):
    journal = RecordFile(tmp_path / "journal")
    world, _ = started(name, journal)
    weeks(world, name)
    journal.close()
    check_agreement(tmp_path / "journal", world.stage.decided)


def test_1_its_state_survives_a_snapshot(name):
    world, _ = started(name)
    for app in ("a", "b"):
        world.arrive(app, {GPU: 1})
    world.wait(3.0)
    written = json.loads(CODEC.dump(world.state))
    assert json.loads(CODEC.dump(CODEC.read(written))) == written


@pytest.mark.parametrize("name", [key for key, one in TOYS.allocators.items() if PROVOKE in one.messages])
def test_1_what_it_did_before_it_raised_is_rolled_back(name):
    world, _ = started(name)
    a = world.arrive("a", {GPU: 1})
    before = CODEC.write(world.state)
    with pytest.raises(Exception, match="provoked"):
        world.say(a, Provoke())
    assert CODEC.write(world.state) == before
    world.arrive("b", {GPU: 1})
    assert world.failure is None


def test_2_its_plans_can_be_executed(name):
    world, calls = started(name)
    weeks(world, name)
    assert world.failure is None
    assert calls
    assert any(call.plan.place for call in calls)


def test_4_a_key_is_never_used_again(name):
    world, calls = started(name)
    weeks(world, name)
    keys = Counter(place.key for call in calls for place in call.plan.place)
    assert max(keys.values()) == 1


def test_5_it_hears_of_each_start_and_of_each_end_once(name):
    world, calls = started(name)
    weeks(world, name)
    placed = [place.key for call in calls for place in call.plan.place]
    withdrawn = {one.key for call in calls for one in (*call.plan.withdraw, *call.plan.drop)}
    starts = Counter(key for call in calls if isinstance(call.what, Started) for key in call.what.keys)
    assert set(starts) <= set(placed)
    assert set(starts.values()) <= {1}
    ends = Counter(
        one.key
        for call in calls
        if isinstance(call.what, Vacated | Broken | Unplaced)
        for one in call.what.freed
        if isinstance(one, Freed) and one.is_over
    )
    assert set(ends.values()) <= {1}
    left = set(world.state.ledger.leases)
    assert set(placed) == left | set(ends) | (withdrawn - set(starts))
    for call in calls:
        if isinstance(call.what, Started):
            assert all(call.leases[key].started_at == call.at for key in call.what.keys)


def test_7_it_comes_to_rest(name):
    world, calls = started(name)
    weeks(world, name)
    assert max(Counter(call.at for call in calls).values()) < 30


def test_8_idle_cells_have_a_reason(name):
    world, calls = started(name)
    weeks(world, name)
    state = world.state
    idle = state.ledger.idle
    cells, free = calls[-1].cells, calls[-1].free
    assert all(set(cells.paths[gpu]) & set(idle) for gpu in free)


def test_9_a_restart_grants_nothing_that_it_had_not(name):
    world, _ = started(name)
    world.arrive("a", {GPU: 2})
    world.arrive("b", {GPU: 2})
    leases = world.leases()
    decided = world.take(Configured(world.stage.intake.state.pools), 0.01)
    assert not sent(decided, Grant)
    assert world.leases() == leases


def test_every_allocator_is_tried():
    assert {"allox", "cells", "fifo", "job_rounds", "shared_gpus", "themis", "toy-in-turn", "toy-table"} <= set(
        TOYS.allocators
    )
