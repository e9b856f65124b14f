"""Estimates of hostile applications: refused with the field's name, and what is accepted stops no policy."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.lease_world import World, node, row
from yarn_plugin.decide.policies.lease import LEASE_POLICIES
from yarn_plugin.decide.policies.leasing import AppStatus, LeaseProblem
from yarn_plugin.decide.pools.lease.validity import MAX_JOBS, checked_estimate
from yarn_plugin.errors import BadInputError
from yarn_plugin.model.auction import Estimate
from yarn_plugin.model.gpus import Job, Machine, Slot, Slowdown

GOOD = Job("j1", 10.0, 2.0, losses=((0.0, 1.0),), held=(("s", 1),))

BAD = {
    "iteration_s": 0.0,
    "iterations_left": -1.0,
    "iterations_done": float("inf"),
    "attained_gpu_s": float("nan"),
    "min_gpus": 0,
    "max_gpus": 10**9,
    "step_gpus": 0,
    "slowdown": Slowdown(rack=0.0),
    "losses": ((-1.0, 0.5),),
    "held": (("s", 0),),
}


def test_a_job_as_it_should_be():
    estimate = Estimate(1, None, (GOOD,))
    assert checked_estimate(estimate) is estimate


@pytest.mark.parametrize("name", BAD)
def test_each_field_of_a_job_is_checked(name):
    with pytest.raises(BadInputError, match=rf"jobs\.1\.{name}"):
        checked_estimate(Estimate(1, 2.0, (GOOD, replace(GOOD, id="j2", **{name: BAD[name]}))))


TOO_LARGE, TOO_SMALL = 1.7e308, 5e-324


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((name, TOO_LARGE) for name in ("iterations_left", "iterations_done", "attained_gpu_s", "iteration_s")),
        ("iteration_s", TOO_SMALL),
        ("slowdown", Slowdown(rack=TOO_LARGE)),
        ("slowdown", Slowdown(slot=TOO_SMALL)),
        ("speeds", (("A100", TOO_SMALL),)),
        ("speeds", (("A100", TOO_LARGE),)),
        ("losses", ((0.0, TOO_LARGE),)),
        ("losses", ((TOO_LARGE, 1.0),)),
        ("held", (("s", 10**7),)),
    ],
)
def test_numbers_have_the_bounds_that_those_of_bids_have(name, value):
    with pytest.raises(BadInputError, match=rf"jobs\.0\.{name}"):
        checked_estimate(Estimate(1, 2.0, (replace(GOOD, **{name: value}),)))


@pytest.mark.parametrize("rho", [TOO_LARGE, TOO_SMALL, 1e16, 1e-10])
def test_a_rho_has_the_bounds_that_those_of_bids_have(rho):
    with pytest.raises(BadInputError, match="rho"):
        checked_estimate(Estimate(1, rho))


MOST, LEAST = 1e15, 1e-9
extremes = st.sampled_from([LEAST, 1.0, MOST]) | st.floats(LEAST, MOST)
amounts = st.just(0.0) | extremes
extreme = st.builds(
    Job,
    id=st.uuids().map(str),
    iterations_left=amounts,
    iteration_s=extremes,
    iterations_done=amounts,
    min_gpus=st.sampled_from([1, 2, 7]),
    max_gpus=st.sampled_from([7, 8, 10**6]),
    step_gpus=st.sampled_from([1, 2, 10**6]),
    slowdown=st.builds(Slowdown, extremes, extremes, extremes),
    attained_gpu_s=amounts,
    losses=st.lists(st.tuples(amounts, amounts | amounts.map(lambda loss: -loss)), max_size=4).map(tuple),
    held=st.sampled_from([(), (("m0/0", 2),), (("gone", 10**6),)]),
    speeds=st.sampled_from([(), (("", LEAST),), (("A100", MOST), ("", LEAST))]),
)


@given(st.lists(st.lists(extreme, max_size=5), min_size=1, max_size=4), st.sampled_from([0.1, 10.0]), extremes)
def test_every_policy_has_a_result_for_extreme_numbers_that_are_allowed(apps, weight, lease_s):
    machines = tuple(Machine(f"m{n}", f"r{n % 2}", (Slot(f"m{n}/0", 4), Slot(f"m{n}/1", 2))) for n in range(3))
    shown = []
    for number, jobs in enumerate(apps):
        checked_estimate(Estimate(1, MOST, tuple(jobs)))
        attained = sum(job.attained_gpu_s for job in jobs)
        shown.append(AppStatus(f"app{number}", 100.0 * number, tuple(jobs), weight, attained))
    for policy in LEASE_POLICIES.values():
        assigned = policy.allocate(LeaseProblem(1, 1e9, lease_s, machines, tuple(shown)))
        assert sum(gpus for one in assigned for _, gpus in one.gpus) <= 18


@pytest.mark.parametrize("policy", sorted({*LEASE_POLICIES, "themis"}))
def test_a_round_of_every_policy_has_a_result_whatever_an_application_says(policy):
    """900 jobs with numbers at the ends of what a float holds: they are refused, or the round has a result."""
    world = World.of(node("n1"), policy=policy)
    jobs = [
        Job(f"j{number}", MOST, LEAST, attained_gpu_s=1.7e308 if number % 2 else MOST, speeds=(("A100", 5e-324),))
        for number in range(900)
    ]
    world.arrive("eve", rho=1.7e308, rows=(row(1e-9, 4),), jobs=tuple(jobs))
    world.arrive("mia", rho=MOST, jobs=tuple(replace(job, attained_gpu_s=MOST, speeds=()) for job in jobs))
    bob = world.arrive("bob", rho=2.0, rows=(row(1.0, 1),), jobs=(GOOD,))
    world.wait(30.0)
    (record,) = world.rounds()
    assert record.error is None
    assert world.stage.state().members[bob].estimated_in == 1


def test_a_maximum_below_the_minimum():
    with pytest.raises(BadInputError, match=r"jobs\.0\.max_gpus.*at least min_gpus, 4"):
        checked_estimate(Estimate(1, 2.0, (replace(GOOD, min_gpus=4),)))


def test_ids_are_unique_and_jobs_limited():
    with pytest.raises(BadInputError, match=r"jobs\.1\.id.*'j1'"):
        checked_estimate(Estimate(1, 2.0, (GOOD, GOOD)))
    with pytest.raises(BadInputError, match=f"at most {MAX_JOBS}"):
        checked_estimate(Estimate(1, 2.0, (GOOD,) * (MAX_JOBS + 1)))


numbers = st.one_of(st.floats(), st.sampled_from([0.0, 1e-300, 1.0, 1e300]))
counts = st.integers(-2, 12) | st.sampled_from([10**6, 10**12])
hostile = st.builds(
    Job,
    id=st.sampled_from("abc"),
    iterations_left=numbers,
    iteration_s=numbers,
    iterations_done=numbers,
    min_gpus=counts,
    max_gpus=counts,
    step_gpus=counts,
    slowdown=st.builds(Slowdown, numbers, numbers, numbers),
    attained_gpu_s=numbers,
    losses=st.lists(st.tuples(numbers, numbers), max_size=4).map(tuple),
)
usable = st.builds(
    Job,
    id=st.sampled_from("abc"),
    iterations_left=st.sampled_from([0.0, 1e-300, 5.0, 1e300]),
    iteration_s=st.sampled_from([1e-300, 1.0, 1e300]),
    iterations_done=st.sampled_from([0.0, 7.0, 1e300]),
    min_gpus=st.integers(1, 5),
    max_gpus=st.integers(5, 9) | st.just(10**6),
    step_gpus=st.integers(1, 12),
    slowdown=st.builds(Slowdown, *[st.sampled_from([1e-300, 1.0, 1.3, 1e300])] * 3),
    attained_gpu_s=st.sampled_from([0.0, 3.0, 1e300]),
    losses=st.lists(st.tuples(st.sampled_from([0.0, 1.0, 1e300]), st.sampled_from([-1.0, 0.0, 1e300])), max_size=4).map(
        tuple
    ),
)


@given(st.lists(usable | hostile, max_size=4), st.sampled_from(sorted(LEASE_POLICIES)))
def test_what_is_accepted_stops_no_policy(jobs, policy):
    try:
        checked_estimate(Estimate(1, 1.0, tuple(jobs)))
    except BadInputError:
        return
    machines = tuple(Machine(f"m{n}", "r", (Slot(f"m{n}/0", 4),)) for n in range(2))
    apps = (AppStatus("ann", 0.0, tuple(jobs)), AppStatus("bob", 5.0, (GOOD,)))
    assigned = LEASE_POLICIES[policy].allocate(LeaseProblem(1, 10.0, 60.0, machines, apps))
    assert sum(gpus for one in assigned for _, gpus in one.gpus) <= 8
