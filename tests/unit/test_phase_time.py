"""How long a phase takes, and how GPUs are spread and packed."""

import math
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from themis_agent.bids import bid_table, estimate
from themis_agent.bids.brackets import Need, Shares
from themis_agent.bids.finish_time import FinishTime, median_job
from themis_agent.bids.known_jobs import KnownJobs, longest_first
from themis_agent.bids.later_phases import LaterPhases, LikeJobs
from themis_agent.bids.packing import fits, seats
from themis_agent.bids.spread import ANYWHERE, MACHINE, RACK, SLOT, Place, Spread, parts_of, places_of
from themis_agent.search import Bracket, Phase, Work, plain
from yarn_plugin.model.auction import Bid, Estimate, EstimateRequest, GpuOffer
from yarn_plugin.model.gpus import Job, Machine, Slot, Slowdown

NONE = Slowdown(1.0, 1.0, 1.0)
STEEP = Slowdown(slot=1.25, machine=2.0, rack=4.0)


def spread(*racks):
    """A rack is a list of machines, a machine a list of its slots' GPUs."""
    return Spread.of(
        Place(f"r{i}", f"r{i}/m{j}", f"r{i}/m{j}/s{k}", gpus)
        for i, rack in enumerate(racks)
        for j, machine in enumerate(rack)
        for k, gpus in enumerate(machine)
    )


def job(name, work, max_gpus=8, slowdown=STEEP, **more):
    return Job(name, work, 1.0, max_gpus=max_gpus, slowdown=slowdown, **more)


def test_the_cells_of_a_set():
    bins = spread([[2, 2], [1]], [[4]]).bins
    assert bins[SLOT] == ((1, 1), (2, 2), (4, 1))
    assert bins[MACHINE] == ((1, 1), (4, 2))
    assert bins[RACK] == ((4, 1), (5, 1))
    assert bins[ANYWHERE] == ((9, 1),)
    assert spread().bins == ((), (), (), ())


def test_names_do_not_matter():
    assert spread([[2], [1, 3]], [[4]]) == spread([[4]], [[3, 1], [2]])
    assert spread([[2]], [[2]]) != spread([[2], [2]])


def test_slots_that_are_in_no_machine_are_alone():
    machines = (Machine("m0", "r0", (Slot("a", 0), Slot("b", 1))),)
    assert Spread.of(places_of((("a", 1), ("b", 1), ("c", 2), ("d", 3)), machines)) == spread([[1, 1]], [[2]], [[3]])


@pytest.mark.parametrize(
    ("racks", "seconds"),
    [
        ([[[4]]], 60.0),  # 240 / 4
        ([[[2, 2]]], 75.0),  # 240 x 1.25 / 4
        ([[[2], [2]]], 120.0),  # 240 x 2 / 4, as on the 2 of one slot
        ([[[2]], [[2]]], 120.0),  # 240 x 4 / 4 would take 240: 2 GPUs stay idle
        ([[[3]], [[1]]], 80.0),
        ([[[2, 1], [1]]], 100.0),  # 240 x 1.25 / 3, better than 240 / 2 and 240 x 2 / 4
    ],
)
def test_a_job_spans_no_more_than_it_must(racks, seconds):
    assert KnownJobs([job("a", 240.0)]).seconds(spread(*racks)) == seconds
    assert LaterPhases(job("a", 240.0), [LikeJobs(1, 240.0, 8)]).seconds(spread(*racks)) == seconds


def test_jobs_keep_to_their_machines():
    """3 and 3 across machines would take 300 x 2 / 3 s; 4 and 2, each in one machine, take 150 s at most."""
    jobs = [job("a", 300.0), job("b", 300.0)]
    assert KnownJobs(jobs).seconds(spread([[4], [2]])) == 150.0
    assert KnownJobs([job("a", 400.0), job("b", 200.0)]).seconds(spread([[4], [2]])) == 100.0


def test_more_jobs_than_gpus_take_turns():
    """Longest first: 5 + 1, 4 + 2 and 3 + 3 on three GPUs."""
    jobs = [job(str(work), float(work)) for work in (1, 2, 3, 3, 4, 5)]
    assert KnownJobs(jobs).seconds(spread([[3]])) == 6.0
    assert longest_first([5.0, 4.0, 3.0, 3.0, 3.0], 2) == 10.0
    assert LaterPhases(jobs[0], [LikeJobs(5, 10.0, 8)]).seconds(spread([[2]])) == 30.0


def test_gangs_take_turns_in_lanes():
    """Gangs of 2 on 5 GPUs: two lanes of 2; 60 and 40 + 30 s of work, twice as fast."""
    jobs = [job(str(work), float(work), min_gpus=2, max_gpus=2) for work in (60, 40, 30)]
    assert KnownJobs(jobs).seconds(spread([[5]])) == 35.0
    # In one machine each 1 GPU short: only across the two, one after the other.
    assert KnownJobs([job("a", 8.0, min_gpus=2, max_gpus=2)]).seconds(spread([[1], [1]])) == 8.0


