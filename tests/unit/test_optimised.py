"""Comparisons for which it matters what Spark's optimiser sees of a query."""

import pytest

from qoop.equivalence.expression import equal, less, negated
from qoop.equivalence.meanings import meanings
from qoop.equivalence.optimised import changed_by_optimiser
from qoop.equivalence.relation import Block, Relation, Source


def column(kind, source=1):
    return ("column", source, "0 x", kind)


def literal(text, kind="double"):
    return ("literal", kind, text)


TEXT = ("cast", "string", column("double"), "UTC")


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


def test_of_json_only_the_fields_that_are_asked_for_are_read():
    parsed = ("call", "JsonToStructs", (), (column("string"),))
    field = ("call", "GetStructField", (("ordinal", 0),), (parsed,))
    assert "simplifies" in (reason(equal(field, literal("1", "integer"))) or "")
    assert "simplifies" not in (reason(outputs=(parsed,)) or "")


def test_tables_that_are_no_files_have_one_zero():
    assert reason(equal(column("double"), literal("0")), table="t") is None


def test_a_filter_finer_than_equality_matters_where_values_are_taken_for_equal():
    finer = equal(("cast", "string", column("double"), "UTC"), literal("-0.0", "string"))
    assert reason(finer) is None
    joined = equal(column("double"), column("double", 2))
    assert "tells values apart" in (reason(finer, joined) or "")
    assert reason(joined) is None


@pytest.mark.parametrize(
    ("kind", "key", "is_finer"),
    [
        ("aggregate", ("group", TEXT), True),
        ("aggregate", ("result", ("call", "Concat", (), (TEXT,))), True),
        ("aggregate", ("result", ("call", "AggregateExpression", (), (("call", "Max", (), (TEXT,)),))), False),
        ("Window", ("window", ("call", "WindowExpression", (), (TEXT,))), False),
        ("LeftOuter", ("joined", TEXT), True),
        ("union", ("place", 0), True),
    ],
)
def test_a_filter_is_finer_than_equality_below_other_operators(kind, key, is_finer):
    """Not below those that make one value of many rows."""
    made, branch = ("column", 3, key, "string"), Relation(Block(), (TEXT,))
    sources = [Source(1, "table", ("t",)), Source(2, "table", ("u",)), Source(3, kind, (), (branch,))]
    joined = equal(column("double"), column("double", 2))
    found = changed_by_optimiser(Relation(Block(sources, {equal(made, literal("0.0", "string")), joined}), ()))
    assert (found is not None) == is_finer


def test_what_returns_floating_point_numbers_of_other_values():
    months = ("call", "UnaryMinus", (), (("call", "MonthsBetween", (), (column("date"), column("date"))),))
    distinct = Source(2, "Distinct", (frozenset({months}),), (Relation(Block(), (months,)),))
    finer = equal(("cast", "string", ("column", 2, ("passed", months), "double"), None), literal("-0.0", "string"))
    sources = [Source(1, "table", ("t",)), distinct]
    assert "tells values apart" in (changed_by_optimiser(Relation(Block(sources, {finer}), ())) or "")


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
        (add(add(add(column("integer"), number(-10)), number(2**31 - 1)), number(5)), True),
        (add(add(column("integer"), number(1)), number(1)), False),
        (add(add(column("integer"), column("integer")), number(2**31 - 1)), False),
        (add(("call", "TryAdd", (), (add(column("integer"), number(1)),)), column("integer")), True),
        (("call", "TryAdd", (), (add(add(column("integer"), column("integer")), number(1)),)), True),
        (add(add(add(column("integer"), number(2**31 - 1)), column("integer")), number(1)), True),
        (add(add(column("decimal(3,1)"), literal("1.5", "decimal(2,1)")), literal("2.5", "decimal(2,1)")), False),
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
    unknown, real = ("call", "PythonUDF", (), ()), ("call", "PythonUDF", (("dataType", "double"),), ())
    mapped = column("{'type': 'map', 'keyType': 'string', 'valueType': 'long'}")
    made = ("call", "StringToMap", (), (column("string"),))
    for key in (column("double"), column(nested), column("string collate UTF8_LCASE"), mapped, made, unknown, real):
        assert "tells values apart" in (grouped(kind, key, outputs=(finer,)) or "")
    assert grouped(kind, column("double"), outputs=(("call", "Abs", (), (column("double", 2),)),)) is None
    for key in (
        column("long"),
        ("cast", "integer", column("double"), None),
        ("call", "PythonUDF", (("dataType", "integer"),), (column("long"),)),
        less(column("double"), literal("1"), True),
    ):
        assert grouped(kind, key, outputs=(finer,)) is None


def test_a_filter_of_a_table_by_except():
    assert "EXCEPT" in (grouped("except", column("long")) or "")
    assert grouped("intersect", column("long")) is None


def formatted(kind, operand):
    return ("call", kind, (), (operand, literal("yyyy", "string")))


def test_a_date_that_is_written_read_and_written_again_is_not_read():
    written = formatted("DateFormatClass", column("timestamp"))
    read = formatted("GetTimestamp", written)
    assert reason(outputs=(formatted("GetTimestamp", column("string")), read)) is None
    assert "simplifies" in (reason(outputs=(formatted("DateFormatClass", read),)) or "")


def test_casts_of_dates_to_timestamps_change_no_clock():
    date = ("call", "DateSub", (), (("literal", "date", "2020-01-01"), literal("7", "integer")))
    since = less(("cast", "timestamp", date, "Europe/Berlin"), column("timestamp"), or_equal=True)
    assert reason(since) is None
    local = ("call", "TimestampAddInterval", (), (column("timestamp_ntz"),))
    assert "clock" in (reason(less(("cast", "timestamp", local, "Europe/Berlin"), column("timestamp"), False)) or "")


