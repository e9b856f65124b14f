"""`qoop submit` on this machine, as a user runs it: its results, its errors, and cleanup after kills."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import duckdb
import psutil
import pyarrow.parquet as pq
import pytest

from qoop.run import journal
from tests.spark.spark_sessions import small_data, wait_until
from tpcds import data, queries
from tpcds.data import DataSet

pytestmark = pytest.mark.integration

JOINED = """SELECT i_category AS category, count(*) AS n FROM store_sales JOIN item ON ss_item_sk = i_item_sk
    JOIN store ON ss_store_sk = s_store_sk GROUP BY i_category"""

LOCAL = (
    *("--master", "local[2]", "--conf", "spark.ui.enabled=false", "--conf", "spark.sql.shuffle.partitions=2"),
    *("--conf", "spark.qoop.plan=always"),
)


@pytest.fixture(scope="module")
def small():
    return small_data()


@pytest.fixture(scope="module")
def tenth():
    """Enough data for query 17 to have several stages."""
    return data.open_data(data.ensure(0.1))


class Submission:
    """A `qoop submit` process in a directory."""

    def __init__(self, folder: Path, tables: DataSet, *words):
        self.folder, self.mark = folder, f"{folder}-{time.monotonic_ns()}"
        command = [sys.executable, "-c", "from qoop.cli import main; main()", "submit", *LOCAL]
        with (folder / "out").open("w") as out, (folder / "err").open("w") as err:
            self.process = subprocess.Popen(
                [*command, "--tables", str(tables.path), *words],
                cwd=folder,
                stdout=out,
                stderr=err,
                env={**os.environ, "TEST_SUBMISSION": self.mark, "TMPDIR": str(folder)},
                # SIGHUP may be ignored in the tests (nohup).
                preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),
            )

    def end(self, limit_s=200):
        """Wait for its end; returns exit code, stdout and stderr."""
        code = self.process.wait(limit_s)
        return code, (self.folder / "out").read_text(), (self.folder / "err").read_text()

    def processes(self):
        """All its processes, even detached ones."""
        return [one for one in psutil.process_iter() if _environment(one).get("TEST_SUBMISSION") == self.mark]

    def driver(self):
        """The Python process that runs the query; Spark's Java process is another."""
        return next(one for one in self.processes() if one.cmdline()[1:2] and one.cmdline()[1].endswith("driver.py"))

    def wait_for(self, kind, count=1, limit_s=120):
        """Wait until the journal has `count` events of a kind."""

        def has_events():
            assert self.process.poll() is None, (self.folder / "err").read_text()
            return (self.folder / "journal").exists() and events_in(self.folder)[kind] >= count

        wait_until(has_events, limit_s=limit_s)


def events_in(folder):
    """The number of events of each kind in the journal of a directory."""
    records = journal.follow(folder / "journal")
    return Counter(record["event"]["type"] for record in records if record["kind"] == "input")


def _environment(process):
    try:
        return process.environ()
    except (psutil.Error, OSError):
        return {}


def run(folder, tables, *words):
    return Submission(folder, tables, *words).end()


def qoop_lines(err):
    """The lines of qoop among Spark's messages; there must be no Python or Java stack trace."""
    assert "\tat " not in err
    return without_spark(err)


def without_spark(err):
    """The lines of qoop for a cancelled query: Spark logs the write job that this aborts, with a stack trace."""
    assert "Traceback" not in err
    return [line for line in err.splitlines() if line.startswith("qoop:")]


def in_duckdb(tables, text):
    """The rows of a query over a data set, from DuckDB."""
    with duckdb.connect() as connection:
        for folder in tables.path.iterdir():
            if folder.is_dir() and any(folder.glob("*.parquet")):
                connection.execute(f"CREATE VIEW {folder.name} AS SELECT * FROM '{folder}/*.parquet'")
        return Counter(connection.execute(text).fetchall())


def rows_in(folder):
    return Counter(tuple(row.values()) for file in sorted(folder.glob("*.parquet")) for row in _rows(file))


def _rows(file):
    return pq.ParquetFile(file).read().to_pylist()


# Results.


@pytest.mark.matrix
def test_a_result_on_the_terminal(tmp_path, small):
    expected = in_duckdb(small, JOINED)
    # As on a cluster, the default file system is not that of the machine where the tables are.
    elsewhere = ("--conf", "spark.hadoop.fs.defaultFS=hdfs://127.0.0.1:1")
    query = f"{JOINED} ORDER BY n DESC, category LIMIT 6"
    code, out, err = run(tmp_path, small, *elsewhere, "--rows", "4", "-e", query)
    assert code == 0, err
    header, *lines = out.splitlines()
    assert header.split() == ["category", "n"] and len(lines) == 4
    best = sorted(expected, key=lambda row: (-row[1], row[0] or ""))[:4]
    assert [line.split() for line in lines] == [[*str(name or "NULL").split(), str(count)] for name, count in best]
    (notice,) = qoop_lines(err)
    assert "only the first 4 rows" in notice
    assert "done in" in err


UNUSUAL = (
    "SELECT '[/x]' AS `[h]`, '' AS `two words`, CAST(NULL AS STRING) AS none, 'a\\nb' AS lines, repeat('w', 999) AS w"
)


