"""Rounds of the lease controller: who is asked, offered and heard, and what a round decides."""

import math

import pytest

from tests.lease_world import World, node, row
from yarn_plugin.decide.commands import SolveInWorker
from yarn_plugin.decide.events import Deregistered, JobsDeclared, NodesChanged, Revised, Solved
from yarn_plugin.decide.mechanisms.partial_allocation import Gang
from yarn_plugin.decide.mechanisms.plausible_rho import Known
from yarn_plugin.decide.pools.commands import Ask, Grant, Offer, Renew, Revoke
from yarn_plugin.decide.pools.lease.choice import Standing, bidders, worst_first
from yarn_plugin.decide.pools.lease.settings import LeaseSettings
from yarn_plugin.errors import BadInputError
from yarn_plugin.model.auction import Bid, Estimate
from yarn_plugin.model.gpus import Job, Machine, Slot
from yarn_plugin.model.resources import GPU, Resources
from yarn_plugin.model.share import Demand
from yarn_plugin.model.share import Job as DeclaredJob

ALL_FOUR = (row(1.0, 4),)


def counts(world):
    return {app: len(gpus) for app, gpus in world.held().items()}


# Who is offered.


@pytest.mark.parametrize(
    ("count", "f", "expected"),
    [(1, 0.8, 1), (5, 0.8, 1), (6, 0.8, 2), (10, 0.8, 2), (5, 0.6, 2), (4, 0.0, 4), (4, 1.0, 1), (40, 0.8, 8),
     (10, 0.7, 3), (0, 0.5, 0)],
)  # fmt: skip
def test_the_worst_k_are_offered(count, f, expected):
    """Thesis, section 3.4.2.2: k = max(1, ceil((1 - f) N))."""
    everyone = [str(n) for n in range(count)]
    assert len(bidders(everyone, f)) == expected
    assert bidders(everyone, f, 2) == tuple(everyone[: min(expected, 2)])


def test_the_unbounded_come_first_by_wait_over_ideal_time_and_the_unheard_last():
    ranked = worst_first([
        Standing("fair", 0.5, True, 900.0),
        Standing("worse", 2.0, True, 10.0),
        Standing("small", None, True, 60.0, 100.0),  # 0.6
        Standing("large", None, True, 90.0, 300.0),  # 0.3
        Standing("no profile", None, True, 100.0),  # 100 / 200, the mean of both
        Standing("dead", None, False, 9999.0),
    ])  # fmt: skip
    assert ranked == ["small", "no profile", "large", "worse", "fair", "dead"]


def test_arrivals_within_the_window_share_a_round():
    world = World.of(node("n1"), round_window_s=2.0)
    a = world.arrive("ann", rows=(row(1.0, 2),))
    world.wait(1.5)
    b = world.arrive("bob", rows=(row(1.0, 2),))
    world.wait(20.0)
    assert len(world.rounds()) == 1
    assert [ask.app for ask in world.sent(Ask)] == [a, b]
    assert world.sent(Ask)[0].answer_by == pytest.approx(1002.0 + 5.0)
    assert world.rounds()[0].opened_by == ("nodes", "arrival")


def test_estimates_then_an_offer_to_the_worst_then_its_bid():
    world = World.of(node("n1"), node("n2", 2, "/r2"), f=0.5)
    apps = [
        world.arrive(name, rho=rho, rows=ALL_FOUR) for name, rho in (("a", 1.0), ("b", 4.0), ("c", 2.0), ("d", 3.0))
    ]
    world.wait(20.0)
    first = [ask for ask in world.sent(Ask) if ask.question.round == 1]
    assert [ask.app for ask in first] == apps
    offers = world.sent(Offer)
    assert [offer.app for offer in offers] == [apps[1], apps[3]]
    # Everyone had answered before the deadline, so the offer came with the last estimate.
    assert offers[0].bid_by == pytest.approx(first[0].answer_by - 5.0 + 0.1 + 10.0)
    machines = (Machine("n1", "/r1", (Slot("n1", 4),), host="n1"), Machine("n2", "/r2", (Slot("n2", 2),), host="n2"))
    assert {offer.offer.machines for offer in offers} == {machines}
    assert {offer.offer.cluster_gpus for offer in offers} == {6}
    (record,) = world.rounds()
    assert record.rhos == ((apps[1], 4.0), (apps[3], 3.0), (apps[2], 2.0), (apps[0], 1.0))
    assert record.bidders == (apps[1], apps[3])
    assert record.gap == 0.0


