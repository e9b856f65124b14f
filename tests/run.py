"""Run the tests: `python -m tests.run [--all] [PYTEST ARGUMENTS]`, as `make test` and `make test-all` do.

First all tests without Spark and those with Spark alone, on all cores, then those on the embedded cluster, one after
another; with a path among the arguments, only what pytest finds there. Many tests start processes and wait for them, on
a machine that may be busy: one that fails is run once more, and its first failure is shown. In addition to pytest: the
slowest tests and all skips are listed, each skip must have an allowed reason (see `skips`), and no process that the
tests have started may still run at the end.
"""

import argparse
import os
import subprocess
import sys
import time
import uuid
from pathlib import Path

import psutil

MARK = "YARN_PLUGIN_TEST_RUN"
"""Set in the environment of the run, which all its processes inherit, even detached ones."""

ALL_CORES = ["--numprocesses=logical", "--dist=loadfile"]

PARTS = [
    [*ALL_CORES, "--ignore=tests/integration", "--ignore=tests/spark", "tests"],
    [*ALL_CORES, "tests/spark"],
    ["tests/integration"],
]

OPTIONS = ["-p", "tests.skips", "--durations=40", "--reruns=1", "-rfER", "--rerun-show-tracebacks"]

NO_TESTS = 5
"""pytest's exit code when it has found no tests."""

MAX_EXIT_S = 10.0
"""How long processes may take to exit by themselves at the end of the run."""


def main() -> int:
    """Run the tests and the checks; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.run", description="Run the tests; other arguments are passed to pytest."
    )
    parser.add_argument("--all", action="store_true", help="also run the long fault matrix")
    options, rest = parser.parse_known_args()
    mark = uuid.uuid4().hex
    selection = [] if options.all else ["-m", "not matrix"]
    parts = [[]] if any(Path(one.partition("::")[0]).exists() for one in rest) else PARTS
    codes = []
    for part in parts:
        # In a separate process, so that any process with the mark that still runs afterwards was left by the tests.
        command = [sys.executable, "-m", "pytest", *OPTIONS, *selection, *part, *rest]
        codes.append(subprocess.run(command, env={**os.environ, MARK: mark}, check=False).returncode)
    # With -k or -m, some may have no tests.
    return max(set(codes) - {NO_TESTS} or codes) or _check_processes(mark)


def _check_processes(mark: str) -> int:
    deadline = time.monotonic() + MAX_EXIT_S
    while (left := _marked(mark)) and time.monotonic() < deadline:
        time.sleep(0.2)
    for pid, command in left.items():
        print(f"still running: process {pid}: {command[:200]}")
    if not left:
        print("all processes of the tests have ended")
    return 1 if left else 0


def _marked(mark: str) -> dict[int, str]:
    """The commands of a run's processes by process id."""
    found = {}
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == mark:
                found[process.pid] = " ".join(process.cmdline())
        except (psutil.Error, OSError):
            # It has ended, or belongs to another user.
            continue
    return found


if __name__ == "__main__":
    sys.exit(main())
