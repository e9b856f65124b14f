"""The gate before planning: which queries run as written because Spark would end them at once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qoop.as_written.causes import StopsEarly
from qoop.as_written.wording import text
from qoop.estimate.gate import Gate, Inputs

MB = 1e6
GATE = Gate()


def test_a_small_query_is_not_worth_planning():
    cause = GATE.cause(Inputs((5 * MB, 1 * MB, 1 * MB)), slots=2)
    assert text(cause) == "Spark is expected to need 0.2 s for it, and planning pays off above 0.5 s"


@pytest.mark.parametrize(
    "sizes",
    [(5000 * MB, 1 * MB), (60 * MB, 60 * MB, 1 * MB), (5 * MB, None)],
    ids=["a large table", "two tables that are shuffled", "a table of unknown size"],
)
def test_these_queries_are_planned(sizes):
    assert GATE.cause(Inputs(sizes), slots=2) is None


def test_tables_above_the_broadcast_limit_cost_more_than_their_scan():
    assert GATE.seconds([50 * MB, 20 * MB], 2) > GATE.seconds([60 * MB, 10 * MB], 2)


def test_more_slots_let_larger_queries_run_as_written():
    inputs = Inputs((200 * MB, 1 * MB))
    assert GATE.cause(inputs, slots=2) is None
    assert GATE.cause(inputs, slots=20) is not None


def test_a_query_that_stops_early_is_not_planned_whatever_its_largest_table():
    for sizes in ((1e15,), (None,), (None, 5 * MB), (1e15, 5 * MB, 1 * MB)):
        assert GATE.cause(Inputs(sizes, stops_early=True), slots=1) == StopsEarly()


def test_a_limit_over_the_join_of_large_tables_does_not_stop_early():
    """They are shuffled as a whole before the first row is joined."""
    for sizes in ((1e12, 1e11), (1e12, 1 * MB, None)):
        assert GATE.cause(Inputs(sizes, stops_early=True), slots=1) is None


def test_planning_of_a_long_text_and_of_tables_that_spark_does_not_read_takes_time():
    sizes = (200 * MB, 1 * MB)
    assert GATE.cause(Inputs(sizes), slots=2, characters=5_000) is None
    assert "pays off above 2.8 s" in text(GATE.cause(Inputs(sizes), slots=2, characters=25_000))
    assert "pays off above 36.7 s" in text(GATE.cause(Inputs(sizes, named=365), slots=2))


@given(
    st.lists(st.floats(0, 1e13), max_size=40),
    st.floats(0.1, 1e4),
    st.integers(0, 500),
    st.integers(0, 500_000),
)
def test_sizes_up_to_which_a_table_is_listed_decide(sizes, slots, named, characters):
    """Whatever else a query reads, it is planned once one table has `bytes_to_know`."""
    known = (*sizes, GATE.bytes_to_know(max(slots, 1.0), named, characters))
    assert GATE.cause(Inputs(known, named=named), slots, characters=characters) is None
