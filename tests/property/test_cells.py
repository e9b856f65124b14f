"""Random histories on clusters of cells: invariants after every step, and against a placer that tries everything."""

import json
from dataclasses import replace

from tests.cells_world import World, is_placed, random_request, random_spec
from tests.sampled import one_in
from yarn_plugin.decide.mechanisms.buddy_cells import mapping
from yarn_plugin.decide.mechanisms.buddy_cells.allocator import Allocator, Call
from yarn_plugin.decide.mechanisms.buddy_cells.answers import Bind, Preempt
from yarn_plugin.decide.mechanisms.buddy_cells.cluster import Cluster
from yarn_plugin.decide.mechanisms.buddy_cells.gangs import Stage
from yarn_plugin.decide.mechanisms.buddy_cells.invariants import validate
from yarn_plugin.decide.mechanisms.buddy_cells.reconfiguration import reconfigure
from yarn_plugin.decide.mechanisms.buddy_cells.recovery import record_of
from yarn_plugin.decide.mechanisms.buddy_cells.snapshot import dump
from yarn_plugin.decide.mechanisms.buddy_cells.state import CellsState
from yarn_plugin.model.journaled import Mutable

BATCH = 25


@one_in(2, "batch", range(12))
def test_a_legal_request_is_served_and_an_illegal_one_is_not(batch):
    """HiveD (OSDI '20), Theorem 1; 150 histories of 200 steps on trees of at most 16 leaves, 300 with the matrix."""
    placed = waited = 0
    for seed in range(batch * BATCH, (batch + 1) * BATCH):
        world = World(seed, leaves=16)
        for _ in range(200):
            asked = world.step()
            validate(world.cluster)
            if asked is not None and asked.fits is not None:
                assert is_placed(asked.answer) == asked.fits, (seed, asked)
                placed += asked.fits
                waited += not asked.fits
            world.cluster.commit()
    assert placed > 100 and waited > 100


def restart(world, spec):
    gangs = [gang for gang in world.cluster.gangs.values() if gang.stage is not Stage.PREEMPTING]
    bad = [node.address for nodes in world.cluster.bad.values() for node in nodes]
    made = reconfigure(spec, [record_of(gang) for gang in gangs], bad)
    for gang in gangs:
        again = made.allocator.cluster.gangs.get(gang.name)
        if again is not None:
            for slot, pod in enumerate(gang.slots):
                made.allocator.fill(again, slot, pod)
    made.allocator.cluster.commit()
    world.allocator = made.allocator
    return made


@one_in(2, "batch", range(4))
def test_bad_nodes_restarts_and_reconfigurations_keep_the_invariants(batch):
    for seed in range(1000 + batch * BATCH, 1000 + (batch + 1) * BATCH):
        world = World(seed)
        draw = world.random
        for _ in range(200):
            fault = draw.random()
            if fault < 0.05:
                world.cluster.set_bad(draw.choice(list(world.cluster.forest.nodes)), draw.random() < 0.6)
            elif fault < 0.07:
                made = restart(world, world.spec)
                assert (made.downgraded, made.unleased) == ((), ()), seed
            elif fault < 0.08:
                world.spec = random_spec(draw)
                restart(world, world.spec)
            else:
                asked = world.step()
                if asked is not None and asked.fits is False:
                    assert not is_placed(asked.answer)
            validate(world.cluster)
            world.cluster.commit()


@one_in(2, "batch", range(2))
def test_a_rollback_and_a_loaded_dump_are_the_same_state(batch):
    for seed in range(2000 + batch * BATCH, 2000 + (batch + 1) * BATCH):
        world = World(seed)
        for _ in range(20):
            before, savepoint = dump(world.cluster), world.cluster.savepoint()
            for _ in range(world.random.randint(1, 8)):
                world.step()
                if world.random.random() < 0.2:
                    world.cluster.set_bad(
                        world.random.choice(list(world.cluster.forest.nodes)), world.random.random() < 0.5
                    )
            if world.random.random() < 0.5:
                world.cluster.rollback(savepoint)
                assert dump(world.cluster) == before, seed
            else:
                dumped = json.loads(json.dumps(CellsState(world.cluster).dump()))
                loaded = CellsState.load(dumped)
                validate(loaded.cluster)
                assert json.loads(json.dumps(loaded.dump())) == dumped, seed
                twin, state = World(seed), world.random.getstate()
                twin.allocator, twin.number = loaded.allocator, world.number
                twin.random.setstate(state)
                for _ in range(5):
                    one, other = world.step(), twin.step()
                    assert repr(one) == repr(other), seed
                world.cluster.commit()


