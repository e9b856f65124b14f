"""The command `tpcds`: errors of one line that say what would be right; results in a file."""

import json
from pathlib import Path

import pytest

from tpcds import data
from tpcds.cli import cli
from yarn_plugin import console


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("generate --scale -1 --out X", "--scale '-1': "),
        ("generate --scale 1", "--out: required"),
        ("generate --scale 1 --out X --parts 0", "--parts"),
        ("generate --scale 1 --out pyproject.toml", "must be a directory, not a file"),
        ("queries --queries 100", "--queries '100': "),
        ("queries --queries 5-1", "--queries '5-1': "),
        ("queries --dialect oracle", "--dialect 'oracle': choose one of duckdb, spark"),
        ("run --queries 0", "--queries '0'"),
        ("run --engine impala", "--engine 'impala': choose one of duckdb, qoop, spark"),
        ("run --compare spark", "--compare 'spark': must be duckdb"),
        ("run --compare oracle", "--compare 'oracle'"),
        ("run --switch-every-stage", "--engine 'spark': must be qoop"),
        ("run --scale 1 --data X", "--scale '1': "),
        ("run --scale tiny", "--scale 'tiny'"),
        ("run --data no/such", "--data 'no/such': no such directory"),
        ("run --data tests", "--data 'tests': must be a TPC-DS data set"),
        ("run --conf spark.x", "--conf 'spark.x': "),
        ("run --repeat 0", "--repeat"),
        ("walk", "no such command 'walk'"),
    ],
)
def test_bad_input_is_one_line(arguments: str, expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert console.run(cli, "tpcds", arguments.split()) != 0
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("tpcds: ")
    assert expected in captured.err
    assert captured.err.count("\n") == 1


def test_generate_writes_its_results_to_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, results = tmp_path / "set", tmp_path / "results.json"
    arguments = ["generate", "--scale", "0.01", "--out", str(out), "--json", str(results)]
    assert console.run(cli, "tpcds", arguments) == 0
    assert console.run(cli, "tpcds", arguments) == 0
    assert "already complete" in capsys.readouterr().out
    assert json.loads(results.read_text())["reused"] is True
    assert data.open_data(out).scale == 0.01


def test_the_list_of_queries(capsys: pytest.CaptureFixture[str]) -> None:
    assert console.run(cli, "tpcds", ["queries", "--queries", "3,96"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == ["3", "2", "3", "date_dim,", "item,", "store_sales"]


def test_the_text_of_a_query_can_be_fed_to_the_engine(capsys: pytest.CaptureFixture[str]) -> None:
    assert console.run(cli, "tpcds", ["queries", "--queries", "1", "--dialect", "duckdb", "--show"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("-- query 1\nWITH customer_total_return AS (")
    assert text.rstrip().endswith(";")


def test_a_run_on_duckdb_with_its_results_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "below" / "results.json"
    arguments = ["run", "--engine", "duckdb", "--scale", "0.01", "--queries", "3,96", "--json", str(file)]
    assert console.run(cli, "tpcds", arguments) == 0
    written = json.loads(file.read_text())
    assert (written["engine"], written["scale"], written["compared_with"]) == ("duckdb", 0.01, [])
    assert [row["query"] for row in written["queries"]] == [3, 96]
    assert "2 queries on duckdb" in capsys.readouterr().out