def test_what_cannot_run_takes_forever():
    assert KnownJobs([job("a", 8.0), job("b", 8.0, min_gpus=3)]).seconds(spread([[2]])) == math.inf
    assert LaterPhases(job("a", 8.0, min_gpus=3), [LikeJobs(1, 8.0, 3)]).seconds(spread([[2]])) == math.inf
    assert KnownJobs([job("a", 8.0)]).seconds(spread()) == math.inf


def test_a_cap_below_the_smallest_gang_is_the_gang():
    assert LaterPhases(job("a", 8.0, min_gpus=2, slowdown=NONE), [LikeJobs(1, 8.0, 1)]).seconds(spread([[4]])) == 4.0


works_and_caps = st.lists(st.tuples(st.integers(1, 30), st.integers(1, 4)), min_size=1, max_size=3)


@given(works_and_caps, st.integers(3, 8))
def test_the_earliest_end_of_jobs_that_run_at_once(jobs, gpus):
    known = KnownJobs([job(str(i), float(work), cap, NONE) for i, (work, cap) in enumerate(jobs)])
    best = min(
        max(work / size for (work, _), size in zip(jobs, sizes, strict=True))
        for sizes in product(*(range(1, cap + 1) for _, cap in jobs))
        if sum(sizes) <= gpus
    )
    assert known.seconds(spread([[gpus]])) == pytest.approx(best)


racks = st.lists(
    st.lists(st.lists(st.integers(1, 3), min_size=1, max_size=2), min_size=1, max_size=2), min_size=1, max_size=2
)
machine_steep = st.sampled_from([NONE, Slowdown(), STEEP, Slowdown(1.0, 3.0, 8.0)])


@given(st.integers(1, 4), st.integers(1, 4), racks, machine_steep)
def test_equal_jobs_are_as_fast_known_or_not(count, cap, cells, slowdown):
    jobs = [job(str(i), 12.0, cap, slowdown) for i in range(count)]
    here = spread(*cells)
    assert LaterPhases(jobs[0], [LikeJobs(count, 12.0, cap)]).seconds(here) == pytest.approx(
        KnownJobs(jobs).seconds(here)
    )


def test_later_phases_add_up():
    """Each within whatever is best for it: 4 jobs on one GPU each, 2 in a machine each, 1 on the larger machine."""
    later = LaterPhases(job("a", 1.0), [LikeJobs(4, 6.0, 8), LikeJobs(2, 12.0, 8), LikeJobs(1, 24.0, 8)])
    assert later.seconds(spread([[4], [2]])) == 6.0 + 12.0 / 2 + 24.0 / 4


def packings(rooms, gangs):
    if not gangs:
        return True
    return any(
        packings((*rooms[:i], room - gangs[0], *rooms[i + 1 :]), gangs[1:])
        for i, room in enumerate(rooms)
        if room >= gangs[0]
    )


