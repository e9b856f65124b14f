"""A `qoop submit` process on the cluster, its journal, and its processes that can be killed."""

import getpass
import os
import subprocess
import sys
import time
from collections import Counter
from contextlib import contextmanager, suppress

import psutil
import pyarrow.parquet as pq

from qoop.run import journal
from tests.eventually import eventually
from tpcds.answers import Answer
from tpcds.queries import spark_text

FLAGS = (
    *("--master", "yarn", "--executor-memory", "3g", "--executor-cores", "2"),
    *("--conf", "spark.executor.memoryOverhead=512m", "--conf", "spark.driver.memory=1g"),
    *("--conf", "spark.yarn.am.memory=256m", "--conf", "spark.yarn.am.memoryOverhead=128m"),
    *("--conf", "spark.sql.shuffle.partitions=8", "--conf", "spark.sql.session.timeZone=UTC"),
    *("--conf", "spark.qoop.plan=always"),
)
"""A node of the test cluster has room for one executor of two slots and one application master."""


def access(cluster, arbiter, folder):
    """The environment of a Spark client of the cluster, and the options for the arbiter."""
    configuration = {name: str(cluster.conf_dir) for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR")}
    configuration["SPARK_CONF_DIR"] = str(cluster.spark_conf_dir)
    token = folder / "token"
    token.touch(mode=0o600)
    token.write_text(arbiter.admin().issue_token(getpass.getuser()).token)
    return {**os.environ, **configuration}, ("--arbiter", arbiter.url, "--token-file", token)


class EndedTooSoonError(AssertionError):
    """A query ended before it was in a phase."""


class QueryProcess:
    """One TPC-DS query under an arbiter, with a switch forced after every stage and on every share."""

    def __init__(self, cluster, arbiter, data, number, folder, *more):
        self.folder, self.number = folder, number
        self.folder.mkdir(parents=True)
        self.journal = folder / "journal"
        self._read = 0, []
        environment, arbitration = access(cluster, arbiter, folder)
        (folder / "query.sql").write_text(spark_text(number))
        words = [
            *(sys.executable, "-c", "from qoop.cli import main; main()", "submit", *FLAGS),
            *(*arbitration, "--tables", data.path, "--journal", self.journal),
            *("--output", "parquet", folder / "rows", "--switch-every-stage", *more, folder / "query.sql"),
        ]
        with (folder / "log").open("w") as log:
            self.process = subprocess.Popen(list(map(str, words)), env=environment, stdout=log, stderr=log)

    @property
    def running(self):
        return self.process.poll() is None

    def log(self):
        return (self.folder / "log").read_text()

    def records(self):
        """The complete records of its journal so far; read again when it has grown, as who waits asks all the time."""
        size = self.journal.stat().st_size if self.journal.exists() else 0
        if size != self._read[0]:
            self._read = size, journal.follow(self.journal)
        return self._read[1]

    def wait_for_phase(self, phase, condition=lambda records: True, limit_s=150.0):
        """Wait until the query is in a phase; returns its journal at that time."""
        deadline = time.monotonic() + limit_s
        while time.monotonic() < deadline:
            ended = not self.running
            records = self.records()
            if phase_of(records) == phase and condition(records):
                return records
            if ended:
                raise EndedTooSoonError(f"the query ended before it was {phase}: {self.log()[-2000:]}")
            time.sleep(0.005)
        raise AssertionError(f"the query was not {phase} within {limit_s:g} s: {self.log()[-2000:]}")

    def strike_in(self, phase, strike):
        """Strike while the query is in a phase, which is held for as long as that takes; returns its journal then.

        A phase may last for less time than it takes to find the processes to be killed. An event without a decision
        may be about to end it.
        """
        while True:
            self.wait_for_phase(phase)
            with self.held():
                records = self.records()
                if phase_of(records) == phase and records[-1]["kind"] == "decision":
                    strike()
                    return records

    @contextmanager
    def held(self):
        """Stop the processes of the driver for a while; executors and daemons go on."""
        driver = psutil.Process(self.process.pid)
        stopped = [driver, *driver.children(recursive=True)]
        try:
            for process in stopped:
                with suppress(psutil.NoSuchProcess):
                    process.suspend()
            yield
        finally:
            for process in stopped:
                with suppress(psutil.NoSuchProcess):
                    process.resume()

    def finish(self, limit_s=240.0):
        """Wait for its successful end; returns its rows."""
        assert self.process.wait(limit_s) == 0, self.log()[-4000:]
        tables = [pq.read_table(file) for file in sorted((self.folder / "rows").glob("part-*.parquet"))]
        rows = [tuple(row.values()) for table in tables for row in table.to_pylist()]
        return Answer(tuple(tables[0].column_names), rows, 0.0)

    def stop(self):
        """Stop it if it still runs."""
        if self.running:
            self.process.terminate()
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(30)


def phase_of(records):
    """The phase of the query after the last event; None before it has started."""
    return next((record["phase"] for record in reversed(records) if record["kind"] == "decision"), None)


def stage_runs_after_one_has_finished(records):
    """Whether a stage has finished and another one runs."""
    kinds = Counter(record["event"]["type"] for record in records if record["kind"] == "input")
    started = sum(one["type"] == "StartStage" for record in records for one in record.get("commands", ()))
    ended = sum(kinds[kind] for kind in ("StageFinished", "StageCancelled", "StageFailed"))
    return kinds["StageFinished"] > 0 and started > ended


def executors(app_id):
    """The processes of an application's executors."""
    found = []
    for process in psutil.process_iter():
        try:
            words = process.cmdline()
        except psutil.Error:
            continue
        # The shell that starts the JVM has the same arguments.
        if words and words[0].endswith("java") and "--app-id" in words and app_id in words:
            found.append(process)
    return found


def yarn_app(arbiter, name_of_app):
    """The YARN id of a registered application."""
    return eventually(
        lambda: next((app.yarn_app for app in arbiter.admin().list_apps() if app.app == name_of_app), None),
        f"{name_of_app} runs on YARN",
    )


def kill(pid):
    """kill -9; waits until the process is gone."""
    process = psutil.Process(pid)
    process.kill()
    process.wait(30)
