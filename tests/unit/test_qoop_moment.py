"""The current date and time of a query: folded once, for all stages."""

from datetime import UTC, date, datetime, timedelta, timezone

import pytest

from qoop.parsing.moment import Moment, at_moment, reads_moment
from qoop.parsing.spark_sql import DIALECT
from qoop.parsing.statement import parse_statement

NEW_YEAR = Moment(date(2027, 1, 1), datetime(2026, 12, 31, 23, 30, 0, 250, UTC))
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
    assert Moment(NEW_YEAR.date, paris).micros == NEW_YEAR.micros


@pytest.mark.parametrize("text", ["a.current_date", "date_add(a.d, 1)", "unix_micros(a.t)", "now(1)"])
def test_other_expressions_stay(text):
    assert not reads_moment(parse_statement(f"SELECT {text} FROM a").query)


def test_the_query_itself_is_not_changed():
    query = parse_statement("SELECT now() AS x").query
    at_moment(query, NEW_YEAR)
    assert reads_moment(query)
