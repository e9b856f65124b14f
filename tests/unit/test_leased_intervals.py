"""The launchers' records show a GPU that two containers hold at a time, however they end."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.eventually import eventually
from tests.leased import launcher
from tests.leased.intervals import Interval, overlaps, recorded


class Launchers:
    def __init__(self, folder):
        self.folder, self.started = folder, {}

    def start(self, number, cell):
        name = f"container_e03_1700000000000_{number:04}_01_000002"
        command = [sys.executable, "-ISE", Path(launcher.__file__), self.folder, cell, name]
        self.started[number] = subprocess.Popen(command)
        eventually(lambda: any(one.app.endswith(f"_{number:04}") for one in recorded(self.folder)), "it has begun")

    def end(self, number, sent=signal.SIGTERM):
        self.started[number].send_signal(sent)
        self.started.pop(number).wait(30)


@pytest.fixture
def launchers(tmp_path):
    made = Launchers(tmp_path)
    yield made
    for number in list(made.started):
        made.end(number)


def test_containers_one_after_the_other_hold_a_gpu_once(launchers):
    for number, sent in ((1, signal.SIGTERM), (2, signal.SIGKILL), (3, signal.SIGTERM)):
        launchers.start(number, "n1/0")
        launchers.end(number, sent)
    launchers.start(4, "n1/1")
    found = recorded(launchers.folder)
    assert [one.app for one in found] == [f"application_1700000000000_{number:04}" for number in (1, 2, 3, 4)]
    assert overlaps(found) == []


def test_a_gpu_that_is_locked_is_held_twice(launchers):
    launchers.start(1, "n1/0")
    launchers.start(2, "n1/0")
    first, second = recorded(launchers.folder)
    assert (second,) in overlaps([first, second])


def test_times_that_overlap_are_found_without_the_lock():
    first, second = Interval("n1/0", "a", 1.0, 3.0, True), Interval("n1/0", "b", 2.9, 4.0, True)
    assert overlaps([first, second]) == [(first, second)]
    assert overlaps([first, Interval("n1/1", "b", 2.9, 4.0, True)]) == []
