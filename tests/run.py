"""Runs the tests: `python -m tests.run [--all] [PYTEST ARGUMENTS]`; what `make test` and `make test-all` do.

Beside what pytest checks: every skip is listed and must be for want of something that a fresh machine need not have
(see `skips`), and no process that the tests started may be left.
"""

import argparse
import os
import subprocess
import sys
import time
import uuid

import psutil

MARK = "YARN_PLUGIN_TEST_RUN"
"""Set in the environment of the run, and so of every process that it starts, however it detaches itself."""

END_WITHIN = 10.0
"""Seconds that processes have to end in which notice by themselves that the run is over."""


def main() -> int:
    """Run the tests and the checks; print what they found."""
    parser = argparse.ArgumentParser(prog="python -m tests.run", description=__doc__)
    parser.add_argument("--all", action="store_true", help="the long fault matrices too")
    options, rest = parser.parse_known_args()
    mark = uuid.uuid4().hex
    selection = [] if options.all else ["-m", "not matrix"]
    # A process of its own: what it has left when it has ended is left behind.
    command = [sys.executable, "-m", "pytest", "-p", "tests.skips", *selection, *rest]
    code = subprocess.run(command, env={**os.environ, MARK: mark}, check=False).returncode
    return code or _check_processes(mark)


def _check_processes(mark: str) -> int:
    deadline = time.monotonic() + END_WITHIN
    while (left := _marked(mark)) and time.monotonic() < deadline:
        time.sleep(0.2)
    for pid, command in left.items():
        print(f"left behind: process {pid}: {command[:200]}")
    if not left:
        print("no process is left behind")
    return 1 if left else 0


def _marked(mark: str) -> dict[int, str]:
    """The processes of a run, by id: their commands."""
    found = {}
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == mark:
                found[process.pid] = " ".join(process.cmdline())
        except (psutil.Error, OSError):
            # It has ended meanwhile, or is somebody else's.
            continue
    return found


if __name__ == "__main__":
    sys.exit(main())
