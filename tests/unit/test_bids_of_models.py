"""GPUs of several models: how fast a search is with them, its rows, and which of them its jobs run on."""

from dataclasses import replace

import pytest

from themis_agent.bids import bid_table
from themis_agent.bids.finish_time import FinishTime
from themis_agent.bids.models import Speeds
from themis_agent.bids.spread import Place
from themis_agent.division import divide
from themis_agent.search.work import Bracket, Phase, Work, plain, single_job
from yarn_plugin.model.auction import GpuOffer
from yarn_plugin.model.gpus import Job, Machine, Slot, Slowdown

NONE = Slowdown(1.0, 1.0, 1.0)


def job(name="a", work=80.0, gpus=8, smallest=1, held=(), **speeds):
    given = tuple(sorted(speeds.items()))
    return Job(name, work, 1.0, min_gpus=smallest, max_gpus=gpus, slowdown=NONE, speeds=given, held=held)


def machine(name, gpus=4, model="", rack="r"):
    return Machine(name, rack, (Slot(f"{name}/s", gpus),), model)


def seconds(work, **gpus):
    """With so many GPUs of each model."""
    return FinishTime(work).remaining_s([Place("r", model, model, count, model) for model, count in gpus.items()])


def test_a_gang_is_as_fast_as_its_slowest_gpu_and_leaves_slow_ones_where_that_is_faster():
    """80 s of work. On 4 GPUs at 1.5: 80 / 6; on 8 at 1: 10. At 3: 80 / 12, and no sooner with slow ones."""
    assert seconds(single_job(job(v100=1.5)), v100=4) == pytest.approx(80 / 6)
    assert seconds(single_job(job(v100=1.5)), v100=4, k80=4) == 10.0
    assert seconds(single_job(job(v100=3.0)), v100=4, k80=4) == pytest.approx(80 / 12)
    assert seconds(single_job(job(v100=3.0)), k80=4) == 20.0
    assert seconds(single_job(job(k80=0.1)), v100=4, k80=4) == 20.0
    # A gang that needs more GPUs than there are fast ones has no choice.
    assert seconds(single_job(job(v100=3.0, smallest=6)), v100=4, k80=4) == 10.0


def test_without_speeds_models_do_not_matter():
    work = single_job(job())
    assert not FinishTime(work).speeds.matter
    assert seconds(work, v100=4, k80=4) == 10.0


def test_later_phases_run_as_fast_as_the_present_jobs():
    """Two jobs of 40 s, then one of 20 s on up to 2 GPUs: on 2 GPUs at 2, 20 + 5 s."""
    work = Work((Bracket((job("a", 40.0, 1, v100=2.0), job("b", 40.0, 1, v100=2.0)), (Phase(1, 20.0, 2),)),), 100.0, 2)
    assert seconds(work, v100=2) == 25.0


def test_each_job_has_speeds_of_its_own():
    """On x alone, a takes 10 / 2 and b 30, one after the other or side by side; on both models all at 1 but b."""
    a, b = job("a", 10.0, 1, x=2.0), job("b", 30.0, 1, y=3.0)
    assert seconds(plain((a, b)), x=2) == 30.0
    assert seconds(plain((a, b)), y=2) == 10.0
    # y is faster for all work: 10 + 30 / 3 against 10 / 2 + 30. One y: b and then a; with x: both at 1.
    assert seconds(plain((a, b)), y=1) == 20.0
    assert seconds(plain((a, b)), x=1, y=1) == 20.0


def test_models_as_fast_as_each_other_are_one():
    speeds = Speeds([job(a=2.0, b=2.0, c=0.5)])
    assert [speeds.rank(model) for model in ("a", "b", "", "unknown", "c")] == [0, 0, 1, 1, 2]
    assert speeds.limits([2, 0, 2]) == [(0,), (0, 2)]


def test_rows_tell_models_apart():
    """In an offer too large to enumerate: 16 GPUs of each model in the same racks, the fast ones twice as fast."""
    machines = tuple(
        machine(f"{model}{number}", 4, model, f"r{number % 2}") for number in range(4) for model in ("fast", "slow")
    )
    bid = bid_table(single_job(job(work=1600.0, gpus=16, fast=2.0)), GpuOffer(1, machines, 600.0, 1.0, (), 32), 0.0)
    best = {}
    for row in bid.rows:
        gpus = sum(piece.gpus for piece in row.pieces)
        is_fast = all(piece.within.startswith("fast") for piece in row.pieces)
        assert is_fast or row.rho > 0.999 * 16 / gpus, "rows that may lie anywhere count as slow"
        best[gpus, is_fast] = min(row.rho, best.get((gpus, is_fast), 99.0))
    assert best[16, True] == 0.5
    assert best[8, True] == best[16, False] == 1.0
    assert (16, False) in best, "what is easier to have is in the table too"


def test_a_rack_of_one_model_stays_a_class():
    machines = tuple(machine(f"{model}{number}", 4, model, model) for number in range(4) for model in ("fast", "slow"))
    work = single_job(job(work=1600.0, gpus=16, fast=2.0))
    rows = bid_table(work, GpuOffer(1, machines, 600.0, 1.0, (), 32), 0.0).rows
    names = {
        one.within for row in rows for one in row.pieces if row.rho < 0.6 * 16 / sum(one.gpus for one in row.pieces)
    }
    assert names == {"fast"}


def test_what_is_held_counts_with_its_model():
    """4 fast GPUs are held; 4 slow ones make nothing faster, 4 fast ones do."""
    held = (("m/s", 4),)
    work = single_job(job(fast=3.0))
    mine = machine("m", 0, "fast")
    slow = bid_table(work, GpuOffer(1, (mine, machine("n", 4, "slow")), 600.0, 1.0, held, 16), 0.0)
    assert (slow.rho, slow.rows) == (pytest.approx(80 / 12 / 10), ())
    fast = bid_table(work, GpuOffer(1, (mine, machine("n", 4, "fast")), 600.0, 1.0, held, 16), 0.0)
    assert min(row.rho for row in fast.rows) == pytest.approx(80 / 24 / 10)


def test_slow_gpus_held_in_another_rack_than_all_offered_ones():
    """With the offered GPUs alone all that it uses is in one rack: 2 fast ones do 80 s of work in 10."""
    work = single_job(replace(job(fast=4.0), slowdown=Slowdown(1.0, 1.5, 3.0)))
    offered = (machine("m", 0, rack="q"), machine("n", 2, "fast"))
    bid = bid_table(work, GpuOffer(1, offered, 600.0, 1.0, (("m/s", 1),), 16), 0.0)
    assert (bid.rho, min(row.rho for row in bid.rows)) == (8.0, pytest.approx(10 / 10))


def test_jobs_run_where_bids_assume():
    held = (machine("m", 4, "fast"), machine("n", 4, "slow"))
    assert divide(held, [job(fast=3.0)]) == (("a", (("m/s", 4),)),)
    assert divide(held, [job(fast=1.5)]) == (("a", (("m/s", 4), ("n/s", 4))),)
    two = [job("a", gpus=4, fast=3.0), job("b", gpus=4, fast=3.0)]
    assert divide(held, two) == (("a", (("m/s", 2),)), ("b", (("m/s", 2),)))
    assert divide((machine("n", 4, "slow"),), [job(fast=3.0)]) == (("a", (("n/s", 4),)),)
    assert divide((), [job(fast=3.0)]) == ()
