"""Start, find and stop the processes of a cluster.

Daemons have the cluster's id in their command line and environment; containers and their children have it in their
environment. As the id is random, exactly the cluster's processes are found and signalled, even after the command that
started them has ended.
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

_DAEMON_MARKER = "-Dyarn_plugin.daemon="
_POLL_S = 0.1
_GONE = (psutil.NoSuchProcess, psutil.AccessDenied, OSError)


def marker_options(cluster_id: str, daemon: str) -> list[str]:
    """JVM options by which `daemons` finds a daemon."""
    return [f"{_DAEMON_MARKER}{cluster_id}/{daemon}"]


def spawn(command: Sequence[str], environment: Mapping[str, str], output: Path, cluster_id: str) -> int:
    """Start a process in its own session, which outlives this process. Returns its id."""
    output.parent.mkdir(parents=True, exist_ok=True)
    with output.open("ab") as log:
        process = subprocess.Popen(
            command,
            env={**environment, CLUSTER_VARIABLE: cluster_id},
            cwd=output.parent,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    # Reap it if it ends while this process is running.
    threading.Thread(target=process.wait, name=f"reaper-{process.pid}", daemon=True).start()
    return process.pid


def daemons(cluster_id: str) -> dict[str, psutil.Process]:
    """The cluster's running daemons by name."""
    marker = f"{_DAEMON_MARKER}{cluster_id}/"
    found = {}
    for process in psutil.process_iter():
        name = next((word.removeprefix(marker) for word in _command_line(process) if word.startswith(marker)), None)
        if name is not None and _is_session_leader(process):
            found[name] = process
    return found


def _is_session_leader(process: psutil.Process) -> bool:
    """Whether a process leads its session, as daemons do.

    A child forked to start a container briefly has the daemon's command line, but is no session leader.
    """
    try:
        return os.getsid(process.pid) == process.pid
    except OSError:
        return False


def members(cluster_id: str, groups: Iterable[Path] = ()) -> list[psutil.Process]:
    """Every running process of the cluster: daemons, containers and their children.

    A container that has cleared its environment is found as a descendant of its node, or in its node's control group
    (`groups`).
    """
    found = {process.pid: process for process in psutil.process_iter() if _has_id(process, cluster_id)}
    for process in list(found.values()):
        found |= {child.pid: child for child in _descendants(process)}
    found |= {process.pid: process for process in _in_groups(groups)}
    found.pop(os.getpid(), None)
    return list(found.values())


def stop(find: Callable[[], list[psutil.Process]], timeout_s: float, what: str) -> None:
    """Stop all processes that `find` returns, until it returns none: SIGTERM, then SIGKILL after `timeout_s`.

    Raises `DaemonError` if a process cannot be stopped.
    """
    remaining = find()
    _signal(remaining, psutil.Process.terminate)
    remaining = _wait(find, timeout_s)
    deadline = time.monotonic() + 15
    while remaining and time.monotonic() < deadline:
        # Repeatedly, as a node may start a container between the search and the signal.
        _signal(remaining, psutil.Process.kill)
        remaining = _wait(find, 1)
    if remaining:
        ids = ", ".join(str(process.pid) for process in remaining)
        raise DaemonError(f"{what}: cannot stop processes {ids} (another user's?); stop them, then try again")


def _wait(find: Callable[[], list[psutil.Process]], timeout_s: float) -> list[psutil.Process]:
    deadline = time.monotonic() + timeout_s
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


def _has_id(process: psutil.Process, cluster_id: str) -> bool:
    if any(word.startswith(f"{_DAEMON_MARKER}{cluster_id}/") for word in _command_line(process)):
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
    """Whether the process is running and not a zombie."""
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
