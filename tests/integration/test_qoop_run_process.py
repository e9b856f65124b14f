"""The process of `qoop run`: on this machine, where its tables last; on YARN, as one application."""

import os
import signal
import subprocess
import sys

import pytest

from tests.eventually import eventually
from tests.integration.query_process import FLAGS, access

pytestmark = [pytest.mark.integration, pytest.mark.matrix]

LOCAL = ("--master", "local[1]", "--conf", "spark.ui.enabled=false")


def start(folder, command, *words, environment=None):
    line = [sys.executable, "-c", "from qoop.cli import main; main()", command, *words]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(
        list(map(str, line)),
        cwd=folder,
        env=environment or {**os.environ, "QOOP_CATALOGUE": str(folder / "catalogue")},
        **pipes,
    )


def run(folder, command, *words, environment=None):
    """The exit code, what it has printed, and our own lines on stderr, where Spark's are, too."""
    with start(folder, command, *words, environment=environment) as process:
        printed, told = process.communicate(timeout=400)
    assert "Traceback" not in told
    return process.returncode, printed, [line for line in told.splitlines() if line.startswith("qoop: ")]


def test_a_table_that_a_script_creates_is_there_for_the_next_command(tmp_path):
    (tmp_path / "script.sql").write_text("CREATE TABLE vip AS SELECT 7 AS id, 'Ann' AS name;\nSELECT * FROM vip;\n")
    assert run(tmp_path, "run", *LOCAL, "-S", "script.sql") == (0, "7\tAnn\n", [])
    code, printed, _ = run(tmp_path, "submit", *LOCAL, "--format", "csv", "-e", "SELECT name FROM vip")
    assert (code, printed) == (0, "name\nAnn\n")
    assert not (tmp_path / "metastore_db").exists() and not (tmp_path / "derby.log").exists()


def test_two_processes_at_once_go_on_working(tmp_path):
    assert run(tmp_path, "run", *LOCAL, "-S", "-e", "CREATE TABLE vip AS SELECT 7 AS id")[0] == 0
    with start(tmp_path, "run", *LOCAL, "-e", "SELECT * FROM vip; !sleep 300") as first:
        assert first.stdout.readline() == "7\n"
        code, printed, told = run(tmp_path, "run", *LOCAL, "-S", "-e", "SELECT id + 1 FROM vip; DROP TABLE vip")
        assert (code, printed) == (0, "8\n")
        assert len(told) == 1 and f"is in use by process {first.pid}; its tables can be read" in told[0]
        first.send_signal(signal.SIGTERM)
        assert first.wait(60) == 130
    assert run(tmp_path, "run", *LOCAL, "-S", "-e", "SELECT * FROM vip") == (0, "7\n", [])


def test_a_script_on_yarn_is_one_application_registered_once(cluster, arbiter, tmp_path):
    environment, arbitration = access(cluster, arbiter, tmp_path)
    admin, seen = arbiter.admin(), set()
    (tmp_path / "script.sql").write_text(
        "SELECT count(*) FROM range(9);\nSET a=1;\nSELECT ${a} + sum(id) FROM range(4);\n"
    )
    with start(tmp_path, "run", *FLAGS, *arbitration, "script.sql", environment=environment) as process:

        def has_ended():
            seen.update(app.app for app in admin.list_apps())
            return process.poll() is not None

        eventually(has_ended, "the script ends", 400)
        assert (process.returncode, process.stdout.read()) == (0, "9\na\t1\n7\n")
    assert len(seen) == 1
    assert not admin.list_apps()
