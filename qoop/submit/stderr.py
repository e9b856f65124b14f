"""The driver's messages on their way to the user's stderr.

spark-submit mixes what the driver writes to its two outputs into one. So that a result can be redirected without the
progress lines in it, the driver writes messages to a named pipe beside its job, and `qoop submit` passes them on.
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
"""The name of the pipe."""


@contextmanager
def relayed(pipe: Path) -> Iterator[None]:
    """Meanwhile, what is written to the pipe appears on stderr; afterwards all of it has.

    Where stderr takes no more (its reader has gone, its disk is full) the rest is read and dropped: a pipe that nobody
    reads would stop the query as it writes.
    """
    os.mkfifo(pipe, 0o600)
    # Opened for both ways, so that it does not end with a writer; read without waiting, so that it can be emptied.
    opened = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    over, ended = os.pipe()
    thread = threading.Thread(target=_relay, args=(opened, over), name="messages", daemon=True)
    thread.start()
    try:
        yield
    finally:
        os.close(ended)
        thread.join()
        os.close(over)
        os.close(opened)


def _relay(opened: int, over: int) -> None:
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    heard, is_over = True, False
    while not is_over:
        readable, _, _ = select.select([opened, over], [], [])
        # What was written before the end was announced is in the pipe by now.
        is_over = over in readable
        for data in _held(opened):
            heard = heard and _say(decoder.decode(data))
    if heard:
        _say(decoder.decode(b"", final=True))


def _held(opened: int) -> Iterator[bytes]:
    """What a pipe holds, until it is empty."""
    while True:
        try:
            yield os.read(opened, 65536)
        except BlockingIOError:
            return


def _say(text: str) -> bool:
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except (OSError, ValueError):
        # Nobody can be told.
        return False
    return True


def redirect_stderr(job: Path) -> None:
    """In the driver: write messages to the pipe beside the job; on a cluster there is none, and they go to its log."""
    pipe = job.with_name(MESSAGES)
    if pipe.is_fifo():
        sys.stderr = pipe.open("w", buffering=1, encoding="utf-8")
