"""Rows of sets of relations: from distinct values before, from counts after, all related estimates with them."""

from math import exp

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qoop.estimate.cardinality import MAX_ROWS, Cardinalities, Corrections, Measurement
from qoop.estimate.prior import Prior
from qoop.estimate.statistics import ColumnStatistics, TableStatistics, with_rows
from qoop.plans.graph import JoinGraph, Relation
from qoop.plans.predicate import Column, CompareColumns, Opaque, Predicate

ORDERS, LINES, ITEMS, PARTS = 1, 2, 4, 8


def statistics(rows, **distinct):
    return TableStatistics(float(rows), rows * 40.0, {name: ColumnStatistics(float(n)) for name, n in distinct.items()})


TABLES = {
    "orders": statistics(1_000, id=1_000),
    "lines": statistics(100_000, order=1_000, item=500),
    "items": statistics(500, id=500, part=500),
    "parts": statistics(500, id=500),
}


def relation(alias, *columns, filters=()):
    return Relation(alias, alias, False, tuple(columns), tuple(filters))


def joined(*pairs):
    return tuple(frozenset(Column(*side.split(".")) for side in pair) for pair in pairs)


def graph(filters=(), predicates=()):
    return JoinGraph(
        (
            relation("orders", "id"),
            relation("lines", "order", "item", filters=filters),
            relation("items", "id", "part"),
            relation("parts", "id"),
        ),
        joined(("orders.id", "lines.order"), ("lines.item", "items.id"), ("items.part", "parts.id")),
        tuple(predicates),
        frozenset(),
    )


UNSURE = (Predicate("f(x)", frozenset({Column("lines", "item")}), Opaque()),)
"""A filter of which nothing is known."""


def rows(counted=(), of=None, pessimism=0.0):
    return Cardinalities(Prior(of or graph(UNSURE), TABLES), dict(counted), pessimism)


def test_a_foreign_key_join_has_the_rows_of_its_larger_side():
    known = Prior(graph(), TABLES)
    assert known.rows(LINES) == pytest.approx(100_000)
    assert known.rows(ORDERS | LINES) == pytest.approx(100_000)
    assert known.rows(ORDERS | LINES | ITEMS | PARTS) == pytest.approx(100_000)


def test_an_unconnected_set_is_a_cross_join():
    assert Prior(graph(), TABLES).rows(ORDERS | ITEMS) == pytest.approx(500_000)


SALES, RETURNS, WEB = 1, 2, 4


def sold_and_returned(*columns_of_web):
    """Sales, returns of them and sales on the web, joined on customer and item; each has ten million combinations."""
    tables = {
        "sales": statistics(100_000, customer=10_000, item=1_000),
        "returns": statistics(10_000, customer=10_000, item=1_000),
        "web": statistics(50_000, customer=10_000, item=1_000),
    }
    relations = tuple(relation(name, "customer", "item") for name in tables)
    classes = tuple(
        frozenset(Column(name, column) for name in tables if name != "web" or column in columns_of_web)
        for column in ("customer", "item")
    )
    return Prior(JoinGraph(relations, classes, (), frozenset()), tables)


def test_columns_that_several_tables_share_join_each_further_table_once():
    """Two columns together have no more values than a table has rows: that corrects one join of each table."""
    known = sold_and_returned("customer", "item")
    assert known.rows(SALES | RETURNS) == pytest.approx(10_000)
    assert known.rows(RETURNS | WEB) == pytest.approx(10_000)
    assert known.rows(SALES | RETURNS | WEB) == pytest.approx(10_000)


def test_a_table_that_shares_one_column_leaves_the_others_as_they_are():
    known = sold_and_returned("customer")
    assert known.rows(SALES | RETURNS) == pytest.approx(10_000)
    assert known.rows(SALES | RETURNS | WEB) == pytest.approx(10_000 * 50_000 / 10_000)


