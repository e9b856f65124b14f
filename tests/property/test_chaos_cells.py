"""Virtual clusters on a cluster that breaks by a seed: worlds of `python -m tests.chaos --world cells`."""

import pytest

from tests.chaos.__main__ import play
from tests.chaos.cells import RARE, CellsWorld


def play_all(seeds):
    reached = set()
    for seed in seeds:
        world, problem = play(seed, replays=seed % 20 == 0, kind=CellsWorld)
        assert problem is None, f"seed {seed}: {problem}; see python -m tests.chaos --world cells --trace {seed}"
        reached |= world.reached
    assert reached >= set(RARE), f"never reached: {set(RARE) - reached}"


def test_whatever_breaks_no_cell_is_leased_twice_and_guaranteed_gangs_start():
    play_all(range(12))


@pytest.mark.matrix
@pytest.mark.timeout(1800)
def test_many_more_worlds():
    play_all(range(12, 312))
