"""Texts under the settings of a session that decide how quotes, backslashes and case are read."""

import pytest

from qoop.parsing.query import describe_query
from qoop.parsing.spark_sql import DIALECT, USUAL, Syntax
from qoop.parsing.statement import parse_statement
from tests.property.query_world import Known

QUOTED, RAW, CASED = Syntax(quoted_names=True), Syntax(raw_strings=True), Syntax(case_sensitive=True)


def generated(text, syntax):
    """A text as the planner writes it."""
    return parse_statement(f"SELECT {text}", syntax).tree.sql(DIALECT).removeprefix("SELECT ")


@pytest.mark.parametrize(
    "text",
    [
        "* FROM a, b",
        "* FROM a, b LEFT JOIN c ON a.x = c.x, d",
        "* FROM a JOIN b USING (x), c CROSS JOIN d",
        "* FROM a, LATERAL (SELECT a.x) AS t LATERAL VIEW EXPLODE(z) q AS r",
        "1 FROM a WHERE EXISTS(SELECT * FROM b, c WHERE b.x = c.x AND b.k = a.k)",
    ],
)
def test_tables_that_are_listed_stay_listed(text):
    """Spark does not prune partitions for a CROSS JOIN."""
    assert generated(text, USUAL) == text


@pytest.mark.parametrize(
    "text",
    [
        "COLLATE(x, 'UTF8_LCASE') = 'a'",
        "COLLATE(x || 'y', 'system.builtin.UNICODE')",
        "x COLLATE UTF8_LCASE = 'a'",
        "COLLATION(x COLLATE system.builtin.UNICODE)",
    ],
)
def test_a_collation_is_given_as_it_was_by_function_or_by_operator(text):
    """The operator takes a name, the function a text; Spark refuses each with the other."""
    assert generated(text, USUAL) == text


@pytest.mark.parametrize(
    ("text", "usual", "quoted"),
    [
        ('"x"', "'x'", "`x`"),
        ('"say ""x"""', "'say \"x\"'", '`say "x"`'),
        ("'x'", "'x'", "'x'"),
        ("""'"x"'""", """'"x"'""", """'"x"'"""),
        ("`x`", "`x`", "`x`"),
    ],
)
def test_double_quotes(text, usual, quoted):
    assert generated(text, QUOTED) == quoted
    assert generated(text, USUAL) == usual


@pytest.mark.parametrize(
    ("text", "usual", "raw"),
    [
        (r"'\d'", "'d'", r"'\\d'"),
        (r"'a\\b'", r"'a\\b'", r"'a\\\\b'"),
        (r"'\n'", r"'\n'", r"'\\n'"),
        (r"'it\'s'", r"'it\'s'", r"'it\\\'s'"),
        (r"'\%'", r"'\\%'", r"'\\%'"),
        (r'"\t"', r"'\t'", r"'\\t'"),
        ("'plain'", "'plain'", "'plain'"),
    ],
)
def test_backslashes(text, usual, raw):
    """Generated text is read with escapes, whatever the session's setting."""
    assert generated(text, USUAL) == usual
    assert generated(text, RAW) == raw
    assert generated(raw, USUAL) == raw, "what is generated is read as what was meant"


def test_a_quoted_column_of_a_table():
    assert generated('a."b c"', QUOTED) == "a.`b c`"


def test_both_settings_at_once():
    both = Syntax(quoted_names=True, raw_strings=True)
    assert generated(r""""\d" || '\d' """, both) == r"`\d` || '\\d'"


class Cased(Known):
    """Tables with columns that only case tells apart."""

    def columns(self, table):
        return {"k": "int", "K": "int", "Value": "int"} if table in ("t", "T") else None


def test_names_in_other_case_are_other_names():
    query = parse_statement("SELECT one.k, ONE.Value FROM t AS one JOIN T AS ONE ON one.K = ONE.k", CASED).query
    described = describe_query(query, Cased([]), CASED)
    (graph,) = [block.graph for block in described.query.blocks.values() if block.graph is not None]
    read = {relation.alias: (relation.source, relation.columns) for relation in graph.relations}
    assert read == {"one": ("t", ("K", "k")), "ONE": ("T", ("Value", "k"))}


def test_a_cte_in_other_case_than_a_table_is_another_relation():
    text = "WITH T AS (SELECT k FROM t) SELECT T.k, t.K FROM T JOIN t ON T.k = t.K"
    described = describe_query(parse_statement(text, CASED).query, Cased([]), CASED)
    assert described.tables == {"t"}
    assert len(described.query.blocks) == 2
