"""Wait until daemons are ready, and find in their logs why one is not."""

import re
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from yarn_plugin.embedded import processes, rest
from yarn_plugin.embedded.directory import ClusterRecord, Layout
from yarn_plugin.embedded.errors import DaemonError
from yarn_plugin.embedded.ports import RM_HOST

START_TIMEOUT_S = 180
"""Enough for a node with a small CPU quota on a busy machine."""

_POLL_S = 0.25
_ERROR_LINE = re.compile(r"^\S+ (?:ERROR|FATAL) ")
_EXCEPTION = re.compile(r'^(?:Exception in thread "\S+" )?[\w.$]+(?:Exception|Error): (.*)$')


def rm_url(record: ClusterRecord) -> str:
    """The ResourceManager's web address."""
    return f"http://{RM_HOST}:{record.spec.ports.rm_web}"


def wait(record: ClusterRecord, names: Iterable[str], since_ms: int = 0, timeout_s: float = START_TIMEOUT_S) -> None:
    """Return when each of these daemons, started after `since_ms`, is ready.

    Raises `DaemonError`, quoting the daemon's log, as soon as one has exited, or on timeout.
    """
    waiting, missing = list(names), set[str]()
    deadline = time.monotonic() + timeout_s
    while True:
        waiting = [name for name in waiting if not _is_ready(record, name, since_ms)]
        if not waiting:
            return
        # Missing twice: the command line of a process that has just been started may still be empty.
        was_missing, missing = missing, set(waiting) - processes.daemons(record.id).keys()
        for name in waiting:
            if name in missing & was_missing:
                raise DaemonError(f"{name} exited: {last_error(record, name)}")
        if time.monotonic() > deadline:
            raise DaemonError(f"{waiting[0]} did not start within {timeout_s:.0f} s: {last_error(record, waiting[0])}")
        time.sleep(_POLL_S)


def _is_ready(record: ClusterRecord, name: str, since_ms: int) -> bool:
    kind, _, host = name.partition("-")
    checks: dict[str, Callable[[], bool]] = {
        "rm": lambda: rest.is_active(rm_url(record)),
        "nm": lambda: _node_is_ready(record, host, since_ms),
        "nn": lambda: _name_node(record, "NameNodeStatus")["State"] == "active",
        "dn": lambda: _data_node_is_ready(record),
    }
    try:
        return checks[kind]()
    except rest.NoResponseError:
        return False


def _node_is_ready(record: ClusterRecord, host: str, since_ms: int) -> bool:
    """Whether this very NodeManager process has registered: a killed one counts as running until it expires."""
    node = next((node for node in rest.nodes(rm_url(record)) if node.host == host), None)
    return node is not None and node.state == "RUNNING" and node.health_ms > since_ms


def _data_node_is_ready(record: ClusterRecord) -> bool:
    state = _name_node(record, "FSNamesystemState")
    return bool(state["NumLiveDataNodes"] == 1 and state["FSState"] == "Operational")


def _name_node(record: ClusterRecord, bean: str) -> dict[str, object]:
    address = f"http://{RM_HOST}:{record.spec.ports.name_node_web}"
    beans = rest.get(f"{address}/jmx?qry=Hadoop:service=NameNode,name={bean}")["beans"]
    if not beans:
        raise rest.NoResponseError(f"NameNode {address}: not ready yet")
    answer: dict[str, object] = beans[0]
    return answer


def last_error(record: ClusterRecord, daemon: str) -> str:
    """The line of a daemon's log that says why it is not ready, and the path of the log."""
    layout = Layout(record.spec.dir)
    for path in (layout.log(daemon), layout.output(daemon)):
        line = last_error_of(_lines(path))
        if line:
            return f"{line} (see {path})"
    return f"no error in its log (see {layout.log(daemon)})"


def last_error_of(lines: list[str]) -> str | None:
    """The message of the last error in a log: that of the exception below it, else the line itself.

    Output of the JVM itself has no log lines: the first exception or error in it. Hadoop's outer exceptions quote the
    inner ones and add context, such as the address to bind.
    """
    errors = [index for index, line in enumerate(lines) if _ERROR_LINE.match(line)]
    thrown = (_EXCEPTION.match(line) for line in lines[errors[-1] + 1 if errors else 0 :])
    message = next((match.group(1) for match in thrown if match), None)
    if message is not None:
        return message.partition("; For more details")[0]
    if errors:
        return lines[errors[-1]].split(" ", 2)[-1].strip()
    return next((line.strip() for line in lines if line.startswith(("Error", "/bin/sh"))), None)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(errors="replace").splitlines()
    except OSError:
        return []