def test_a_round_in_which_tables_answer_for_all_waits_for_no_estimates():
    world = World.of(node("n1"), table_rounds=4)
    world.arrive("ann", rho=3.0, rows=(row(1.0, 4),), cluster_s=100.0)
    world.wait(20.0)
    (until,) = {lease.until for grant in world.sent(Grant) for lease in grant.leases}
    world.wait(620.0)
    assert [ask.question.round for ask in world.sent(Ask)] == [1]
    assert world.sent(Offer)[1].bid_by == pytest.approx(until + 10.0)


def test_an_estimate_names_what_is_held_and_the_average_contention():
    world = World.of(node("n1"), lease_s=100.0)
    a = world.arrive("ann", rho=3.0, rows=(row(1.0, 2),))
    world.wait(50.0)
    world.arrive("bob", rho=9.0, rows=(row(1.0, 2),))
    world.wait(60.0)
    ask = [one for one in world.sent(Ask) if one.app == a][-1]
    assert ask.question.held == (("n1", 2),)
    assert ask.question.machines == (Machine("n1", "/r1", (Slot("n1", 0),), host="n1"),)
    # ann was alone from 1000 to 1050, with bob until then.
    asked_at = ask.answer_by - 5.0
    alone = world.stage.state().members[a].arrived_at + 50.0
    expected = (50.0 + 2 * (asked_at - alone)) / (50.0 + asked_at - alone)
    assert ask.question.contention == pytest.approx(expected, abs=1e-3)


# Late, silent, malformed.


@pytest.fixture
def believed(monkeypatch):
    """Whatever an application says is believed."""
    monkeypatch.setattr(Known, "most", lambda known, gpus: math.inf)


def contest(**bob):
    """Two bidders for four GPUs; what ann gets beside a bob that answers like this."""
    world = World.of(node("n1"), f=0.0)
    a = world.arrive("ann", rho=2.0, rows=(row(1.9, 1), row(1.0, 4)))
    b = world.arrive("bob", **{"rho": 8.0, "rows": (row(1.0, 4),), **bob})
    return world, a, b


def test_bids_decide():
    world, a, b = contest()
    world.wait(20.0)
    (record,) = world.rounds()
    assert (record.won, record.paid) == (((b, 2),), ((b, 2),)), "8 / 1 beats 2 / 1; alone, ann would have that: c = 1/2"
    assert record.bidders == (b, a)
    assert record.leftover == ((a, 1),), "what bob pays is offered to ann"
    assert record.idle == (("gang", 1),), "which cannot use more of it than her smaller row has"


@pytest.mark.parametrize(
    "bob",
    [{"bids": False}, {"rows": ()}, {"rows": (row(1.0, 5),)}, {"rows": (row(-1.0, 4),)},
     {"rows": (row(1.0, 1, within="x"),)}],
    ids=["silent", "empty", "too much", "negative", "unknown place"],
)  # fmt: skip
def test_a_silent_or_malformed_bid_is_the_empty_bid(bob):
    world, a, _ = contest(**bob)
    world.wait(20.0)
    assert counts(world) == {a: 4}


def test_a_late_bid_is_the_empty_bid_and_a_second_one_is_ignored():
    def ann_gets(at, first=True):
        world, a, b = contest(bids=False)
        world.wait(3.0)
        offer = next(one for one in world.sent(Offer) if one.app == b)
        wait = offer.bid_by + at - world.stage.clock.time
        if first:
            world.stage.say(b, Bid(1, 8.0, ()))
        world.wait(wait - 0.02 * first)
        world.stage.say(b, Bid(1, 8.0, (row(1.0, 4),)), 0.0)
        world.wait(20.0)
        return counts(world).get(a, 0)

    assert ann_gets(-0.5, first=False) == 1, "in time: what bob pays"
    assert ann_gets(-0.5) == 4, "a second bid"
    assert ann_gets(0.0, first=False) == 4, "at the deadline, the timer comes first"
    assert ann_gets(0.2, first=False) == 4, "late"


