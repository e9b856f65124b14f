"""Estimates from samples of jobs (AlloX, sections 4.1 and 4.4)."""

import math
import random
import statistics

import pytest

from yarn_plugin.decide.allocators.allox.sampling import MAX_TRIES, Measured, OpenSample, SampleRun, Samples
from yarn_plugin.decide.mechanisms.batch_times import Sample, estimate_seconds
from yarn_plugin.errors import BadInputError


def test_the_line_of_two_samples_has_a_start_and_seconds_a_batch():
    assert estimate_seconds((Sample(10, 25), Sample(20, 45)), 1000) == pytest.approx(2005)


def test_one_sample_is_taken_in_proportion():
    assert estimate_seconds((Sample(10, 25),), 1000) == 2500
    assert estimate_seconds((), 1000) is None


@pytest.mark.parametrize("samples", [(Sample(10, 20), Sample(20, 20)), (Sample(10, 10), Sample(20, 40))])
def test_a_line_that_cannot_be_is_not_used(samples):
    """Batches that take no time, or a start of less than none."""
    assert estimate_seconds(samples, 1500) == pytest.approx(1500 * sum(s.seconds for s in samples) / 30)


def test_estimates_of_noisy_samples_are_off_by_a_tenth_as_in_the_paper():
    """Section 4.1: a mean absolute error of 8% with 40 jobs."""
    rng, errors = random.Random(1), []
    for _ in range(200):
        start, each, work = rng.uniform(0, 5), rng.uniform(0.05, 2), rng.uniform(500, 5000)
        samples = [Sample(f * work, (start + each * f * work) * rng.gauss(1, 0.03)) for f in (0.01, 0.02)]
        estimate = estimate_seconds(samples, work)
        errors.append(abs(estimate / (start + each * work) - 1))
    assert statistics.mean(errors) < 0.12


SIDE = OpenSample("app/j", "u", "u/j/0/gpu=1", 0, 0, 10.0, 100.0)


def test_a_side_is_done_after_two_samples():
    samples = Samples().opened("1", SIDE).answered("1", 25.0, 10.0, 0.0)
    assert not samples.of(SIDE.side).is_done
    samples = samples.opened("2", SIDE).answered("2", 45.0, 20.0, 0.0)
    assert samples.of(SIDE.side).is_done
    assert samples.of(SIDE.side).seconds(1000) == pytest.approx(2005)
    assert samples.open == {}


def test_a_sample_that_dies_is_run_again_until_the_side_is_given_up():
    samples = Samples()
    for number in range(MAX_TRIES):
        assert not samples.of(SIDE.side).is_done
        samples = samples.opened(str(number), SIDE).died(str(number), 0.0)
    assert samples.of(SIDE.side).is_done
    assert samples.of(SIDE.side).seconds(1000) is None


def test_a_finished_sample_outlives_the_death_of_the_next():
    samples = Samples().opened("1", SIDE).answered("1", 25.0, 10.0, 0.0).opened("2", SIDE).died("2", 0.0)
    assert samples.of(SIDE.side).samples == (Sample(10.0, 25.0),)
    assert samples.next_batches(SIDE.side, 1000) == 20


def test_a_sample_far_behind_the_others_is_abandoned_and_says_at_least_how_slow_it_is():
    samples = Samples()
    assert samples.limit_s(60.0) == 60.0
    samples = samples.opened("1", SIDE).answered("1", 4.0, 10.0, 0.0)
    assert samples.limit_s(60.0) == 20.0
    slow = OpenSample("app/k", "u", "u/k/1/vcores=4", 0, 1, 10.0, 20.0)
    samples = samples.opened("2", slow).abandoned("2", 20.0, 0.0)
    assert samples.of(slow.side).is_done
    assert samples.of(slow.side).seconds(1000) == 2000
    assert samples.limit_s(60.0) == 20.0, "abandoned samples do not slow down the others"


def test_what_a_running_job_reports_makes_its_estimate_better():
    measured = Measured((Sample(10, 30), Sample(20, 60)), run=Sample(500, 1000))
    assert measured.seconds(1000) == pytest.approx(2000, rel=0.03)
    assert Measured((Sample(10, 30),), run=Sample(5, 1000)).seconds(1000) == 3000, "it has done less than the sample"


def test_a_side_that_ran_needs_no_samples():
    assert Measured(run=Sample(500, 1000)).is_done


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("alternative", (-1, 1.0, 1.0)),
        ("batches", (0, 0.0, 1.0)),
        ("seconds", (0, 1.0, -2.0)),
        ("seconds", (0, 1.0, math.nan)),
    ],
)
def test_an_answer_that_cannot_be_is_refused(field, values):
    with pytest.raises(BadInputError, match=field):
        SampleRun("j", *values)
