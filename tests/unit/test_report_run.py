"""The page of `tpcds run`."""

from pathlib import Path

import pytest

from tests.html_checks import Parsed, checked
from tpcds.cli import cli
from tpcds.results import QueryRow, Report, totals
from tpcds.run_report import page
from yarn_plugin import console
from yarn_plugin.report import render

PLANS = {"join_trees": 4, "stages": 5, "switches": 3, "reused": 2, "cancelled": 1, "unused": 0}


def parsed(*rows: QueryRow, engine: str = "qoop", compared_with: tuple[str, ...] = ("spark", "duckdb")) -> Parsed:
    report = Report(
        engine=engine,
        compared_with=compared_with,
        master="local[2]",
        confs={"spark.sql.shuffle.partitions": "8"},
        scale=0.1,
        switch_every_stage=True,
        repeat=3,
        queries=rows,
        totals=totals(rows),
    )
    return checked(render(page(report)))


def test_a_run_with_switches() -> None:
    rows = [
        QueryRow(query=number, seconds=number / 10, rows=9, equal_to_spark=True, equal_to_duckdb=True, **PLANS)
        for number in range(1, 100)
    ]
    text = parsed(*rows).text
    for expected in ("TPC-DS on qoop: 99 queries", "99 of 99", "297", "198 stage outputs reused", "Switches per query"):
        assert expected in text, expected
    for expected in (
        "switch forced after every stage",
        "median of 3 runs",
        "Distribution of query times",
        "partitions",
    ):
        assert expected in text, expected


def test_failures_and_differences_are_named() -> None:
    text = parsed(
        QueryRow(query=1, seconds=1.0, rows=0, equal_to_spark=True, equal_to_duckdb=False, differences=("row 1: <a>",)),
        QueryRow(query=2, error="no <memory>"),
        QueryRow(query=3, seconds=1.0, rows=1, blank=True, one_stage_reason="the query has no joins", **PLANS),
    ).text
    for expected in ("NOT equal", "Query 1: row 1: <a>", "Query 2 failed: no <memory>", "0 of 1", "Failed", "no rows"):
        assert expected in text, expected
    assert "only NULL or 0 (weak check); one stage: the query has no joins" in text


def test_a_run_of_nothing_and_one_without_plans() -> None:
    assert "0 queries" in parsed().text
    text = parsed(QueryRow(query=1, seconds=0.5, rows=3), engine="duckdb", compared_with=()).text
    assert "Switches" not in text
    assert "master" not in text


def test_the_command_writes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    file = tmp_path / "below" / "run.html"
    arguments = ["run", "--engine", "duckdb", "--scale", "0.01", "--queries", "3,96", "--html", str(file)]
    assert console.run(cli, "tpcds", arguments) == 0
    assert "TPC-DS on duckdb: 2 queries" in checked(file.read_text(encoding="utf-8")).text
