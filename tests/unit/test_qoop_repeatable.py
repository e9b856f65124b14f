"""Which aggregate functions have the same result whatever the order of rows."""

import pytest

from qoop.equivalence.relation import Block, Relation, Source
from qoop.equivalence.repeatable import unrepeatable_part


def joined_to(function, kind="aggregate"):
    """A query that joins a table to an aggregate or a window."""
    column = ("column", 1, "x", "integer")
    call = ("call", "Alias", (), (("call", "AggregateExpression", (), (("call", function, (), (column,)),)),))
    table = Source(1, "table", ("t",))
    grouped = Source(2, kind, (frozenset(),), (Relation(Block([table]), (column,)),), functions=(call,))
    return Relation(Block([grouped, Source(3, "table", ("u",))]), (("column", 2, ("result", call), "integer"),))


@pytest.mark.parametrize(
    "function", ["Sum", "Average", "Count", "CountIf", "Max", "StddevSamp", "Percentile", "RegrR2"]
)
def test_without_order(function):
    assert unrepeatable_part(joined_to(function)) is None


@pytest.mark.parametrize(
    "function",
    [
        "First", "Last", "AnyValue", "CollectList", "CollectSet", "ListAgg", "Mode", "MinBy", "MaxBy", "MaxMinByK",
        "ApproximatePercentile", "HistogramNumeric", "HllSketchAgg", "KllSketchAggBigint", "ApproxTopK", "PythonUDAF",
        "ScalaUDAF", "ScalaAggregator", "HiveUDAFFunction", "V2Aggregator", "OneThatNobodyKnows",
    ],
)  # fmt: skip
def test_in_order(function):
    assert unrepeatable_part(joined_to(function)) == "an aggregate inside the query depends on the order of rows"


def test_in_a_window():
    assert unrepeatable_part(joined_to("Max", "Window")) is None
    assert "window function" in (unrepeatable_part(joined_to("MaxBy", "Window")) or "")
