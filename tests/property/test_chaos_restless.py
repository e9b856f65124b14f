"""A ledger whose allocator does all that it may: worlds of `python -m tests.chaos --world restless`."""

import pytest

from tests.chaos.__main__ import play
from tests.chaos.restless import RARE, RestlessWorld


def play_all(seeds):
    reached = set()
    for seed in seeds:
        world, problem = play(seed, kind=RestlessWorld)
        assert problem is None, f"seed {seed}: {problem}; see python -m tests.chaos --world restless --trace {seed}"
        reached |= world.reached
    return reached


def test_a_ledger_does_all_in_time_and_nothing_twice():
    play_all(range(6))


@pytest.mark.matrix
@pytest.mark.timeout(1800)
def test_many_more_ledgers():
    reached = play_all(range(6, 206))
    assert reached >= set(RARE), f"never reached: {set(RARE) - reached}"
