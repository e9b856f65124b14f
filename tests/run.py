"""Run the tests: `python -m tests.run [--all] [PYTEST ARGUMENTS]`, as `make test` and `make test-all` do.

First all tests without Spark, then those with Spark alone, on all cores. Beside them those on the embedded cluster, one
after another, which mostly wait; what they print comes last. With a path among the arguments, only what pytest finds
there. Many tests start processes and wait for them, on a machine that may be busy: one that fails is run once more, and
its first failure is shown. In addition to pytest: the slowest tests and files and all skips are listed, each skip must
have an allowed reason (see `skips`), and no process that the tests have started may still run at the end.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

MARK = "YARN_PLUGIN_TEST_RUN"
"""Set in the environment of the run, which all its processes inherit, even detached ones."""

ALL_CORES = ["--numprocesses=logical", "--dist=loadfile", "--no-loadscope-reorder"]

PARTS = [
    [*ALL_CORES, "--ignore=tests/integration", "--ignore=tests/spark", "tests"],
    [*ALL_CORES, "tests/spark"],
]

BESIDE = ["tests/integration"]

OPTIONS = [
    "-p",
    "tests.skips",
    "-p",
    "tests.longest",
    "--durations=40",
    "--reruns=1",
    "-rfER",
    "--rerun-show-tracebacks",
]

SPARING = {"OPENBLAS_NUM_THREADS": "1", "PYDANTIC_DISABLE_PLUGINS": "__all__"}
"""Threads for matrices, and a search of all packages for plugins: each takes up to a tenth of a process's start."""

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
    # In separate processes, so that any process with the mark that still runs afterwards was left by the tests.
    pytest = [sys.executable, "-m", "pytest", *OPTIONS, *([] if options.all else ["-m", "not matrix"])]
    environment = {**os.environ, **SPARING, MARK: mark}
    # Hundreds of processes import the same modules: without stored bytecode each would compile them.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    if any(Path(one.partition("::")[0]).exists() for one in rest):
        codes = {subprocess.run([*pytest, *rest], env=environment, check=False).returncode}
    else:
        with _beside([*pytest, *BESIDE, *rest], environment) as beside:
            codes = {subprocess.run([*pytest, *part, *rest], env=environment, check=False).returncode for part in PARTS}
        codes.add(beside.returncode)
    # With -k or -m, some may have no tests.
    return max(codes - {NO_TESTS} or codes) or _check_processes(mark)


@contextmanager
def _beside(command: list[str], environment: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command beside the block, and print its output after both have ended."""
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=subprocess.STDOUT)
        try:
            yield process
        except BaseException:
            process.send_signal(signal.SIGINT)
            raise
        finally:
            process.wait()
            output.seek(0)
            sys.stdout.flush()
            shutil.copyfileobj(output, sys.stdout.buffer)
            sys.stdout.flush()


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