@pytest.mark.matrix
def test_unusual_names_and_values_in_each_format(tmp_path, small):
    wide = "w" * 999
    code, out, err = run(tmp_path, small, "-e", UNUSUAL)
    assert (code, out.splitlines()[1].split()) == (0, ["[/x]", "NULL", "a\\nb", wide]), err
    code, out, err = run(tmp_path, small, "--format", "csv", "-e", UNUSUAL)
    assert (code, out) == (0, f'[h],two words,none,lines,w\n[/x],"",,"a\nb",{wide}\n'), err
    code, out, err = run(tmp_path, small, "--format", "json", "-e", UNUSUAL)
    row = {"[h]": "[/x]", "two words": "", "none": None, "lines": "a\nb", "w": wide}
    assert (code, [json.loads(line) for line in out.splitlines()]) == (0, [row]), err


def test_output_as_files_with_a_journal_and_a_report(tmp_path, tenth):
    query = tmp_path / "query.sql"
    query.write_text(queries.spark_text(17))
    words = ("--output", "parquet", "result", "--journal", "journal", "--report", "report.html", "--slots", "2")
    code, out, err = run(tmp_path, tenth, *words, "--checkpoint", (tmp_path / "outputs").as_uri(), str(query))
    assert (code, out) == (0, ""), err
    found = rows_in(tmp_path / "result")
    assert found.total() == in_duckdb(tenth, queries.duckdb_text(17)).total() > 0
    assert events_in(tmp_path)["StageFinished"] > 1
    assert "<html" in (tmp_path / "report.html").read_text()
    assert list((tmp_path / "outputs").iterdir()) == []
    assert not list(tmp_path.glob("result.*"))


def test_statements_that_store_rows(tmp_path, small):
    expected = in_duckdb(small, JOINED)
    code, out, err = run(tmp_path, small, "-e", f"CREATE TABLE stored USING parquet AS {JOINED}")
    assert (code, out) == (0, ""), err
    assert rows_in(tmp_path / "spark-warehouse" / "stored") == expected
    code, out, err = run(tmp_path, small, "-e", f"INSERT OVERWRITE DIRECTORY '{tmp_path}/put' USING parquet {JOINED}")
    assert code == 0, err
    assert rows_in(tmp_path / "put") == expected


# Bad input that is detected only with Spark; what is known before, in test_qoop_preflight.


@pytest.mark.matrix
def test_a_syntax_error_is_an_error_of_one_line(tmp_path, small):
    code, out, err = run(tmp_path, small, "-e", "SELECT *\nFORM item")
    (line,) = qoop_lines(err)
    assert (code, out) == (1, "")
    assert line.startswith("qoop: query, line 2, position 6: syntax error at or near 'item'")


# Kills during a query.


@pytest.fixture
def slow(tmp_path, tenth):
    """A query that stores outputs as files, then computes for hours before it writes its result."""
    text = queries.spark_text(17)
    inner = text[: text.upper().rindex("ORDER BY")]
    (tmp_path / "query.sql").write_text(
        f"""SELECT q.*, slow.n FROM ({inner}) q CROSS JOIN (SELECT count(*) AS n FROM inventory a
            CROSS JOIN inventory b WHERE a.inv_item_sk % 7 < b.inv_item_sk % 11) slow"""
    )
    words = ("--output", "parquet", "result", "--journal", "journal", "--checkpoint", (tmp_path / "outputs").as_uri())
    made = Submission(tmp_path, tenth, *words, "query.sql")
    yield made
    for process in made.processes():
        process.kill()


def written_files(tmp_path):
    """The result, its drafts, and stored outputs of stages."""
    return [path.name for pattern in ("result*", "outputs/*") for path in tmp_path.glob(pattern)]


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (signal.SIGTERM, 143),
        pytest.param(signal.SIGINT, 130, marks=pytest.mark.matrix),
        pytest.param(signal.SIGHUP, 129, marks=pytest.mark.matrix),
    ],
)
def test_a_signal_cancels_the_query_and_removes_its_files(tmp_path, slow, number, code):
    slow.wait_for("StageFinished")
    assert written_files(tmp_path) != []
    slow.process.send_signal(number)
    ended, _, err = slow.end(60)
    assert ended == code
    assert without_spark(err) == ["qoop: stopped by a signal; the query was cancelled"]
    assert written_files(tmp_path) == []
    wait_until(lambda: slow.processes() == [])


def test_files_of_a_killed_driver_are_removed(tmp_path, slow):
    slow.wait_for("StageFinished")
    slow.driver().kill()
    code, _, err = slow.end(60)
    assert code != 0 and without_spark(err) == []
    wait_until(lambda: slow.processes() == [])
    assert written_files(tmp_path) == []


@pytest.mark.matrix
def test_the_next_query_removes_files_of_a_query_that_was_killed_with_all_its_processes(tmp_path, slow, tenth):
    slow.wait_for("StageFinished")
    for process in slow.processes():
        process.kill()
    slow.process.wait(30)
    wait_until(lambda: slow.processes() == [])
    own, remaining = written_files(tmp_path)
    draft = tmp_path / "result.qoop-1234"
    draft.mkdir()
    (draft / "_alive").touch()
    for folder in (tmp_path / "outputs" / remaining, tmp_path / own, draft):
        for file in folder.rglob("*"):
            os.utime(file, (time.time() - 3600,) * 2)
    other = tmp_path / "outputs" / "qoop-of-another"
    other.mkdir()
    (other / "_alive").touch()
    (tmp_path / "query.sql").write_text(queries.spark_text(17))
    words = ("--output", "parquet", "result", "--checkpoint", (tmp_path / "outputs").as_uri())
    code, _, err = run(tmp_path, tenth, *words, "query.sql")
    assert code == 0, err
    assert sorted(written_files(tmp_path)) == ["qoop-of-another", "result"]