def test_a_stale_bid_does_not_take_the_place_of_the_bid():
    world = World.of(node("n1"))
    a = world.arrive("ann", rho=3.0, rows=ALL_FOUR)
    world.wait(2.15)
    assert world.stage.state().round.phase == "offered"
    world.stage.say(a, Bid(0, 3.0, ()))
    world.wait(20.0)
    assert counts(world) == {a: 4}


@pytest.mark.parametrize(
    "estimate",
    [
        Estimate(7, 9.0),
        Estimate(1, -3.0),
        Estimate(1, 0.0),
        Estimate(1, 9.0, (Job("j", 1.0, 1.0, step_gpus=0),)),
        Estimate(1, 9.0, (Job("j", 1.0, -1.0),)),
    ],
    ids=["stale", "negative", "zero", "no step", "negative time"],
)
def test_an_invalid_estimate_is_ignored(estimate):
    world = World.of(node("n1"))
    a, b = world.arrive("ann", rho=2.0, rows=ALL_FOUR), world.arrive("bob", estimates=False, bids=False)
    world.wait(2.5)
    world.stage.say(b, estimate)
    world.wait(20.0)
    assert world.rounds()[0].rhos == ((a, 2.0), (b, None))
    assert world.rounds()[0].bidders == (a,), "who never answered comes last"


def test_a_silent_application_keeps_its_last_estimate(believed):
    world = World.of(node("n1"), lease_s=100.0)
    a, b = world.arrive("ann", rho=5.0, rows=(row(1.0, 1),)), world.arrive("bob", rho=2.0, rows=(row(1.0, 1),))
    world.wait(50.0)
    world.agents[a].estimates = False
    world.wait(100.0)
    assert world.rounds()[-1].rhos == ((a, 5.0), (b, 2.0))


# Payments and leftovers.


def test_what_is_paid_goes_to_those_that_were_not_offered_and_never_back():
    """Two equal bidders for four GPUs; each one's presence costs the other: thesis, Pseudocode 3."""
    world = World.of(node("n1"), f=0.4)
    rows = (row(4.0, 1), row(2.0, 2), row(1.5, 3), row(1.0, 4))
    a, b = (world.arrive(name, rho=8.0, rows=rows) for name in ("ann", "bob"))
    c = world.arrive("kim", rho=1.0)
    world.wait(20.0)
    (record,) = world.rounds()
    # Each gets two, gain log 4; alone the other would have log 8: c = 1/2, so each keeps one of two and pays one.
    assert (record.bidders, record.won, record.paid) == ((a, b), ((a, 1), (b, 1)), ((a, 1), (b, 1)))
    assert record.leftover == ((c, 2),)
    assert counts(world) == {a: 1, b: 1, c: 2}


def test_leftovers_are_limited_by_what_an_application_can_use():
    world = World.of(node("n1"), f=0.5)
    world.arrive("ann", rho=8.0, rows=(row(1.0, 1),))
    job = Job("trial", 100.0, 1.0, min_gpus=2, max_gpus=2)
    b = world.arrive("bob", rho=1.0, jobs=(job,))
    world.wait(20.0)
    assert counts(world)[b] == 2
    assert world.rounds()[0].idle == (("not wanted", 1),)


def test_leftovers_are_limited_by_the_registered_demand():
    world = World.of(node("n1"), f=0.5)
    world.arrive("ann", rho=8.0, rows=(row(1.0, 1),))
    b = world.arrive("bob", rho=1.0)
    world.stage.take(Revised(b, 1.0, Demand((Resources.of({GPU: 1}),))))
    world.wait(20.0)
    assert counts(world)[b] == 1


def test_an_application_can_use_what_its_jobs_can_together():
    world = World.of(node("n1"), f=0.5)
    world.arrive("ann", rho=8.0, rows=(row(1.0, 1),))
    b = world.arrive("bob", rho=1.0)
    one, cores = Resources.of({GPU: 1}), Resources.of({"vcores": 8})
    world.stage.take(JobsDeclared(b, (DeclaredJob("x", "bob", demand=Demand((cores, one))),)))
    world.wait(20.0)
    assert counts(world)[b] == 1
    jobs = tuple(DeclaredJob(name, "bob", demand=Demand((one,))) for name in "xyz")
    world.stage.take(JobsDeclared(b, jobs))
    assert world.stage.state().members[b].demand == 3


