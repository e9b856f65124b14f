"""What the runs of a process tell of queries, and what the gate makes of it."""

import pytest

from qoop.as_written.causes import StopsEarly
from qoop.estimate.gate import Gate, Inputs
from qoop.run import runs_here
from qoop.run.runs_here import RunsHere

SMALL = Inputs((5e6, 1e6, 1e6))
"""A query that the gate takes for one of 0.2 s; planning it pays off above 0.5 s."""


@pytest.mark.parametrize(("took", "planned"), [(None, False), (0.1, False), (0.49, False), (0.51, True), (30.0, True)])
def test_a_query_that_took_long_is_planned_however_little_it_reads(took, planned):
    assert (Gate().cause(SMALL, 2.0, took) is None) == planned


def test_a_query_that_took_long_is_planned_even_with_a_limit():
    early = Inputs((1e9,), stops_early=True)
    assert Gate().cause(early, 2.0, 0.2) == StopsEarly()
    assert Gate().cause(early, 2.0, 5.0) is None


def test_a_short_run_does_not_stop_a_query_that_reads_much():
    assert Gate().cause(Inputs((5e9, 1e6)), 2.0, 0.1) is None


def test_the_latest_run_as_written_counts_at_other_shares_in_proportion():
    times = RunsHere()
    assert times.seconds(1, 2.0) is None
    times.add_seconds(1, 8.0, 2.0)
    times.add_seconds(1, 6.0, 2.0)
    times.add_seconds(2, 9.0, 2.0)
    assert [times.seconds(1, slots) for slots in (1.0, 2.0, 4.0)] == [12.0, 6.0, 3.0]


def test_a_query_that_was_planned_in_vain_is_not_planned_for_its_time_for_some_runs():
    times = RunsHere()
    times.add_seconds(1, 6.0, 2.0, unused=3)
    for _ in range(3):
        assert times.seconds(1, 2.0) is None
        times.add_seconds(1, 5.0, 2.0)
    assert times.seconds(1, 2.0) == 5.0


def test_queries_that_ran_longest_ago_are_forgotten(monkeypatch):
    monkeypatch.setattr(runs_here, "MAX_QUERIES", 2)
    times = RunsHere()
    for query in (1, 2, 1, 3):
        times.add_seconds(query, 6.0, 2.0)
    assert [times.seconds(query, 2.0) for query in (1, 2, 3)] == [6.0, None, 6.0]


def test_the_first_run_of_a_query_is_told_from_later_ones():
    runs = RunsHere()
    runs.add(1, True)
    runs.add_seconds(2, 6.0, 2.0)
    assert [runs.has_run(1, planned) for planned in (True, False)] == [True, False]
    runs.add(1, False)
    runs.add(1)
    assert runs.has_run(1, True) and runs.has_run(1, False)
    assert not runs.has_run(2, False)


def test_a_run_over_other_tables_of_the_same_names_says_nothing():
    times = RunsHere()
    times.add_seconds(1, 6.0, 2.0, read=1e6)
    assert [times.seconds(1, 2.0, read) for read in (0.6e6, 1.9e6, None, 2.1e6, 0.4e6)] == [6.0, 6.0, 6.0, None, None]
    times.add_seconds(1, 60.0, 2.0, unused=3, read=1e7)
    times.add_seconds(1, 5.0, 2.0, read=1e6)
    assert times.seconds(1, 2.0, 1e6) == 5.0, "those planned in vain had other tables"
