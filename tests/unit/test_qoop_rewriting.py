"""Queries that are easy to rewrite wrongly: planned, run stage by stage from mixed plans, and compared (in DuckDB)."""

import functools
import random
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest
from sqlglot import parse_one

from qoop.as_written import wording
from qoop.errors import CannotSplitError
from tests.duckdb_plans import Tables


@dataclass
class Case:
    name: str
    text: str
    empty: bool
    alone: str


def cases():
    """The queries in rewriting.sql, with their marks."""
    found, group, empty, alone, lines = [], "", False, "", []
    for line in Path(__file__).with_name("rewriting.sql").read_text().splitlines():
        if line.startswith("-- == "):
            group = line.removeprefix("-- == ").replace(" ", "-")
        elif line.startswith("--"):
            empty = empty or line == "-- empty"
            alone = line.removeprefix("-- alone: ") if line.startswith("-- alone: ") else alone
        elif line:
            lines.append(line)
            if line.endswith(";"):
                number = sum(case.name.startswith(f"{group}-") for case in found) + 1
                found.append(Case(f"{group}-{number}", "\n".join(lines).removesuffix(";"), empty, alone))
                empty, alone, lines = False, "", []
    return found


CASES = cases()


@pytest.fixture(scope="module")
def tables():
    return Tables(
        "CREATE TABLE a (id integer, x integer, y varchar, d date)",
        "INSERT INTO a VALUES (1, 1, 'p', '2000-01-01'), (2, 2, 'q', '2000-01-05'), (3, NULL, 'r', NULL),"
        " (4, 1, NULL, '2000-02-01'), (1, 2, 'p', '2000-03-01'), (NULL, 5, 'p', '2000-01-01'),"
        " (5, 9, 'q', '2000-01-09'), (6, 9, 's', '2000-01-11'), (2, 2, 'q', '2000-01-05')",
        "CREATE TABLE b (id integer, x integer, z varchar, amt decimal(7, 2))",
        "INSERT INTO b VALUES (1, 1, 'p', 1.5), (1, 2, 'q', 2.5), (2, NULL, 'r', NULL), (NULL, 1, 's', 4.5),"
        " (3, 3, 'p', 5.5), (4, 1, NULL, 3), (2, 4, 'q', 2), (5, 5, 'q', 1), (4, 1, NULL, 3)",
        "CREATE TABLE c (id integer, y varchar, w double)",
        "INSERT INTO c VALUES (1, 'p', 1.0), (2, 'q', 2.0), (2, 'q', 2.0), (5, NULL, 3.0), (NULL, 'r', 4.0),"
        " (4, 'p', 9.0), (6, 'q', 2.0), (3, 'r', 1.0)",
        "CREATE TABLE t (x integer)",
        "INSERT INTO t VALUES (1), (2), (3), (NULL)",
        "CREATE TABLE e (id integer, x integer)",
        "CREATE TABLE underscored (x integer, g__id integer)",
        "INSERT INTO underscored VALUES (1, 7), (7, 1)",
    )


@pytest.fixture(scope="module")
def plan(tables):
    """Plans a text of a case, once for all tests."""
    return functools.cache(tables.plan)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_rows_stay_the_same(tables, plan, case):
    try:
        planned = plan(case.text)
    except CannotSplitError as reason:
        assert case.alone, reason
        assert case.alone in str(reason)
        return
    reasons = " ".join(wording.text(block.cause) for block in planned.text.query.blocks.values() if block.cause)
    assert case.alone in reasons
    expected = tables.rows(case.text)
    assert (not expected) == case.empty
    for seed in range(2):
        assert tables.staged(planned, random.Random(seed), lose=seed % 2) == expected


def filters_of(tables, text):
    """The filters of each relation of a query's result."""
    relations = tables.plan(text).text.query.blocks["qoop_result"].graph.relations
    return {relation.alias: [one.sql for one in relation.filters] for relation in relations}


def test_a_function_of_the_users_filters_a_table_before_it_is_joined(tables):
    text = "SELECT 1 FROM a, b, c WHERE a.id = b.id AND b.id = c.id AND f(a.x) > 1 AND f(a.x) > g(b.x)"
    assert [len(filters) for filters in filters_of(tables, text).values()] == [1, 0, 0]


