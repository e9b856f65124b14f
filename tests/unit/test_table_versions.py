"""Texts of queries that read tables as of a version."""

import pytest

from qoop.parsing.spark_sql import USUAL, Syntax
from qoop.parsing.table_versions import at_versions, tables_in

VERSIONS = {("", "", "t"): "5", ("lake", "db", "t"): "7", ("", "", "a b"): "9"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT 't' AS t FROM t -- t", "SELECT 't' AS t FROM t VERSION AS OF 5 -- t"),
        ("SELECT x.id FROM T AS x, u", "SELECT x.id FROM T VERSION AS OF 5 AS x, u"),
        ("SELECT 1 FROM lake.`db`.t\nJOIN t z", "SELECT 1 FROM lake.`db`.t VERSION AS OF 7\nJOIN t VERSION AS OF 5 z"),
        ("SELECT 'ü' FROM `a b`", "SELECT 'ü' FROM `a b` VERSION AS OF 9"),
        (
            "WITH t AS (SELECT * FROM t), k AS (SELECT * FROM t) SELECT * FROM t, k, lake.db.t",
            "WITH t AS (SELECT * FROM t VERSION AS OF 5), k AS (SELECT * FROM t) SELECT * FROM t, k,"
            " lake.db.t VERSION AS OF 7",
        ),
        ("SELECT 1 FROM u WHERE x = (SELECT 1 FROM t)", "SELECT 1 FROM u WHERE x = (SELECT 1 FROM t VERSION AS OF 5)"),
        ("SELECT * FROM t VERSION AS OF 2, t AS b", "SELECT * FROM t VERSION AS OF 2, t VERSION AS OF 5 AS b"),
        ("SELECT * FROM t TIMESTAMP AS OF '2020-01-01'", "SELECT * FROM t TIMESTAMP AS OF '2020-01-01'"),
        ("SELECT * FROM range(3)", "SELECT * FROM range(3)"),
    ],
)
def test_tables_are_read_as_of_their_versions(text, expected):
    assert at_versions(text, USUAL, VERSIONS) == expected


def test_names_are_compared_as_the_session_does():
    assert at_versions("SELECT 1 FROM T", Syntax(case_sensitive=True), VERSIONS) == "SELECT 1 FROM T"


def test_the_tables_of_a_text_are_written_as_in_it():
    text = "WITH k AS (SELECT 1 FROM Db.`T` AS x) SELECT * FROM k JOIN lake.db.u, v VERSION AS OF 3"
    assert tables_in(text, USUAL) == {("", "db", "t"): "Db.`T`", ("lake", "db", "u"): "lake.db.u"}
