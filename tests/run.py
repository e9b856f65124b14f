"""Runs the tests: `python -m tests.run [--all] [PYTEST ARGUMENTS]`; what `make test` and `make test-all` do.

Beside what pytest checks: every skip is listed and must be for want of something that a fresh machine need not have,
and no process that the tests started may be left.
"""

import argparse
import os
import sys
import uuid
from dataclasses import dataclass, field

import psutil
import pytest

MARK = "YARN_PLUGIN_TEST_RUN"
"""Set in the environment of the run, and so of every process that it starts, however it detaches itself."""

ALLOWED = ("needs a GPU", "needs a container engine", "needs torch")
"""What a skip's reason may begin with."""


@dataclass(eq=False)  # pytest keeps its plugins in sets
class Skips:
    """Notes what is skipped, and why."""

    reasons: dict[str, str] = field(default_factory=dict)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped and isinstance(report.longrepr, tuple):
            self.reasons[report.nodeid] = report.longrepr[2].removeprefix("Skipped: ")

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.skipped and isinstance(report.longrepr, tuple):
            self.reasons[report.nodeid] = report.longrepr[2].removeprefix("Skipped: ")


def main() -> int:
    """Run, check, and say."""
    parser = argparse.ArgumentParser(prog="python -m tests.run", description=__doc__)
    parser.add_argument("--all", action="store_true", help="the long fault matrices too")
    options, rest = parser.parse_known_args()
    os.environ[MARK] = uuid.uuid4().hex
    skips = Skips()
    selection = [] if options.all else ["-m", "not matrix"]
    code = int(pytest.main([*selection, *rest], plugins=[skips]))
    code = code or _check_skips(skips)
    return code or _check_processes(os.environ[MARK])


def _check_skips(skips: Skips) -> int:
    for test, reason in skips.reasons.items():
        print(f"skipped: {test}: {reason}")
    wrong = [test for test, reason in skips.reasons.items() if not reason.startswith(ALLOWED)]
    for test in wrong:
        print(f"not a reason to skip ({', '.join(ALLOWED)} are): {test}")
    return 1 if wrong else 0


def _check_processes(mark: str) -> int:
    left = [process for process in psutil.process_iter() if process.pid != os.getpid() and _is_marked(process, mark)]
    for process in left:
        print(f"left behind: process {process.pid}: {' '.join(process.cmdline())[:200]}")
    if not left:
        print("no process is left behind")
    return 1 if left else 0


def _is_marked(process: psutil.Process, mark: str) -> bool:
    try:
        return process.environ().get(MARK) == mark
    except (psutil.Error, OSError):
        return False


if __name__ == "__main__":
    sys.exit(main())
