"""The simulator of lease pools: hand-computed stories with a toy controller, and what it measures."""

import math

import pytest

from tests.toys.leases import KIND, SCRIPTED, Script, Settings, ToyTraining
from tests.toys.registry import TOYS
from yarn_plugin.decide.arbiter import BUILT_IN
from yarn_plugin.decide.leases.settings import LedgerSettings
from yarn_plugin.decide.pools.commands import Grant, LeaseEnded, Revoke
from yarn_plugin.decide.pools.controller import Registry
from yarn_plugin.drive.lease_simulator import Arrival, LeaseSimulation
from yarn_plugin.drive.pool_simulation import SimulationError
from yarn_plugin.model.auction import Release
from yarn_plugin.model.causes import LegacyText
from yarn_plugin.model.gpus import Machine, Slot, Slowdown
from yarn_plugin.model.share import Holding, Lease, Pool
from yarn_plugin.simulation.leasing.application import Goal
from yarn_plugin.simulation.leasing.job import Profile, RunningJob
from yarn_plugin.simulation.leasing.layout import Layout

REGISTRY = Registry({**BUILT_IN.kinds, KIND.name: KIND, SCRIPTED.name: SCRIPTED}, BUILT_IN.policies)
ONE_MACHINE = Layout((Machine("m-1", "r-1", (Slot("m-1/s-0", 2), Slot("m-1/s-1", 2))),))


def simulate(*arrivals, settings=None, layout=ONE_MACHINE, **options):
    pool = Pool("gpu", "root.gpu", ("yarn.io/gpu",), controller=KIND.name, parameters=settings or Settings())
    return LeaseSimulation(pool, REGISTRY, layout, arrivals, keeps_holdings=True, **options).run()


def arrival(app, at, *goals, in_turn=False):
    return Arrival(app, app, at, lambda: ToyTraining(*goals, in_turn=in_turn))


def goal(job, iterations, iteration_s=1.0, max_gpus=2, **profile):
    return Goal(job, iterations, Profile(iteration_s, max_gpus=max_gpus, **profile))


def ends(outcome):
    return {job.name: job.ended_at for job in outcome.jobs}


def test_two_apps_on_four_gpus():
    # 300 and 100 GPU seconds on two GPUs each: 150 s and 50 s; the leases of 100 s are won again at their end.
    outcome = simulate(arrival("a", 0.0, goal("a1", 300.0)), arrival("b", 20.0, goal("b1", 100.0)))
    assert ends(outcome) == {"a1": 150.0, "b1": 70.0}
    assert outcome.gpu_s == 400.0
    assert (outcome.unfinished, outcome.ended_at) == (0, 150.0)
    # 4 GPUs are enough for both, so rho = completion time / ideal time.
    assert outcome.job_rhos == (1.0, 1.0)


def test_an_app_that_waits():
    # Three apps of 100 GPU seconds on two GPUs each; the third waits until 50.
    outcome = simulate(*(arrival(name, 0.0, goal(name, 100.0)) for name in "abc"))
    assert ends(outcome) == {"a": 50.0, "b": 50.0, "c": 100.0}
    # Demand is 6 of 4 GPUs until 50, then 2: c's contention is (1.5 + 1) / 2.
    assert outcome.job_rhos == pytest.approx((1 / 1.5, 1 / 1.5, 2 / 1.25))
    # By equation 3.2: alone each takes 50 s; 3 apps for 50 s, then 1.
    assert dict(outcome.app_rhos) == pytest.approx({"a": 1 / 3, "b": 1 / 3, "c": 2 / 2})


def test_a_job_on_two_slots_is_slower():
    outcome = simulate(
        arrival("a", 0.0, goal("a", 400.0, max_gpus=4, slowdown=Slowdown(slot=1.25))), settings=Settings(each=4)
    )
    assert ends(outcome) == {"a": 125.0}
    assert outcome.gpu_s == 500.0
    assert outcome.placement_score == pytest.approx(1 / 1.25)


def test_goals_follow_each_other_on_the_same_gpus():
    outcome = simulate(arrival("a", 0.0, goal("a1", 100.0), goal("a2", 60.0), in_turn=True))
    assert ends(outcome) == {"a1": 50.0, "a2": 80.0}


