"""The demo's searches, as `make demo` runs them: what they show, and that nothing of a demo outlives it."""

import os
import signal
import subprocess
import sys

import psutil
import pytest

from tests.eventually import eventually
from tpcds.demo.searches.page import features
from tpcds.demo.searches.record import SearchesRecord

pytestmark = [pytest.mark.integration, pytest.mark.matrix]


def started(folder):
    command = [sys.executable, "-m", "tpcds.demo", "--only", "searches", "--scale", "0.1", "--out", str(folder)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def left(folder):
    """Processes whose command line names the demo's folder."""
    found = []
    for process in psutil.process_iter():
        try:
            line = process.cmdline()
        except psutil.Error:
            continue
        if process.pid != os.getpid() and any(str(folder) in word for word in line):
            found.append(line)
    return found


def test_the_searches_bid_pay_move_and_find_the_best(tmp_path):
    demo = started(tmp_path / "demo")
    printed, _ = demo.communicate(timeout=560)
    assert demo.returncode == 0, printed
    record = SearchesRecord.read(tmp_path / "demo" / "searches.json")
    assert {name: seen for name, seen, _ in features(record) if not seen} == {}, printed
    assert {one.final for one in record.searches} == {"SUCCEEDED"}
    assert record.query.equal_to_duckdb
    trained = [run for one in record.searches for run in one.runs if run.last_step]
    beside = [run for run in trained if run.began < record.query.ended_at and run.ended > record.query.submitted_at]
    assert beside, "no trial trained while the query ran"
    assert all(one.best.loss < 0.5 and one.best.accuracy > 0.85 for one in record.searches)
    assert "not in this run" not in (tmp_path / "demo" / "searches.html").read_text()
    assert not left(tmp_path / "demo")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_nothing_outlives_a_demo_that_is_interrupted_or_killed(tmp_path, number):
    demo = started(tmp_path / "demo")
    trials = tmp_path / "demo" / "searches" / "searches" / "rates" / "trials"
    try:
        eventually(lambda: demo.poll() is not None or (trials.exists() and any(trials.iterdir())), "it trains", 240)
    finally:
        demo.send_signal(number)
        printed, _ = demo.communicate(timeout=120)
    assert demo.returncode == (130 if number == signal.SIGINT else -number), printed
    eventually(lambda: not left(tmp_path / "demo"), "nothing is left", 90)