def test_what_is_held_counts_towards_what_an_application_can_use():
    world = World.of(node("n1", 1), f=0.5)
    world.arrive("ann", rho=8.0)
    b = world.arrive("bob", rho=1.0)
    world.stage.take(Revised(b, 1.0, Demand((Resources.of({GPU: 2}),))))
    world.wait(20.0)
    assert counts(world) == {b: 1}
    world.stage.take(NodesChanged((node("n2", 4),), ()))
    world.wait(20.0)
    assert counts(world) == {b: 2}


def test_the_seed_decides_who_gets_leftovers():
    def leftover(seed):
        world = World.of(node("n1"), seed=seed)
        world.arrive("ann", rho=8.0, rows=(row(1.0, 3),))
        for name in "bcde":
            world.arrive(name, rho=1.0)
        world.wait(20.0)
        return world.rounds()[0].leftover

    assert leftover(1) == leftover(1)
    assert len({leftover(seed) for seed in range(12)}) == 4


# Bid tables between bids.


def test_a_bid_table_answers_for_its_application(believed):
    world = World.of(node("n1"), table_rounds=4)
    a = world.arrive("ann", rows=(row(2.0, 2), row(1.9, 4)), cluster_s=3000.0)
    b = world.arrive("bob", rho=1.0, jobs=(Job("t", 9.0, 1.0, max_gpus=1),))
    world.wait(90.0)
    assert world.rounds()[0].won == ((a, 4),)
    world.agents[a].rho = 99.0
    world.wait(600.0)
    assert [one.app for one in world.sent(Ask)] == [a, b, b]
    # T_sh was expected to be 1.9 x 3000 x N_avg; for 0.5 s after the bid, until the grant, nothing was done of it.
    first, second = (0.01 + 2 * 2.08) / 2.09, (0.01 + 2 * 602.68) / 602.69
    expected = (1.9 * 3000.0 * first + 0.5) / (3000.0 * second)
    assert dict(world.rounds()[1].rhos)[a] == pytest.approx(expected, abs=1e-6)


def test_a_table_answers_at_the_present_contention(believed):
    world = World.of(node("n1"), table_rounds=4)
    a = world.arrive("ann", rows=(row(2.0, 4),), cluster_s=3000.0)
    world.wait(302.69)
    world.arrive("bob", rho=1.0)
    world.wait(400.0)
    contention = (302.7 * 1 + 300.0 * 2) / 602.7
    assert dict(world.rounds()[1].rhos)[a] == pytest.approx((6000.0 + 0.5) / 3000.0 / contention, abs=1e-3)


def test_who_has_not_bid_for_some_rounds_is_asked_again():
    world = World.of(node("n1"), table_rounds=2, lease_s=100.0)
    a = world.arrive("ann", rho=3.0, rows=(row(2.0, 2),), cluster_s=3000.0)
    world.wait(50.0)
    b = world.arrive("bob", rho=9.0, rows=(row(8.0, 2), row(7.0, 4)), cluster_s=3000.0)
    world.wait(900.0)
    rounds_asked = [one.question.round for one in world.sent(Ask) if one.app == a]
    bids = [one.offer.round for one in world.sent(Offer) if one.app == a]
    assert bids[:1] == [1]
    assert rounds_asked[0] == 1
    assert rounds_asked[1] == min(
        number for number in range(2, 20) if number - 2 > max([n for n in bids if n < number])
    )
    assert b in {one.app for one in world.sent(Offer)}


def test_who_has_not_said_which_jobs_it_has_is_asked_before_its_table_answers():
    """Else a payment could leave it a part of a gang."""
    world = World.of(node("n1"), f=0.0, table_rounds=9, lease_s=100.0)
    jobs = (Job("trial", 100.0, 1.0, min_gpus=4, max_gpus=4),)
    a = world.arrive("ann", rho=8.0, rows=ALL_FOUR, jobs=jobs, cluster_s=300.0, delay=6.0)
    world.wait(50.0)
    assert (world.rounds()[0].won, world.rounds()[0].rhos) == (((a, 4),), ((a, None),)), "its estimate came too late"
    world.agents[a].delay = 0.1
    world.wait(250.0)
    assert [one.question.round for one in world.sent(Ask)] == [1, 2]
    assert world.stage.state().members[a].gangs == (Gang(4, 4, 1, trials=1),)


