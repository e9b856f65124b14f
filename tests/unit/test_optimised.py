"""Comparisons for which it matters what Spark's optimiser sees of a query."""

import pytest

from qoop.equivalence.expression import equal, less, negated
from qoop.equivalence.optimised import changed_by_optimiser
from qoop.equivalence.relation import Block, Relation, Source


def column(kind, source=1):
    return ("column", source, "0 x", kind)


def literal(text, kind="double"):
    return ("literal", kind, text)


def reason(*conditions, outputs=(), table="t in files"):
    return changed_by_optimiser(Relation(Block([Source(1, "table", (table,))], {*conditions}), outputs))


@pytest.mark.parametrize(
    "condition",
    [
        equal(column("double"), literal("0")),
        equal(column("float"), literal("-0", "float")),
        less(literal("0"), column("double"), or_equal=True),
        negated(less(column("double"), literal("0"), or_equal=False)),
        ("or", frozenset({equal(column("double"), literal("1")), equal(column("double"), literal("0"))})),
        ("call", "EqualNullSafe", (), (column("double"), literal("0"))),
    ],
)
def test_readers_of_files_do_not_find_negative_zero(condition):
    assert reason(condition) == "Spark may not find -0.0 in files by a comparison with zero"


@pytest.mark.parametrize(
    "condition",
    [
        equal(column("double"), literal("1")),
        equal(column("double"), literal(None)),
        less(column("double"), literal("0"), or_equal=True),
        equal(column("long"), literal("0", "long")),
        less(column("double"), literal("0"), or_equal=False),
        less(column("double"), literal("0.5"), or_equal=True),
        less(("call", "Round", (("child", 0),), (column("double"), literal("1", "integer"))), literal("2"), True),
    ],
)
def test_other_comparisons_with_constants_change_nothing(condition):
    assert reason(condition) is None


def test_tables_that_are_no_files_have_one_zero():
    assert reason(equal(column("double"), literal("0")), table="t") is None


def test_a_filter_finer_than_equality_matters_where_values_are_taken_for_equal():
    finer = equal(("cast", "string", column("double"), "UTC"), literal("-0.0", "string"))
    assert reason(finer) is None
    joined = equal(column("double"), column("double", 2))
    assert "tells values apart" in (reason(finer, joined) or "")
    assert reason(joined) is None


def test_functions_of_functions_are_found_through_columns_of_operators():
    made = ("call", "Upper", (("child", 0),), (column("string"),))
    for read in (made, ("column", 2, ("result", made), "string"), ("cast", "string", made, "UTC")):
        assert "simplifies" in (reason(outputs=(("call", "Lower", (("child", 0),), (read,)),)) or "")
    assert reason(outputs=(made,)) is None
