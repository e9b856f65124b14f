"""The times of queries as written: what the gate learns from them."""

import pytest

from qoop.estimate.gate import Gate, Inputs
from qoop.run import latest_times
from qoop.run.latest_times import LatestTimes

SMALL = Inputs((5e6, 1e6, 1e6))
"""A query that the gate takes for one of 0.2 s; planning it pays off above 0.5 s."""


@pytest.mark.parametrize(("took", "planned"), [(None, False), (0.1, False), (0.49, False), (0.51, True), (30.0, True)])
def test_a_query_that_took_long_is_planned_however_little_it_reads(took, planned):
    assert (Gate().reason(SMALL, 2.0, took) is None) == planned


def test_a_query_that_took_long_is_planned_even_with_a_limit():
    early = Inputs((1e9,), stops_early=True)
    assert "limit" in str(Gate().reason(early, 2.0, 0.2))
    assert Gate().reason(early, 2.0, 5.0) is None


def test_a_short_run_does_not_stop_a_query_that_reads_much():
    assert Gate().reason(Inputs((5e9, 1e6)), 2.0, 0.1) is None


def test_the_latest_run_as_written_counts_at_other_shares_in_proportion():
    times = LatestTimes()
    assert times.seconds(1, 2.0) is None
    times.add(1, 8.0, 2.0)
    times.add(1, 6.0, 2.0)
    times.add(2, 9.0, 2.0)
    assert [times.seconds(1, slots) for slots in (1.0, 2.0, 4.0)] == [12.0, 6.0, 3.0]


def test_a_query_that_was_planned_in_vain_is_not_planned_for_its_time_for_some_runs():
    times = LatestTimes()
    times.add(1, 6.0, 2.0, unused=3)
    for _ in range(3):
        assert times.seconds(1, 2.0) is None
        times.add(1, 5.0, 2.0)
    assert times.seconds(1, 2.0) == 5.0


def test_queries_that_ran_longest_ago_are_forgotten(monkeypatch):
    monkeypatch.setattr(latest_times, "MAX_QUERIES", 2)
    times = LatestTimes()
    for query in (1, 2, 1, 3):
        times.add(query, 6.0, 2.0)
    assert [times.seconds(query, 2.0) for query in (1, 2, 3)] == [6.0, None, 6.0]
