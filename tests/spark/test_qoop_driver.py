"""What the driver of `qoop submit` does around a query: tables in a folder, the journal, the report, errors."""

import json
import os
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from qoop.engine.folders import ALIVE, QueryFolder
from qoop.errors import QueryFailedError
from qoop.submit import driver
from qoop.submit.job import Job
from tests.sampled import one_in
from tests.spark.spark_sessions import changed, local_session, small_data
from yarn_plugin.report.page import ReportError

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def spark(tmp_path_factory):
    with local_session(tmp_path_factory.mktemp("driver"), small_data()) as session:
        yield session


@pytest.fixture
def run(spark, tmp_path, monkeypatch):
    """Run a statement as `qoop submit --report r.html` does, in a directory of its own."""
    monkeypatch.chdir(tmp_path)
    before = {table.name for table in spark.catalog.listTables() if table.isTemporary}

    def submitted(text, **given):
        driver.run(spark, Job(text=text, name="q", **{"report": "r.html", "journal": "r.html.journal", **given}))

    yield submitted
    for table in spark.catalog.listTables():
        if table.isTemporary and table.name not in before:
            spark.sql(f"DROP VIEW `{table.name.replace('`', '``')}`")


# The report.


def test_a_statement_that_stored_its_rows_has_not_failed_without_a_report(run, spark, capsys):
    """Spark alone executes it, so there is no journal; that of an earlier query is not reported."""
    spark.sql("CREATE TABLE filled (a BIGINT, b BIGINT DEFAULT 7) USING parquet")
    run("SELECT 4242 AS earlier_query")
    assert "earlier_query" in Path("r.html").read_text()
    Path("r.html").unlink()
    run("INSERT INTO filled (a, b) SELECT 1, DEFAULT")
    assert spark.table("filled").count() == 1
    assert not Path("r.html").exists() and not Path("r.html.journal").exists()
    assert "warning: --report 'r.html': not written; " in capsys.readouterr().err


def test_a_report_that_cannot_be_made_is_a_warning(run, capsys, monkeypatch):
    monkeypatch.setattr("qoop.report.sections.header_blocks", lambda record: 1 / 0)
    run("SELECT 42 AS a")
    shown = capsys.readouterr()
    assert "42" in shown.out
    assert "warning: --report 'r.html': not written; ZeroDivisionError" in shown.err


def test_that_no_report_can_be_written_is_said_before_the_query_runs(run):
    Path("file").touch()
    with pytest.raises(ReportError, match=r"report 'file/r\.html': cannot be written"):
        run("CREATE TABLE never USING parquet AS SELECT 1 AS a", report="file/r.html", journal="j")
    assert not Path("j").exists()


def test_a_query_that_failed_has_a_report(run, spark, capsys):
    with pytest.raises(QueryFailedError, match="CAST_INVALID_INPUT") as failed:
        run("SELECT CAST(concat(s_state, '\\u001b[31m') AS INT) FROM store")
    assert "failed" in Path("r.html").read_text()
    (line,) = driver._message(failed.value, spark, Job(text="", name="q")).splitlines()
    assert "== SQL" not in line and "CAST_INVALID_INPUT" in line
    driver._print(line)
    assert "\\x1b[31m" in (err := capsys.readouterr().err) and "\x1b" not in err


def test_a_query_that_spark_rejects_has_none(run, capsys):
    with pytest.raises(PySparkException):
        run("SELECT nothing FROM store")
    assert not Path("r.html").exists()
    assert "report" not in capsys.readouterr().err


# Rows.


def test_times_are_printed_in_the_time_zone_of_the_session(run, spark, capsys, monkeypatch):
    monkeypatch.setenv("TZ", "UTC")
    text = "TIMESTAMP '2024-07-01 00:00:00'"
    query = f"SELECT {text} AS t, array({text}) AS a, DATE '+10000-01-01' AS d, INTERVAL '3' MONTH AS i, 0.0BD AS z"
    try:
        for zone in ("Asia/Tokyo", "+05:30", "-03:00"):
            with changed(spark, "spark.sql.session.timeZone", zone):
                run(query, format="csv")
            header, line = capsys.readouterr().out.splitlines()
            assert header == "t,a,d,i,z"
            assert line == ('2024-07-01T00:00:00,"[""2024-07-01T00:00:00""]",+10000-01-01,INTERVAL \'3\' MONTH,0.0')
        run(query)
        assert "2024-07-01 00:00:00" in capsys.readouterr().out
    finally:
        monkeypatch.undo()
        time.tzset()


