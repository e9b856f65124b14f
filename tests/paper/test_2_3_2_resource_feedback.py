"""QOOP section 2.3.2, Pseudocode 1, lines 8 to 13: on every change of jobs or resources each job gets R / |J|."""

import pytest

from yarn_plugin.decide.policies import Snapshot
from yarn_plugin.decide.policies.max_min import decide
from yarn_plugin.model.resources import Resources
from yarn_plugin.model.share import Claim

WHOLE = Resources.of({"memory-mb": 12_288, "vcores": 12})


def guarantees(jobs, capacity=WHOLE, **weights):
    """What each of these jobs is guaranteed."""
    claims = tuple(Claim(job, float(weights.get(job, 1.0)), None, Resources()) for job in jobs)
    return {job: grant.guarantee for job, grant in decide(Snapshot(capacity, claims), None).grants.items()}


@pytest.mark.parametrize("count", (1, 2, 3, 4))
def test_line_11_each_of_n_jobs_gets_an_nth(count):
    jobs = [f"job_{number}" for number in range(count)]
    assert guarantees(jobs) == {
        job: Resources.of({"memory-mb": 12_288 // count, "vcores": 12 // count}) for job in jobs
    }


def test_line_9_an_arrival_shrinks_every_share_and_an_end_grows_the_others():
    assert guarantees(["a"]) == {"a": WHOLE}
    assert guarantees(["a", "b"]) == {"a": WHOLE.scaled(0.5), "b": WHOLE.scaled(0.5)}
    assert guarantees(["b"]) == {"b": WHOLE}


def test_line_10_a_lost_node_shrinks_every_share():
    left = Resources.of({"memory-mb": 9_216, "vcores": 9})
    assert guarantees(["a", "b", "c"], left) == {job: Resources.of({"memory-mb": 3_072, "vcores": 3}) for job in "abc"}


def test_weights_divide_instead_of_counting():
    assert guarantees(["a", "b"], a=3.0) == {"a": WHOLE.scaled(0.75), "b": WHOLE.scaled(0.25)}


def test_lines_4_to_6_the_current_share_of_a_job_is_its_largest_fraction_of_any_resource():
    used = Resources.of({"memory-mb": 3_072, "vcores": 6})
    seen = Snapshot(WHOLE, (Claim("a", 1.0, None, used), Claim("b", 1.0, None, Resources())))
    grants = decide(seen, None).grants
    assert (grants["a"].current, grants["b"].current) == (0.5, 0.0)
