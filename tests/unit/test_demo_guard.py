"""What a killed demo has started is ended."""

import os
import subprocess
import sys

import psutil
import pytest

from tests.eventually import eventually

DEMO = """
import os, subprocess, sys, time
from pathlib import Path
from tpcds.demo.guard import guarded

with guarded(Path(sys.argv[1])) as guard:
    process = subprocess.Popen(["sleep", "300"])
    guard.watch(process.pid)
    print(process.pid, guard._process.pid, flush=True)
    sys.stdin.readline()
    process.kill() or process.wait()
"""


@pytest.fixture
def demo(tmp_path):
    """A demo that runs until it is told to end; its own process, and those of what it has started and of its guard."""
    command = [sys.executable, "-c", DEMO, str(tmp_path / "cluster")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process, *map(psutil.Process, map(int, process.stdout.readline().split()))
        process.kill()


def gone(process):
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


def test_a_killed_demo_leaves_nothing_behind(demo):
    process, started, guard = demo
    assert os.getsid(guard.pid) != os.getsid(process.pid), "Ctrl-C does not reach it"
    process.kill()
    eventually(lambda: gone(started) and gone(guard), "both have ended", 30)


def test_a_demo_that_has_ended_what_it_started_needs_no_guard(demo):
    process, started, guard = demo
    process.communicate("end\n")
    assert process.returncode == 0
    eventually(lambda: gone(started) and gone(guard), "both have ended", 30)