def test_intervals_are_printed_as_in_sql(run, capsys):
    """Python has no months, and writes days and seconds in its own way."""
    run("SELECT INTERVAL '3' DAY AS d, INTERVAL '-1 02:03:04.5' DAY TO SECOND AS s, INTERVAL '1-2' YEAR TO MONTH AS m")
    assert "INTERVAL '3' DAY" in capsys.readouterr().out
    run("SELECT INTERVAL '3' DAY AS d, array(INTERVAL '-1 02:03:04.5' DAY TO SECOND) AS s", format="json")
    assert json.loads(capsys.readouterr().out) == {
        "d": "INTERVAL '3' DAY",
        "s": ["INTERVAL '-1 02:03:04.5' DAY TO SECOND"],
    }


# Tables.


@pytest.fixture
def folder(tmp_path):
    """Tables whose names and folder have unusual characters."""
    made = tmp_path / "run[1]{*}?"
    (made / "Parts").mkdir(parents=True)
    for name in ("Orders", "my-table", "o`clock", "Parts/part-0", "left over (1)"):
        pq.write_table(pa.table({"k": [1, 2, 3]}), made / f"{name}.parquet")
    return made


@one_in(2, "name", ["orders", "ORDERS", "`my-table`", "parts", "`left over (1)`"])
def test_unusual_names_of_tables(run, folder, capsys, name):
    run(f"SELECT count(*) + 40 AS n FROM {name} a JOIN ORDERS b ON a.k = b.k", tables=str(folder))
    shown = capsys.readouterr()
    assert shown.out.split() == ["n", "43"]
    assert "warning" not in shown.err


def test_a_file_that_no_table_can_be_made_of_fails_only_a_query_of_it(run, folder, capsys):
    """Of a text that the planner cannot parse, it is not known which tables it names."""
    (folder / "stray.parquet").write_text("no Parquet")
    run("SHOW TABLES", tables=str(folder))
    shown = capsys.readouterr()
    assert {"orders", "my-table", "o`clock"} <= set(shown.out.split()) and "stray" not in shown.out
    (warning,) = [line for line in shown.err.splitlines() if "is left out" in line]
    assert "warning: --tables " in warning
    assert "'stray' is left out: " in warning and "parquet(" not in warning
    for text in ("EXPLAIN SELECT count(*) FROM STRAY", "SELECT count(*) FROM stray"):
        with pytest.raises((PySparkException, Py4JError)):
            run(text, tables=str(folder))


# Folders for files.


def test_only_its_owner_can_read_the_folder_of_a_query(spark, tmp_path):
    folder = QueryFolder(spark, f"{tmp_path.as_uri()}/new/qoop-", "1")
    folder.create()
    try:
        assert (tmp_path / "new" / "qoop-1").stat().st_mode & 0o777 == 0o700
        assert (tmp_path / "new" / "qoop-1" / ALIVE).is_file()
    finally:
        folder.delete()
    assert list((tmp_path / "new").iterdir()) == []


def test_abandoned_folders_are_deleted(spark, tmp_path):
    for name, age in (("1-0123ab", 3600), ("2-0123ab", 60)):
        (tmp_path / f"qoop-{name}").mkdir()
        (tmp_path / f"qoop-{name}" / ALIVE).touch()
        os.utime(tmp_path / f"qoop-{name}" / ALIVE, (time.time() - age,) * 2)
    (tmp_path / "qoop-other").mkdir()
    folder = QueryFolder(spark, f"{tmp_path.as_uri()}/qoop-", "1")
    folder.create()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["qoop-1", "qoop-2-0123ab", "qoop-other"]
    folder.delete()
