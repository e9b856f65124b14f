"""Processes that belong to a cluster: starting them, finding them again, ending exactly them.

Each process carries the cluster's id: a daemon in its command line and its environment, a container and whatever it
starts in its environment. The id is random, so a process that carries it is the cluster's, whatever its number, and
whatever became of the command that started it; and no other process is ever signalled.
"""

import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import psutil

from yarn_plugin.embedded.errors import DaemonError
from yarn_plugin.embedded.yarn_configuration import CLUSTER_VARIABLE

_DAEMON_MARK = "-Dyarn_plugin.daemon="
_POLL_S = 0.1
_GONE = (psutil.NoSuchProcess, psutil.AccessDenied, OSError)


def marks(cluster_id: str, daemon: str) -> list[str]:
    """What a daemon's command line must hold for `daemons` to find it: JVM options."""
    return [f"{_DAEMON_MARK}{cluster_id}/{daemon}"]


def spawn(command: Sequence[str], environment: Mapping[str, str], output: Path, cluster_id: str) -> int:
    """Start a process in a session of its own, which outlives this one; returns its number."""
    output.parent.mkdir(parents=True, exist_ok=True)
    with output.open("ab") as printed:
        process = subprocess.Popen(
            command,
            env={**environment, CLUSTER_VARIABLE: cluster_id},
            cwd=output.parent,
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    # Should it end while this process still runs, it must not stay as a zombie.
    threading.Thread(target=process.wait, name=f"reaper-{process.pid}", daemon=True).start()
    return process.pid


def daemons(cluster_id: str) -> dict[str, psutil.Process]:
    """The cluster's running daemons by name."""
    mark = f"{_DAEMON_MARK}{cluster_id}/"
    found = {}
    for process in psutil.process_iter():
        name = next((word.removeprefix(mark) for word in _command_line(process) if word.startswith(mark)), None)
        if name is not None and _leads_a_session(process):
            found[name] = process
    return found


def _leads_a_session(process: psutil.Process) -> bool:
    """A daemon does; the child it has just forked, to become a container, for a moment has its command line too."""
    try:
        return os.getsid(process.pid) == process.pid
    except OSError:
        return False


def members(cluster_id: str, groups: Iterable[Path] = ()) -> list[psutil.Process]:
    """Every running process of the cluster: its daemons, its containers, what those started.

    A container may have emptied its environment; it is found as a descendant of its node, or in its node's control
    group (`groups`).
    """
    found = {process.pid: process for process in psutil.process_iter() if _carries(process, cluster_id)}
    for process in list(found.values()):
        found |= {child.pid: child for child in _descendants(process)}
    found |= {process.pid: process for process in _in_groups(groups)}
    found.pop(os.getpid(), None)
    return list(found.values())


def end(find: Callable[[], list[psutil.Process]], patience_s: float, what: str) -> None:
    """End all that `find` finds, until it finds nothing: asked first, after `patience_s` forced.

    Raises `DaemonError` if something cannot be ended.
    """
    remaining = find()
    _signal(remaining, psutil.Process.terminate)
    remaining = _wait(find, patience_s)
    deadline = time.monotonic() + 15
    while remaining and time.monotonic() < deadline:
        # Again and again: a node may start a container between the look and the signal.
        _signal(remaining, psutil.Process.kill)
        remaining = _wait(find, 1)
    if remaining:
        numbers = ", ".join(str(process.pid) for process in remaining)
        raise DaemonError(f"{what}: processes {numbers} do not end (another user's?): end them, then try again")


def _wait(find: Callable[[], list[psutil.Process]], limit_s: float) -> list[psutil.Process]:
    deadline = time.monotonic() + limit_s
    while (remaining := find()) and time.monotonic() < deadline:
        time.sleep(_POLL_S)
    return remaining


def _signal(processes: Iterable[psutil.Process], send: Callable[[psutil.Process], None]) -> None:
    for process in processes:
        try:
            send(process)
        except _GONE:
            continue


def _command_line(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except _GONE:
        return []


def _carries(process: psutil.Process, cluster_id: str) -> bool:
    if any(word.startswith(f"{_DAEMON_MARK}{cluster_id}/") for word in _command_line(process)):
        return True
    try:
        return process.environ().get(CLUSTER_VARIABLE) == cluster_id
    except _GONE:
        return False


def _descendants(process: psutil.Process) -> list[psutil.Process]:
    try:
        return [child for child in process.children(recursive=True) if _is_running(child)]
    except _GONE:
        return []


def _is_running(process: psutil.Process) -> bool:
    """Whether the process has not ended; one that only waits for its parent to notice has."""
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except _GONE:
        return False


def _in_groups(groups: Iterable[Path]) -> list[psutil.Process]:
    found = [_process(number) for group in groups for number in _numbers(group)]
    return [process for process in found if process is not None and _is_running(process)]


def _numbers(group: Path) -> list[int]:
    try:
        return [int(number) for number in (group / "cgroup.procs").read_text().split()]
    except OSError:
        return []


def _process(number: int) -> psutil.Process | None:
    try:
        return psutil.Process(number)
    except _GONE:
        return None
