"""How an application divides the GPUs that it holds among its jobs."""

from hypothesis import given
from hypothesis import strategies as st

from themis_agent.bids.finish_time import FinishTime
from themis_agent.bids.spread import Place, places_of
from themis_agent.division import divide
from themis_agent.search import plain
from yarn_plugin.model.gpus import Job, Machine, Slot, Slowdown

SLOW = Slowdown(slot=1.0, machine=1.5, rack=2.0)


def machines(*slots, rack="r"):
    """One machine for each list of GPUs by slot."""
    return tuple(
        Machine(f"m{place}", f"{rack}{place // 2}", tuple(Slot(f"m{place}/s{i}", gpus) for i, gpus in enumerate(one)))
        for place, one in enumerate(slots)
    )


def job(name, work=100.0, max_gpus=4, **fields):
    return Job(name, work, 1.0, max_gpus=max_gpus, slowdown=SLOW, **fields)


def test_one_job_takes_what_it_can_use():
    assert divide(machines([4, 4]), [job("a", max_gpus=6)]) == (("a", (("m0/s0", 4), ("m0/s1", 2))),)


def test_spreading_more_gpus_would_be_slower():
    # 4 GPUs in two racks are as fast as 2; 3 in one machine are faster, 3 as fast as 4.5 / 1.5.
    held = machines([3], [0], [1])
    assert divide(held, [job("a")]) == (("a", (("m0/s0", 3),)),)


def test_the_longest_job_gets_more():
    # 300 and 100 seconds of work on 4 GPUs: 3 and 1 end together.
    held = machines([4])
    assert dict(divide(held, [job("a", 100.0), job("b", 300.0)])) == {"a": (("m0/s0", 1),), "b": (("m0/s0", 3),)}


def test_too_few_gpus_for_all():
    held = machines([2])
    assert dict(divide(held, [job("a", 100.0), job("b", 300.0), job("c", 200.0)])) == {
        "b": (("m0/s0", 1),),
        "c": (("m0/s0", 1),),
    }


def test_jobs_stay_where_they_run():
    held = machines([2], [2])
    jobs = [job("a", held=(("m1/s0", 2),), max_gpus=2), job("b", 300.0, max_gpus=2)]
    assert dict(divide(held, jobs)) == {"a": (("m1/s0", 2),), "b": (("m0/s0", 2),)}


def test_gangs_are_whole():
    # Steps of 2 from 2 on: 5 GPUs are 4 and one left over.
    assert divide(machines([5]), [job("a", min_gpus=2, step_gpus=2, max_gpus=8)]) == (("a", (("m0/s0", 4),)),)
    assert divide(machines([1]), [job("a", min_gpus=2, step_gpus=2, max_gpus=8)]) == ()


JOBS = st.lists(
    st.builds(
        lambda work, low, steps, step: (work, low, low + steps * step, step),
        st.integers(1, 500), st.integers(1, 3), st.integers(0, 3), st.integers(1, 3),
    ),
    max_size=5,
)  # fmt: skip


@given(JOBS, st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=3), max_size=4))
def test_no_gpu_is_given_twice_and_gangs_are_whole(jobs, slots):
    held = machines(*slots)
    listed = [
        job(f"j{place}", float(work), most, min_gpus=low, step_gpus=step)
        for place, (work, low, most, step) in enumerate(jobs)
    ]
    free = {slot.id: slot.gpus for machine in held for slot in machine.slots}
    given_to = dict(divide(held, listed))
    for gpus in given_to.values():
        for slot, count in gpus:
            assert count > 0
            free[slot] -= count
    assert min(free.values(), default=0) >= 0
    for one in listed:
        if one.id in given_to:
            count = sum(number for _, number in given_to[one.id])
            assert one.min_gpus <= count <= one.max_gpus
            assert (count - one.min_gpus) % one.step_gpus == 0
    if listed and sum(slot.gpus for machine in held for slot in machine.slots) >= min(one.min_gpus for one in listed):
        assert given_to


@given(
    st.lists(st.tuples(st.integers(1, 500), st.integers(1, 6)), min_size=1, max_size=5),
    st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=3), min_size=1, max_size=4),
    st.sampled_from([SLOW, Slowdown(1.0, 1.0, 1.0), Slowdown(1.2, 3.0, 8.0)]),
)
def test_all_jobs_that_run_at_once_end_when_bids_say(jobs, slots, slowdown):
    held = machines(*slots)
    listed = [
        Job(f"j{place}", float(work), 1.0, max_gpus=most, slowdown=slowdown) for place, (work, most) in enumerate(jobs)
    ]
    gpus = [Place(one.rack, one.id, slot.id, slot.gpus) for one in held for slot in one.slots]
    given_to = dict(divide(held, listed))
    if sum(place.gpus for place in gpus) < len(listed):
        assert len(given_to) == sum(place.gpus for place in gpus)
        return
    ends = [FinishTime(plain((one,))).remaining_s(places_of(given_to[one.id], held)) for one in listed]
    assert max(ends) <= FinishTime(plain(tuple(listed))).remaining_s(gpus) * (1 + 1e-9)
