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
        equal(column("double"), ("cast", "double", literal("0", "string"), "UTC")),
        less(("call", "Subtract", (), (literal("1"), literal("1"))), column("double"), or_equal=True),
        equal(("cast", "double", column("float"), None), literal("0")),
        equal(
            ("call", "GetStructField", (), (column("{'type': 'struct', 'fields': ({'type': 'double'},)}"),)),
            literal("0"),
        ),
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
        less(("cast", "double", literal("0", "string"), "UTC"), column("long"), or_equal=True),
        equal(("cast", "double", literal("0", "string"), "UTC"), column("decimal(3,1)")),
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
    for read in (("call", "CreateArray", (), (made,)), ("coalesce", (column("string"), made))):
        taken = ("call", "GetArrayItem", (), (read, literal("0", "integer")))
        assert "simplifies" in (reason(outputs=(("call", "Lower", (("child", 0),), (taken,)),)) or "")
    assert "simplifies" in (reason(("call", "ILike", (), (made, literal("x%", "string")))) or "")


def add(*operands):
    return ("call", "Add", (("left", 0), ("right", 1)), operands)


def number(value):
    return literal(str(value), "integer")


@pytest.mark.parametrize(
    ("outer", "overflows"),
    [
        (add(("call", "TryAdd", (), (add(column("integer"), number(1)),)), number(1)), True),
        (("call", "TryAdd", (), (add(add(column("integer"), number(1)), number(1)),)), True),
        (add(add(column("integer"), number(2**31 - 1)), number(1)), True),
        (add(number(1), ("column", 2, ("result", add(column("integer"), number(2**31 - 1))), "integer")), True),
        (add(add(column("integer"), number(1)), number(1)), False),
        (add(add(column("integer"), column("integer")), number(2**31 - 1)), False),
        (("call", "TryAdd", (), (add(column("integer"), number(2**31 - 1)),)), False),
        (("call", "Multiply", (), (add(column("integer"), number(2**31 - 1)), number(2))), False),
    ],
)
def test_constants_are_put_together_by_spark(outer, overflows):
    assert ("overflow" in (reason(outputs=(outer,)) or "")) == overflows


@pytest.mark.parametrize(("zone", "changes"), [("Europe/Berlin", True), ("Etc/UTC", False), ("+01:00", False)])
def test_clocks_that_are_changed_matter_to_timestamps_without_a_time_zone(zone, changes):
    local = ("cast", "timestamp_ntz", column("timestamp"), zone)
    found = reason(equal(("column", 2, ("result", local), "timestamp_ntz"), literal("0", "timestamp_ntz")))
    assert ("clock" in (found or "")) == changes
    assert reason(outputs=(local,)) is None


def grouped(kind, *keys, outputs=()):
    """A grouping, or a set operation, of a table's rows by these expressions; and what is made of these."""
    table = Relation(Block([Source(1, "table", ("t",))], set()), keys)
    source = Source(2, kind, (frozenset(keys),) if kind == "aggregate" else (False,), (table,) * 2)
    return changed_by_optimiser(Relation(Block([source], set()), outputs))


@pytest.mark.parametrize("kind", ["aggregate", "Distinct", "intersect"])
def test_groups_of_equal_values_that_are_not_the_same(kind):
    nested = "{'type': 'array', 'elementType': 'double'}"
    finer = ("cast", "string", column("double", 2), "UTC")
    for key in (column("double"), column(nested), column("string collate UTF8_LCASE"), ("call", "PythonUDF", (), ())):
        assert "tells values apart" in (grouped(kind, key, outputs=(finer,)) or "")
    assert grouped(kind, column("double"), outputs=(("call", "Abs", (), (column("double", 2),)),)) is None
    for key in (
        column("long"),
        ("cast", "integer", column("double"), None),
        less(column("double"), literal("1"), True),
    ):
        assert grouped(kind, key, outputs=(finer,)) is None


def test_a_filter_of_a_table_by_except():
    assert "EXCEPT" in (grouped("except", column("long")) or "")
    assert grouped("intersect", column("long")) is None