@pytest.mark.parametrize(
    "condition",
    [
        negated(equal(column("double"), literal("0"))),
        less(literal("2"), ("call", "If", (), (equal(column("double"), literal("0")), column("double"))), False),
    ],
)
def test_comparisons_that_readers_of_files_do_not_see(condition):
    assert reason(condition) is None


def test_zero_is_looked_for_in_what_is_joined_with_what_is_zero():
    def joined(*conditions):
        sources = [Source(1, "table", ("m",)), Source(2, "table", ("t in files",))]
        return changed_by_optimiser(Relation(Block(sources, {*conditions}), ()))

    alike, zero = equal(column("double"), column("double", 2)), equal(column("double"), literal("0"))
    assert "zero" in (joined(alike, zero) or "")
    assert joined(zero) is joined(alike) is None


def test_padding_tells_texts_apart_that_differ_in_spaces():
    trimmed = column("string collate UTF8_BINARY_RTRIM", 2)
    for pad, finer in (("x", True), (" ", False)):
        padded = ("call", "StringRPad", (), (trimmed, literal("3", "integer"), literal(pad, "string")))
        found = grouped("aggregate", column("string collate UTF8_BINARY_RTRIM"), outputs=(padded,))
        assert ("tells values apart" in (found or "")) == finer


def test_the_type_of_a_key_is_that_of_what_it_is_made_of():
    finer = ("cast", "string", column("double", 2), "UTC")
    made = ("column", 1, ("result", ("call", "Min", (), (column("double"),))), None)
    assert "tells values apart" in (grouped("Distinct", made, outputs=(finer,)) or "")
    counted = ("column", 1, ("result", ("call", "Length", (), (column("string"),))), None)
    assert grouped("Distinct", counted, outputs=(finer,)) is None


def test_what_stands_for_many_things_is_followed_once():
    expr = column("string")
    for _ in range(60):
        expr = ("call", "If", (), (expr, expr, expr))
    assert len([*meanings([expr], {})]) == 61


@pytest.mark.parametrize(
    "wrapped",
    [
        lambda zero: ("column", 2, ("passed", zero), "boolean"),
        lambda zero: negated(("column", 2, ("result", negated(zero)), "boolean")),
        lambda zero: equal(zero, literal("true", "boolean")),
        lambda zero: equal(negated(zero), literal("false", "boolean")),
        lambda zero: ("call", "EqualNullSafe", (), (zero, literal("true", "boolean"))),
        lambda zero: ("call", "If", (), (zero, literal("true", "boolean"), literal("false", "boolean"))),
        lambda zero: ("coalesce", (zero, literal("false", "boolean"))),
    ],
)
def test_a_comparison_with_zero_that_spark_takes_out_of_another_condition(wrapped):
    assert "zero" in (reason(wrapped(equal(column("double"), literal("0")))) or "")


def test_a_filter_is_finer_than_equality_by_way_of_a_column():
    finer = equal(("cast", "string", column("double"), "UTC"), literal("-0.0", "string"))
    joined = equal(column("double"), column("double", 2))
    assert "tells values apart" in (reason(("column", 3, ("passed", finer), "boolean"), joined) or "")


def test_any_branch_may_be_written_and_read():
    read = formatted("GetTimestamp", formatted("DateFormatClass", column("timestamp")))
    other = formatted("GetTimestamp", column("string"))
    for branches in ((read, other), (other, read)):
        inputs = tuple(Relation(Block([Source(1, "table", ("t",))], set()), (branch,)) for branch in branches)
        union = Source(2, "union", (None,), inputs)
        written = formatted("DateFormatClass", ("column", 2, ("place", 0), "timestamp"))
        assert "simplifies" in (changed_by_optimiser(Relation(Block([union], set()), (written,))) or "")


def test_a_zero_may_be_that_of_a_column_which_another_condition_sets():
    bound = equal(column("integer", 2), literal("0", "integer"))
    wide = ("cast", "double", column("integer", 2), None)
    compared = less(wide, column("double"), or_equal=True)
    assert "-0.0" in (reason(bound, compared) or "")
    others = equal(column("integer", 3), literal("0", "integer")), equal(column("integer", 2), column("integer", 3))
    assert "-0.0" in (reason(*others, compared) or "")
    assert reason(compared) is None
    assert reason(equal(column("integer", 2), literal("1", "integer")), compared) is None


def test_functions_that_spark_puts_together():
    arrays = ("call", "Concat", (), (column("{'type': 'array'}"), column("{'type': 'array'}", 2)))
    text = ("column", 3, ("result", ("cast", "string", arrays, "UTC")), "string")
    assert "simplifies" in (reason(outputs=(("call", "Concat", (), (text, literal("!", "string"))),)) or "")
    texts = ("call", "Concat", (), (column("string"), column("string", 2)))
    assert reason(outputs=(("call", "Concat", (), (texts, literal("!", "string"))),)) is None
    inner = ("call", "PythonUDF", (("dataType", "string"),), (column("integer"),))
    assert "simplifies" in (reason(outputs=(("call", "PythonUDF", (("dataType", "string"),), (inner,)),)) or "")
    pairs = ("call", "CreateMap", (), (column("long"), literal("a", "string")))
    assert "simplifies" in (reason(outputs=(("call", "Size", (("legacySizeOfNull", False),), (pairs,)),)) or "")
