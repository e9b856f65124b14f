"""Sleeps in a container on one GPU, and records since when and until when: `launcher.py FOLDER CELL CONTAINER`.

The record is a file of times (monotonic, the same clock for all processes of a machine): the first line says what, the
last time is the end, or the last sign of life of a process that was killed. A lock, which the kernel releases with the
process, finds out whether another one holds the same GPU at this moment.
"""

import fcntl
import json
import os
import signal
import sys
import time
from pathlib import Path

SIGN_OF_LIFE_S = 0.1


def main(folder, cell, container):
    begun, parent, is_over = time.monotonic(), os.getppid(), []
    signal.signal(signal.SIGTERM, lambda *_: is_over.append(True))
    with Path(folder, f"{cell.replace('/', '-')}.lock").open("w") as lock, Path(folder, container).open("w", 1) as file:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_alone = True
        except BlockingIOError:
            is_alone = False
        print(json.dumps({"cell": cell, "container": container, "begun": begun, "is_alone": is_alone}), file=file)
        # Without its node it is no container any more.
        while not is_over and os.getppid() == parent:
            print(time.monotonic(), file=file)
            time.sleep(SIGN_OF_LIFE_S)
        print(time.monotonic(), file=file)


if __name__ == "__main__":
    main(*sys.argv[1:])
