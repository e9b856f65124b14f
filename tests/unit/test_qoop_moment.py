"""The current date and time of a query: folded once, for all stages."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from qoop.parsing.moment import Moment, at_moment, reads_moment
from qoop.parsing.spark_sql import DIALECT
from qoop.parsing.statement import parse_statement

NEW_YEAR = Moment(datetime(2027, 1, 1, 0, 30, 0, 250), datetime(2026, 12, 31, 23, 30, 0, 250, UTC))
"""Half an hour after midnight in Paris."""


def folded(text):
    query = parse_statement(f"SELECT {text} AS x").query
    assert reads_moment(query)
    return at_moment(query, NEW_YEAR).sql(DIALECT).removeprefix("SELECT ").removesuffix(" AS x")


@pytest.mark.parametrize("text", ["current_date", "current_date()", "curdate()"])
def test_dates(text):
    assert folded(text) == "DATE '2027-01-01'"


@pytest.mark.parametrize("text", ["current_timestamp", "current_timestamp()", "now()", "NOW()"])
def test_times_are_independent_of_the_time_zone(text):
    assert folded(text) == "TIMESTAMP_MICROS(1798759800000250)"


def test_a_time_in_another_zone_is_the_same_time():
    paris = NEW_YEAR.time.astimezone(timezone(timedelta(hours=1)))
    assert Moment(NEW_YEAR.local, paris).micros == NEW_YEAR.micros


@pytest.mark.parametrize(
    ("text", "literal"),
    [
        ("localtimestamp()", "TIMESTAMP_NTZ '2027-01-01 00:30:00.00025'"),
        ("LOCALTIMESTAMP()", "TIMESTAMP_NTZ '2027-01-01 00:30:00.00025'"),
        ("current_time()", "TIME '00:30:00.00025'"),
        ("current_time(6)", "TIME '00:30:00.00025'"),
    ],
)
def test_local_times_are_those_of_the_sessions_time_zone(text, literal):
    assert folded(text) == literal


def test_a_whole_second_has_no_fraction():
    whole = Moment(datetime(2027, 1, 1, 0, 30, 10), NEW_YEAR.time)
    assert (whole.time_text, whole.local_text) == ("00:30:10", "2027-01-01 00:30:10")


@pytest.mark.parametrize(
    "text", ["a.current_date", "date_add(a.d, 1)", "unix_micros(a.t)", "now(1)", "current_time(3)", "a.localtimestamp"]
)
def test_other_expressions_stay(text):
    assert not reads_moment(parse_statement(f"SELECT {text} FROM a").query)


def test_the_query_itself_is_not_changed():
    query = parse_statement("SELECT now() AS x").query
    at_moment(query, NEW_YEAR)
    assert reads_moment(query)
