"""How a script's text is divided into statements."""

import pytest

from qoop.scripts.statements import divide, statements_of


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" ;; \n;", []),
        ("-- nothing; here", []),
        ("/* nothing; /* nor */ here; */", []),
        ("SELECT 1; SELECT 2", ["SELECT 1", "SELECT 2"]),
        ("SELECT ';' AS a, \"x;\", `b;`; SELECT 2;", ["SELECT ';' AS a, \"x;\", `b;`", "SELECT 2"]),
        (r"SELECT 'it\'s; one'; SELECT 2", [r"SELECT 'it\'s; one'", "SELECT 2"]),
        (r"SELECT r'a\'; SELECT 2", [r"SELECT r'a\'", "SELECT 2"]),
        ("SELECT 1 -- it's; one\n+ 2; SELECT 3", ["SELECT 1 -- it's; one\n+ 2", "SELECT 3"]),
        ("SELECT 1 /* ; */; SELECT 2", ["SELECT 1 /* ; */", "SELECT 2"]),
        ("SELECT 'not closed; SELECT 2", ["SELECT 'not closed; SELECT 2"]),
        ("SELECT 1; /* not closed; SELECT 2", ["SELECT 1"]),
        ("-- a comment\n/* and */ SELECT 1", ["SELECT 1"]),
        ("BEGIN SELECT 1; SELECT 2; END; SELECT 3", ["BEGIN SELECT 1; SELECT 2; END", "SELECT 3"]),
        (
            "BEGIN IF x > 1 THEN SELECT if(a, b, c); ELSE SELECT CASE WHEN a THEN 1 END; END IF; END; SELECT 3",
            ["BEGIN IF x > 1 THEN SELECT if(a, b, c); ELSE SELECT CASE WHEN a THEN 1 END; END IF; END", "SELECT 3"],
        ),
        (
            "BEGIN WHILE i < 3 DO SET i = i + 1; END WHILE; REPEAT SELECT repeat('x'); UNTIL true END REPEAT; END; x",
            [
                "BEGIN WHILE i < 3 DO SET i = i + 1; END WHILE; REPEAT SELECT repeat('x'); UNTIL true END REPEAT; END",
                "x",
            ],
        ),
        (
            "BEGIN CREATE TABLE IF NOT EXISTS t (a INT); END; x",
            ["BEGIN CREATE TABLE IF NOT EXISTS t (a INT); END", "x"],
        ),
        ("SELECT CASE WHEN a THEN 1 END AS begin; x", ["SELECT CASE WHEN a THEN 1 END AS begin", "x"]),
    ],
)
def test_semicolons_end_statements_but_not_within_quotes_comments_and_blocks(text, expected):
    assert [statement.text for statement in statements_of(text)] == expected


def test_a_statement_knows_its_line():
    text = "-- first\n\nSELECT 1;\n/* two\nlines */ SELECT\n2;\n"
    assert [statement.line for statement in statements_of(text)] == [3, 5]


def test_what_follows_the_last_semicolon_is_not_complete():
    statements, rest = divide("SELECT 1; SELECT\n 2")
    assert ([one.text for one in statements], rest.text) == (["SELECT 1"], "SELECT\n 2")
