"""The driver's messages on their way to the user's stderr.

spark-submit mixes what the driver writes to its two outputs into one. So that a result can be redirected without the
progress lines in it, the driver writes messages to a named pipe beside its job, and `qoop submit` passes them on.
"""

import codecs
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MESSAGES = "messages"
"""The name of the pipe."""

END = b"\0"


@contextmanager
def relayed(pipe: Path) -> Iterator[None]:
    """Meanwhile, what is written to the pipe appears on stderr; afterwards all of it has.

    Where stderr takes no more (its reader has gone, its disk is full) the rest is read and dropped: a pipe that nobody
    reads would stop the query as it writes.
    """
    os.mkfifo(pipe, 0o600)
    # Opened for both ways, so that it neither waits for a writer nor ends with one.
    opened = os.open(pipe, os.O_RDWR)
    over = threading.Event()
    thread = threading.Thread(target=_relay, args=(opened, over), name="messages", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        os.write(opened, END)
        thread.join()
        os.close(opened)


def _relay(opened: int, over: threading.Event) -> None:
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    heard = True
    while True:
        data = os.read(opened, 65536)
        # A message may hold the same byte.
        is_end = over.is_set() and data.endswith(END)
        heard = heard and _say(decoder.decode(data.removesuffix(END) if is_end else data))
        if is_end:
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