def test_an_application_is_asked_if_its_table_says_nothing_about_what_it_holds():
    world = World.of(node("n1", 2), node("n2", 2), table_rounds=9)
    a = world.arrive("ann", rows=(row(2.0, 2, 2),), cluster_s=3000.0)
    world.wait(60.0)
    world.stage.take(NodesChanged((), ("n2:8041",)))
    world.wait(600.0)
    assert [one.question.round for one in world.sent(Ask)] == [1, 2], "a row of four GPUs, of which two are left"
    assert world.held() == {a: {"n1/0", "n1/1"}} or world.held() == {}


# What opens a round, and what does not.


def test_idle_leftovers_open_no_round():
    world = World.of(node("n1"))
    world.arrive("ann", rho=3.0, rows=(row(1.0, 2),))
    world.wait(500.0)
    (record,) = world.rounds()
    assert record.idle == (("not wanted", 2),)
    world.wait(120.0)
    assert [one.opened_by for one in world.rounds()[1:]] == [("lease-end",)]


def test_gpus_of_which_none_is_leased_are_offered_again_once_a_lease():
    world = World.of(node("n1"), lease_s=100.0)
    a = world.arrive("ann", rho=3.0, rows=ALL_FOUR, bids=False)
    world.wait(90.0)
    assert [one.opened_by for one in world.rounds()] == [("nodes", "arrival")]
    world.agents[a].bids = True
    world.wait(60.0)
    assert [one.opened_by for one in world.rounds()] == [("nodes", "arrival"), ("retry",)]
    assert counts(world) == {a: 4}


def test_an_arrival_opens_a_round_for_idle_gpus_only():
    world = World.of(node("n1"))
    a = world.arrive("ann", rho=3.0, rows=(row(1.0, 2),))
    world.wait(50.0)
    b = world.arrive("bob", rho=9.0, rows=(row(1.0, 2),))
    world.wait(50.0)
    assert counts(world) == {a: 2, b: 2}
    world.arrive("kim", rho=9.0, rows=(row(1.0, 2),))
    world.wait(50.0)
    assert len(world.rounds()) == 2, "nothing is free"


def test_an_application_that_ends_opens_a_round_for_its_gpus():
    world = World.of(node("n1"), f=0.0, payments=False)
    a = world.arrive("ann", rho=3.0, rows=(row(1.0, 4),))
    b = world.arrive("bob", rho=2.0, rows=(row(1.0, 4),))
    world.wait(20.0)
    assert counts(world) == {a: 4}
    world.stage.take(Deregistered(a))
    world.wait(20.0)
    assert counts(world) == {b: 4}
    assert [one.opened_by for one in world.rounds()][1:] == [("app-ended",)]


def test_an_application_that_ends_with_nothing_opens_no_round():
    world = World.of(node("n1"))
    world.arrive("ann", rho=3.0, rows=(row(1.0, 2),))
    b = world.arrive("bob", rho=2.0, jobs=(Job("t", 1.0, 1.0, min_gpus=4, max_gpus=4),))
    world.wait(20.0)
    assert world.rounds()[0].idle == (("gang", 2),)
    world.stage.take(Deregistered(b))
    world.wait(60.0)
    assert len(world.rounds()) == 1


# The solver.


def solving(**settings):
    world = World.of(node("n1"), solves=False, **settings)
    app = world.arrive("ann", rho=3.0, rows=ALL_FOUR)
    world.wait(2.3)
    return world, app


def test_the_result_takes_effect_when_it_is_due_however_fast_the_solver_is():
    def granted_at(after):
        world, _ = solving(decide_s=0.5)
        world.wait(after)
        world.stage.solve()
        world.wait(30.0)
        (at,) = [one.at for one in world.stage.decided for command in one.commands
                 if isinstance(getattr(command, "message", None), Grant)]  # fmt: skip
        return at

    assert granted_at(0.01) == granted_at(0.1)
    assert granted_at(5.0) > granted_at(0.1)


