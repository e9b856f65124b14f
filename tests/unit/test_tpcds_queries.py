"""The 99 texts: which there are, what is changed about them and that the change keeps their meaning."""

import pytest
import sqlglot

from tpcds import extension, parameters, queries
from tpcds.comparable import comparable
from tpcds.errors import ChangedTextError
from tpcds.queries import shape
from yarn_plugin.errors import BadInputError

ALL = range(1, 100)


def rewritten(sql: str, width: int) -> str:
    return comparable(sqlglot.parse_one(sql, read="duckdb"), width).sql("duckdb")


@pytest.mark.parametrize("query", ALL)
def test_each_text_parses_and_keeps_its_columns(query: int) -> None:
    assert sqlglot.parse_one(queries.spark_text(query), read="spark").args["order"]
    assert extension.output_width(queries.duckdb_text(query)) == extension.output_width(
        extension.published_queries()[query]
    )


@pytest.mark.parametrize("query", ALL)
def test_every_output_column_is_a_sort_key(query: int) -> None:
    order = sqlglot.parse_one(queries.duckdb_text(query), read="duckdb").args["order"]
    assert len(order.expressions) >= extension.output_width(queries.duckdb_text(query))


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("3", [3]), ("1-3", [1, 2, 3]), ("7,1-2,2", [7, 1, 2]), (" 99 , 1 ", [99, 1]), ("1-99", list(ALL))],
)
def test_numbers_as_a_person_writes_them(text: str, numbers: list[int]) -> None:
    assert queries.parse_numbers(text) == numbers


@pytest.mark.parametrize("text", ["100", "0", "5-1", "", "1,,2", "a", "1-", "-3", "1-2-3", "1.5", "90-100", "٣x"])
def test_invalid_numbers_are_refused_in_one_line(text: str) -> None:
    with pytest.raises(BadInputError, match=r"--queries .*99") as refused:
        queries.parse_numbers(text)
    assert "\n" not in str(refused.value)


def test_a_query_that_there_is_not() -> None:
    with pytest.raises(BadInputError, match="query 100: "):
        queries.text(100, "spark")


def test_substitutions_are_in_the_text_of_every_engine() -> None:
    for dialect in queries.DIALECTS:
        assert "'royal'" in queries.text(24, dialect)
        assert "'peach'" not in queries.text(24, dialect)


def test_a_published_text_that_has_changed_fails_loudly() -> None:
    with pytest.raises(ChangedTextError, match="query 24: \"'peach'\" is not in the published text"):
        parameters.substitute(24, "SELECT 1")


def test_sort_keys_are_appended_by_position_unless_they_are_there() -> None:
    assert rewritten("SELECT a, b AS x, c FROM t ORDER BY x DESC, c", 3).endswith("ORDER BY x DESC, c, 1")
    assert rewritten("SELECT * FROM t ORDER BY 2", 3).endswith("ORDER BY 2, 1, 3")
    assert rewritten("SELECT t.a, max(b) FROM t GROUP BY a ORDER BY t.a", 2).endswith("ORDER BY t.a, 2")


def test_nulls_sort_alike_in_both_dialects() -> None:
    tree = comparable(sqlglot.parse_one("SELECT a, b FROM t ORDER BY a DESC", read="duckdb"), 2)
    # Each dialect leaves out what it does by itself: Spark puts NULL first when ascending, DuckDB always last.
    assert tree.sql("spark").endswith("ORDER BY a DESC, 2 NULLS LAST")
    assert tree.sql("duckdb").endswith("ORDER BY a DESC, 2")


@pytest.mark.parametrize(
    ("sql", "meaning"),
    [
        ("SELECT a / b FROM t", "CAST(a AS DOUBLE) / b"),
        ("SELECT a / b / 3 FROM t", "CAST(a AS DOUBLE) / b / 3"),
        ("SELECT sum((a - b) / 2) FROM t", "CAST(SUM(a - b) AS DOUBLE) / 2"),
        ("SELECT avg(a) FROM t", "(CAST(SUM(a) AS DOUBLE) / COUNT(a))"),
        ("SELECT avg(a) OVER (PARTITION BY b) FROM t", "SUM(a) OVER (PARTITION BY b) AS DOUBLE) / COUNT(a) OVER ("),
        ("SELECT avg(DISTINCT a) FROM t", "(CAST(SUM(DISTINCT a) AS DOUBLE) / COUNT(DISTINCT a))"),
        ("SELECT round(a / b, 2) FROM t", "ROUND(CAST(CAST(a AS DOUBLE) / b AS DECIMAL(28, 8)), 2)"),
    ],
)
def test_arithmetic_is_made_explicit(sql: str, meaning: str) -> None:
    assert meaning in rewritten(sql, 1)


@pytest.mark.parametrize(
    "expression",
    [
        "avg(a)",
        "avg(DISTINCT a)",
        "sum(a / 4)",
        "sum(a) / count(*)",
        "a / b / 3",
        "round(a / b, 2)",
        "avg(a) OVER (PARTITION BY b % 2)",
        "avg(sum(a)) OVER ()",
    ],
)
def test_explicit_arithmetic_gives_what_was_meant(expression: str) -> None:
    numbers = "(SELECT (i * 37 % 11)::DECIMAL(7, 2) / 4 AS x, i AS b FROM range(1, 40) r(i) WHERE i % 7 > 0)"
    table = f"(SELECT x::DECIMAL(7, 2) AS a, b FROM {numbers} UNION ALL SELECT NULL, 3)"
    sql = f"SELECT {expression} AS v FROM {table} ORDER BY v"
    run = extension.duckdb_module().connect().execute
    expected, found = run(sql).fetchall(), run(rewritten(sql, 1)).fetchall()
    assert [row[0] is None for row in found] == [row[0] is None for row in expected]
    assert [float(row[0] or 0) for row in found] == pytest.approx([float(row[0] or 0) for row in expected])


def test_the_shape_of_a_query() -> None:
    found = shape(96)
    assert found.tables == ("household_demographics", "store", "store_sales", "time_dim")
    assert (found.joins, found.max_relations) == (3, 4)
    assert shape(64).max_relations == 18