def test_the_estimate_of_a_set_does_not_depend_on_the_order_of_asking():
    one, other = Prior(graph(UNSURE), TABLES), Prior(graph(UNSURE), TABLES)
    sets = range(1, 16)
    forwards = {relations: one.rows(relations) for relations in sets}
    assert {relations: other.rows(relations) for relations in reversed(sets)} == forwards


def test_what_was_counted_is_believed():
    known = rows({LINES: 7.0, LINES | ITEMS: 70.0})
    assert (known.rows(LINES), known.rows(LINES | ITEMS)) == (7.0, 70.0)
    assert known.uncertainty(LINES) == 0.0
    assert known.uncertainty(ORDERS | LINES) > 0.0


def test_a_count_corrects_all_that_shares_what_was_wrong():
    """A filter passed ten times the estimated rows: so does every set with its relation, and no other."""
    before, after = rows(), rows({LINES: 10 * rows().rows(LINES)})
    for relations in range(1, 16):
        factor = after.rows(relations) / before.rows(relations)
        assert factor == pytest.approx(10 if relations & LINES else 1, rel=0.02)


def test_a_join_count_corrects_the_uncertain_sources():
    # lines has an uncertain filter; its joins to unfiltered keys are certain.
    before, after = rows(), rows({LINES | ITEMS: 10 * rows().rows(LINES | ITEMS)})
    assert after.rows(LINES) / before.rows(LINES) > 9
    assert after.rows(ORDERS | LINES) / before.rows(ORDERS | LINES) > 9
    assert after.rows(ITEMS | PARTS) == pytest.approx(before.rows(ITEMS | PARTS), rel=0.1)


def test_two_counts_are_distinguished():
    """The leaf was right and its join ten times too small: the join is to blame, and what holds both with it."""
    before = rows()
    after = rows({LINES: before.rows(LINES), LINES | ITEMS: 10 * before.rows(LINES | ITEMS)})
    assert after.rows(ORDERS | LINES) == pytest.approx(before.rows(ORDERS | LINES), rel=0.05)
    assert after.rows(LINES | ITEMS | PARTS) / before.rows(LINES | ITEMS | PARTS) == pytest.approx(10, rel=0.05)


def test_an_empty_result_makes_no_estimate_zero():
    known = rows({LINES: 0.0})
    assert known.rows(LINES) == 1.0
    assert all(known.rows(relations) >= 1.0 for relations in range(1, 16))


def test_pessimism_raises_uncertain_estimates_only():
    with_pessimism = rows({ITEMS: 500.0}, pessimism=1.0)
    assert with_pessimism.rows(LINES) > rows().rows(LINES) > rows(pessimism=-1.0).rows(LINES)
    assert with_pessimism.rows(ITEMS) == 500.0


def test_a_set_is_as_uncertain_as_what_is_uncertain_within_it():
    more, usual = rows(pessimism=1.0), rows()
    for relations in range(1, 16):
        inside = [one.uncertainty for one in usual.prior.sources if one.relations & ~relations == 0]
        assert usual.uncertainty(relations) == pytest.approx(sum(one**2 for one in inside) ** 0.5)
        if usual.rows(relations) > 1.0:
            assert more.rows(relations) == pytest.approx(usual.rows(relations) * exp(sum(inside)))


def test_columns_that_are_one_key_together_are_not_counted_twice():
    """lines (order, item) is a key of both: returns match one line each, not one in order x item."""
    both = JoinGraph(
        (relation("lines", "order", "item"), relation("returns", "order", "item")),
        joined(("lines.order", "returns.order"), ("lines.item", "returns.item")),
        (),
        frozenset(),
    )
    tables = {"lines": statistics(100_000, order=50_000, item=500), "returns": statistics(9_000, order=8_000, item=500)}
    assert Prior(both, tables).rows(3) == pytest.approx(9_000, rel=0.2)


def test_conditions_between_relations_make_fewer_rows():
    condition = Predicate(
        "?", frozenset({Column("orders", "id"), Column("parts", "id")}),
        CompareColumns(Column("orders", "id"), "<", Column("parts", "id")),
    )  # fmt: skip
    assert Prior(graph((), (condition,)), TABLES).rows(15) < Prior(graph(), TABLES).rows(15)


