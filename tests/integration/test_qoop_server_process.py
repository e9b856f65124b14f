"""The process of `qoop server`: it is told to stop, or killed; on this machine, and on YARN with an arbiter."""

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress

import psutil
import pytest

from tests.eventually import eventually
from tests.integration.query_process import FLAGS, access
from tests.server_world import Client
from tests.spark.spark_sessions import small_data
from tpcds import data
from tpcds.queries import spark_text

pytestmark = [pytest.mark.integration, pytest.mark.matrix]


@contextmanager
def server(folder, *words, environment=None):
    """A server, its port, and its log."""
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "server.log"
    command = [sys.executable, "-c", "from qoop.cli import main; main()", "server", "--listen", "127.0.0.1:0", *words]
    with log.open("w") as written:
        process = subprocess.Popen(
            list(map(str, command)), cwd=folder, env=environment, stdout=written, stderr=written, text=True
        )
    family = psutil.Process(process.pid)
    children = []

    def port():
        assert process.poll() is None, log.read_text()
        found = re.search(r"listening at 127.0.0.1:(\d+)", log.read_text())
        return found and int(found[1])

    try:
        where = eventually(port, "the server listens", 180)
        children = family.children(recursive=True)
        assert children
        yield process, where, log
    finally:
        with suppress(psutil.NoSuchProcess):
            process.kill()
        process.wait()
        eventually(
            lambda: not any(child.is_running() and child.status() != "zombie" for child in children), "all ended"
        )


def local(folder):
    return server(folder, "--master", "local[2]", "--tables", small_data().path)


def test_a_statement_that_runs_ends_before_the_server_does(tmp_path):
    with local(tmp_path) as (process, port, log), Client(port) as client:
        session = client.open()
        text = "SELECT count(*) FROM store_sales a JOIN store_sales b ON a.ss_item_sk = b.ss_item_sk"
        operation = client.execute(session, text).operationHandle
        process.send_signal(signal.SIGTERM)
        eventually(lambda: "shutting down" in log.read_text(), "it shuts down")
        refused = client.execute(session, "SELECT 1").status
        assert (refused.statusCode, "shuts down" in refused.errorMessage) == (3, True)
        assert client.until_ended(operation).operationState == 2
        assert client.fetch(operation).results.columns[0].i64Val.values[0] > 0
        client.call("CloseSession", sessionHandle=session)
        assert process.wait(30) == 0
        assert "Traceback" not in log.read_text()


def test_spark_ends_with_a_server_that_is_killed(tmp_path):
    with local(tmp_path) as (process, port, _), Client(port) as client:
        client.execute(client.open(), "SELECT count(*) FROM range(1000000000000) WHERE rand() > 0.5")
        process.kill()


def test_the_server_ends_when_spark_does(tmp_path):
    with local(tmp_path) as (process, _, log):
        for child in psutil.Process(process.pid).children(recursive=True):
            if "java" in child.name():
                child.kill()
        assert process.wait(60) == 1
        assert "Spark has stopped" in log.read_text()


def test_a_server_on_yarn_is_one_application_that_is_gone_after_a_kill(cluster, arbiter, tmp_path):
    environment, arbitration = access(cluster, arbiter, tmp_path)
    admin = arbiter.admin()
    token = (tmp_path / "token").read_text()
    user = token.split(".")[1]
    words = (*FLAGS, *arbitration, "--tables", small_data().path)
    with server(tmp_path / "server", *words, environment={**os.environ, **environment}) as (process, port, _):
        with Client(port, password="guess") as guessing:
            assert "must be an arbiter's token" in guessing.refusal
        with Client(port, user=user, password=token) as client:
            operation = client.execute(client.open(), "SELECT count(*) FROM item").operationHandle
            assert client.until_ended(operation).operationState == 2
            lines = client.fetch(operation, kind=1).results.columns[0].stringVal.values
            assert any(line.startswith("share: ") for line in lines)
        assert len(admin.list_apps()) == 1
        process.kill()
        eventually(lambda: not admin.list_apps(), "the arbiter and YARN have no application", 60)


def test_beeline_on_yarn_prints_share_changes_and_switches(cluster, arbiter, tmp_path):
    environment, arbitration = access(cluster, arbiter, tmp_path)
    token, environment = (tmp_path / "token").read_text(), {**os.environ, **environment}
    texts = tmp_path / "queries.sql"
    texts.write_text("".join(f"{spark_text(number).strip().rstrip(';')};\n" for number in (17, 25, 29, 72)))
    words = (*FLAGS, *arbitration, "--tables", data.open_data(data.ensure(0.1)).path)
    with server(tmp_path / "server", *words, environment=environment) as (_, port, _):
        beeline = [
            *("beeline", "-u", f"jdbc:hive2://127.0.0.1:{port}/default"),
            *("-n", token.split(".")[1], "-p", token),
        ]
        printed = tmp_path / "beeline"
        with printed.open("w") as written:
            process = subprocess.Popen([*beeline, "-f", texts], env=environment, stdout=written, stderr=written)
        try:
            eventually(lambda: " of plan " in printed.read_text(), "a stage has started", 180)
            while process.poll() is None:
                other = arbiter.register("other")
                time.sleep(6)
                arbiter.admin().deregister(other.app)
                time.sleep(6)
        finally:
            process.kill()
            process.wait()
    lines = printed.read_text().splitlines()
    changes, switches = ([line for line in lines if word in line] for word in ("share: ", "switched to plan"))
    print(f"{len(changes)} lines of shares, {len(switches)} switches, exit code {process.returncode}")
    print(*changes[:6], *switches, sep="\n")
    assert process.returncode == 0, lines[-20:]
    assert any("2 applications" in line for line in changes)
