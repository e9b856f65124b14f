"""Finding the line of a daemon's log that names the error."""

import pytest

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
