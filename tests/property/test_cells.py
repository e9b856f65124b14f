"""Random histories on clusters of cells: invariants after every step, and against a placer that tries everything."""

import pytest

from tests.cells_world import World, is_placed, random_spec
from yarn_plugin.decide.mechanisms.buddy_cells.allocator import Allocator
from yarn_plugin.decide.mechanisms.buddy_cells.gangs import Stage
from yarn_plugin.decide.mechanisms.buddy_cells.invariants import validate
from yarn_plugin.decide.mechanisms.buddy_cells.reconfiguration import reconfigure
from yarn_plugin.decide.mechanisms.buddy_cells.recovery import record_of
from yarn_plugin.decide.mechanisms.buddy_cells.snapshot import dump, load

BATCH = 25


@pytest.mark.parametrize("batch", range(12))
def test_a_legal_request_is_served_and_an_illegal_one_is_not(batch):
    """HiveD (OSDI '20), Theorem 1; 300 histories of 200 steps on trees of at most 16 leaves."""
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


@pytest.mark.parametrize("batch", range(4))
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


@pytest.mark.parametrize("batch", range(2))
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
                dumped = dump(world.cluster)
                loaded = load(world.spec, dumped)
                validate(loaded)
                assert dump(loaded) == dumped, seed
                twin, state = World(seed), world.random.getstate()
                twin.allocator, twin.number = Allocator(loaded), world.number
                twin.random.setstate(state)
                for _ in range(5):
                    one, other = world.step(), twin.step()
                    assert repr(one) == repr(other), seed
                world.cluster.commit()
