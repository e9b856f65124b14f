"""A pytest plugin (`-p tests.longest`): the files that take longest run first, and how long each took is printed.

With `--dist=loadfile` a worker runs a whole file: a long one that began last would leave the other workers idle.
"""

from collections import Counter

import pytest

FIRST = (
    "tests/property/test_chaos.py",
    "tests/unit/test_themis_local.py",
    "tests/unit/test_search_master.py",
    "tests/unit/test_qoop_submit_signals.py",
    "tests/unit/test_trial_launcher.py",
    "tests/unit/test_tpcds_data.py",
    "tests/unit/test_qoop_candidates.py",
    "tests/property/test_bid_tables.py",
    "tests/property/test_lease_histories.py",
    "tests/contract/test_pool_controller.py",
    "tests/unit/test_virtual_clusters_tutorial.py",
    "tests/property/test_replan.py",
    "tests/contract/test_share_policy.py",
    "tests/property/test_cells.py",
    "tests/property/test_join_trees.py",
    "tests/property/test_virtual_clusters.py",
    "tests/unit/test_simulated_training.py",
    "tests/unit/test_worker.py",
    "tests/unit/test_users_of_leases.py",
    "tests/contract/test_cells_killed.py",
    "tests/contract/test_lease_superseded.py",
    "tests/contract/test_trial_resume.py",
    "tests/unit/test_stored_search.py",
    "tests/spark/test_fuzz.py",
    "tests/spark/test_qoop_same_answer.py",
    "tests/spark/test_qoop_sql.py",
    "tests/spark/test_qoop_snapshot.py",
    "tests/spark/test_qoop_recovery.py",
    "tests/spark/test_qoop_set_apart.py",
    "tests/spark/test_tpcds_spark.py",
    "tests/spark/test_qoop_lost_parts.py",
    "tests/spark/test_qoop_gate.py",
    "tests/spark/test_qoop_equivalence.py",
    "tests/spark/test_qoop_settings.py",
    "tests/spark/test_qoop_server.py",
)
"""By how long they take, as printed at the end of a run on two cores."""

PRINTED = 30


class Longest:
    """Adds up the seconds of each file's tests, with their setup and teardown."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid.partition("::")[0]] += report.duration

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self.seconds:
            return
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
