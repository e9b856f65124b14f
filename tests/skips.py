"""A pytest plugin (`-p tests.skips`) that lists all skips, and fails the run if the reason of one is not allowed."""

import pytest

ALLOWED = (
    "needs a GPU",
    "needs a container engine",
    "needs control groups",
    "needs torch",
    "needs OR-tools",
    "needs thrift and PyHive",
    "needs nbclient and ipykernel",
    "needs Ray Tune",
    "needs other versions of pyspark",
)
"""Allowed beginnings of reasons: what a machine need not have."""


class Skips:
    """Collects skipped tests and their reasons."""

    def __init__(self) -> None:
        self.reasons: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._note(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._note(report)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self._wrong() and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for test, reason in self.reasons.items():
            terminalreporter.write_line(f"skipped: {test}: {reason}")
        for test in self._wrong():
            terminalreporter.write_line(f"skipped without an allowed reason ({', '.join(ALLOWED)}): {test}", red=True)

    def _note(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if report.skipped and isinstance(report.longrepr, tuple):
            self.reasons[report.nodeid] = report.longrepr[2].removeprefix("Skipped: ")

    def _wrong(self) -> list[str]:
        return [test for test, reason in self.reasons.items() if not reason.startswith(ALLOWED)]


def pytest_configure(config: pytest.Config) -> None:
    """Register the plugin."""
    config.pluginmanager.register(Skips(), "skips")
