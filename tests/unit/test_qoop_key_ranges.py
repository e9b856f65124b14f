"""Estimates of joins whose keys have only a part of their range in common, as those of facts and a calendar."""

import pytest

from qoop.estimate.cardinality import Cardinalities, result_statistics
from qoop.estimate.prior import Prior
from qoop.estimate.statistics import ColumnStatistics, TableStatistics
from qoop.plans.graph import JoinGraph, Relation
from qoop.plans.plan import Block, Output
from qoop.plans.predicate import Column, Compare, CompareColumns, Opaque, Predicate

DAYS, YEARS = 40_000, 110
"""A calendar of 110 years of which the facts have five: from day 20,000 on."""

FIRST, SOLD_DAYS = 20_000, 1_820


def calendar(sampled=2_000):
    days = range(DAYS // sampled // 2, DAYS, DAYS // sampled)
    sample = {"day": tuple(days), "week": tuple(day // 7 for day in days), "year": tuple(day // 364 for day in days)}
    columns = {
        "day": ColumnStatistics(DAYS, low=0.0, high=DAYS - 1.0),
        "week": ColumnStatistics(DAYS / 7, low=0.0, high=DAYS / 7),
        "year": ColumnStatistics(YEARS, low=0.0, high=YEARS - 1.0),
    }
    return TableStatistics(float(DAYS), 1e6, columns, sample)


def facts(rows, days, sample=None):
    column = ColumnStatistics(float(days), low=float(FIRST), high=float(FIRST + SOLD_DAYS - 1))
    return TableStatistics(float(rows), rows * 40.0, {"day": column}, {"day": sample} if sample else {})


def in_order(rows):
    """A sample of two parts of a table that is sorted by day."""
    return tuple(FIRST + (100 if n % 2 else 900) + n % 9 for n in range(rows))


TABLES = {"sales": facts(1_000_000, SOLD_DAYS), "stock": facts(260_000, 260), "calendar": calendar()}
SALES, STOCK, SOLD, COUNTED = 1, 2, 4, 8


def estimates(*filters, tables=TABLES):
    """Sales and stock, each with its own calendar; both calendars are joined on the week. `filters`: of sales'."""
    relations = (
        Relation("sales", "sales", False, ("day",), ()),
        Relation("stock", "stock", False, ("day",), ()),
        Relation("sold", "calendar", False, ("day", "week", "year"), filters),
        Relation("counted", "calendar", False, ("day", "week"), ()),
    )
    classes = (
        frozenset({Column("sales", "day"), Column("sold", "day")}),
        frozenset({Column("stock", "day"), Column("counted", "day")}),
        frozenset({Column("sold", "week"), Column("counted", "week")}),
    )
    return Prior(JoinGraph(relations, classes, (), frozenset()), tables)


def where(column, op, value):
    return Predicate("?", frozenset({Column("sold", column)}), Compare(Column("sold", column), op, value))


YEAR = where("year", "=", (FIRST + 700) // 364)
DAY = where("day", "=", FIRST + 703)


def test_all_days_of_facts_are_in_a_calendar():
    assert estimates().rows(SALES | SOLD) == pytest.approx(1_000_000)
    assert estimates().rows(STOCK | COUNTED) == pytest.approx(260_000)


def test_a_year_of_the_calendar_is_a_fifth_of_five_years_of_facts():
    assert estimates(YEAR).rows(SALES | SOLD) == pytest.approx(200_000, rel=0.1)


def test_a_filter_that_no_sampled_row_passes_selects_what_the_facts_have():
    assert estimates(DAY).rows(SALES | SOLD) == pytest.approx(1_000_000 / SOLD_DAYS, rel=0.3)


def test_a_filter_outside_the_range_of_the_facts_leaves_little():
    assert estimates(where("year", "=", 3)).rows(SALES | SOLD) < 10_000


def test_a_filter_that_is_unknown_has_no_more_days_than_the_calendar_has_in_the_range():
    unknown = Predicate("?", frozenset({Column("sold", "day")}), Opaque())
    assert estimates(unknown).rows(SALES | SOLD) <= 1_000_000


@pytest.mark.parametrize(("chosen", "part"), [(YEAR, 0.2), (DAY, 1 / SOLD_DAYS)], ids=["year", "day"])
def test_ranges_pass_from_calendar_to_calendar(chosen, part):
    """Stock of the weeks in which something was sold: each of these weeks is joined by its seven days."""
    assert estimates(chosen).rows(STOCK | COUNTED | SOLD) == pytest.approx(260_000 * 7 * part, rel=0.4)
    found = estimates(chosen).rows(SALES | STOCK | COUNTED | SOLD)
    assert found == pytest.approx(1_000_000 * part * 260_000 / 260, rel=0.4)


def test_a_sample_of_few_parts_of_a_sorted_table_narrows_nothing():
    tables = {**TABLES, "sales": facts(1_000_000, SOLD_DAYS, in_order(500))}
    assert estimates(YEAR, tables=tables).rows(SALES | SOLD) == pytest.approx(200_000, rel=0.1)


def test_ranges_that_have_nothing_in_common_do_not_break_it():
    tables = {**TABLES, "calendar": TableStatistics(9.0, 9.0, {"day": ColumnStatistics(9.0, low=1.0, high=9.0)})}
    assert estimates(tables=tables).rows(SALES | SOLD) > 0


def test_many_tables_with_different_ranges_are_estimated_in_time():
    """Each set of relations is looked at once; the number of relations whose ranges are followed is bounded."""
    tables = {
        f"t{n}": TableStatistics(
            1_000.0, 1e4, {"k": ColumnStatistics(1_000.0, low=100.0 * n, high=5_000.0)}, {"k": tuple(range(1_000))}
        )
        for n in range(20)
    }
    relations = tuple(Relation(name, name, False, ("k",), ()) for name in tables)
    classes = tuple(frozenset({Column(f"t{n}", "k"), Column(f"t{n + 1}", "k")}) for n in range(0, 20, 2))
    known = Prior(JoinGraph(relations, classes, (), frozenset()), tables)
    assert all(known.rows(relations) > 0 for relations in range(1, 2**20, 997))
    assert len(known._ranges._joined) <= 2**10


def two(form, left, right):
    relations = tuple(Relation(name, name, False, ("x",), ()) for name in ("left", "right"))
    condition = Predicate("?", frozenset({Column("left", "x"), Column("right", "x")}), form)
    return Prior(JoinGraph(relations, (), (condition,), frozenset()), {"left": left, "right": right})


def column_of(values):
    sample = tuple(values)
    return TableStatistics(1_000.0, 1e4, {"x": ColumnStatistics(float(len(set(sample))))}, {"x": sample})


X = Column("left", "x"), Column("right", "x")


@pytest.mark.parametrize(
    ("op", "offset", "part"),
    [("<", 0.0, 0.95), (">", 0.0, 0.05), (">", 500.0, 0.001), ("<>", 0.0, 0.999), ("<=", -50.0, 0.9)],
)
def test_a_comparison_of_columns_is_tried_on_both_samples(op, offset, part):
    """As quantities on hand, up to 1,000, with quantities sold, up to 100."""
    known = two(CompareColumns(X[0], op, X[1], offset), column_of(range(100)), column_of(range(1_000)))
    assert known.rows(3) / 1e6 == pytest.approx(part, rel=0.02)


def test_dates_are_compared_as_days():
    dates = [f"2001-01-{day:02}" for day in range(1, 31)]
    known = two(CompareColumns(X[0], ">", X[1], 20.0), column_of(dates), column_of(dates))
    assert known.rows(3) / 1e6 == pytest.approx(45 / 900)


def test_texts_are_compared_by_a_guess():
    known = two(CompareColumns(X[0], "<", X[1]), column_of("abcdefgh"), column_of("abcdefgh"))
    assert known.rows(3) / 1e6 == pytest.approx(1 / 3)


def test_a_column_of_which_nothing_is_known_has_the_values_of_the_key_that_it_is_joined_to():
    computed = TableStatistics(1_000_000.0, 1e7)
    stores = TableStatistics(10.0, 100.0, {"x": ColumnStatistics(10.0)})
    assert two(CompareColumns(X[0], "=", X[1]), computed, stores).rows(3) == pytest.approx(1_000_000)


def test_a_condition_with_an_offset_counts_among_the_columns_of_a_composite_key():
    """A window's row number beside what it is numbered by: previous and next rows, one for each row."""
    relations = tuple(Relation(name, "numbered", True, ("group", "number"), ()) for name in ("now", "before"))
    classes = (frozenset({Column("now", "group"), Column("before", "group")}),)
    columns = Column("now", "number"), Column("before", "number")
    condition = Predicate("?", frozenset(columns), CompareColumns(columns[0], "=", columns[1], 1.0), is_equijoin=True)
    numbered = TableStatistics(10_000.0, 1e5, {"group": ColumnStatistics(5_000.0), "number": ColumnStatistics(100.0)})
    known = Prior(JoinGraph(relations, classes, (condition,), frozenset()), {"numbered": numbered})
    assert known.rows(3) == pytest.approx(10_000)


def grouped(*keys, filters=()):
    relations = (Relation("sales", "sales", False, ("day",), ()), Relation("sold", "calendar", False, (), filters))
    classes = (frozenset({Column("sales", "day"), Column("sold", "day")}),)
    graph = JoinGraph(relations, classes, (), frozenset())
    of = tuple(Column("sold", key) for key in keys)
    block = Block("b", graph, None, frozenset(), tuple(Output(key.name, key) for key in of), of)
    return result_statistics(block, Cardinalities(Prior(graph, TABLES), {}), TABLES)


def test_groups_are_within_the_range_of_the_facts():
    assert grouped("day").rows == pytest.approx(SOLD_DAYS, rel=0.1)
    assert grouped("week").rows == pytest.approx(SOLD_DAYS / 7, rel=0.5)


def test_keys_of_one_table_have_no_more_combinations_than_it_has_rows():
    assert grouped("day", "week", "year").rows <= SOLD_DAYS * 1.1


def test_a_column_that_a_filter_equates_has_one_value():
    assert grouped("year", filters=(YEAR,)).columns["year"].distinct == 1.0


def test_a_union_has_the_columns_of_its_parts():
    block = Block("u", None, None, frozenset({"sales", "stock"}), (Output("day", None),), None, is_union=True)
    assert result_statistics(block, None, TABLES).columns["day"].distinct == SOLD_DAYS
