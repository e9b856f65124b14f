"""Ends what a demo has started if the demo is killed: a process that waits for that.

It reads lines from its standard input: process ids, and at last DONE. If the input ends without it, the demo is gone:
the processes get SIGTERM, and the cluster is stopped. In a session of its own, so that Ctrl-C does not reach it.
"""

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

DONE = "done"


class Guard:
    """See the module."""

    def __init__(self, cluster: Path) -> None:
        command = [sys.executable, "-m", "tpcds.demo.guard", str(cluster)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, text=True, start_new_session=True)

    def watch(self, pid: int) -> None:
        """Also end this process."""
        self._tell(str(pid))

    def close(self) -> None:
        """Nothing is left to end."""
        self._tell(DONE)
        self._process.communicate()

    def _tell(self, line: str) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(f"{line}\n")
            self._process.stdin.flush()


@contextmanager
def guarded(cluster: Path) -> Iterator[Guard]:
    """A guard of the cluster in a folder, until the end of the block, where the block has stopped the cluster."""
    guard = Guard(cluster)
    try:
        yield guard
    finally:
        guard.close()


def main() -> None:
    """Wait for the end of the input."""
    known: list[psutil.Process] = []
    for line in sys.stdin:
        if line.strip() == DONE:
            return
        with contextlib.suppress(psutil.Error):
            known.append(psutil.Process(int(line)))
    for process in known:
        # Not another process that has its number now: psutil compares when they began.
        with contextlib.suppress(psutil.Error):
            process.terminate()
    psutil.wait_procs(known, timeout=30)
    down = [str(Path(sys.executable).with_name("yarn-plugin")), "cluster", "down", "--dir", sys.argv[1]]
    subprocess.run(down, capture_output=True, check=False)


if __name__ == "__main__":
    main()
