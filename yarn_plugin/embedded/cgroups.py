"""CPU quotas for nodes: what a node may use of the machine's cores, for itself and its containers together.

Control groups come in two versions with the same idea: a directory is a group, a process joins by writing to
`cgroup.procs`, and its children are born into the group. Version 1 keeps the quota in `cpu.cfs_quota_us` and
`cpu.cfs_period_us`, version 2 in `cpu.max`.
"""

import errno
import os
import subprocess
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

_PERIOD_US = 100_000


def find_parent(proc: Path = Path("/proc/self")) -> Path | None:
    """The group below which this process may make groups with a CPU quota; None where it may not.

    Tried with a group that a process really joins: the right to make one is not yet the right to move into it.
    """
    for parent in _candidates(proc):
        probe = parent / f"yarn-plugin-probe-{os.getpid()}"
        try:
            make(probe)
            set_quota(probe, 1)
            subprocess.run(joining(probe, ["true"]), stderr=subprocess.DEVNULL, check=True)
        except (OSError, subprocess.CalledProcessError):
            continue
        finally:
            remove([probe])
        return parent
    return None


def make(group: Path) -> None:
    """Make a group, without a quota yet. Raises `OSError` where that is not allowed."""
    group.mkdir(exist_ok=True)
    if not _is_version_1(group) and not (group / "cpu.max").exists():
        (group.parent / "cgroup.subtree_control").write_text("+cpu")
        if not (group / "cpu.max").exists():
            raise FileNotFoundError(group / "cpu.max")


def set_quota(group: Path, cores: float) -> None:
    """Let the processes of a group use so many cores together. Raises `OSError`."""
    quota = round(cores * _PERIOD_US)
    if _is_version_1(group):
        (group / "cpu.cfs_period_us").write_text(str(_PERIOD_US))
        (group / "cpu.cfs_quota_us").write_text(str(quota))
    else:
        (group / "cpu.max").write_text(f"{quota} {_PERIOD_US}")


def remove(groups: Iterable[Path], limit_s: float = 3.0) -> None:
    """Remove groups, as far as they exist and are empty of processes; waits for those that are just ending."""
    deadline = time.monotonic() + limit_s
    waiting = [group for group in groups if _is_in_use(group)]
    while waiting and time.monotonic() < deadline:
        time.sleep(0.05)
        waiting = [group for group in waiting if _is_in_use(group)]


def _is_in_use(group: Path) -> bool:
    """Remove a group; whether that failed only because of processes in it."""
    try:
        group.rmdir()
    except OSError as refused:
        return refused.errno == errno.EBUSY
    return False


def joining(group: Path, command: list[str]) -> list[str]:
    """The command that joins the group and then becomes `command`: not even its first step is outside."""
    # Writing 0 names the writing process, which `exec` turns into the command.
    return ["/bin/sh", "-c", 'echo 0 > "$0" && exec "$@"', str(group / "cgroup.procs"), *command]


def _is_version_1(group: Path) -> bool:
    return (group / "cpu.cfs_quota_us").exists()


def _candidates(proc: Path) -> Iterator[Path]:
    """Groups that may have children with a quota: the top of what is mounted, the one above ours, our own."""
    own = _own_groups(proc)
    for mount, kind, options in _mounts(proc):
        if kind == "cgroup2":
            yield from _path_to(mount, own.get("", "/"))
        elif kind == "cgroup" and "cpu" in options:
            yield from _path_to(mount, own.get("cpu", "/"))


def _path_to(mount: Path, path: str) -> Iterator[Path]:
    yield mount
    own = mount / path.strip("/")
    # In version 2 a group with processes, such as our own, has no quotas to give away; the one above it may.
    yield from (group for group in (own.parent, own) if group.is_relative_to(mount) and group != mount)


def _own_groups(proc: Path) -> dict[str, str]:
    """Our group by controller; the one of version 2 under the empty name."""
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
