"""What is known to be wrong before Spark starts: one line each, with the cure, and Spark is not started."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from qoop.cli import cli
from qoop.submit.preflight import check_text
from yarn_plugin import console

RECORDER = """#!/bin/sh
touch "$STARTED"
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of tables; a spark-submit that notes that it was started."""
    program = tmp_path / "spark" / "bin" / "spark-submit"
    program.parent.mkdir(parents=True)
    program.write_text(RECORDER)
    program.chmod(0o755)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "spark"))
    monkeypatch.setenv("STARTED", str(tmp_path / "started"))
    for name in ("SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    tables = tmp_path / "tables"
    tables.mkdir()
    pq.write_table(pa.table({"item_id": [1], "price": [2.0]}), tables / "items.parquet")
    pq.write_table(pa.table({"item": [1], "amount": [2]}), tables / "sales.parquet")
    (tmp_path / "out").mkdir()
    return tmp_path


def submit(*words):
    return console.run(cli, "qoop", ["submit", *words])


SQL = ("-e", "SELECT 1")
NAMED = ("--tables", "tables", "-e")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([*NAMED, "SELECT pric FROM items"], "line 1, position 8: column 'pric' not found; did you mean price?"),
        (
            [*NAMED, "SELECT sum(amont) FROM sales JOIN items ON item = item_id"],
            "column 'amont' not found; did you mean amount?",
        ),
        ([*NAMED, "CREATE TABLE t AS SELECT pric FROM items"], "column 'pric' not found; did you mean price?"),
        ([*NAMED, "SELECT * FROM item"], "table 'item' not found in --tables 'tables'; did you mean items?"),
        (["--output", "parquet", "out", *SQL], "--output 'out': already exists; remove it, or choose another path"),
        (["--output", "csv", "nowhere", "-e", "CREATE TABLE t AS SELECT 1"], "--output: cannot be given for a stat"),
        (["--tabels", "tables", *SQL], "--tabels: no such option of qoop or of spark-submit; did you mean '--tables'?"),
        (["--executor-memry=2g", *SQL], "--executor-memry: no such option of qoop or of spark-submit; did you mean"),
        (["--master", "yran", *SQL], "--master 'yran': must be local[N], yarn, or the address of a master; did you m"),
        (["--master", "local[two]", *SQL], "--master 'local[two]': must be local[N], yarn"),
        (["--driver-memory", "2 gigs", *SQL], "--driver-memory '2 gigs': must be a memory size such as 512m or 2g"),
        (["--deploy-mode", "clster", *SQL], "--deploy-mode 'clster': must be client or cluster; did you mean 'cluster"),
        (["--conf", "spark.executor.memory", *SQL], "--conf 'spark.executor.memory': must be PROPERTY=VALUE"),
        (["--conf", "spark.qoop.pln=never", *SQL], "qoop has no such property; did you mean 'spark.qoop.plan'?"),
        (["--conf", "spark.qoop.plan=alway", *SQL], "must be always, auto or never; did you mean 'always'?"),
        ([*SQL, "--master"], "--master: requires a value"),
        (["--report", "out", *SQL], "report 'out': cannot be written (is a directory)"),
        (["--journal", "nowhere/a.journal", *SQL], "--journal 'nowhere/a.journal': no such directory"),
    ],
)
def test_what_is_wrong_is_said_in_one_line_without_spark(folder, capsys, words, said):
    assert submit(*words) in (1, 2)
    printed = capsys.readouterr()
    assert printed.out == ""
    assert len(printed.err.splitlines()) == 1, printed.err
    assert said in printed.err
    assert not (folder / "started").exists()


@pytest.mark.parametrize(
    "words",
    [
        [*NAMED, "SELECT _metadata.file_path FROM items"],
        [*NAMED, "SELECT ${column} FROM items"],
        [*NAMED, "SELECT price * 2 AS twice, twice + 1 FROM items"],
        [*NAMED, "SELECT * FROM elsewhere.item"],
        [*NAMED, "SELECT something FROM items"],
        [*NAMED, "SELECT s.prices FROM (SELECT struct(price AS prices) AS s FROM items)"],
        [*NAMED, "MERGE words that only Spark may know"],
        ["--master", "local[2, 3]", "--verbose", "-Dexec=here", *SQL],
        ["--conf", "spark.sql.catalogImplementation=hive", *NAMED, "SELECT * FROM item"],
        ["--output", "parquet", "hdfs:///out", *SQL],
    ],
)
def test_what_only_spark_can_judge_is_left_to_it(folder, words):
    assert submit(*words) == 0
    assert (folder / "started").exists()


def test_a_server_refuses_an_unknown_option_before_spark_starts(folder, capsys):
    assert console.run(cli, "qoop", ["server", "--listn", "127.0.0.1:0"]) == 2
    assert "--listn: no such option of qoop or of spark-submit; did you mean '--listen'?" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text",
    [
        "-- a\n/* b */ ((SELECT 1))",
        "${statement}",
        "VACUUM t",
        "BEGIN SELECT 1; SELECT 2; END",
        "SELECT ';'",
        "frobnicate",
    ],
)
def test_texts_that_only_spark_can_judge_are_left_to_it(text):
    check_text(text)
