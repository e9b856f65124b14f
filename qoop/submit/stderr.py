"""The driver's stderr, relayed around spark-submit through a named pipe.

spark-submit merges the driver's stdout and stderr. So that a result can be redirected without progress lines in it, the
driver writes its messages to a named pipe beside the job file, and `qoop submit` copies them to its own stderr.
"""

import codecs
import os
import select
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MESSAGES = "messages"
"""File name of the pipe."""


@contextmanager
def relay_to_stderr(pipe: Path) -> Iterator[None]:
    """Within this context, copy what is written to the pipe to stderr; on exit all of it has been copied.

    If stderr cannot be written any more (its reader has gone, its disk is full) the rest is read and dropped: a full
    pipe would block the query.
    """
    os.mkfifo(pipe, 0o600)
    # Read-write, so that it does not end when a writer closes it; non-blocking, so that it can be drained.
    opened = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    exit_reader, exit_writer = os.pipe()
    thread = threading.Thread(target=_relay, args=(opened, exit_reader), name="messages", daemon=True)
    thread.start()
    try:
        yield
    finally:
        os.close(exit_writer)
        thread.join()
        os.close(exit_reader)
        os.close(opened)


def _relay(opened: int, exit_reader: int) -> None:
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    writable, exiting = True, False
    while not exiting:
        readable, _, _ = select.select([opened, exit_reader], [], [])
        # What was written before the exit is in the pipe by now.
        exiting = exit_reader in readable
        for data in _drain(opened):
            writable = writable and _write(decoder.decode(data))
    if writable:
        _write(decoder.decode(b"", final=True))


def _drain(opened: int) -> Iterator[bytes]:
    """Read a pipe until it is empty."""
    while True:
        try:
            yield os.read(opened, 65536)
        except BlockingIOError:
            return


def _write(text: str) -> bool:
    """Write to stderr; False if it cannot be written."""
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except (OSError, ValueError):
        return False
    return True


def redirect_stderr(job: Path) -> None:
    """In the driver, send stderr to the pipe beside the job file; on the cluster, where there is none, leave it."""
    pipe = job.with_name(MESSAGES)
    if pipe.is_fifo():
        sys.stderr = pipe.open("w", buffering=1, encoding="utf-8")