@given(st.lists(st.integers(1, 8), max_size=4), st.lists(st.sampled_from([1, 2, 4]), min_size=1, max_size=5))
def test_packing_is_exact_for_powers_of_two(rooms, gangs):
    bins = tuple(sorted((room, rooms.count(room)) for room in set(rooms)))
    counted = [(size, gangs.count(size)) for size in sorted(set(gangs), reverse=True)]
    assert fits(bins, counted) == packings(tuple(rooms), tuple(sorted(gangs, reverse=True)))
    assert seats(bins, 2) == sum(room // 2 for room in rooms)


@given(st.lists(st.integers(1, 8), max_size=4), st.lists(st.integers(1, 5), min_size=1, max_size=5))
def test_packing_promises_nothing_that_is_impossible(rooms, gangs):
    bins = tuple(sorted((room, rooms.count(room)) for room in set(rooms)))
    counted = [(size, gangs.count(size)) for size in sorted(set(gangs), reverse=True)]
    if fits(bins, counted):
        assert packings(tuple(rooms), tuple(sorted(gangs, reverse=True)))


@given(racks, st.lists(st.integers(0, 6), min_size=1, max_size=3))
def test_parts_are_of_the_whole(cells, sizes):
    whole = spread(*cells)
    if sum(sizes) > whole.gpus:
        return
    parts = parts_of(whole, sizes)
    assert [part.gpus for part in parts] == sizes
    largest = whole.bins[RACK][-1][0]
    assert all(room <= largest for part in parts for room, _ in part.bins[RACK])
    assert parts_of(whole, [whole.gpus]) == [whole]


def test_parts_are_whole_cells_as_far_as_possible():
    first, second, third = parts_of(spread([[2, 2], [2]], [[4]]), [4, 3, 3])
    assert first == spread([[2, 2]])
    assert second == spread([[2]], [[1]])
    assert third == spread([[3]])


def test_brackets_share_by_work():
    needs = [Need(600.0, 1, 8), Need(300.0, 1, 8), Need(100.0, 1, 8)]
    assert Shares(needs).of(10) == (6, 3, 1)
    assert Shares(needs).of(2) is None
    assert Shares([Need(600.0, 1, 2), Need(300.0, 2, 8)]).of(9) == (2, 7)
    assert Shares([Need(600.0, 1, 2), Need(300.0, 2, 3)]).of(9) == (2, 3)


def test_the_slowest_bracket_counts():
    one = Bracket((job("a", 600.0, slowdown=NONE),))
    two = Bracket((job("b", 300.0, slowdown=NONE),), (Phase(1, 100.0, 1),))
    time = FinishTime(Work((one, two), 1000.0, 16))
    # 3 and 2 of 5 GPUs: 200 s, and 150 + 100 s.
    assert time.remaining_s([Place("r", "m", "s", 5)]) == 250.0
    # One GPU: one bracket after the other.
    assert time.remaining_s([Place("r", "m", "s", 1)]) == 600.0 + 300.0 + 100.0
    assert time.remaining_s([]) == math.inf


def test_no_work_no_time():
    assert FinishTime(plain(())).remaining_s([]) == 0.0
    assert estimate(plain(()), EstimateRequest(1, 1.0), 0.0) == Estimate(1, None)
    machines = (Machine("m", "r", (Slot("s", 4),)),)
    assert bid_table(plain(()), GpuOffer(1, machines, 600.0, 1.0), 5.0) == Bid(1, None, (), 0.0)


def test_jobs_that_wait_for_their_phase_need_no_gpus():
    waiting, running = job("a", 0.0), job("b", 50.0)
    time = FinishTime(Work((Bracket((waiting, running), (Phase(1, 30.0, 1),)),), 100.0, 8))
    assert time.remaining_s([Place("r", "m", "s", 1)]) == 80.0


def test_the_upper_median():
    jobs = [Job(str(i), 1.0, seconds) for i, seconds in enumerate((120.0, 80.0, 100.0, 100.0))]
    assert median_job(jobs).id == "3"
    assert median_job(jobs[:2]).iteration_s == 120.0


def test_gangs_of_one_size_run_at_once_or_wait_for_each_other():
    jobs = [
        Job(name, work, 1.0, min_gpus=4, max_gpus=4, slowdown=NONE) for name, work in (("a", 8), ("b", 6), ("c", 4))
    ]
    phase = KnownJobs(jobs)
    assert phase.seconds(spread([[4], [4], [4]])) == 2.0
    # Two lanes: the third job follows the second.
    assert phase.seconds(spread([[4], [4]])) == 2.5
    assert phase.gangs(spread([[4], [4]])) == (SLOT, {"a": 4, "b": 4})
    assert phase.gangs(spread([[4], [4], [4]])) == (SLOT, {"a": 4, "b": 4, "c": 4})
    assert math.isinf(phase.seconds(spread([[3]])))
    assert phase.gangs(spread([[3]])) is None


def test_bids_do_not_depend_on_the_offers_before():
    machines = tuple(Machine(f"m{k}", f"r{k % 2}", (Slot(f"m{k}/a", 2), Slot(f"m{k}/b", 2))) for k in range(6))
    held = Machine("m6", "r0", (Slot("m6/a", 0),))
    beside = Machine("m0", "r0", (Slot("m0/a", 2), Slot("m0/b", 2), Slot("m0/c", 0)))
    fewer = Machine("m0", "r0", (Slot("m0/a", 1), Slot("m0/b", 2)))
    offers = [
        GpuOffer(1, machines, 600.0, 2.0, (), 28),
        GpuOffer(1, (*machines, held), 600.0, 2.0, (("m6/a", 2),), 28),
        GpuOffer(1, (beside, *machines[1:]), 600.0, 2.0, (("m0/c", 1),), 28),
        GpuOffer(1, (fewer, *machines[1:]), 600.0, 2.0, (), 28),
        GpuOffer(1, machines[:3], 600.0, 2.0, (), 28),
    ]
    work = plain([job("a", 100.0), job("b", 80.0)])
    empty = GpuOffer(1, (), 600.0, 2.0)

    def anew(offer):
        bid_table(work, empty, 5.0)
        return bid_table(work, offer, 5.0)

    expected = [anew(offer) for offer in offers]
    for first, second in product(range(len(offers)), repeat=2):
        assert bid_table(work, offers[first], 5.0) == expected[first]
        assert bid_table(work, offers[second], 5.0) == expected[second]
