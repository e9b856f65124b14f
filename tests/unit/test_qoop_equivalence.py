"""The normal form of expressions, by equivalences of SQL's three-valued logic."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qoop.equivalence.canonical import canonical_text
from qoop.equivalence.expression import (
    FALSE,
    TRUE,
    all_of,
    any_of,
    comparable,
    conjuncts,
    equal,
    integer_sum,
    is_plain_date,
    less,
    minus,
    negated,
    number_literal,
    without_implied,
)
from qoop.equivalence.spark_tree import Node, UnverifiableError
from qoop.equivalence.translate import translate

NAMES = ("a", "b", "c", "d")
ATOMS = {name: ("call", name, (), ()) for name in NAMES}


def column(name, kind="integer"):
    return ("column", 1, name, kind)


def number(value, kind="integer"):
    return ("literal", kind, value)


def value(expr, known):
    """An expression's value where atoms have these: True, False or None (NULL)."""
    match expr:
        case ("call", name, _, _):
            return known[name]
        case ("not", operand):
            inner = value(operand, known)
            return None if inner is None else not inner
        case ("and" | "or" as tag, parts):
            found = [value(part, known) for part in parts]
            decisive = tag == "or"
            if decisive in found:
                return decisive
            return None if None in found else not decisive
    return expr == TRUE


conditions = st.recursive(
    st.sampled_from(sorted(ATOMS.values())),
    lambda inner: st.one_of(
        st.lists(inner, min_size=2, max_size=3).map(all_of),
        st.lists(inner, min_size=2, max_size=3).map(any_of),
        inner.map(negated),
    ),
    max_leaves=8,
)
KNOWN = [dict(zip(NAMES, values, strict=True)) for values in product((True, False, None), repeat=len(NAMES))]


@given(conditions)
def test_conjuncts_are_true_where_the_condition_is(condition):
    parts = conjuncts(condition)
    for known in KNOWN:
        assert (value(condition, known) is True) == all(value(part, known) is True for part in parts)


@given(st.lists(conditions, min_size=1, max_size=4))
def test_what_is_left_out_is_implied(given_conditions):
    before = frozenset().union(*map(conjuncts, given_conditions))
    after = without_implied(before)
    assert after <= before
    for known in KNOWN:
        assert all(value(part, known) is True for part in before) == all(value(part, known) is True for part in after)


@given(conditions)
def test_negation_has_the_opposite_value(condition):
    opposite = {True: False, False: True, None: None}
    for known in KNOWN:
        assert value(negated(condition), known) is opposite[value(condition, known)]


def test_an_implied_disjunction_is_left_out():
    a, b, c, d = ATOMS.values()
    strong = any_of([all_of([a, c]), all_of([b, d])])
    assert without_implied([strong, any_of([a, b])]) == {strong}
    assert without_implied([strong, any_of([a, d])]) == {strong}
    assert without_implied([strong, a]) == {strong, a}


@pytest.mark.parametrize(
    ("wide", "is_stripped"),
    [
        ("long", True),
        ("decimal(12,2)", True),
        ("decimal(10,0)", True),
        ("decimal(9,0)", False),
        ("decimal(11,2)", False),
        ("short", False),
        ("double", False),
        ("string", False),
    ],
)
def test_casts_that_keep_every_integer_do_not_matter_to_comparisons(wide, is_stripped):
    assert (comparable(("cast", wide, column("x"), None)) == column("x")) == is_stripped


@pytest.mark.parametrize(
    ("wide", "literal", "is_stripped"),
    [
        ("decimal(1,0)", number("1", "integer"), True),
        ("decimal(1,0)", number("10", "integer"), False),
        ("decimal(2,0)", number("-10", "integer"), True),
        ("decimal(3,1)", number("1.5", "decimal(2,1)"), True),
        ("decimal(3,1)", number("1.55", "decimal(3,2)"), False),
        ("decimal(3,1)", number("1.50", "decimal(3,2)"), True),
        ("decimal(1,1)", number("1", "integer"), False),
        ("decimal(2,2)", number("0.05", "decimal(3,2)"), True),
        ("decimal(2,2)", number("0", "integer"), True),
        ("decimal(1,0)", ("literal", "integer", None), False),
        ("byte", number("200", "integer"), False),
        ("long", number("200", "integer"), True),
    ],
)
def test_casts_that_keep_a_literal_do_not_matter_to_comparisons(wide, literal, is_stripped):
    made = ("cast", wide, literal, None)
    assert (comparable(made) == comparable(literal)) == is_stripped
    assert is_stripped or comparable(made) == made


def test_comparisons_are_turned():
    one, two = column("x"), column("y")
    assert equal(one, two) == equal(two, one)
    assert negated(less(one, two, or_equal=False)) == less(two, one, or_equal=True)
    assert less(one, two, or_equal=True) != less(two, one, or_equal=True)