def test_gpus_are_divided_among_jobs():
    outcome = simulate(
        arrival("a", 0.0, goal("a1", 100.0, max_gpus=1), goal("a2", 60.0, max_gpus=1), goal("a3", 30.0, max_gpus=1))
    )
    # Two GPUs: a3 starts when a2 has ended, and a1 goes on where it runs.
    assert ends(outcome) == {"a1": 100.0, "a2": 60.0, "a3": 90.0}
    assert {job.name: job.moves for job in outcome.jobs} == {"a1": 0, "a2": 0, "a3": 0}


def test_a_moved_job_restores_its_checkpoint():
    # The lease is lost at 100 and won again at once, by grace_s = 5 later: a pause, and 10 s for the checkpoint.
    outcome = simulate(
        arrival("a", 0.0, goal("a", 300.0)), settings=Settings(grace_s=5.0, lease_s=100.0), checkpoint_s=10.0
    )
    # 200 iterations until 100; it trains on during the grace period: 10 more; then at once 2 GPUs again.
    assert ends(outcome) == {"a": 150.0}
    moved = simulate(
        arrival("a", 0.0, goal("a", 300.0)),
        arrival("b", 0.0, goal("b", 250.0)),
        arrival("c", 10.0, goal("c", 50.0)),
        checkpoint_s=10.0,
    )
    # At 100 c is third in line for the 4 GPUs, and gets none until b has ended at 125; a ends at 150.
    assert ends(moved) == {"a": 150.0, "b": 125.0, "c": 150.0}


def test_gpus_are_leased_to_one_app_at_a_time():
    with pytest.raises(SimulationError, match="GPU m-1/s-0/gpu-0 is leased to a and to b at 10 s"):
        simulate(
            arrival("a", 0.0, goal("a", 300.0)), arrival("b", 10.0, goal("b", 300.0)), settings=Settings(twice=True)
        )


def test_gpu_time_is_the_sum_of_what_was_held():
    outcome = simulate(*(arrival(name, 7.0 * place, goal(name, 90.0 + place)) for place, name in enumerate("abcdefg")))
    held = sum(one.end - one.start for one in outcome.holdings)
    assert held == pytest.approx(outcome.gpu_s)
    by_gpu = {}
    for one in sorted(outcome.holdings, key=lambda one: one.start):
        assert one.start >= by_gpu.get(one.gpu, 0.0)
        by_gpu[one.gpu] = one.end
    assert outcome.unfinished == 0


def test_an_app_that_never_gets_gpus():
    outcome = simulate(arrival("a", 0.0, goal("a", 10.0, min_gpus=3, max_gpus=4)))
    assert outcome.unfinished == 1
    assert ends(outcome) == {"a": None}
    assert outcome.job_rhos == ()


def test_a_job_counts_its_usable_gpus():
    profile = Profile(1.0, min_gpus=2, max_gpus=7, step_gpus=2)
    assert [profile.usable(gpus) for gpus in range(10)] == [0, 0, 2, 2, 4, 4, 6, 6, 6, 6]


def test_progress_is_exact_over_many_moves():
    layout = Layout((Machine("m", "r", (Slot("s-0", 4), Slot("s-1", 4))),))
    job = RunningJob("j", Profile(1.0, max_gpus=4), goal=1000.0)
    for step in range(100):
        job.place(step * 1.0, (("s-0", 1 + step % 3),) if step % 2 else (("s-1", 2),), layout, 0.25)
    job.advance(100.0)
    begun = [2] + [0.75 * (1 + step % 3) if step % 2 else 0.75 * 2 for step in range(1, 100)]
    assert job.done == pytest.approx(sum(begun))
    assert job.attained_gpu_s == pytest.approx(sum(1 + step % 3 if step % 2 else 2 for step in range(100)))
    assert job.moves == 99
    assert math.isclose(job.ends_at(), 100.0 + (1000.0 - job.done) / job.rate)


GPUS = tuple(ONE_MACHINE.gpus)


def lease(id, *gpus, job=""):
    return Lease(id, "a", job, 0, tuple(Holding(GPUS[gpu], "yarn.io/gpu") for gpu in gpus))


def scripted(steps, *goals, **options):
    pool = Pool("gpu", "root.gpu", ("yarn.io/gpu",), controller="toy-script", parameters=Script(tuple(steps)))
    simulation = LeaseSimulation(
        pool, REGISTRY, ONE_MACHINE, [arrival("a", 0.0, *goals)], keeps_holdings=True, **options
    )
    return simulation.run(), simulation.engine.state


