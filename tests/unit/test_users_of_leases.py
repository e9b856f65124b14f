"""Users of pools whose GPUs are leased: their applications count together, in virtual time."""

import json
from collections import Counter
from dataclasses import replace

import pytest

from tests.sampled import one_in
from yarn_plugin.decide.arbiter import BUILT_IN
from yarn_plugin.decide.mechanisms.partial_allocation import AppOfUser, AppWithoutBid, PartialAllocationProblem
from yarn_plugin.decide.mechanisms.partial_allocation.leftovers import hand_out
from yarn_plugin.decide.mechanisms.partial_allocation.offer import Offer
from yarn_plugin.decide.pools.lease.choice import bidders_of_users
from yarn_plugin.decide.pools.lease.settings import LeaseSettings
from yarn_plugin.drive.training_runs import TrainingRun, simulate
from yarn_plugin.errors import BadInputError
from yarn_plugin.journal.codec import Codec
from yarn_plugin.model.gpus import Machine, Slot
from yarn_plugin.model.loss import SublinearLoss
from yarn_plugin.simulation.training.apps import TrainingApp, TrainingJob, TrainingWorkload
from yarn_plugin.simulation.training.cluster import TrainingCluster

EIGHT_GPUS = TrainingCluster(tuple(Machine(f"m{n}", "r1", (Slot(f"m{n}/s1", 4),)) for n in (1, 2)))
FALLING = SublinearLoss(0.0, 1.0, 1.0, 0.0)


def app(name, user, *works, arrival_s=0.0, **fields):
    """A training application with a job of so much work each, in GPU seconds."""
    jobs = tuple(
        TrainingJob(str(number), work_s, 1.0, loss=FALLING, **{"max_gpus": 4, **fields})
        for number, work_s in enumerate(works)
    )
    return TrainingApp(name, arrival_s, jobs, user=user)


def run(*apps, policy="themis", **options):
    given = TrainingRun(policy, 1, TrainingWorkload(apps), EIGHT_GPUS, lease_s=100.0, keeps_holdings=True, **options)
    return simulate(given).outcome


def most_held(outcome, *apps):
    """The most GPUs that these applications held at a time."""
    changes = Counter()
    for one in outcome.holdings:
        if one.app in apps:
            changes[one.start] += 1
            changes[one.end] -= 1
    held, most = 0, 0
    for at in sorted(changes):
        held += changes[at]
        most = max(most, held)
    return most


@one_in(2, "f", [0.8, 0.0])
@pytest.mark.parametrize("policy", ["themis", "tiresias", "srtf", "gandiva", "optimus", "max_min"])
def test_a_users_applications_hold_no_more_gpus_together_than_allowed(policy, f):
    """Whether they are won, left over, or kept by who is silent; the others use the rest."""
    anns = [app(f"ann_{n}", "ann", 300.0, 500.0, arrival_s=10.0 * n) for n in range(3)]
    bob = app("bob", "bob", 2000.0, 2000.0)
    limited = run(*anns, bob, policy=policy, f=f, max_gpus_per_user=3)
    assert most_held(limited, *(one.name for one in anns)) == 3
    assert limited.unfinished == 0
    assert most_held(run(*anns, bob, policy=policy, f=f), *(one.name for one in anns)) > 3


def test_a_gang_that_its_user_may_not_hold_does_not_keep_smaller_ones_waiting():
    outcome = run(
        app("ann_0", "ann", 300.0, min_gpus=4),
        app("ann_1", "ann", 300.0, max_gpus=2),
        policy="tiresias",
        max_gpus_per_user=3,
    )
    assert {one.group: one.ended_at for one in outcome.jobs} == {"ann_0": None, "ann_1": 150.0}


def test_the_limit_must_be_above_0():
    with pytest.raises(BadInputError, match="max_gpus_per_user 0: must be above 0"):
        LeaseSettings(max_gpus_per_user=0)


# Entitlement by user.


def part_of_ann(entitlement, max_gpus, f, *anns):
    """Ann's part of the GPU time while both users want all GPUs."""
    work = [4000.0] * 10
    outcome = run(*anns, app("bob", "bob", *work, max_gpus=max_gpus), f=f, entitlement=entitlement)
    until = 3000.0
    held = Counter()
    for one in outcome.holdings:
        held[one.app.partition("_")[0]] += max(min(one.end, until) - one.start, 0.0)
    return held["ann"] / held.total()


@pytest.mark.parametrize(("max_gpus", "f"), [(1, 0.5), (4, 0.8)])
def test_a_search_split_into_ten_gains_at_most_5_percent_of_its_gpu_time(max_gpus, f):
    whole = app("ann", "ann", *[4000.0] * 10, max_gpus=max_gpus)
    split = [app(f"ann_{n}", "ann", 4000.0, max_gpus=max_gpus) for n in range(10)]
    fair = part_of_ann("user", max_gpus, f, whole)
    assert 0.95 * fair <= part_of_ann("user", max_gpus, f, *split) <= 1.05 * fair
    assert part_of_ann("application", max_gpus, f, *split) > 1.2 * fair


def test_what_others_do_not_want_is_left_to_a_user_with_many_applications():
    anns = [app(f"ann_{n}", "ann", 300.0, max_gpus=1) for n in range(10)]
    outcome = run(*anns, app("bob", "bob", 700.0, max_gpus=1), entitlement="user")
    assert most_held(outcome, *(one.name for one in anns)) == 7
    assert outcome.unfinished == 0


def test_the_offer_goes_to_the_worst_users():
    users = {"a1": "ann", "a2": "ann", "a3": "ann", "b": "bob", "c": "cat"}
    ranked = ["a1", "a2", "b", "a3", "c"]
    assert bidders_of_users(ranked, users, f=0.8, each=2) == ("a1", "a2")
    assert bidders_of_users(ranked, users, f=0.5, each=9) == ("a1", "a2", "b", "a3")
    assert bidders_of_users(ranked, users, f=0.0, each=1) == ("a1", "b", "c")
    assert bidders_of_users(ranked, users, f=0.0, each=9, most=2) == ("a1", "a2")


@pytest.mark.parametrize("round", range(5))
def test_applications_of_one_user_take_turns_at_leftovers(round):
    offer = Offer(EIGHT_GPUS.machines)
    anns = [AppOfUser(f"ann_{n}", 1, user="ann", comes_last=False) for n in range(9)]
    bob = AppOfUser("bob", 4, user="bob", comes_last=False)
    eve = AppOfUser("eve", 9, user="eve", comes_last=True)
    found, idle = hand_out(offer, dict(zip(offer.slots, offer.slot_gpus, strict=True)), [*anns, bob, eve], 1, round)
    got = Counter()
    for one in found:
        got[one.app.partition("_")[0]] += sum(count for _, count in one.gpus)
    # Bob takes what he can use in his first turn, as an application without users does.
    assert got == {"ann": 4, "bob": 4}
    assert not idle


def test_problems_are_journaled_with_users_only_where_they_count():
    """So the decisions of journals without `entitlement` stay the same to the byte."""
    codec = Codec(BUILT_IN.tags())
    plain = PartialAllocationProblem(1, 1, EIGHT_GPUS.machines, (), (AppWithoutBid("a", 2),))
    by_user = replace(plain, without_bid=(AppOfUser("a", 2, user="ann", comes_last=True), AppWithoutBid("b", 1)))
    for problem in (plain, by_user):
        assert codec.read(json.loads(codec.dump(problem))) == problem
    assert set(codec.write(plain)["without_bid"][0]) == {"app", "wants", "held", "expiring", "gangs"}