@pytest.mark.parametrize(
    ("kind", "operand", "literal"),
    [
        ("double", number("1.50", "decimal(3,2)"), number("1.5", "double")),
        ("double", number("0", "integer"), number("0", "double")),
        ("float", number("1000", "integer"), number("1E+3", "float")),
        ("long", number("2", "integer"), number("2", "long")),
        ("byte", number("127", "integer"), number("127", "byte")),
        ("byte", number("128", "integer"), None),
        ("long", number("2", "decimal(1,0)"), None),
        ("string", number("2", "integer"), None),
        ("double", number("2.0", "double"), None),
        ("double", ("literal", "integer", None), None),
        ("double", column("x"), None),
    ],
)
def test_casts_of_literals(kind, operand, literal):
    assert number_literal(kind, operand) == literal


@pytest.mark.parametrize(
    ("operand", "literal"),
    [
        (number("0", "double"), number("-0", "double")),
        (number("-0", "double"), number("0", "double")),
        (number("NaN", "double"), number("-NaN", "double")),
        (number("5", "short"), number("-5", "short")),
        (number("-128", "byte"), None),
        (number("5", "decimal(1,0)"), None),
        (column("x"), None),
    ],
)
def test_negated_literals(operand, literal):
    assert minus(operand) == literal


def test_literals_are_compared_by_value():
    assert equal(number("5"), number("5.00", "decimal(3,2)")) == TRUE
    assert equal(number("5"), number("6", "long")) == FALSE
    assert equal(number("5"), number(None)) not in (TRUE, FALSE)
    assert equal(("literal", "string", "a"), ("literal", "string", "a ")) == FALSE


def test_long_decimals_are_compared_in_full():
    one, other = "12345678901234567890123456789012345678", "12345678901234567890123456789012345699"
    assert equal(number(one, "decimal(38,0)"), number(other, "decimal(38,0)")) == FALSE


def attribute(identity):
    return Node("AttributeReference", (), {"name": "x", "dataType": "integer", "exprId": identity})


def relation_of(expr, levels=1):
    """A table with one column, and projections over it, each of an expression of the last one's column."""
    plan = Node("LogicalRelation", (), {"output": (attribute(0),)})
    for level in range(levels):
        alias = Node("Alias", (expr(attribute(level)),), {"name": "x", "exprId": level + 1})
        plan = Node("Project", (plan,), {"projectList": (alias,)})
    return translate(plan, {0: "table"})


def test_arguments_that_spark_does_not_write_cannot_be_compared():
    assert relation_of(lambda x: Node("LikeAny", (x,), {"child": 0, "patterns": ("a%",)}))
    for hidden in (None, (None, "a%")):
        with pytest.raises(UnverifiableError, match="patterns"):
            relation_of(lambda x, hidden=hidden: Node("LikeAny", (x,), {"child": 0, "patterns": hidden}))


def test_expressions_that_grow_with_every_level_are_given_up():
    def doubled(x):
        return Node("Multiply", (x, x), {"left": 0, "right": 1})

    assert canonical_text(relation_of(doubled, 5)) != canonical_text(relation_of(doubled, 6))
    with pytest.raises(UnverifiableError, match="too large"):
        relation_of(doubled, 60)


def test_a_column_in_other_case_is_the_same_operand():
    """Spark writes operands by their place among the different ones, and takes `x` and `X` for different."""

    def added(right):
        return canonical_text(relation_of(lambda x: Node("Add", (x, x), {"left": 0, "right": right})))

    def joined(right):
        return canonical_text(relation_of(lambda x: Node("Concat", (x, x), {"children": (0, right)})))

    assert added(0) == added(1)
    assert joined(0) == joined(1)


def test_nvl_is_coalesce():
    """The planner writes `nvl` so. Not every function is what Spark replaces it by: how a sum fails is not written."""

    def coalesced(x):
        return Node("Coalesce", (x, x), {"children": (0, 1)})

    def replaced(kind):
        return lambda x: Node(kind, (coalesced(x),), {"left": None, "right": None, "replacement": 0})

    assert canonical_text(relation_of(replaced("Nvl"))) == canonical_text(relation_of(coalesced))
    assert canonical_text(relation_of(replaced("TryAdd"))) != canonical_text(relation_of(coalesced))


def test_sums_of_integers_do_not_overflow():
    assert integer_sum("Add", number("2001"), number("1")) == number("2002")
    assert integer_sum("Add", number(str(2**31 - 1)), number("1")) is None
    assert integer_sum("Subtract", number("1"), number("2", "long")) is None


@pytest.mark.parametrize(
    ("text", "plain"),
    [("2000-01-31", True), ("2000-02-30", False), ("2000-1-1", False), ("20000101", False), (None, False)],
)
def test_dates(text, plain):
    assert is_plain_date(text) == plain
