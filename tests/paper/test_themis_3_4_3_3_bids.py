"""Themis, section 3.4.3.3: the end-to-end example of a bid, number for number."""

import pytest

from themis_agent.bids import bid_table
from themis_agent.bids.finish_time import FinishTime, ideal_s
from themis_agent.bids.spread import Place
from themis_agent.search.work import Bracket, Phase, Work
from yarn_plugin.model.auction import GpuOffer
from yarn_plugin.model.gpus import Job, Machine, Slot, Slowdown

NO_SLOWDOWN = Slowdown(1.0, 1.0, 1.0)
APPS, CLUSTER = 4, 16


def jobs(*iteration_s, iterations):
    return tuple(
        Job(str(number), iterations, seconds, max_gpus=8, slowdown=NO_SLOWDOWN)
        for number, seconds in enumerate(iteration_s)
    )


FIRST = Work((Bracket(jobs(80, 100, 100, 120, iterations=8), (Phase(2, 16, 8), Phase(1, 36, 8))),), 10_000, 4 * 8)


def shared_s(work, gpus):
    return FinishTime(work).remaining_s([Place("rack", "machine", "slot", gpus)])


def test_the_ideal_time():
    assert ideal_s(FIRST, APPS, CLUSTER) == 2500


def test_two_gpus():
    assert shared_s(FIRST, 2) == 1600 + 1600 + 1800
    assert shared_s(FIRST, 2) / ideal_s(FIRST, APPS, CLUSTER) == 2


@pytest.mark.parametrize(("gpus", "rho"), [(1, 4), (2, 2), (4, 1.064), (8, 0.532), (16, 0.345)])
def test_table_3_3(gpus, rho):
    """The table is lost in print. 16 GPUs: 3, 4, 4, 5 for the four jobs, then 8 and 8, then 8 of 16."""
    assert shared_s(FIRST, gpus) / ideal_s(FIRST, APPS, CLUSTER) == pytest.approx(rho, abs=5e-4)


def test_the_table_that_is_sent():
    machines = (Machine("machine", "rack", (Slot("slot", 16),)),)
    bid = bid_table(FIRST, GpuOffer(1, machines, 600, APPS, (), CLUSTER), elapsed_s=0)
    sent = {sum(piece.gpus for piece in row.pieces): row.rho for row in bid.rows}
    assert bid.rho is None
    assert {gpus: sent[gpus] for gpus in (1, 2, 4, 8, 16)} == pytest.approx(
        {1: 4, 2: 2, 4: 1.064, 8: 0.532, 16: (640 / 3 + 200 + 450) / 2500}
    )


def test_the_revision_when_other_jobs_are_chosen():
    """Jobs of 120 and 100 seconds remain: 120 x 16 (3200 in print), and the upper median of the two in phase 3."""
    second = Work((Bracket(jobs(120, 100, iterations=16), (Phase(1, 36, 8),)),), 10_000, 4 * 8)
    assert shared_s(second, 2) == 1920 + 2160
