"""Which expressions have the same value, to the last bit, each time that they are computed."""

import pytest

from qoop.equivalence.exact import is_exact
from qoop.equivalence.spark_tree import Node


def column(kind):
    return Node("AttributeReference", (), {"dataType": kind})


def call(kind, *children, **fields):
    return Node(kind, children, fields)


def aggregate(*results):
    return Node("Aggregate", (Node("LocalRelation", (), {}),), {"aggregateExpressions": results})


def total(function, *children):
    return call("AggregateExpression", call(function, *children))


@pytest.mark.parametrize(
    ("result", "exact"),
    [
        (column("double"), True),
        (total("Max", column("double")), True),
        (total("Count", column("double")), True),
        (total("Sum", column("long")), True),
        (total("Sum", column("decimal(7,2)")), True),
        (total("Sum", column("double")), False),
        (total("Sum", column("float")), False),
        (total("Sum", call("Cast", column("double"), dataType="decimal(7,2)")), False),
        (total("Sum", call("Cast", column("integer"), dataType="double")), False),
        (total("Sum", call("Multiply", column("integer"), column("integer"))), True),
        (total("Sum", call("Multiply", column("integer"), column("double"))), False),
        (total("Sum", call("Sqrt", column("integer"))), False),
        (total("Average", column("short")), True),
        (total("Average", column("integer")), False),
        (total("Average", column("long")), False),
        (total("Average", column("decimal(11,2)")), False),
        (total("Average", column("decimal(12,2)")), True),
        (total("StddevSamp", column("integer")), False),
        (call("Alias", total("Corr", column("double"))), False),
        (total("OneThatNobodyKnows", column("integer")), False),
        (call("OneThatNobodyKnows", column("integer")), True),
        (column("string collate UTF8_LCASE"), False),
        (column({"type": "array", "elementType": "string collate UTF8_LCASE"}), False),
        (column({"type": "struct", "fields": ({"type": "string", "metadata": {"__COLLATIONS": {"s": "x"}}},)}), False),
        (column({"type": "struct", "fields": ({"type": "string", "metadata": {}},)}), True),
        (call("Collate", column("string")), False),
        (column("string"), True),
    ],
)
def test_exact(result, exact):
    assert is_exact(aggregate(result)) == exact


def test_the_plan_of_a_subquery_counts():
    inner = aggregate(total("Sum", column("double")))
    condition = call("GreaterThan", column("double"), call("ScalarSubquery", plan=inner))
    assert not is_exact(Node("Filter", (aggregate(column("double")),), {"condition": condition}))
