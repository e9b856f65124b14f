"""CPU quotas of nodes: cores that a NodeManager and its containers may use together.

Both versions of control groups work alike: a directory is a group, a process joins by writing to `cgroup.procs`, and
its children inherit the group. The quota is in `cpu.cfs_quota_us` and `cpu.cfs_period_us` in version 1, in `cpu.max` in
version 2.
"""

import errno
import os
import subprocess
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

_PERIOD_US = 100_000


def find_parent(proc: Path = Path("/proc/self")) -> Path | None:
    """The group in which this process may create groups with a CPU quota; None if there is none.

    A process actually joins a probe group: permission to create a group does not imply permission to join it.
    """
    for parent in _candidates(proc):
        probe = parent / f"yarn-plugin-probe-{os.getpid()}"
        try:
            create(probe)
            set_quota(probe, 1)
            subprocess.run(command_in_group(probe, ["true"]), stderr=subprocess.DEVNULL, check=True)
        except (OSError, subprocess.CalledProcessError):
            continue
        finally:
            remove([probe])
        return parent
    return None


def create(group: Path) -> None:
    """Create a group without a quota. Raises `OSError` if that is not allowed."""
    group.mkdir(exist_ok=True)
    if not _is_version_1(group) and not (group / "cpu.max").exists():
        (group.parent / "cgroup.subtree_control").write_text("+cpu")
        if not (group / "cpu.max").exists():
            raise FileNotFoundError(group / "cpu.max")


def set_quota(group: Path, cores: float) -> None:
    """Limit the processes of a group to `cores` cores in total. Raises `OSError`."""
    quota = round(cores * _PERIOD_US)
    if _is_version_1(group):
        (group / "cpu.cfs_period_us").write_text(str(_PERIOD_US))
        (group / "cpu.cfs_quota_us").write_text(str(quota))
    else:
        (group / "cpu.max").write_text(f"{quota} {_PERIOD_US}")


def remove(groups: Iterable[Path], timeout_s: float = 3.0) -> None:
    """Remove groups that exist and have no processes; waits for processes that are exiting."""
    deadline = time.monotonic() + timeout_s
    waiting = [group for group in groups if _is_busy_on_removal(group)]
    while waiting and time.monotonic() < deadline:
        time.sleep(0.05)
        waiting = [group for group in waiting if _is_busy_on_removal(group)]


def _is_busy_on_removal(group: Path) -> bool:
    """Remove a group. Returns whether that failed because of processes in it."""
    try:
        group.rmdir()
    except OSError as refused:
        return refused.errno == errno.EBUSY
    return False


def command_in_group(group: Path, command: list[str]) -> list[str]:
    """A command that joins the group and then executes `command`, which so runs entirely in the group."""
    # Writing 0 stands for the writing process itself, which then executes the command.
    return ["/bin/sh", "-c", 'echo 0 > "$0" && exec "$@"', str(group / "cgroup.procs"), *command]


def _is_version_1(group: Path) -> bool:
    return (group / "cpu.cfs_quota_us").exists()


def _candidates(proc: Path) -> Iterator[Path]:
    """Groups that may have children with a quota: the mount's root, our parent group, our own group."""
    own = _own_groups(proc)
    for mount, kind, options in _mounts(proc):
        if kind == "cgroup2":
            yield from _path_to(mount, own.get("", "/"))
        elif kind == "cgroup" and "cpu" in options:
            yield from _path_to(mount, own.get("cpu", "/"))


def _path_to(mount: Path, path: str) -> Iterator[Path]:
    yield mount
    own = mount / path.strip("/")
    # In version 2 a group with processes, such as our own, cannot have children with quotas; its parent may.
    yield from (group for group in (own.parent, own) if group.is_relative_to(mount) and group != mount)


def _own_groups(proc: Path) -> dict[str, str]:
    """This process's group by controller; that of version 2 under the empty name."""
    groups: dict[str, str] = {}
    for line in _lines(proc / "cgroup"):
        _, controllers, path = line.split(":", 2)
        groups |= dict.fromkeys(controllers.split(","), path)
    return groups


def _mounts(proc: Path) -> Iterator[tuple[Path, str, list[str]]]:
    for line in _lines(proc / "mounts"):
        _, mount, kind, options, *_ = line.split(" ")
        yield Path(mount), kind, options.split(",")


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []
