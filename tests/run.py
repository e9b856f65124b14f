"""Run the tests: `python -m tests.run [--all] [PYTEST ARGUMENTS]`, as `make test` and `make test-all` do.

First all tests that need neither a cluster nor Spark, on all cores; then those in tests/integration, of which those of
the cluster run beside the others, and print their results when these have ended; with a path or a mark among the
arguments, only what pytest finds by them, one after another. In addition to pytest: all skips are listed, each must
have an allowed reason (see `skips`), and no process that the tests have started may still run at the end.
"""

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

import psutil

MARK = "YARN_PLUGIN_TEST_RUN"
"""Set in the environment of the run, which all its processes inherit, even detached ones."""

PARALLEL = ["--numprocesses=logical", "--dist=loadfile", "--ignore=tests/integration", "tests"]
BESIDE = (["-m", "{} and not cluster", "tests/integration"], ["-m", "{} and cluster", "tests/integration"])
"""Run at the same time: a cluster mostly waits."""

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
    selection = "(matrix or not matrix)" if options.all else "not matrix"
    if any(one == "-m" or Path(one.partition("::")[0]).exists() for one in rest):
        parts = [[["-m", selection]]]
    else:
        parts = [[["-m", selection, *PARALLEL]], [[one.format(selection) for one in words] for words in BESIDE]]
    codes = [code for part in parts for code in _run([[*words, *rest] for words in part], mark)]
    # With -k or -m, some may have no tests.
    return max(codes if len(set(codes)) == 1 else set(codes) - {NO_TESTS}) or _check_processes(mark)


def _run(together: list[list[str]], mark: str) -> list[int]:
    """Run pytest with each of these arguments at the same time; what others than the first print follows at its end."""
    # In processes of their own, so that any process with the mark that still runs afterwards was left by the tests.
    command = [sys.executable, "-m", "pytest", "-p", "tests.skips"]
    environment = {**os.environ, MARK: mark}
    first, *others = together
    with contextlib.ExitStack() as files:
        printed = [files.enter_context(tempfile.TemporaryFile("w+")) for _ in others]
        started = [
            subprocess.Popen([*command, *words], env=environment, stdout=file, stderr=file)
            for words, file in zip(others, printed, strict=True)
        ]
        codes = [subprocess.run([*command, *first], env=environment, check=False).returncode]
        for process, file in zip(started, printed, strict=True):
            codes.append(process.wait())
            file.seek(0)
            print(file.read(), flush=True)
    return codes


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
