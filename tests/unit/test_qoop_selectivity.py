"""Which fraction of a table filters keep: counted on a sample, guessed without one; always a fraction."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qoop.estimate.selectivity import OPAQUE, filter_selectivity
from qoop.estimate.statistics import ColumnStatistics, TableStatistics, distinct_values
from qoop.plans.predicate import (
    AllOf,
    AnyOf,
    Column,
    Compare,
    CompareColumns,
    InList,
    IsNull,
    Like,
    Not,
    Opaque,
    Predicate,
)

X, Y, S, D = (Column("t", name) for name in "xysd")


def table(rows=1_000.0, sampled=True, **columns):
    sample = {name: tuple(values) for name, values in columns.items()}
    known = {name: ColumnStatistics(max(len(set(values)), 1)) for name, values in sample.items()}
    return TableStatistics(rows, rows * 10, known, sample if sampled else {})


HUNDRED = table(
    x=range(100),
    y=[None if n % 4 == 0 else n % 10 for n in range(100)],
    s=[f"name {n % 5}" for n in range(100)],
    d=[f"2000-01-{n % 28 + 1:02}" for n in range(100)],
)


def kept(form, of=HUNDRED):
    return filter_selectivity([Predicate("?", frozenset(), form)], of).fraction


@pytest.mark.parametrize(
    ("form", "fraction"),
    [
        (Compare(X, "<", 30), 0.3),
        (Compare(X, ">=", 30.5), 0.69),
        (Compare(X, "<>", 5), 0.99),
        (Compare(Y, "=", 5), 0.1),
        (Compare(D, "<", "2000-01-08"), 0.28),
        (InList(X, tuple(range(20))), 0.2),
        (Like(S, "name _"), 1.0),
        (Like(S, "%1"), 0.2),
        (IsNull(Y), 0.25),
        (Not(IsNull(Y)), 0.75),
        (CompareColumns(X, "<", Y, 5.0), 0.06),
        (AllOf((Compare(X, ">=", 10), Compare(X, "<", 20))), 0.1),
        (AnyOf((Compare(X, "<", 10), Compare(X, ">=", 90))), 0.2),
    ],
)
def test_filters_are_tried_on_the_sample(form, fraction):
    assert kept(form) == pytest.approx(fraction, abs=0.011)


def test_unknown_is_neither_true_nor_false():
    # NOT (y = 5) and y <> 5 do not hold where y is NULL; NULL OR TRUE does, NULL AND FALSE does not.
    assert kept(Not(Compare(Y, "=", 5))) == kept(Compare(Y, "<>", 5)) == pytest.approx(0.65)
    assert kept(AnyOf((Compare(Y, "=", 99), Compare(X, ">=", 0)))) == 1.0
    assert kept(Not(AllOf((Compare(Y, "=", 99), Compare(X, "<", 0))))) == 1.0


def test_correlated_filters_are_tried_together():
    same = [Compare(X, "<", 50), Compare(X, "<", 60)]
    assert filter_selectivity([Predicate("?", frozenset(), form) for form in same], HUNDRED).fraction == 0.5


def test_text_is_compared_with_numbers_as_numbers():
    assert kept(Compare(Column("t", "n"), "<", 3), table(n=["1", "2", "30", "x"] * 25)) == 0.5


def test_rare_rows_have_an_uncertain_selectivity_above_zero():
    few = filter_selectivity([Predicate("?", frozenset(), Compare(X, "=", -1))], HUNDRED)
    many = filter_selectivity([Predicate("?", frozenset(), Compare(X, "<", 50))], HUNDRED)
    assert 0 < few.fraction <= 0.01
    assert few.uncertainty > many.uncertainty > 0


def test_a_table_that_is_all_in_the_sample_is_known_for_sure():
    whole = table(rows=100.0, x=range(100))
    found = filter_selectivity([Predicate("?", frozenset(), Compare(X, "<", 30))], whole)
    assert (found.fraction, found.uncertainty) == (0.3, 0.0)


def test_what_only_the_engine_understands_is_guessed_once_a_filter():
    opaque = Predicate("f(x)", frozenset(), Opaque())
    assert filter_selectivity([opaque], HUNDRED).fraction == pytest.approx(OPAQUE)
    both = filter_selectivity([opaque, Predicate("?", frozenset(), Compare(X, "<", 50))], HUNDRED)
    assert both.fraction == pytest.approx(0.5 * OPAQUE)
    assert both.uncertainty > 1.0


def test_without_filters_selectivity_is_one():
    assert (filter_selectivity([], HUNDRED).fraction, filter_selectivity([], HUNDRED).uncertainty) == (1.0, 0.0)


@pytest.mark.parametrize(
    ("form", "fraction"),
    [
        (Compare(X, "=", 5), 0.01),
        (InList(X, (1, 2, 3)), 0.03),
        (Compare(X, "<>", 5), 0.9),
        (CompareColumns(X, "=", S), 0.01),
        (Not(Compare(X, "=", 5)), 0.99),
        (AllOf((Compare(X, "=", 5), Compare(S, "=", "name 1"))), 0.002),
        (Compare(X, "<", 5), 0.3),
    ],
)
def test_without_a_sample_values_are_taken_to_be_spread_evenly(form, fraction):
    unseen = TableStatistics(HUNDRED.rows, HUNDRED.bytes, HUNDRED.columns)
    assert kept(form, unseen) == pytest.approx(fraction, rel=0.01)


literals = st.one_of(st.integers(-5, 105), st.floats(-5, 105), st.text("name 123", max_size=6), st.booleans())
columns = st.sampled_from([X, Y, S, D, Column("t", "missing")])
plain = st.one_of(
    st.builds(Compare, columns, st.sampled_from(["=", "<>", "<", "<=", ">", ">="]), literals),
    st.builds(CompareColumns, columns, st.sampled_from(["=", "<", "<>"]), columns, st.floats(-9, 9)),
    st.builds(InList, columns, st.lists(literals, min_size=1, max_size=4).map(tuple)),
    st.builds(Like, columns, st.text("name%_1", max_size=6)),
    st.builds(IsNull, columns),
    st.just(Opaque()),
)
forms = st.recursive(
    plain,
    lambda inner: st.one_of(
        st.builds(AllOf, st.lists(inner, min_size=1, max_size=3).map(tuple)),
        st.builds(AnyOf, st.lists(inner, min_size=1, max_size=3).map(tuple)),
        st.builds(Not, inner),
    ),
    max_leaves=6,
)


@given(st.lists(forms, max_size=3), st.booleans())
def test_any_filters_keep_more_than_nothing_and_no_more_than_all(found, sampled):
    over = HUNDRED if sampled else TableStatistics(HUNDRED.rows, HUNDRED.bytes, HUNDRED.columns)
    result = filter_selectivity([Predicate("?", frozenset(), form) for form in found], over)
    assert 0 < result.fraction <= 1
    assert result.uncertainty >= 0


def test_distinct_values_of_a_sample():
    assert distinct_values((1, 1, 2, 2, 3, 3), 1_000.0, None) == 3
    assert distinct_values(tuple(range(50)), 1_000.0, None) == 1_000
    assert distinct_values(tuple(range(50)), 1_000.0, 80.0) == 80
    assert distinct_values((None, None), 1_000.0, None) == 1
    assert distinct_values((), 1_000.0, None) == 1
    # Half of the values seen once: each stands for sqrt(rows / sampled) of them (Charikar et al., section 4).
    assert distinct_values((1, 1, 2, 3), 400.0, None) == pytest.approx(1 + 10 * 2)


def test_filters_without_a_sample_do_not_spoil_those_with_one():
    day = Column("t", "day")
    columns = {**HUNDRED.columns, "day": ColumnStatistics(365.0, low=1.0, high=365.0)}
    known = replace(HUNDRED, columns=columns)
    sampled, other = Compare(X, "<", 50), Compare(day, ">=", 359)
    both = filter_selectivity([Predicate("?", frozenset(), form) for form in (sampled, other)], known)
    assert both.fraction == pytest.approx(0.5 * 7 / 365)
    assert kept(Compare(day, "<", 1), known) < 1e-8 and kept(Compare(day, "<=", 365), known) == 1.0
    assert kept(Compare(day, ">", 364), known) == pytest.approx(1 / 365)


def test_both_bounds_of_a_range_are_taken_together():
    day = Column("t", "day")
    known = TableStatistics(1e6, 1e7, {"day": ColumnStatistics(1801.0, low=0.0, high=1800.0)})
    between = Compare(day, ">=", 900), Compare(day, "<=", 930)
    assert kept(AllOf(between), known) == pytest.approx(31 / 1801)
    assert filter_selectivity([Predicate("?", frozenset(), one) for one in between], known).fraction == pytest.approx(
        31 / 1801
    )
    assert kept(AllOf((Compare(day, ">", 930), Compare(day, "<", 900))), known) == pytest.approx(1 / 1801)


def test_ranges_of_fractions_and_of_nulls():
    known = TableStatistics(1e6, 1e7, {"x": ColumnStatistics(1e5, nulls=0.5, low=0.0, high=0.1)})
    assert kept(Compare(X, "<=", 0.01), known) == pytest.approx(0.05)
    assert kept(Compare(X, ">", 0.01), known) == pytest.approx(0.45)
    alone = TableStatistics(1e6, 1e7, {"x": ColumnStatistics(1.0, low=0.5, high=0.5)})
    assert (kept(Compare(X, ">=", 0.5), alone), kept(Compare(X, ">", 0.7), alone)) == (1.0, 1e-9)


@pytest.mark.parametrize(
    ("values", "fraction"),
    [((1, 2.0), 0.5), (("1", "02", "y"), 0.25), (("x",), 0.25), ((None,), 0.0), ((10**400,), 0.0)],
)
def test_lists_may_have_texts_and_numbers(values, fraction):
    texts = table(n=["1", "2", "30", "x"] * 25)
    assert kept(InList(Column("t", "n"), values), texts) == pytest.approx(fraction, abs=0.01)


def test_numbers_are_looked_for_among_texts():
    assert kept(InList(X, ("1", "02", "y", 3)), HUNDRED) == pytest.approx(0.03, abs=0.005)
