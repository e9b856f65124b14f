"""What `up`, `status` and `down` print before any daemon is started."""

import subprocess
import sys

import pytest
from filelock import FileLock

from yarn_plugin import console
from yarn_plugin.cli import cli
from yarn_plugin.embedded import processes
from yarn_plugin.embedded.directory import ClusterRecord, Layout
from yarn_plugin.embedded.ports import free_base
from yarn_plugin.embedded.spec import ClusterSpec


@pytest.fixture
def run(capfd):
    """Run `yarn-plugin cluster ...`; returns exit code and what was printed."""

    def command(*arguments):
        code = console.run(cli, "yarn-plugin", ["cluster", *map(str, arguments)])
        printed = capfd.readouterr()
        return code, printed.out, printed.err

    return command


@pytest.fixture
def ended(tmp_path):
    """The record of a cluster whose daemons are gone, as a crash or a restart of the machine leaves it."""
    made = ClusterRecord(id="0123456789abcdef", spec=ClusterSpec(tmp_path), java=tmp_path, jars=())
    made.save()
    return made


def test_help_of_the_product_names_the_group(capfd):
    assert console.run(cli, "yarn-plugin", ["-h"]) == 0
    assert "cluster" in capfd.readouterr().out


def test_help_is_quick_because_commands_are_imported_late():
    seen = (
        "import sys, yarn_plugin.cli as c; print('yarn_plugin.cli.cluster' in sys.modules, 'pydantic' in sys.modules)"
    )
    answer = subprocess.run([sys.executable, "-c", seen], capture_output=True, text=True, check=True)
    assert answer.stdout == "False False\n"


def test_a_wrong_size_is_one_line(run, tmp_path):
    code, _, err = run("up", "--dir", tmp_path, "--nodes", 0)
    assert code == 2
    assert (err.startswith("yarn-plugin: --nodes 0: "), "250" in err, err.count("\n")) == (True, True, 1)


def test_a_directory_with_other_files_is_left_alone(run, tmp_path):
    (tmp_path / "letter.txt").write_text("dear")
    code, _, err = run("up", "--dir", tmp_path)
    assert code == 1
    assert "letter.txt" in err
    assert (tmp_path / "letter.txt").read_text() == "dear"


def test_a_directory_that_cannot_be_made_is_one_line(run, tmp_path):
    (tmp_path / "file").touch()
    code, _, err = run("up", "--dir", tmp_path / "file" / "below")
    assert code == 2
    assert err.count("\n") == 1


def test_a_directory_another_command_is_at_work_in_is_refused(run, ended):
    with FileLock(Layout(ended.spec.dir).lock):
        for command in ("up", "down"):
            code, _, err = run(command, "--dir", ended.spec.dir)
            assert code == 1
            assert "another `yarn-plugin cluster` command" in err


def test_a_directory_with_a_running_cluster_is_refused(run, ended, tmp_path):
    command = ["/bin/sh", "-c", "while true; do sleep 0.05; done", *processes.marker_options(ended.id, "rm")]
    processes.spawn(command, {"PATH": "/usr/bin:/bin"}, tmp_path / "logs" / "rm.out", ended.id)
    code, _, err = run("up", "--dir", tmp_path)
    assert code == 1
    assert "(rm)" in err
    code, out, _ = run("down", "--dir", tmp_path)
    assert code == 0
    assert out.startswith("stopped ")
    assert processes.members(ended.id) == []


def test_missing_java_is_one_line_and_nothing_is_started(run, tmp_path, monkeypatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    base = free_base(ClusterSpec(tmp_path).hosts, start=27000)
    code, _, err = run("up", "--dir", tmp_path / "c", "--port-base", base)
    assert code == 1
    assert "java is not on PATH" in err
    assert not (tmp_path / "c" / "cluster.json").exists()


def test_down_may_be_repeated_and_called_where_nothing_ever_was(run, ended, tmp_path):
    for directory in (tmp_path, tmp_path, tmp_path / "never"):
        code, out, _ = run("down", "--dir", directory)
        assert code == 0
        assert "no process" in out


def test_down_removes_yarns_local_files_and_leaves_logs_and_hdfs(run, ended):
    layout = Layout(ended.spec.dir)
    for directory in (layout.rm_state, layout.logs, layout.hdfs_blocks):
        directory.mkdir(parents=True)
    run("down", "--dir", ended.spec.dir)
    assert not layout.work.exists()
    assert layout.logs.exists()
    assert layout.hdfs_blocks.exists()


def test_status_reports_an_ended_cluster(run, ended):
    code, out, err = run("status", "--dir", ended.spec.dir)
    assert code == 1
    assert "not running" in out
    assert "no daemon" in err


def test_status_without_a_cluster_says_how_to_start_one(run, tmp_path):
    code, _, err = run("status", "--dir", tmp_path)
    assert code == 1
    assert "yarn-plugin cluster up" in err


def test_a_daemon_of_an_ended_cluster_cannot_be_started_alone(run, ended):
    code, _, err = run("start", "rm", "--dir", ended.spec.dir)
    assert code == 1
    assert "is down" in err


def test_an_unknown_daemon_is_refused_with_the_known_ones(run, ended):
    code, _, err = run("start", "nm-127.0.9.9", "--dir", ended.spec.dir)
    assert code == 2
    assert "one of nm-127.0.1.1, nm-127.0.1.2" in err
