"""The kind of a statement, syntax errors, and unknown names."""

import pytest
from sqlglot.errors import OptimizeError

from qoop.errors import QuerySyntaxError, UnknownNameError
from qoop.parsing import blocks
from qoop.parsing.statement import ParsedText, parse_statement
from tests.duckdb_plans import Tables


@pytest.fixture(scope="module")
def tables():
    return Tables("CREATE TABLE orders (id integer, day date)", "CREATE TABLE items (id integer, price double)")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1",
        "WITH a AS (SELECT 1 AS x) SELECT x FROM a",
        "SELECT 1 UNION ALL SELECT 2",
        "(SELECT 1)",
        "SELECT 1;",
    ],
)
def test_queries_return_rows(text):
    statement = parse_statement(text)
    assert statement.query is not None
    assert not statement.writes


@pytest.mark.parametrize(
    "text",
    [
        "CREATE TABLE t AS SELECT 1 AS x",
        "CREATE TABLE t USING PARQUET AS SELECT 1 AS x",
        "INSERT INTO t SELECT a.x FROM a",
        "INSERT INTO t (y, x) SELECT a.x, 1 FROM a",
        "INSERT OVERWRITE TABLE t SELECT 1",
    ],
)
def test_statements_that_store_rows_have_a_query(text):
    statement = parse_statement(text)
    assert statement.stores_rows
    (source,) = statement.source_queries()
    assert text.endswith(source.text)


@pytest.mark.parametrize(
    ("text", "sources"),
    [
        ("WITH k AS (SELECT 1 AS x) INSERT INTO t SELECT x FROM k", ["WITH k AS (SELECT 1 AS x) SELECT x FROM k"]),
        ("WITH k AS (SELECT 1 AS x) INSERT INTO t WITH K AS (SELECT 2 AS x) SELECT x FROM k", []),
        (
            "FROM a INSERT INTO t SELECT x WHERE x > 1 INSERT OVERWRITE u SELECT x + 1",
            ["SELECT x FROM a WHERE x > 1", "SELECT x + 1 FROM a"],
        ),
        (
            "WITH k AS (SELECT 1 AS x) FROM k INSERT INTO t SELECT x INSERT INTO u SELECT x",
            2 * ["WITH k AS (SELECT 1 AS x) SELECT x FROM k"],
        ),
        (
            "INSERT OVERWRITE DIRECTORY '/a (SELECT' USING csv OPTIONS (header true) SELECT x FROM a",
            ["SELECT x FROM a"],
        ),
        (
            "INSERT OVERWRITE LOCAL DIRECTORY '/a' ROW FORMAT SERDE 's' WITH SERDEPROPERTIES ('x' = 1) SELECT x FROM a",
            ["SELECT x FROM a"],
        ),
        ("INSERT OVERWRITE DIRECTORY '/a' USING csv VALUES (1)", []),
    ],
)
def test_the_queries_of_statements_that_store_rows(text, sources):
    parsed = ParsedText(text)
    assert parsed.stores_rows == bool(sources)
    assert not sources or [one.text for one in parsed.statement.source_queries()] == sources


@pytest.mark.parametrize(
    "head",
    ["INSERT INTO t", "insert into table db.t (a, `b`)", "INSERT OVERWRITE t PARTITION (d = 'x')"],
)
def test_values_that_are_inserted_are_not_parsed(head):
    parsed = ParsedText(f"{head} VALUES (1, 'a'), (2 nonsense")
    assert parsed.statement is not None and parsed.returns_no_rows and not parsed.stores_rows


@pytest.mark.parametrize("text", ["INSERT INTO t SELECT * FROM VALUES (1) v(a) JOIN u", "INSERT INTO t VALUES (1) a"])
def test_values_of_a_query_are_parsed(text):
    parsed = ParsedText(text)
    assert parsed.stores_rows == ("SELECT" in text)


@pytest.mark.parametrize("text", ["INSERT INTO t SELECT levenshtein(d, 'x', 2) FROM a", "CREATE TABLE t (x INT)"])
def test_what_cannot_be_written_again_or_has_no_query_is_the_engines(text):
    assert parse_statement(text).query is None


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("SELECT FROM WHERE", "line 1"),
        ("SELECT a,\n  b FROM t\nWHERE a = = 1", "line 3"),
        ("SELECT (1", "line 1"),
    ],
)
def test_a_syntax_error_names_its_position(text, line):
    with pytest.raises(QuerySyntaxError) as caught:
        parse_statement(text)
    said = str(caught.value)
    assert line in said
    assert "position" in said
    assert "\n" not in said


def test_a_text_that_does_not_end_a_quote():
    with pytest.raises(QuerySyntaxError, match="query"):
        parse_statement("SELECT 'abc")


@pytest.mark.parametrize(("text", "count"), [("", 0), ("-- nothing", 0), ("SELECT 1; SELECT 2", 2)])
def test_exactly_one_statement(text, count):
    with pytest.raises(QuerySyntaxError, match=f"{count} statements"):
        parse_statement(text)


def test_the_tables_that_a_text_names():
    text = "WITH v AS (SELECT * FROM Orders) SELECT * FROM v JOIN db.Items WHERE EXISTS (SELECT 1 FROM c)"
    assert parse_statement(text).table_names == {"orders", "v", "items", "c"}


def test_an_unknown_table(tables):
    with pytest.raises(UnknownNameError, match=r"table 'order'"):
        tables.plan("SELECT * FROM order, items WHERE order.id = items.id")


@pytest.mark.parametrize("column", ["orders.price", "prize"])
def test_an_unknown_column(tables, column):
    with pytest.raises(UnknownNameError, match=column.split(".")[-1]):
        tables.plan(f"SELECT {column} FROM orders, items WHERE orders.id = items.id")


def test_a_column_that_two_tables_have(tables):
    with pytest.raises(UnknownNameError, match="column 'id' is ambiguous"):
        tables.plan("SELECT id FROM orders, items")


UNRESOLVED_COLUMNS = [
    ("Column 'prize' could not be resolved.", "query: column 'prize' not found; did you mean price?"),
    ("Column '' could not be resolved. Line: 3, Col: 9", "query, line 3, position 8: column '' not found"),
    ("Column 'prize' could not be resolved: it is gone", "query: Column 'prize' could not be resolved: it is gone"),
]


@pytest.mark.parametrize(("message", "said"), UNRESOLVED_COLUMNS)
def test_any_message_about_an_unknown_column_is_reported(tables, monkeypatch, message, said):
    def fail(*_, **__):
        raise OptimizeError(message)

    monkeypatch.setattr(blocks, "qualify", fail)
    with pytest.raises(UnknownNameError) as caught:
        tables.plan("SELECT prize FROM orders, items WHERE orders.id = items.id")
    assert str(caught.value) == said


def test_a_position_hidden_by_a_line_break_is_omitted(tables):
    with pytest.raises(UnknownNameError, match="query, line 2: column 'a b' not found"):
        tables.plan("SELECT `a\nb` FROM orders, items WHERE orders.id = items.id")


@pytest.mark.parametrize("text", ["SELECT 1; -- the end", "SELECT 1;\n/* v2 */", "SELECT 1 ; ;"])
def test_nothing_but_comments_after_a_statement_is_no_other_one(text):
    assert parse_statement(text).query is not None
