"""Iteration times by spread: crude ones are replaced by measurements."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from themis_agent.bids.profile import Profile, level_of
from themis_agent.bids.spread import ANYWHERE, MACHINE, RACK, SLOT, Place, Spread
from yarn_plugin.model.gpus import Slowdown

SLOTS = Spread.of([Place("r1", "m1", "s1", 2)])
MACHINES = Spread.of([Place("r1", "m1", "s1", 1), Place("r1", "m1", "s2", 1)])
RACKS = Spread.of([Place("r1", "m1", "s1", 1), Place("r1", "m2", "s1", 1)])
ACROSS = Spread.of([Place("r1", "m1", "s1", 2), Place("r2", "m3", "s1", 2)])
ONE = Spread.of([Place("r1", "m1", "s1", 1)])


def test_levels():
    assert [level_of(one) for one in (ONE, SLOTS, MACHINES, RACKS, ACROSS)] == [SLOT, SLOT, MACHINE, RACK, ANYWHERE]


def test_crude_at_first():
    profile = Profile(10.0)
    assert (profile.iteration_s, profile.slowdown) == (10.0, Slowdown(1.0, 1.1, 1.3))


def test_measured_replaces_crude():
    profile = Profile(10.0).measured(ONE, 8.0).measured(RACKS, 6.0).measured(ACROSS, 3.2)
    assert profile.iteration_s == 8.0
    assert profile.slowdown == Slowdown(1.0, pytest.approx(1.5), pytest.approx(1.6))


def test_latest_measurement_of_a_gang_counts():
    assert Profile(10.0).measured(ONE, 8.0).measured(ONE, 6.0).iteration_s == 6.0


def test_measured_only_across_machines():
    """8.8 GPU seconds with the crude slowdown of 1.1 are 8 on one GPU."""
    profile = Profile(10.0).measured(RACKS, 4.4)
    assert profile.iteration_s == pytest.approx(8.0)
    assert profile.slowdown.machine == pytest.approx(1.1)


def test_crude_slowdown_is_no_more_than_what_is_measured_further_apart():
    profile = Profile(10.0).measured(ONE, 8.0).measured(ACROSS, 2.1)
    assert profile.slowdown == Slowdown(1.0, pytest.approx(1.05), pytest.approx(1.05))


@given(st.lists(st.tuples(st.sampled_from([ONE, SLOTS, MACHINES, RACKS, ACROSS]), st.floats(0.01, 100)), max_size=8))
def test_wider_is_never_faster(measurements):
    profile = Profile(1.0)
    for spread, seconds in measurements:
        profile = profile.measured(spread, seconds)
    slowdown = profile.slowdown
    assert profile.iteration_s > 0
    assert 1.0 <= slowdown.slot <= slowdown.machine <= slowdown.rack