def corrections(uncertainties, measurements):
    return Corrections(uncertainties, measurements).given([0.0] * len(uncertainties))


def test_corrections_share_an_error_by_uncertainty():
    assert corrections([1.0, 1.0], [Measurement((0, 1), 2.0)]) == pytest.approx([1.0, 1.0], rel=1e-3)
    assert corrections([2.0, 1.0], [Measurement((0, 1), 5.0)]) == pytest.approx([4.0, 1.0], rel=1e-3)
    assert corrections([0.0, 1.0], [Measurement((0, 1), 2.0)]) == pytest.approx([0.0, 2.0], rel=1e-3)
    assert corrections([], []) == []
    assert corrections([1.0, 2.0], []) == [0.0, 0.0]


def test_what_was_measured_together_is_no_longer_in_doubt():
    both = Corrections([1.0, 1.0, 0.5], [Measurement((0, 1), 2.0)])
    assert both.given([1.0, 1.0, 0.5]) == pytest.approx([1.0, 1.0, 0.5], rel=1e-3)
    assert both.deviation([0, 1]) == pytest.approx(0.0, abs=0.01)
    assert both.deviation([0]) == pytest.approx(0.5**0.5, rel=1e-3), "either may have caused it"
    assert both.deviation([0, 1, 2]) == pytest.approx(0.5, rel=1e-3)
    assert Corrections([3.0, 4.0], []).deviation([0, 1]) == pytest.approx(5.0)


def test_a_set_that_contains_a_counted_one_is_in_doubt_for_the_rest_alone():
    counted = {ORDERS | LINES: 7.0}
    usual, more = rows(counted), rows(counted, pessimism=1.0)
    assert usual.uncertainty(ORDERS | LINES | ITEMS) < rows().uncertainty(ORDERS | LINES | ITEMS)
    inside = [one for one in usual.prior.sources if one.relations & ~(ORDERS | LINES) == 0]
    assert inside, "the counted set was uncertain"
    beyond = [
        one.uncertainty for one in usual.prior.sources if one.relations & ~(LINES | ITEMS) == 0 and one not in inside
    ]
    ratio = more.rows(ORDERS | LINES | ITEMS) / usual.rows(ORDERS | LINES | ITEMS)
    assert ratio == pytest.approx(exp(sum(beyond)), rel=0.05)


measured = st.lists(
    st.tuples(st.sets(st.integers(0, 3), min_size=1), st.floats(-10, 10)), max_size=5
)  # fmt: skip


@given(
    st.lists(st.floats(0.05, 3.0), min_size=4, max_size=4), st.lists(st.floats(-4, 4), min_size=4, max_size=4), measured
)
def test_consistent_measurements_are_reproduced(uncertainties, truth, found):
    measurements = [Measurement(tuple(sorted(involved)), sum(truth[i] for i in involved)) for involved, _ in found]
    learned = corrections(uncertainties, measurements)
    for one in measurements:
        assert sum(learned[i] for i in one.involved) == pytest.approx(one.error, abs=0.05)


@given(st.lists(st.floats(0.05, 3.0), min_size=4, max_size=4), measured)
def test_contradicting_measurements_do_not_break_it(uncertainties, found):
    measurements = [Measurement(tuple(sorted(involved)), error) for involved, error in found]
    assert all(abs(value) < 1e6 for value in corrections(uncertainties, measurements))


def test_absurd_counts_do_not_overflow():
    counted = dict.fromkeys((ORDERS | LINES, LINES | ITEMS, ITEMS | PARTS), 2.0**63)
    assert 0 < rows(counted).rows(ORDERS | LINES | ITEMS | PARTS) <= MAX_ROWS


def test_a_table_with_fewer_rows_has_fewer_bytes_and_values():
    counted = with_rows(TABLES["lines"], 100.0)
    assert (counted.rows, counted.bytes) == (100.0, 4_000.0)
    assert [column.distinct for column in counted.columns.values()] == [100.0, 100.0]
