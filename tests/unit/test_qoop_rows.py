"""Result rows: a table for people, CSV and JSON lines for programs."""

import csv
import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest
from pyspark.sql import Row

from qoop.submit import rows
from qoop.submit.rows import csv_lines, json_lines

COLUMNS = ["name", "[n]"]
TRICKY = [None, "", "NULL", "a,b", 'say "hi"', "two\nlines", " spaced ", "[/x]", "[bold]b[/bold]", "caf\u00e9 \u4e2d"]


def test_values_in_a_table_are_not_markup(capsys):
    rows.print_rows("table", ["[h]", "x"], [["[a]", 1], ["[/x]", None], ["a\nb", "…" * 300]])
    header, *lines = capsys.readouterr().out.splitlines()
    assert header.split() == ["[h]", "x"]
    assert [line.split() for line in lines] == [["[a]", "1"], ["[/x]", "NULL"], ["a\\nb", "…" * 300]]


def test_a_very_long_value_widens_no_other_row(capsys):
    """It is printed in full, in several lines."""
    value = "".join(map(str, range(10_000)))
    rows.print_rows("table", ["a", "b"], [[value, "y"], ["z", "y"]])
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) < rows.MAX_WIDTH + 10
    assert "".join(line[: rows.MAX_WIDTH].strip() for line in lines[1:-1]) == value
    assert lines[-1].split() == ["z", "y"]


def test_csv_round_trip(capsys):
    rows.print_rows("csv", ["na,me", "[n]"], [[value, number] for number, value in enumerate(TRICKY)])
    text = capsys.readouterr().out
    header, *found = csv.reader(text.splitlines(keepends=True))
    assert header == ["na,me", "[n]"]
    assert [row[0] for row in found] == [value or "" for value in TRICKY]


def test_null_and_an_empty_string_differ_in_csv():
    assert list(csv_lines(["a", "b"], [[None, ""]])) == ["a,b", ',""']


def test_json_lines_round_trip(capsys):
    rows.print_rows("json", COLUMNS, [[value, number] for number, value in enumerate(TRICKY)])
    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line) for line in lines] == [
        {"name": value, "[n]": number} for number, value in enumerate(TRICKY)
    ]


@pytest.mark.parametrize(
    ("columns", "names"),
    [
        (["a", "b"], ["a", "b"]),
        (["a", "a", "a"], ["a", "a_2", "a_3"]),
        (["a", "a", "a_2"], ["a", "a_3", "a_2"]),
        (["a_2", "a", "a"], ["a_2", "a", "a_3"]),
    ],
)
def test_duplicate_column_names_are_distinct_in_json(columns, names):
    (line,) = json_lines(columns, [range(len(columns))])
    assert json.loads(line) == dict(zip(names, range(len(columns)), strict=True))


@pytest.mark.parametrize(
    ("value", "in_json", "in_csv"),
    [
        (True, True, "true"),
        (2**70, 2**70, str(2**70)),
        (1.5, 1.5, "1.5"),
        (float("nan"), "NaN", "NaN"),
        (float("-inf"), "-Infinity", "-Infinity"),
        (Decimal("1.50"), "1.50", "1.50"),
        (date(2020, 2, 29), "2020-02-29", "2020-02-29"),
        (datetime(2020, 2, 29, 1, 2, 3, tzinfo=UTC), "2020-02-29T01:02:03+00:00", "2020-02-29T01:02:03+00:00"),
        (bytearray(b"\x00\xff"), "AP8=", "AP8="),
        (
            timedelta(3, 14706, 700_000),
            "INTERVAL '3 04:05:06.7' DAY TO SECOND",
            "INTERVAL '3 04:05:06.7' DAY TO SECOND",
        ),
        (timedelta(hours=-25), "INTERVAL '-1 01:00:00' DAY TO SECOND", "INTERVAL '-1 01:00:00' DAY TO SECOND"),
        ([timedelta()], ["INTERVAL '0 00:00:00' DAY TO SECOND"], '"[""INTERVAL \'0 00:00:00\' DAY TO SECOND""]"'),
        ([1, None], [1, None], '"[1, null]"'),
        ({1: "a", "b": None}, {"1": "a", "b": None}, '"{""1"": ""a"", ""b"": null}"'),
        (Row(a=1, b="x"), {"a": 1, "b": "x"}, '"{""a"": 1, ""b"": ""x""}"'),
    ],
)
def test_each_type_of_value(value, in_json, in_csv):
    (line,) = json_lines(["v"], [[value]])
    assert json.loads(line) == {"v": in_json}
    assert list(csv_lines(["v"], [[value]])) == ["v", in_csv]


def test_decimals_have_all_their_digits(capsys):
    values = [Decimal("0E-10"), Decimal("1E-8"), Decimal("12.50")]
    plain = ["0.0000000000", "0.00000001", "12.50"]
    assert list(csv_lines(["a"] * 3, [values])) == ["a,a,a", ",".join(plain)]
    rows.print_rows("table", ["a", "b", "c"], [values])
    assert capsys.readouterr().out.splitlines()[1].split() == plain