def test_a_lost_problem_is_solved_again_three_times_at_most():
    world, app = solving()
    ids = []
    for _ in range(3):
        ids += [one.id for one in world.stage.problems]
        world.stage.solve("lost")
    assert len(ids) == 3
    assert len(set(ids)) == 1
    assert world.stage.problems == []
    assert world.rounds()[0].error == "the solver's result is lost"
    assert not world.held()
    world.wait(610.0)
    (again,) = world.stage.problems
    world.stage.solve()
    world.wait(1.0)
    assert again.id != ids[0]
    assert counts(world) == {app: 4}


def test_holders_keep_what_they_hold_if_the_solver_fails():
    world, app = solving()
    world.stage.solve()
    world.wait(610.0)
    assert len(world.stage.problems) == 1, "the lease ended"
    world.stage.solve("failed", error="ValueError: no solution")
    world.wait(10.0)
    assert counts(world) == {app: 4}
    assert world.rounds()[-1].error == "ValueError: no solution"
    assert len(world.sent(Renew)) == 1
    assert world.sent(Revoke) == []


def test_stale_results_change_nothing():
    world, _ = solving()
    (command,) = world.stage.problems
    assert isinstance(command, SolveInWorker)
    world.stage.solve()
    world.wait(1.0)
    before = world.stage.state()
    result = Solved("gpu", command.id, "done", None)
    for event in (result, Solved("gpu", "gpu#999", "failed"), Solved("gpu", command.id, "lost")):
        (decided,) = world.stage.take(event, 0.001)
        assert (decided.commands, world.stage.state()) == ((), before)


def test_an_application_that_ends_while_the_solver_works_gets_nothing():
    world, app = solving()
    world.stage.take(Deregistered(app))
    world.stage.solve()
    world.wait(10.0)
    assert not world.held()
    assert world.sent(Grant) == []
    assert world.stage.state().round is None


# Limits.


def heard(world, app):
    return [type(one).__name__ for one in world.stage.sent(object) if one.app == app]


def test_applications_beyond_max_apps_wait_in_order():
    world = World.of(node("n1"), max_apps=1)
    a = world.arrive("ann", rho=3.0, rows=ALL_FOUR)
    b, c = (world.arrive(name, rho=9.0, rows=ALL_FOUR) for name in ("bob", "kim"))
    world.wait(20.0)
    assert {ask.app for ask in world.sent(Ask)} == {a}
    assert heard(world, b) == ["Hold"]
    world.stage.take(Deregistered(a))
    world.wait(20.0)
    assert heard(world, b) == ["Hold", "Accept", "Ask", "Offer", "Grant"]
    assert heard(world, c) == ["Hold"]


def test_applications_wait_while_the_total_demand_is_at_its_limit():
    """Thesis, footnote to section 3.3.2; here at 1.5 times the pool's four GPUs."""
    world = World.of(node("n1"), max_demand=1.5)
    a = world.arrive("ann", rho=3.0, rows=(row(1.0, 1),))
    world.stage.take(Revised(a, 1.0, Demand((Resources.of({GPU: 2}),))))
    bob = world.arrive("bob", rho=3.0, rows=(row(1.0, 1),))
    assert not world.stage.state().members[bob].waits, "2 + 4 is 6"
    kim = world.arrive("kim", rho=3.0)
    assert world.stage.state().members[kim].waits


@pytest.mark.parametrize(
    ("field", "value"),
    [("f", 1.2), ("f", -0.1), ("lease_s", 0.0), ("grace_s", math.inf), ("max_apps", 0), ("gpus_per_task", 0)],
)
def test_settings_out_of_range_are_rejected(field, value):
    with pytest.raises(BadInputError, match=field):
        LeaseSettings(**{field: value})


def test_an_offer_lists_slots_in_the_order_of_the_machines_whatever_became_free_first():
    """The journal has the offer: replayed, it must be the same to the byte."""
    names = [f"n{number}" for number in range(1, 9)]
    world = World.of(*map(node, names), lease_s=100)
    a = world.arrive("ann", rho=3.0, rows=(row(1.0, *[4] * 8),))
    world.wait(20.0)
    assert len(world.held()[a]) == 32
    world.agents[a].bids = False
    world.wait(88.0)
    assert world.stage.state().round.ending
    assert list(world.stage.state().round.offer) == names
