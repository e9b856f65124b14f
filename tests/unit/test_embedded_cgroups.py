"""CPU quotas in both versions of control groups, on directories that look like them."""

import os
import subprocess
import sys

import pytest

from yarn_plugin.embedded import cgroups


@pytest.fixture
def proc(tmp_path):
    directory = tmp_path / "proc"
    directory.mkdir()
    return directory


def mounted(proc, mount, kind, options="rw"):
    with (proc / "mounts").open("a") as mounts:
        mounts.write(f"cgroup {mount} {kind} {options} 0 0\n")


def test_version_1_keeps_period_and_quota_in_two_files(tmp_path):
    for name in ("cpu.cfs_quota_us", "cpu.cfs_period_us"):
        (tmp_path / name).write_text("-1")
    cgroups.set_quota(tmp_path, 0.5)
    assert (tmp_path / "cpu.cfs_period_us").read_text() == "100000"
    assert (tmp_path / "cpu.cfs_quota_us").read_text() == "50000"


def test_version_2_keeps_them_in_one(tmp_path):
    (tmp_path / "cpu.max").write_text("max 100000")
    cgroups.set_quota(tmp_path, 1.25)
    assert (tmp_path / "cpu.max").read_text() == "125000 100000"


def test_version_2_asks_the_parent_for_the_controller(tmp_path):
    (tmp_path / "cgroup.subtree_control").write_text("")
    with pytest.raises(FileNotFoundError):  # A plain directory grows no cpu.max.
        cgroups.create(tmp_path / "group")
    assert (tmp_path / "cgroup.subtree_control").read_text() == "+cpu"


def test_a_process_joins_before_it_becomes_the_command(tmp_path):
    (tmp_path / "cgroup.procs").touch()
    answer = subprocess.run(
        cgroups.command_in_group(tmp_path, ["echo", "a b", "$c"]), capture_output=True, text=True, check=True
    )
    assert answer.stdout == "a b $c\n"
    assert (tmp_path / "cgroup.procs").read_text() == "0\n"


def test_a_process_that_may_not_join_does_not_run(tmp_path):
    answer = subprocess.run(
        cgroups.command_in_group(tmp_path / "absent", ["echo", "ran"]), capture_output=True, text=True
    )
    assert answer.returncode != 0
    assert answer.stdout == ""


def test_without_control_groups_there_is_no_parent(proc):
    assert cgroups.find_parent(proc) is None


def test_without_cpu_quota_no_parent_cgroup_is_used_and_none_is_left(tmp_path, proc):
    (proc / "cgroup").write_text("0::/\n")
    mounted(proc, tmp_path / "fs", "cgroup2")
    (tmp_path / "fs").mkdir()
    assert cgroups.find_parent(proc) is None
    assert not any(entry.is_dir() for entry in (tmp_path / "fs").iterdir())


def test_the_top_is_tried_first_then_the_one_above_ours(tmp_path, proc):
    top = tmp_path / "fs"
    (proc / "cgroup").write_text("0::/user/app/session\n")
    mounted(proc, top, "cgroup2")
    assert list(cgroups._candidates(proc)) == [top, top / "user/app", top / "user/app/session"]


def test_version_1_uses_the_cpu_controllers_mount(tmp_path, proc):
    (proc / "cgroup").write_text("2:cpu,cpuacct:/here\n1:memory:/there\n")
    mounted(proc, tmp_path / "memory", "cgroup", "rw,memory")
    mounted(proc, tmp_path / "cpu", "cgroup", "rw,cpu,cpuacct")
    assert list(cgroups._candidates(proc)) == [tmp_path / "cpu", tmp_path / "cpu/here"]


def test_removing_groups_that_are_gone_is_no_error(tmp_path):
    (tmp_path / "one").mkdir()
    cgroups.remove([tmp_path / "one", tmp_path / "two"])
    assert not (tmp_path / "one").exists()


def test_a_real_cpu_quota_is_enforced_where_cgroups_can_be_created():
    parent = cgroups.find_parent()
    if parent is None:
        pytest.skip("needs control groups with a CPU quota that may be written")
    group = parent / f"yarn-plugin-test-{os.getpid()}"
    script = "import time, os; end = time.time() + 1\nwhile time.time() < end: pass\nprint(os.times().user)"
    try:
        cgroups.create(group)
        cgroups.set_quota(group, 0.2)
        command = cgroups.command_in_group(group, [sys.executable, "-c", script])
        answer = subprocess.run(command, capture_output=True, text=True, check=True)
        assert float(answer.stdout) < 0.6
    finally:
        cgroups.remove([group])
