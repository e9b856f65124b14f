"""All known attacks, and random operations, on an arbiter and the shared ResourceManager."""

import pytest

from tests.adversary import api, commands, files, limits, manager  # noqa: F401 - their checks
from tests.adversary.__main__ import HERE
from tests.adversary.checks import CHECKS, run_check
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
    "streams_resume_at_any_event_id",
    "a_damaged_journal_needs_accept_loss",
    "an_event_rejected_on_a_full_disk_never_appears",
    "a_hangup_stops_spark_submit",
    "invalid_numbers_in_a_poll_are_survived",
    "shares_are_served_while_polls_are_slow",
    "a_mass_disappearance_needs_a_second_poll",
    "the_order_of_an_ha_pair_does_not_matter",
    "a_malformed_list_of_apps_is_ignored",
    "removed_applications_come_back_when_listed_again",
    "every_manager_endpoint_with_every_fault",
    "connections_are_limited",
    "query_journals_are_private",
    "a_malformed_list_of_nodes_is_ignored",
    "nodes_may_register_late_after_a_manager_restart",
    "records_of_a_newer_version_are_rejected",
    "result_values_are_never_markup",
    "slow_headers_time_out",
    "a_weight_changed_by_another_writer_is_restored",
    "submit_timeout_is_suspended_while_the_manager_is_down",
    "finished_applications_in_a_poll_are_ignored",
    "a_second_arbiter_takes_over_from_a_killed_one",
    "health_answers_during_120_requests_for_why",
    "submit_timeout_waits_for_the_first_poll",
    "a_static_queue_below_a_pool_is_never_written",
    "names_in_any_script_get_a_valid_queue",
    "a_journal_with_a_huge_demand_opens",
    "clients_ignore_fields_of_a_newer_arbiter",
    "a_slow_body_times_out",
    "streams_of_a_user_are_limited",
    "an_application_of_another_user_is_not_matched",
    "wide_cells_are_not_truncated_in_a_pipe",
    "commands_accept_a_private_authority",
    "names_are_never_markup",
    "unsubmitted_registrations_of_a_user_share_one_claim",
    "max_weight_limits_a_revision",
    "the_enforcement_mode_is_reported",
    "a_large_body_with_a_token_is_not_read",
    "ready_answers_while_bodies_are_bad",
    "a_weight_that_is_flipped_reaches_nobody_150_times_a_second",
    "unknown_applications_cause_few_polls",
    "idle_registrations_leave_a_neighbour_a_part",
    "journals_that_no_release_wrote_are_named",
    "half_sent_requests_do_not_stop_a_search",
    "a_large_body_does_not_fill_a_search",
    "liars_gain_little",
}
"""Checks that take long or start Spark."""

SHOWN_IN_UNITS = {
    "request_ids_are_separate_for_each_user",
    "max_weight_limits_a_registration",
    "max_grace_limits_a_registration",
    "large_names_and_counts_are_rejected",
    "invalid_json_values_are_rejected",
    "a_large_body_without_a_token_is_not_read",
    "a_large_chunked_body_is_not_read",
    "metrics_require_a_token",
    "metric_labels_are_limited",
    "a_stream_ends_if_its_end_has_left_the_history",
    "a_stream_of_an_unknown_application_ends",
    "state_files_are_private",
    "an_application_of_a_mapped_user_is_matched",
    "a_second_arbiter_is_refused",
    "concurrent_duplicate_registrations_register_once",
    "a_huge_demand_is_rejected",
    "a_truncated_last_record_is_saved_and_dropped",
}
"""Checks of what unit tests show too, without processes and a cluster."""


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.matrix] if name in SLOW | SHOWN_IN_UNITS else []) for name in CHECKS]
)
def test_the_arbiter_withstands_an_attack(lab, name):
    holds, observed = run_check(CHECKS[name], lab)
    assert holds, f"{CHECKS[name].text} Observed: {observed}"


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize(
    ("operations", "seed"),
    [(60, 1), pytest.param(10_000, 2, marks=[pytest.mark.matrix, pytest.mark.timeout(3600)])],
)
def test_the_arbiter_withstands_random_operations(lab, operations, seed):
    with lab.clean():
        report = fuzz(lab, operations, seed)
    assert not report.wrong, "\n".join(report.lines())
    assert report.statuses[201] and report.statuses[422], "some are accepted and some rejected"
