"""A pytest plugin (`-p tests.longest`): the files that take longest run first, and how long each took is printed.

With `--dist=loadfile` a worker runs a whole file: a long one that began last would leave the other workers idle.
"""

from collections import Counter

import pytest

FIRST = ("tests/property/test_chaos.py",)
"""By how long they take, as printed at the end of a run on two cores."""

PRINTED = 30


class Longest:
    """Adds up the seconds of each file's tests, with their setup and teardown."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid.partition("::")[0]] += report.duration

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.section(f"slowest {PRINTED} files")
        for file, seconds in self.seconds.most_common(PRINTED):
            terminalreporter.write_line(f"{seconds:8.2f}s {file}")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the tests of the longest files first."""
    places = {config.rootpath / file: place for place, file in enumerate(FIRST)}
    items.sort(key=lambda item: places.get(item.path, len(FIRST)))


def pytest_configure(config: pytest.Config) -> None:
    """Register the plugin."""
    config.pluginmanager.register(Longest(), "longest")
