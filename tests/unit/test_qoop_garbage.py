"""When Python's garbage is collected while queries run."""

import gc
import weakref

import pytest

from qoop.engine.garbage import MAX_SHARE, Garbage


class Cycle:
    def __init__(self):
        self.itself = self


def cycle():
    """A reference to an object that only the collector frees."""
    return weakref.ref(Cycle())


@pytest.fixture(autouse=True)
def no_other_collections():
    """As the thresholds decide when Python itself collects."""
    thresholds = gc.get_threshold()
    gc.set_threshold(0)
    yield
    gc.set_threshold(*thresholds)


def test_cycles_are_freed():
    found = cycle()
    assert found() is not None
    assert Garbage().collect()
    assert found() is None


def test_collections_take_a_small_part_of_the_time():
    times = iter([0.0, 0.3, 0.4, 10.0, 0.3 + 0.3 / MAX_SHARE + 0.1, 16.0])
    garbage = Garbage(lambda: next(times))
    assert [garbage.collect() for _ in range(4)] == [True, False, False, True]


def test_a_user_who_has_switched_the_collector_off_wants_none():
    found = cycle()
    gc.disable()
    try:
        assert not Garbage().collect()
        assert found() is not None
    finally:
        gc.enable()
