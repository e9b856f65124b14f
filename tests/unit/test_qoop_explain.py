"""`qoop explain` as a user sees it, on a folder of small Parquet files."""

import json
import re

import platformdirs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from qoop import planner
from qoop.cli import cli
from qoop.engine import versions
from qoop.estimate.cost import CostModel
from qoop.estimate.speed import COLD_FACTOR, NOMINAL, Line, TimedRun
from qoop.parsing.statement import parse_statement
from qoop.plans.candidates import CutPolicy
from qoop.replan.decision import Progress, Rules, evaluate
from qoop.run.machine_speed import add_run
from qoop.tables.folder import FolderCatalogue
from yarn_plugin import console

SALES, OTHERS = 400_000, 200_000


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """A fact table, two large tables that it joins, and a small one."""
    folder = tmp_path_factory.mktemp("tables")
    keys = range(SALES)
    sales = {"item": keys, "customer": [key * 7 % OTHERS for key in keys], "store": [key % 5 for key in keys]}
    pq.write_table(pa.table({name: list(values) for name, values in sales.items()}), folder / "sales.parquet")
    (folder / "items").mkdir()
    names = [f"name {key % 1000}" for key in range(SALES)]
    pq.write_table(pa.table({"item_id": list(range(SALES)), "item_name": names}), folder / "items" / "part-0.parquet")
    pq.write_table(pa.table({"customer_id": list(range(OTHERS))}), folder / "customers.parquet")
    pq.write_table(pa.table({"store_id": list(range(5)), "city": list("abcde")}), folder / "stores.parquet")
    return str(folder)


QUERY = """SELECT city, count(*) FROM sales JOIN items ON item = item_id JOIN customers ON customer = customer_id
    JOIN stores ON store = store_id WHERE city <> 'a' GROUP BY city"""


def explain(*words):
    return console.run(cli, "qoop", ["explain", *words])


def test_plans_as_trees_with_their_stages_and_estimates(tables, capsys, tmp_path):
    figures = tmp_path / "figures.json"
    assert explain("--tables", tables, "--shares", "8,1,2", "--plans", "2", "--json", str(figures), "-e", QUERY) == 0
    shown = capsys.readouterr().out
    found = json.loads(figures.read_text())
    assert found["shares"] == [1.0, 2.0, 8.0]
    assert f"{len(found['plans'])} candidate plans over {found['join_trees']} join trees" in shown
    assert found["join_trees"] > 1
    for number in set(found["chosen"]):
        count = len(found["plans"][number]["stages"])
        assert f"plan {number}: {count} stage" in shown
        for stage in found["plans"][number]["stages"]:
            assert stage == "result" or f"stage {stage}" in shown
    assert "stores: about 4 rows, 1 filter" in shown
    assert "plan  stages  1 slot  2 slots  8 slots" in shown
    for number, plan in enumerate(found["plans"]):
        assert plan["seconds"] == sorted(plan["seconds"], reverse=True), f"more slots slow plan {number} down"
    for place, number in enumerate(found["chosen"]):
        seconds, best = found["plans"][number]["seconds"][place], min(one["seconds"][place] for one in found["plans"])
        assert seconds <= 1.1 * best or seconds - best < max(0.3, 0.15 * seconds), "no other plan would win"


def test_where_another_plan_becomes_the_fastest(tables, capsys, tmp_path):
    figures = tmp_path / "figures.json"
    assert explain("--tables", tables, "--shares", "1,2,4,16,64", "--json", str(figures), "-e", QUERY) == 0
    shown = capsys.readouterr().out
    chosen, shares = (json.loads(figures.read_text())[name] for name in ("chosen", "shares"))
    flips = [
        f"at {low:g} slot{'' if low == 1 else 's'} plan {before} is chosen, at {high:g} slots plan {after}"
        for before, after, low, high in zip(chosen, chosen[1:], shares, shares[1:], strict=False)
        if before != after
    ]
    lines = [line for line in shown.splitlines() if " is chosen, at " in line]
    assert [line.partition("; it turns at about ")[0] for line in lines] == flips
    for number in set(chosen):
        assert f"\nplan {number} on " in shown, "why it wins"
    assert re.search(r"plan \d+ on \d+ slots?: .*scans \d+\.\d\d s \(plan \d+: \d+\.\d\d\)", shown)


def test_what_an_older_spark_lacks_is_told(tables, capsys, monkeypatch):
    assert explain("--tables", tables, "-e", QUERY) == 0
    assert "with Spark" not in capsys.readouterr().out
    monkeypatch.setattr(versions, "installed", lambda: "4.2.1")
    assert explain("--tables", tables, "-e", QUERY) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("with Spark 4.2.1, a stage that a switch cancels starts anew")