def test_a_join_by_functions_of_the_users_is_no_cross_join(tables):
    graph = (
        tables.plan("SELECT 1 FROM a, b, c WHERE f(a.x) = g(b.x) AND a.id = c.id")
        .text.query.blocks["qoop_result"]
        .graph
    )
    assert graph.components() == (graph.all_relations,)


def selected(tables, text):
    """The columns that each block of a query selects, but for the result's."""
    texts = tables.plan(text).text.texts
    blocks = [parse_one(block, read="spark") for name, block in texts.items() if name != "qoop_result"]
    return [block.named_selects for block in blocks]


def test_blocks_select_only_what_is_read(tables):
    joined = "SELECT a.*, b.z, b.amt FROM a JOIN b ON a.id = b.id"
    read = f"WITH j AS ({joined}) SELECT l.x FROM j l JOIN j r ON l.id = r.id AND l.y = r.z"
    assert selected(tables, read) == [["id", "x", "y", "z"]]
    outer = "SELECT j.*, c.w FROM j JOIN c ON j.id = c.id"
    nested = f"WITH j AS ({joined}), k AS ({outer}) SELECT k.w FROM k JOIN t ON k.x = t.x"
    assert selected(tables, nested) == [["id", "x"], ["x", "w"]]
    assert selected(tables, f"WITH j AS ({joined}) SELECT count(*) FROM j JOIN c ON true") == [["id"]]


@pytest.mark.parametrize(
    ("joined", "read"),
    [
        ("SELECT DISTINCT a.id, a.x FROM a JOIN b ON a.id = b.id", "SELECT j.id FROM j"),
        ("SELECT a.id, a.x FROM a JOIN b ON a.id = b.id ORDER BY 2 LIMIT 2", "SELECT j.id FROM j"),
        ("SELECT a.id, b.x FROM a JOIN b ON a.id = b.id GROUP BY ALL", "SELECT j.id FROM j"),
        ("SELECT a.id, b.x FROM a JOIN b ON a.id = b.id", "SELECT k FROM j AS l (k, m)"),
        ("SELECT a.id, b.x FROM a JOIN b ON a.id = b.id", "SELECT count(DISTINCT *) FROM j"),
    ],
)
def test_what_decides_about_rows_is_selected(tables, joined, read):
    assert [len(columns) for columns in selected(tables, f"WITH j AS ({joined}) {read}")] == [2]


def test_a_filter_holds_for_all_columns_of_an_equality_class(tables):
    found = filters_of(
        tables, "SELECT 1 FROM a, b, c WHERE a.id = b.id AND b.id = c.id AND c.id IN (1, 2) AND a.id < 9"
    )
    for name, texts in found.items():
        assert sorted(texts) == [f"`{name}__id` < 9", f"`{name}__id` IN (1, 2)"]


@pytest.mark.parametrize(
    ("condition", "copied"),
    [
        ("a.id = 1", True),
        ("a.id BETWEEN 1 AND 3", True),
        ("a.id = '1'", False),
        ("a.id IS NULL", False),
        ("a.id + 1 = 2", False),
        ("NOT a.id = 1", False),
        ("a.id = a.x", False),
    ],
)
def test_only_what_means_the_same_of_the_other_column_is_copied(tables, condition, copied):
    found = filters_of(tables, f"SELECT 1 FROM a, b WHERE a.id = b.id AND {condition}")
    assert found["a"]
    assert bool(found["b"]) == copied


def test_equal_columns_of_types_that_compare_otherwise_make_no_class(tables):
    graph = tables.plan("SELECT 1 FROM a, b, c WHERE a.y = b.x AND b.x = c.id").text.query.blocks["qoop_result"].graph
    assert [sorted(column.output for column in columns) for columns in graph.classes] == [["b__x", "c__id"]]
    assert [predicate.sql for predicate in graph.predicates] == ["`a__y` = `b__x`"]


def test_options_of_to_json_cannot_be_compared(tables):
    with pytest.raises(CannotSplitError, match="options of to_json"):
        tables.plan("SELECT to_json(struct(a.id), map('ignoreNullFields', 'false')) FROM a JOIN b ON a.id = b.id")


def test_most_queries_have_several_plans_and_stages(plan):
    several = Counter()
    for case in CASES:
        if not case.alone:
            planned = plan(case.text)
            several["plans"] += len(planned.plans) > 1
            several["stages"] += any(len(plan.stages()) > 1 for plan in planned.plans)
    assert several["plans"] >= 30
    assert several["stages"] >= 50
