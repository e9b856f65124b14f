"""Processes of a cluster: found by what they carry, and no others are ever touched."""

import os
import subprocess
import sys
import uuid

import psutil
import pytest

from tests.eventually import eventually
from yarn_plugin.embedded import processes


@pytest.fixture
def cluster_id():
    """An id; whatever still carries it at the end of the test is ended."""
    made = uuid.uuid4().hex
    yield made
    processes.stop(lambda: processes.members(made), 0.1, "test")


@pytest.fixture
def spawn(cluster_id, tmp_path):
    def start(daemon, script="while true; do sleep 0.05; done", environment=None):
        command = ["/bin/sh", "-c", script, *processes.marker_options(cluster_id, daemon)]
        return processes.spawn(
            command, environment or {"PATH": "/usr/bin:/bin"}, tmp_path / f"{daemon}.out", cluster_id
        )

    return start


def test_daemons_are_found_by_name(spawn, cluster_id):
    numbers = {"rm": spawn("rm"), "nm-127.0.1.1": spawn("nm-127.0.1.1")}
    assert {name: process.pid for name, process in processes.daemons(cluster_id).items()} == numbers


def test_a_daemon_has_a_session_of_its_own_and_writes_to_its_file(spawn, tmp_path):
    number = spawn("rm", "echo started; while true; do sleep 0.05; done")
    eventually(lambda: (tmp_path / "rm.out").read_text() == "started\n")
    assert os.getsid(number) == number


def test_a_daemon_that_ended_is_not_listed_and_no_zombie_stays(spawn, cluster_id):
    number = spawn("rm")
    psutil.Process(number).kill()
    eventually(lambda: not psutil.pid_exists(number))
    assert processes.daemons(cluster_id) == {}


def test_containers_whose_node_is_gone_are_still_members(spawn, cluster_id):
    number = spawn("nm-127.0.1.1", "sleep 60 & wait")
    eventually(lambda: psutil.Process(number).children())
    container = psutil.Process(number).children()[0].pid
    psutil.Process(number).kill()
    eventually(lambda: [process.pid for process in processes.members(cluster_id)] == [container])


def test_a_descendant_with_an_empty_environment_is_a_member(spawn, cluster_id):
    number = spawn("nm-127.0.1.1", "env -i sleep 60 & wait")
    eventually(lambda: psutil.Process(number).children() and psutil.Process(number).children()[0].name() == "sleep")
    container = psutil.Process(number).children()[0]
    assert container.environ() == {}
    assert {process.pid for process in processes.members(cluster_id)} == {number, container.pid}


def test_a_child_that_was_only_forked_is_no_daemon(spawn, cluster_id):
    number = spawn("nm-127.0.1.1", "(while true; do :; done) & wait")
    eventually(lambda: psutil.Process(number).children())
    assert psutil.Process(number).children()[0].cmdline() == psutil.Process(number).cmdline()
    assert processes.daemons(cluster_id)["nm-127.0.1.1"].pid == number


def test_processes_in_the_clusters_cgroups_are_members(cluster_id, tmp_path):
    other = subprocess.Popen(["sleep", "60"])
    try:
        (tmp_path / "cgroup.procs").write_text(f"{other.pid}\n")
        assert [process.pid for process in processes.members(cluster_id, [tmp_path, tmp_path / "gone"])] == [other.pid]
    finally:
        other.kill()
        other.wait()


def test_ending_ends_what_ignores_being_asked(spawn, cluster_id):
    spawn("rm", "trap '' TERM; while true; do sleep 0.05; done")
    spawn("nm-127.0.1.1")
    processes.stop(lambda: processes.members(cluster_id), 0.5, "test")
    assert processes.members(cluster_id) == []


def test_no_foreign_process_is_ended(spawn, cluster_id, tmp_path):
    spawn("rm")
    foreign_id = uuid.uuid4().hex
    mark = processes.marker_options(foreign_id, "rm")
    # Looks like a daemon, but of another cluster; and one that merely mentions this cluster's id.
    others = [
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", *mark]),
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", cluster_id]),
    ]
    try:
        processes.stop(lambda: processes.members(cluster_id), 0.5, "test")
        assert all(other.poll() is None for other in others)
    finally:
        for other in others:
            other.kill()
            other.wait()
