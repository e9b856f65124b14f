"""Waiting for daemons, and finding the line of a daemon's log that names the error."""

from types import SimpleNamespace

import pytest

from yarn_plugin.embedded import readiness
from yarn_plugin.embedded.errors import DaemonError
from yarn_plugin.embedded.readiness import last_error_of

TAKEN = "Problem binding to [127.0.2.1:18005] java.net.BindException: Address already in use"


@pytest.mark.parametrize(
    ("log", "complaint"),
    [
        ("", None),
        ("2026-01-01T00:00:00,000 INFO  Server: all is well", None),
        ("2026-01-01T00:00:00,000 ERROR NodeManager: no heartbeat", "NodeManager: no heartbeat"),
        (
            "2026-01-01T00:00:00,000 ERROR First: old\n"
            "org.example.OldException: old\n"
            "2026-01-01T00:00:01,000 ERROR NodeManager: Error starting NodeManager\n"
            f"org.apache.hadoop.YarnRuntimeException: java.net.BindException: {TAKEN}; For more details see: x\n"
            "\tat org.apache.hadoop.ipc.Server.bind(Server.java:753)\n"
            "Caused by: java.net.BindException: Address already in use\n"
            "2026-01-01T00:00:02,000 INFO  NodeManager: SHUTDOWN_MSG:",
            f"java.net.BindException: {TAKEN}",
        ),
        (
            "Error: Could not create the Java Virtual Machine.\nError: A fatal exception has occurred.",
            "Error: Could not create the Java Virtual Machine.",
        ),
        ('Exception in thread "main" java.lang.IllegalStateException: no such class\n\tat x', "no such class"),
        ("/bin/sh: 1: cannot create /sys/x: Permission denied", "/bin/sh: 1: cannot create /sys/x: Permission denied"),
    ],
)
def test_the_last_error_is_quoted(log, complaint):
    assert last_error_of(log.splitlines()) == complaint


@pytest.fixture
def looks(monkeypatch):
    """The daemons that each look finds among the processes; the node is ready once all were used."""
    found: list[dict] = []
    monkeypatch.setattr(readiness, "_POLL_S", 0.0)
    monkeypatch.setattr(readiness, "_is_ready", lambda record, name, since_ms: not found)
    monkeypatch.setattr(readiness, "last_error", lambda record, name: "the port is taken")
    monkeypatch.setattr(readiness.processes, "daemons", lambda cluster: found.pop(0))
    return found


def test_a_daemon_whose_command_line_cannot_be_read_yet_has_not_exited(looks):
    looks += [{}, {"rm": None}, {}, {"rm": None}]
    readiness.wait(SimpleNamespace(id="c"), ["rm"])


def test_a_daemon_that_has_exited_is_an_error(looks):
    looks += [{"rm": None, "nm": None}, {"rm": None}, {"rm": None}, {}]
    with pytest.raises(DaemonError, match="nm exited: the port is taken"):
        readiness.wait(SimpleNamespace(id="c"), ["rm", "nm"])