CAUSE = LegacyText("because")


def test_a_part_of_a_lease_is_revoked_and_ends():
    # 4 GPUs from 10 on; one must be vacated by 40, and ends; 3 from then on: 120 + 3 * 20 = 180.
    steps = [
        (10.0, (Grant("g", "a", (lease("l", 0, 1, 2, 3),)),)),
        (30.0, (Revoke("r", "a", "l", 40.0, CAUSE, (GPUS[0],)),)),
        (50.0, (LeaseEnded("e", "a", "l", (GPUS[0],)),)),
    ]
    outcome, _ = scripted(steps, goal("1", 180.0, max_gpus=4))
    assert ends(outcome) == {"1": 60.0}
    assert outcome.gpu_s == 180.0
    assert {one.gpu: one.end for one in outcome.holdings} == {
        GPUS[0]: 40.0, GPUS[1]: 60.0, GPUS[2]: 60.0, GPUS[3]: 60.0
    }  # fmt: skip


def test_a_whole_lease_is_revoked():
    steps = [
        (0.5, (Grant("g", "a", (lease("l", 0, 1),)),)),
        (10.5, (Revoke("r", "a", "l", 20.5, CAUSE),)),
        (20.5, (LeaseEnded("e", "a", "l"),)),
        (30.5, (Grant("h", "a", (lease("m", 2),)),)),
    ]
    outcome, _ = scripted(steps, goal("1", 50.0, max_gpus=4), checkpoint_s=5.0)
    # 40 of 50 until 20.5; a checkpoint until 35.5, then 10 more.
    assert ends(outcome) == {"1": 45.5}
    assert (outcome.gpu_s, outcome.jobs[0].busy_gpu_s, outcome.jobs[0].moves) == (55.0, 50.0, 1)


def test_winning_back_at_the_same_moment_moves_nothing():
    steps = [
        (1.0, (Grant("g", "a", (lease("l", 0, 1),)),)),
        (11.0, (LeaseEnded("e", "a", "l"), Grant("h", "a", (lease("m", 0, 1),)))),
    ]
    outcome, _ = scripted(steps, goal("1", 40.0), checkpoint_s=100.0)
    assert ends(outcome) == {"1": 21.0}
    assert [(one.start, one.end) for one in outcome.holdings] == [(1.0, 21.0)] * 2


def test_gpus_of_a_job_that_has_ended_are_given_back_once_they_are_vacated():
    steps = [(1.0, (Grant("g", "a", (lease("l", 0, 1, job="1"), lease("m", 2, job="2"))),))]
    outcome, received = scripted(steps, goal("1", 20.0), goal("2", 30.0))
    assert ends(outcome) == {"1": 11.0, "2": 31.0}
    assert received == ((11.0, "a", Release("l", GPUS[:2]), ()),)


def test_gpus_are_kept_while_another_job_can_use_them():
    steps = [(1.0, (Grant("g", "a", (lease("l", 0, 1, 2),)),))]
    outcome, received = scripted(steps, goal("1", 20.0), goal("2", 30.0, max_gpus=2))
    # 1 has two GPUs until 11, 2 one: 10 done. Then 2 has two, and the third is given back.
    assert ends(outcome) == {"1": 11.0, "2": 21.0}
    assert [(at, message.lease, len(message.gpus)) for at, _, message, _ in received] == [(11.0, "l", 1)]


def test_an_allocator_decides_in_virtual_time():
    # One GPU each, in turn: the third application waits for the first end, 50 s later.
    layout = Layout((Machine("m-1", "r-1", (Slot("m-1/s-0", 2),)),))
    settings = LedgerSettings("toy-in-turn", grace_s=0.0, place_within_s=0.0)
    pool = Pool("gpu", "root.gpu", ("yarn.io/gpu",), controller="ledger", parameters=settings)
    arrivals = [arrival(name, 0.0, goal(name, length)) for name, length in (("a", 50.0), ("b", 100.0), ("c", 100.0))]
    outcome = LeaseSimulation(pool, TOYS, layout, arrivals, keeps_holdings=True).run()
    assert ends(outcome) == {"a": 50.0, "b": 100.0, "c": 150.0}
