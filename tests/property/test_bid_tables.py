"""Bid tables against all subsets of small offers, and properties that hold for all."""

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from themis_agent.bids import bid_table
from themis_agent.bids.finish_time import FinishTime, ideal_s, rounded
from themis_agent.bids.offered import OfferedGpus
from themis_agent.bids.spread import Place
from themis_agent.bids.table import MAX_ROWS
from themis_agent.search.work import Bracket, Phase, Work, plain
from yarn_plugin.model.auction import GpuOffer
from yarn_plugin.model.gpus import Job, Machine, Slot, Slowdown

few = settings(max_examples=settings.default.max_examples // 3)
"""Of a property whose examples take long."""

slowdowns = st.sampled_from([Slowdown(1, 1, 1), Slowdown(), Slowdown(1.1, 1.5, 2.5), Slowdown(1, 3, 8)])


@st.composite
def job_lists(draw, most=4):
    slowdown = draw(slowdowns)
    smallest, step = draw(st.sampled_from([(1, 1), (1, 1), (1, 1), (2, 2), (2, 1), (1, 3)]))
    return tuple(
        Job(
            f"job-{number}",
            draw(st.integers(1, 10)),
            draw(st.sampled_from([1.0, 1.5, 2.0])),
            min_gpus=smallest,
            max_gpus=draw(st.integers(smallest, 6)),
            step_gpus=step,
            slowdown=slowdown,
        )
        for number in range(draw(st.integers(1, most)))
    )


@st.composite
def brackets(draw):
    jobs = draw(job_lists())
    counts = [len(jobs) >> phase for phase in range(1, 3) if len(jobs) >> phase]
    phases = [Phase(count, draw(st.integers(1, 10)), draw(st.integers(1, 6))) for count in counts]
    return Bracket(jobs, tuple(phases[: draw(st.integers(0, 2))]))


@st.composite
def works(draw):
    if draw(st.booleans()):
        return plain(draw(job_lists()))
    return Work(tuple(draw(st.lists(brackets(), min_size=1, max_size=2))), 100.0, 12)


@st.composite
def offers(draw, machines=3, slots=2, gpus=2):
    free, held = [], []
    for number in range(draw(st.integers(1, machines))):
        inside = []
        for index in range(draw(st.integers(1, slots))):
            slot = f"m{number}/s{index}"
            inside.append(Slot(slot, draw(st.integers(0, gpus))))
            if draw(st.integers(0, 3)) == 0:
                held.append((slot, draw(st.integers(1, 2))))
        free.append(Machine(f"m{number}", f"r{draw(st.integers(0, 1))}", tuple(inside)))
    return GpuOffer(1, tuple(free), 600.0, 3.0, tuple(held), 16)


def places(offer, gpus):
    """The places of held GPUs and of so many of each slot."""
    home = {slot.id: machine for machine in offer.machines for slot in machine.slots}
    return [
        Place(home[slot].rack, home[slot].id, slot, count, home[slot].model)
        for slot, count in (*offer.held, *gpus.items())
        if count
    ]


def direct_rho(work, offer, gpus, elapsed_s=0.0):
    remaining = FinishTime(work).remaining_s(places(offer, gpus))
    return rounded((elapsed_s + remaining) / ideal_s(work, offer.contention, offer.cluster_gpus))


def subsets(offer):
    slots = [slot for machine in offer.machines for slot in machine.slots]
    for amounts in product(*(range(slot.gpus + 1) for slot in slots)):
        yield {slot.id: amount for slot, amount in zip(slots, amounts, strict=True)}


MODELS = ("", "fast", "slow")
speeds = st.sampled_from([(), (("fast", 2.0),), (("fast", 2.0), ("slow", 0.5)), (("slow", 0.8),)])


@st.composite
def of_models(draw, works, offers, held=True):
    """A search whose jobs are all as fast as each other on each model, or each by a profile of its own; and an offer of
    GPUs of several models."""
    work, offer = draw(works), draw(offers)
    profile = draw(st.one_of(st.just(speeds), st.builds(st.just, speeds)))
    brackets = tuple(
        replace(bracket, jobs=tuple(replace(job, speeds=draw(profile)) for job in bracket.jobs))
        for bracket in work.brackets
    )
    machines = tuple(replace(one, model=draw(st.sampled_from(MODELS))) for one in offer.machines)
    return replace(work, brackets=brackets), replace(offer, machines=machines, held=offer.held if held else ())


def gpus_of(row):
    return sum(piece.gpus for piece in row.pieces)


def matches_every_subset(bid, work, offer, elapsed_s):
    rows = [(0, rho_or_worst(bid.rho)), *((gpus_of(row), row.rho) for row in bid.rows)]
    for gpus in subsets(offer):
        wanted = rho_or_worst(direct_rho(work, offer, gpus, elapsed_s))
        assert any(size <= sum(gpus.values()) and rho <= wanted for size, rho in rows), gpus


def rho_or_worst(rho):
    return float("inf") if rho is None else rho


@given(works(), offers(), st.sampled_from([0.0, 37.0]))
def test_every_subset_is_matched_by_a_row_with_no_more_gpus_and_no_worse_rho(work, offer, elapsed_s):
    matches_every_subset(bid_table(work, offer, elapsed_s), work, offer, elapsed_s)


@few
@given(of_models(works(), offers()), st.sampled_from([0.0, 37.0]))
def test_every_subset_of_gpus_of_several_models_is_matched(search, elapsed_s):
    work, offer = search
    matches_every_subset(bid_table(work, offer, elapsed_s), work, offer, elapsed_s)


@few
@given(of_models(works(), offers(), held=False))
def test_the_rho_of_a_row_holds_whatever_models_its_pieces_are_of(search):
    work, offer = search
    assume(len(work.brackets) == 1)
    for row in bid_table(work, offer, 5.0).rows:
        found = [direct_rho(work, offer, gpus, 5.0) for gpus in bindings(offer, row.pieces)]
        assert found, row
        assert all(rho is not None and rho <= row.rho for rho in found), row


def bindings(offer, pieces):
    """All ways to take pieces out of an offer: the GPUs of each slot."""
    if not pieces:
        yield {}
        return
    piece, *others = pieces
    for machine in offer.machines:
        if piece.within not in ("", machine.rack, machine.id, *(slot.id for slot in machine.slots)):
            continue
        slots = [slot for slot in machine.slots if piece.within in ("", machine.rack, machine.id, slot.id)]
        for amounts in product(*(range(slot.gpus + 1) for slot in slots)):
            if sum(amounts) != piece.gpus or (piece.level == "slot" and max(amounts) != piece.gpus):
                continue
            taken = {slot.id: amount for slot, amount in zip(slots, amounts, strict=True)}
            left = replace(
                offer,
                machines=tuple(
                    replace(
                        one,
                        slots=tuple(replace(slot, gpus=slot.gpus - taken.get(slot.id, 0)) for slot in one.slots),
                    )
                    if one.id == machine.id
                    else one
                    for one in offer.machines
                ),
            )
            for rest in bindings(left, others):
                yield {slot: rest.get(slot, 0) + taken.get(slot, 0) for slot in {**rest, **taken}}


@given(works(), offers(machines=3, slots=2, gpus=2))
def test_the_rho_of_a_row_holds_wherever_its_pieces_are(work, offer):
    assume(len(work.brackets) == 1)
    for row in bid_table(work, offer, 5.0).rows:
        found = [direct_rho(work, offer, gpus, 5.0) for gpus in bindings(offer, row.pieces)]
        assert found, row
        assert all(rho is not None and rho <= row.rho for rho in found), row


@given(works(), offers())
def test_no_subset_takes_less_time_than_the_least(work, offer):
    finish = FinishTime(work)
    offered = OfferedGpus(offer.machines, places(offer, {}))
    least_s = finish.least_s(offered.largest)
    assert all(finish.remaining_s(places(offer, gpus)) >= least_s for gpus in subsets(offer))


def test_whoever_holds_all_that_it_can_use_has_no_rows():
    """Two jobs of 2 GPUs on one machine each; a third GPU there, and free machines, make none of them faster."""
    work = plain(tuple(Job(name, 100.0, 1.0, min_gpus=2, max_gpus=2) for name in "ab"))
    free = (Machine("m0", "r0", (Slot("m0/s", 1),)), *(Machine(f"m{n}", "r1", (Slot(f"m{n}/s", 4),)) for n in range(9)))
    bid = bid_table(work, GpuOffer(1, free, 600.0, 1.0, (("m0/s", 2), ("m1/s", 2)), 64), 0.0)
    assert (bid.rho, bid.rows) == (rounded(50.0 / (200.0 / 4)), ())
    assert FinishTime(work).least_s((2, 2, 2, 2)) == 50.0
    assert bid_table(work, GpuOffer(1, free, 600.0, 1.0, (("m0/s", 2),), 64), 0.0).rows


@given(works(), offers())
def test_rows_improve_on_nothing_and_on_their_parts(work, offer):
    bid = bid_table(work, offer, 0.0)
    assert len(bid.rows) <= MAX_ROWS
    assert len({tuple(sorted(row.pieces, key=str)) for row in bid.rows}) == len(bid.rows)
    for row in bid.rows:
        assert row.rho < rho_or_worst(bid.rho)
        for other in bid.rows:
            kinds = {(piece.within, piece.level) for piece in (*row.pieces, *other.pieces)}
            if other is not row and len(kinds) == 1 and is_part(other, row):
                assert row.rho < other.rho


def is_part(one, other):
    """Whether the k-th largest piece of one is no larger than that of the other, for all k."""
    sizes, others = (sorted((piece.gpus for piece in row.pieces), reverse=True) for row in (one, other))
    return len(sizes) <= len(others) and all(a <= b for a, b in zip(sizes, others, strict=False))


@given(works(), offers(), st.randoms(use_true_random=False))
def test_the_order_of_machines_and_jobs_does_not_matter(work, offer, random):
    machines = list(offer.machines)
    random.shuffle(machines)
    shuffled = []
    for bracket in work.brackets:
        jobs = list(bracket.jobs)
        random.shuffle(jobs)
        shuffled.append(replace(bracket, jobs=tuple(jobs)))
    assert bid_table(replace(work, brackets=tuple(shuffled)), replace(offer, machines=tuple(machines)), 0.0) == (
        bid_table(work, offer, 0.0)
    )


@given(works(), offers(), st.sampled_from([60.0, 1 / 60, 1000.0]))
def test_the_unit_of_time_does_not_matter(work, offer, unit):
    scaled = Work(
        tuple(
            replace(bracket, jobs=tuple(replace(job, iteration_s=job.iteration_s * unit) for job in bracket.jobs))
            for bracket in work.brackets
        ),
        work.budget_gpu_s * unit,
        work.max_gpus,
    )
    bid, other = bid_table(work, offer, 7.0), bid_table(scaled, offer, 7.0 * unit)
    assert [row.pieces for row in other.rows] == [row.pieces for row in bid.rows]
    assert [other.rho, *(row.rho for row in other.rows)] == pytest.approx([bid.rho, *(row.rho for row in bid.rows)])


@given(works(), offers(machines=4, slots=1, gpus=4))
def test_more_contention_lowers_every_rho(work, offer):
    bid, other = bid_table(work, offer, 0.0), bid_table(work, replace(offer, contention=6.0), 0.0)
    assert [row.pieces for row in bid.rows] == [row.pieces for row in other.rows]
    assert [row.rho for row in other.rows] == pytest.approx([row.rho / 2 for row in bid.rows])
