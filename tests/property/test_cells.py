"""Random histories on clusters of cells: invariants after every step, and against a placer that tries everything."""

import pytest

from tests.cells_world import World, is_placed
from yarn_plugin.decide.mechanisms.buddy_cells.invariants import validate

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