def test_a_query_of_one_stage_shows_the_reason(tables, capsys, tmp_path):
    figures = tmp_path / "figures.json"
    assert explain("--tables", tables, "--json", str(figures), "-e", "SELECT count(*) FROM items") == 0
    reason = json.loads(figures.read_text())["one_stage_reason"]
    assert reason
    assert f": {reason} (what would change it: " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("-e", "SELECT * FROM item"), "query, line 1, position 15: table 'item' not found in --tables '"),
        (
            ("-e", "SELECT item_idd FROM items"),
            "query, line 1, position 8: column 'item_idd' not found; did you mean item_id?",
        ),
        (
            ("-e", "SELECT *\nFROM items JOIN JOIN stores"),
            "query, line 2, position 17: expected table name but got JOIN near",
        ),
        (("-e", "SELECT 1; SELECT 2"), "query: 2 statements"),
        (("-e", "SELECT 1", "--shares", "0"), "--shares '0': "),
        (("-e", "SELECT 1", "--shares", "nan"), "--shares 'nan': "),
        (
            ("-e", "SELECT 1", "--shares", "1e308"),
            "--shares '1e308': must be numbers of slots above 0 and at most 1",
        ),
        (("-e", "SELECT 1", "--json", "\udcff"), r"--json '\udcff': must be UTF-8"),
        (("-e", "SELECT 1", "x.sql"), "QUERY.sql, -e: give only one"),
        (("no.sql",), "query 'no.sql': no such file or directory"),
    ],
)
def test_bad_input_is_one_line(tables, capsys, words, said):
    assert explain("--tables", tables, *words) != 0
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"qoop: {said}")


def test_a_folder_without_tables_is_one_line(capsys, tmp_path):
    assert explain("--tables", str(tmp_path), "-e", "SELECT 1") != 0
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"qoop: --tables '{tmp_path}': ")
    assert "Parquet" in line


def test_tables_are_found_whatever_the_case_and_the_letters_of_their_files(tmp_path, capsys):
    for name in ("Orders", "my-table"):
        pq.write_table(pa.table({"k": [1, 2]}), tmp_path / f"{name}.parquet")
    text = "SELECT count(*) FROM ORDERS o JOIN `my-table` m ON o.k = m.k"
    assert explain("--tables", str(tmp_path), "-e", text) == 0
    assert "m (`my-table`): about 2 rows" in capsys.readouterr().out


def test_a_query_that_is_nested_too_deeply_is_one_line(tmp_path, capsys):
    text = "SELECT " + "(" * 5000 + "1" + ")" * 5000
    (tmp_path / "t.parquet").write_text("x")
    assert console.run(cli, "qoop", ["explain", "--tables", str(tmp_path), "-e", text]) == 0
    assert "nested too deeply" in capsys.readouterr().out


def test_a_table_that_is_not_parquet_is_one_line(tmp_path, capsys):
    (tmp_path / "t.parquet").write_text("x")
    assert console.run(cli, "qoop", ["explain", "--tables", str(tmp_path), "-e", "SELECT * FROM t"]) == 1
    said = capsys.readouterr().err
    assert (said.count("\n"), said.startswith("qoop: table 't': ")) == (1, True)


def test_seconds_are_those_of_a_new_application_on_this_machine(tables, capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(platformdirs, "user_cache_dir", lambda name: str(tmp_path / name))
    figures = tmp_path / "figures.json"

    def explained():
        assert explain("--tables", tables, "--shares", "1,2", "--json", str(figures), "-e", QUERY) == 0
        return [seconds for plan in json.loads(figures.read_text())["plans"] for seconds in plan["seconds"]]

    nominal = explained()
    assert "at nominal speed" in capsys.readouterr().out
    add_run(TimedRun(1.0, 24.0, cold=True))
    assert explained() == pytest.approx([20.0 + COLD_FACTOR * one for one in nominal])
    assert "as 1 run of planned queries showed, 20.0 s of them until Spark is warm" in capsys.readouterr().out


def test_a_query_takes_as_long_as_its_best_plan_is_expected_to_on_this_machine(tables):
    catalogue = FolderCatalogue(tables)
    planned = planner.plan(parse_statement(QUERY), catalogue, catalogue.statistics, CutPolicy(), CostModel())

    def seconds(of):
        return [one.seconds for one in evaluate(of.plans, of.estimator, Progress(frozenset(), {}), 2.0, Rules())]

    slower, factor = planned.at_speed(Line(20.0, 4.0), 2.0)
    assert seconds(slower) == pytest.approx([factor * one for one in seconds(planned)])
    assert min(seconds(slower)) == pytest.approx(20.0 + 4.0 * min(seconds(planned)), rel=0.3)
    assert planned.at_speed(NOMINAL, 2.0) == (planned, 1.0)