def test_the_state_can_be_journaled():
    assert isinstance(CellsState(World(1).cluster), Mutable)


def test_children_of_large_cells_are_chosen_as_those_of_small_ones(monkeypatch):
    """The index of unbound children, which only cells with many children have otherwise."""
    for seed in range(3000, 3020):
        world, indexed = World(seed), World(seed)
        for _ in range(100):
            monkeypatch.setattr(mapping, "MANY", 32)
            plain = world.step()
            monkeypatch.setattr(mapping, "MANY", 1)
            savepoint = indexed.cluster.savepoint()
            state, number = indexed.random.getstate(), indexed.number
            indexed.step()
            indexed.cluster.rollback(savepoint)
            indexed.random.setstate(state)
            indexed.number = number
            assert repr(indexed.step()) == repr(plain), seed
            validate(indexed.cluster)
            world.cluster.commit()
            indexed.cluster.commit()


class Alone:
    """A virtual cluster in the shared cluster, and the same one without any others."""

    def __init__(self, seed):
        self.shared = World(seed, lazy=False)
        self.random = self.shared.random
        self.name = self.random.choice(list(self.shared.cluster.virtual))
        spec = self.shared.spec
        own = {self.name: spec.clusters[self.name]}
        pins = spec.clusters[self.name].pinned
        cells = tuple(replace(cell, pinned=cell.pinned if cell.pinned in pins else "") for cell in spec.cells)
        self.private = Allocator(Cluster(replace(spec, clusters=own, cells=cells)))

    def ask(self, allocator, request):
        """Ask until the answer is to bind or to wait, ending the victims; own victims, and the virtual leaves."""
        evicted = set()
        for _ in range(3):
            answer = allocator.decide(Call("pod", request.sizes[0], request))
            if isinstance(answer, Preempt):
                for name in answer.victims:
                    gang = allocator.cluster.gangs[name]
                    if gang.placement.virtual is not None:
                        evicted.add(name)
                    allocator.release(gang)
                continue
            if isinstance(answer, Bind):
                allocator.start(Call("pod", request.sizes[0], request), answer)
                virtual = [[leaf.number for leaf in pod] for pod in answer.placement.virtual or ()]
                return "placed", sorted(evicted), virtual
            return "waits", sorted(evicted), None
        raise AssertionError("still preempting")


def test_a_virtual_cluster_decides_as_if_it_were_alone():
    """HiveD (OSDI '20), section 3.1: whatever others do, guaranteed or not, without lazy preemption of its own."""
    placed = evicting = 0
    for seed in range(4000, 4060):
        both = Alone(seed)
        for number in range(120):
            world = both.shared
            request = random_request(both.random, world.cluster, f"g{number}", lazy=False)
            is_own = request.cluster == both.name and request.guaranteed
            if not is_own:
                both.ask(world.allocator, request)
            else:
                one, other = both.ask(world.allocator, request), both.ask(both.private, request)
                assert one == other, (seed, request)
                placed += one[0] == "placed"
                evicting += bool(one[1])
            if both.random.random() < 0.35 and world.cluster.gangs:
                gang = both.random.choice(sorted(world.cluster.gangs.values(), key=lambda gang: gang.name))
                world.allocator.release(gang)
                if (twin := both.private.cluster.gangs.get(gang.name)) is not None:
                    both.private.release(twin)
            validate(world.cluster)
            world.cluster.commit()
            both.private.cluster.commit()
    assert placed > 200 and evicting > 20
