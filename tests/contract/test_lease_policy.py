"""The contract of lease policies, rule by rule (yarn_plugin/decide/policies/lease/__init__.py), for each policy."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from yarn_plugin.decide.arbiter import BUILT_IN
from yarn_plugin.decide.policies.leasing import AppStatus, LeaseProblem
from yarn_plugin.errors import BadInputError
from yarn_plugin.model.gpus import Job, Machine, Slot, Slowdown

REGARDS_PLACEMENT = {"gandiva", "optimus", "srtf"}
"""Those that leave GPUs free which would make no job faster."""

SLOWDOWNS = (Slowdown(), Slowdown(1.0, 1.0, 1.0), Slowdown(1.1, 1.4, 2.0), Slowdown(1.0, 3.0, 5.0))


@st.composite
def clusters(draw):
    machines = []
    for number in range(draw(st.integers(1, 5))):
        slots = draw(st.lists(st.integers(0, 4), min_size=1, max_size=3))
        name = f"m{number}"
        parts = tuple(Slot(f"{name}/{place}", gpus) for place, gpus in enumerate(slots))
        machines.append(Machine(name, draw(st.sampled_from("rs")), parts))
    return tuple(machines)


@st.composite
def jobs(draw, name, slots):
    minimum, step = draw(st.sampled_from([(1, 1), (1, 1), (2, 2), (4, 4), (3, 2), (2, 1)]))
    held = draw(st.dictionaries(st.sampled_from(slots), st.integers(1, 2), max_size=2)) if draw(st.booleans()) else {}
    losses = draw(st.lists(st.floats(0.01, 5.0), max_size=4))
    return Job(
        name,
        iterations_left=draw(st.floats(1, 1e5)),
        iteration_s=draw(st.floats(0.01, 10)),
        iterations_done=float(10 * len(losses)),
        min_gpus=minimum,
        max_gpus=minimum + step * draw(st.integers(0, 4)),
        step_gpus=step,
        slowdown=draw(st.sampled_from(SLOWDOWNS)),
        attained_gpu_s=draw(st.sampled_from([0.0, 60.0, 3600.0])),
        losses=tuple((10.0 * number, loss) for number, loss in enumerate(losses)),
        held=tuple(sorted(held.items())),
    )


@st.composite
def problems(draw):
    machines = draw(clusters())
    slots = sorted(slot.id for machine in machines for slot in machine.slots)
    apps = []
    for number in range(draw(st.integers(0, 4))):
        own = [draw(jobs(f"j{place}", slots)) for place in range(draw(st.integers(0, 3)))]
        arrived_at = draw(st.sampled_from([0.0, 100.0]))
        weight, attained = draw(st.sampled_from([0.5, 1.0, 3.0])), sum(job.attained_gpu_s for job in own)
        apps.append(AppStatus(f"app{number}", arrived_at, tuple(own), weight, attained))
    return LeaseProblem(1, 1000.0, draw(st.sampled_from([60.0, 1200.0])), machines, tuple(apps))


POLICIES = {name: policy.allocate for name, policy in sorted(BUILT_IN.lease_policies.items())}
few = settings(max_examples=settings.default.max_examples // 2)


def by_job(problem):
    return {(app.app, job.id): job for app in problem.apps for job in app.jobs}


def gained(assignments):
    return {(one.app, one.job): sum(gpus for _, gpus in one.gpus) for one in assignments}


def left_over(problem, assignments):
    taken = Counter()
    for one in assignments:
        taken.update(dict(one.gpus))
    return {slot.id: slot.gpus - taken[slot.id] for machine in problem.machines for slot in machine.slots}


def sizes(job):
    return range(job.min_gpus, job.max_gpus + 1, job.step_gpus)


@few
@given(problem=problems())
def test_1_no_gpu_is_given_twice_or_to_an_unknown_job(problem):
    for allocate in POLICIES.values():
        assignments = allocate(problem)
        assert len(gained(assignments)) == len(assignments)
        assert gained(assignments).keys() <= by_job(problem).keys()
        assert all(gpus >= 0 for gpus in left_over(problem, assignments).values())
        for one in assignments:
            assert list(one.gpus) == sorted(dict(one.gpus).items())
            assert one.gpus and all(gpus > 0 for _, gpus in one.gpus)


@few
@given(problem=problems())
def test_2_jobs_get_sizes_that_they_can_use(problem):
    for allocate in POLICIES.values():
        for key, gpus in gained(allocate(problem)).items():
            job = by_job(problem)[key]
            assert sum(held for _, held in job.held) + gpus in sizes(job)


@few
@given(problem=problems())
def test_3_gpus_stay_free_only_if_no_job_can_use_them(problem):
    for name, allocate in POLICIES.items():
        check_work_conserving(name, problem, allocate(problem))


def check_work_conserving(name, problem, assignments):
    free, given_gpus = left_over(problem, assignments), gained(assignments)
    places = {one.app + "/" + one.job: [slot for slot, _ in one.gpus] for one in assignments}
    for (app, job_id), job in by_job(problem).items():
        now = sum(held for _, held in job.held) + given_gpus.get((app, job_id), 0)
        usable = [size for size in sizes(job) if now < size <= now + sum(free.values())]
        if name not in REGARDS_PLACEMENT:
            assert not usable
            continue
        slots = {slot for slot, _ in job.held} | set(places.get(f"{app}/{job_id}", ()))
        speed = now / factor(problem.machines, job, slots)
        if name == "optimus":
            usable = usable[:1]
        for size in usable:
            assert size / narrowest(problem.machines, free, job, slots, size - now) <= speed


def factor(machines, job, slots):
    homes = [machine for machine in machines if slots & {slot.id for slot in machine.slots}]
    if len(slots) < 2:
        return 1.0
    if len(homes) == 1:
        return job.slowdown.slot
    return job.slowdown.machine if len({machine.rack for machine in homes}) == 1 else job.slowdown.rack


def narrowest(machines, free, job, slots, wanted):
    """The least slowdown of the job with `wanted` more GPUs: tries every slot, machine, rack."""
    groups = [{slot.id} for machine in machines for slot in machine.slots]
    groups += [{slot.id for slot in machine.slots} for machine in machines]
    groups += [{slot.id for one in machines if one.rack == rack for slot in one.slots} for rack in "rs"]
    factors = [job.slowdown.rack]
    for group in groups:
        there = [slot for slot in group if free[slot]]
        if slots <= group and sum(free[slot] for slot in there) >= wanted:
            one_slot = len(group) == 1
            factors.append(1.0 if one_slot else factor(machines, job, slots | set(there)))
    return min(factors)


@few
@given(problem=problems(), order=st.randoms())
def test_4_the_same_problem_gives_the_same_assignments_in_whatever_order(problem, order):
    apps = [replace(app, jobs=tuple(order.sample(app.jobs, len(app.jobs)))) for app in problem.apps]
    order.shuffle(apps)
    for allocate in POLICIES.values():
        assignments = allocate(problem)
        assert allocate(problem) == assignments
        assert allocate(replace(problem, apps=tuple(apps))) == assignments


def test_an_unknown_policy_is_an_error_that_lists_the_known_ones():
    with pytest.raises(BadInputError, match=r"policy 'lottery': .*tiresias"):
        BUILT_IN.lease_policy("lottery")
