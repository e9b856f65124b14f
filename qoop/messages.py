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
    """Meanwhile, what is written to the pipe appears on stderr; afterwards all of it has."""
    os.mkfifo(pipe, 0o600)
    # Opened for both ways, so that it neither waits for a writer nor ends with one.
    opened = os.open(pipe, os.O_RDWR)
    thread = threading.Thread(target=_relay, args=(opened,), name="messages", daemon=True)
    thread.start()
    try:
        yield
    finally:
        os.write(opened, END)
        thread.join()
        os.close(opened)


def _relay(opened: int) -> None:
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    while True:
        data = os.read(opened, 65536)
        said, end, _ = data.partition(END)
        sys.stderr.write(decoder.decode(said))
        sys.stderr.flush()
        if end:
            return


def redirect_stderr(job: Path) -> None:
    """In the driver: write messages to the pipe beside the job; on a cluster there is none, and they go to its log."""
    pipe = job.with_name(MESSAGES)
    if pipe.is_fifo():
        sys.stderr = pipe.open("w", buffering=1, encoding="utf-8")
