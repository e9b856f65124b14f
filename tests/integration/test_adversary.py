"""Every known attack, and random operations, on an arbiter before the test run's ResourceManager."""

import pytest

from tests.adversary import api, commands, files, manager  # noqa: F401 - their checks
from tests.adversary.__main__ import HERE
from tests.adversary.checks import CHECKS, carry_out
from tests.adversary.fuzz import fuzz
from tests.adversary.lab import Lab

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def lab(shared_cluster, tmp_path_factory):
    for name in shared_cluster.spec.daemon_names:
        if name not in shared_cluster.daemons:
            shared_cluster.start(name)
    shared_cluster.wait()
    made = Lab(shared_cluster.rm_url, HERE, tmp_path_factory.mktemp("adversary"))
    yield made
    made.close()


SLOW = {
    "a_bare_integer_resumes", "a_flipped_bit_early_in_the_journal", "a_full_disk_and_then_killed",
    "a_hangup_under_submit", "a_number_too_large_in_an_answer", "a_slow_trickle", "all_applications_gone_in_one_look",
    "an_ha_pair_in_the_other_order", "apps_answered_with_something_else", "dismissed_in_error_comes_back",
    "every_route_of_the_manager_in_every_mood", "many_connections", "mode_of_a_querys_journal",
    "nodes_answered_with_something_else", "nodes_that_report_late_after_a_restart", "records_of_another_version",
    "result_values_like_markup", "slow_headers", "somebody_else_changes_a_weight",
    "submitted_while_the_manager_was_away", "ten_thousand_finished_applications", "the_first_arbiter_died",
    "why_asked_120_times_at_once",
}  # fmt: skip
"""Checks that take long, or start Spark: for the long run."""


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.matrix] if name in SLOW else []) for name in CHECKS]
)
def test_attack(lab, name):
    holds, seen = carry_out(CHECKS[name], lab)
    assert holds, f"{CHECKS[name].text} Seen: {seen}"


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize(
    ("operations", "seed"),
    [(100, 1), pytest.param(10_000, 2, marks=[pytest.mark.matrix, pytest.mark.timeout(3600)])],
)
def test_random_operations(lab, operations, seed):
    with lab.clean():
        report = fuzz(lab, operations, seed)
    assert not report.wrong, "\n".join(report.lines())
    assert report.statuses[201] and report.statuses[422], "both accepted and refused"
