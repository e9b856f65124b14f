"""What applications say of their finish-time fairness: bounded by what is known, and discounted if it does not come."""

import math

import pytest

from tests.lease_world import World, node, row
from yarn_plugin.api.causes import text
from yarn_plugin.decide.events import Deregistered, NodesChanged, Superseded
from yarn_plugin.decide.mechanisms.plausible_rho import Known
from yarn_plugin.decide.pools.commands import Ask, Revoke
from yarn_plugin.decide.pools.lease import promises
from yarn_plugin.decide.pools.lease.turn import Turn
from yarn_plugin.decide.pools.view import View
from yarn_plugin.model.gpus import Job

HOUR = 3600.0


def test_the_largest_rho_with_an_equal_part_follows_from_elapsed_time_and_declared_work():
    """Four applications on 16 GPUs; an hour of the whole pool each. An equal part is four GPUs: T_id is four hours."""
    facts = Known(2 * HOUR, HOUR, 0.0, 4.0, 16)
    assert facts.ideal_s == 4 * HOUR
    assert facts.most(4) == pytest.approx((2 + 4) / 4)
    assert facts.most(16) == pytest.approx((2 + 1) / 4)


@pytest.mark.parametrize("gpus", [0, 1, 2, 3])
def test_below_an_equal_part_it_may_be_as_slow_as_with_one_gpu(gpus):
    assert Known(2 * HOUR, HOUR, 0.0, 4.0, 16).most(gpus) == pytest.approx((2 + 4 * 16) / 4)


def test_nothing_is_bounded_without_declared_work_and_leased_gpus():
    assert math.isinf(Known(2 * HOUR, None, 0.0, 4.0, 16).most(16))


def test_gpu_time_that_was_leased_is_work():
    """It has leased the pool for an hour: T_id is at least four hours, whatever it declared."""
    facts = Known(2 * HOUR, 1.0, 16 * HOUR, 4.0, 16)
    assert facts.ideal_s == 4 * HOUR
    assert facts.most(16) == pytest.approx(0.5)
    assert facts.overdue == pytest.approx(900.0)


def liar(**agent):
    """eve says that she is far worse off than the others, whatever she gets; the others hold what she leaves."""
    world = World.of(*(node(f"n{number}") for number in range(4)), f=0.8, grace_s=0.0)
    everything = row(9e14, 4, 4, 4, 4)
    eve = world.arrive("eve", **{"rho": 1e15, "rows": (everything,), **agent})
    others = [world.arrive(name, rho=2.0, rows=(row(1.99, 2), row(1.97, 4))) for name in ("ann", "bob", "kim")]
    return world, eve, others


def test_an_application_that_keeps_breaking_its_promises_is_named_and_gains_nothing():
    world, eve, others = liar()
    world.wait(6 * 600.0)
    held, each = dict.fromkeys((eve, *others), 0.0), 60.0
    # 30 leases: each is of the whole pool.
    for _ in range(300):
        world.wait(each)
        for app, gpus in world.held().items():
            held[app] += len(gpus) * each
    assert held[eve] <= 1.25 * sum(held.values()) / 4
    named = [record for record in world.rounds() if eve in dict(record.discounted)]
    assert named
    assert not any(app in dict(record.discounted) for record in world.rounds() for app in others)
    assert f"discounted for a rho worse than promised: {eve} x " in text(named[0])


def test_an_application_that_keeps_three_promises_is_discounted_no_more():
    world = World.of(*(node(f"n{number}") for number in range(4)))
    eve = world.arrive("eve", rho=9.0, rows=(row(1.0, 4),))
    world.wait(20.0)
    whole = world.stage.intake.state
    settings = next(pool.parameters for pool in whole.pools if pool.name == "gpu")
    turn = Turn("gpu", settings, world.stage.state(), View(topology=whole.cells), world.stage.clock.time)
    for _ in range(20):
        promises.compare(turn, eve, None, 1.0, 4)
    assert promises.discount(turn, eve) < 0.25
    for _ in range(3):
        assert promises.discount(turn, eve) < 1.0
        promises.compare(turn, eve, 1.0, 1.0, 4)
    assert promises.discount(turn, eve) == 1.0


def test_a_rho_with_an_equal_part_of_the_pool_is_bounded():
    world, eve, _ = liar()
    world.wait(620.0)
    assert world.stage.state().members[eve].rho < 10.0
    world, eve, _ = liar(rho=None)
    world.wait(620.0)
    assert world.stage.state().members[eve].rho < 10.0, "it is not unbounded either"


def test_an_application_whose_rho_rises_since_it_holds_less_is_not_discounted():
    """Equation 3.1: bob is left with a part of its GPUs; its rho is what its table has for them."""
    world = World.of(node("n1"), f=0.5, grace_s=0.0, payments=False)
    bob = world.arrive("bob", rho=8.0, rows=(row(1.0, 4), row(2.0, 2), row(4.0, 1)))
    world.wait(20.0)
    world.agents[bob].rho = 0.5
    world.arrive("eve", rho=9.0, rows=(row(2.0, 3),))
    world.wait(600.0)
    world.agents[bob].rho = 2.0
    world.wait(600.0)
    assert world.stage.state().members[bob].unkept == 0.0
    assert not any(bob in dict(record.discounted) for record in world.rounds())


def test_an_application_whose_gpus_are_revoked_says_nothing_of_them_and_is_not_discounted():
    """It is asked for the finish time without them, which is unbounded if they were all that it had."""
    world = World.of(node("n1"), f=0.5)
    bob = world.arrive("bob", rho=2.0, rows=(row(1.0, 4),))
    world.wait(20.0)
    # With twice the N_avg.
    world.agents[bob].rho = 0.5
    world.arrive("eve", rho=9.0, rows=(row(2.0, 4),))
    world.wait(590.0)
    (revoke,) = world.sent(Revoke)
    assert revoke.app == bob
    world.agents[bob].rho = None
    world.stage.take(NodesChanged((node("n2"),), ()))
    world.wait(10.0)
    asked = [one.question for one in world.sent(Ask) if one.app == bob]
    assert asked[-1].held == ()
    assert world.stage.state().members[bob].unkept == 0.0


def test_a_promise_is_compared_at_the_n_avg_of_the_question():
    """Many applications arrive while bob computes its answer."""
    world = World.of(node("n1"))
    bob = world.arrive("bob", rho=2.0, rows=(row(1.0, 4),))
    world.wait(60.0)
    world.agents[bob].rho, world.agents[bob].delay = 1.0, 4.0
    world.stage.take(NodesChanged((node("n2"),), ()))
    world.wait(2.5)
    for number in range(40):
        world.arrive(f"other{number}", rho=1.0)
    world.wait(5.0)
    assert world.stage.state().members[bob].estimated_in == 2
    assert world.stage.state().members[bob].unkept == 0.0


def test_jobs_do_not_declare_all_work_of_an_application_that_starts_new_ones():
    jobs = (Job("trial", 60.0, 1.0, max_gpus=4),)
    world = World.of(node("n1"))
    bob = world.arrive("bob", rho=2.0, rows=(row(0.99, 4),), jobs=jobs)
    world.wait(20.0)
    world.agents[bob].rho = 1.0
    world.wait(2 * HOUR)
    assert not any(record.discounted for record in world.rounds())
    world.agents[bob].cluster_s = 15.0
    world.wait(HOUR)
    assert dict(world.rounds()[-1].discounted).keys() == {bob}, "what it says of all its work counts"


def test_a_table_without_cluster_s_promises_nothing_of_the_time_without_its_gpus():
    world = World.of(node("n1"), f=0.5, grace_s=0.0)
    bob = world.arrive("bob", rho=9.0, rows=(row(2.0, 4),))
    world.wait(20.0)
    # T_cluster is 1,000 s, of which it has done 300 s after 600 s; then it waits for 500 s.
    world.agents[bob].rho = 2000 / (1000 * 2)
    eve = world.arrive("eve", rho=90.0, rows=(row(80.0, 4),))
    world.wait(600.0)
    assert world.held().keys() == {eve}
    # Kim is offered what eve leaves, and says nothing: bob gets it without another table.
    world.agents[bob].rho, world.agents[bob].bids = 2500 / (1000 * 2), False
    world.arrive("kim", rho=99.0, bids=False)
    world.wait(500.0)
    world.stage.take(Deregistered(eve))
    world.wait(20.0)
    assert world.held().keys() == {bob}
    world.wait(600.0)
    assert world.stage.state().members[bob].table_round == 1
    assert world.stage.state().members[bob].unkept == 0.0


def test_gpu_time_until_another_arbiter_takes_over_counts():
    world = World.of(node("n1"))
    bob = world.arrive("bob", rho=2.0, rows=(row(1.0, 4),))
    world.wait(400.0)
    (start,) = [one.started_at for one in world.stage.state().leases.values()]
    world.stage.take(Superseded("http://you:2"))
    assert not world.stage.state().leases
    assert world.stage.state().members[bob].attained_gpu_s == pytest.approx(4 * (world.stage.clock.time - start))


def test_an_answer_is_compared_for_the_gpus_that_were_asked_about():
    """Bob is asked while it waits for what it won, and answers when it has it."""
    world = World.of(node("n1"), f=0.5)
    ann = world.arrive("ann", rho=2.0, rows=(row(1.0, 4),))
    world.wait(20.0)
    world.agents[ann].rho = 0.5
    bob = world.arrive("bob", rho=9.0, rows=(row(2.0, 4),))
    world.wait(580.0)
    (revoke,) = wait_for(world, Revoke)
    world.agents[bob].rho, world.agents[bob].delay = None, 4.0
    world.wait(revoke.by - 3.0 - world.stage.clock.time)
    world.stage.take(NodesChanged((node("n2"),), ()))
    world.wait(6.0)
    assert world.held() == {bob: {f"n1/{number}" for number in range(4)}}
    assert world.stage.state().members[bob].estimated_in == 3
    assert world.stage.state().members[bob].unkept == 0.0


def test_a_table_for_gpus_that_were_lost_since_the_offer_breaks_no_promise():
    world = World.of(node("n1"), node("n2"))
    bob = world.arrive("bob", rho=9.0, rows=(row(1.0, 4, 4), row(2.0, 4)))
    world.wait(20.0)
    assert len(world.held()[bob]) == 8
    world.agents[bob].rho, world.agents[bob].rows = 1.0, (row(0.5, 4),)
    world.stage.take(NodesChanged((node("n3"),), ()))
    world.wait(2.05)
    world.agents[bob].delay = 2.0
    world.wait(1.0)
    world.stage.take(NodesChanged((), (node("n2").id,)))
    world.wait(3.0)
    assert world.stage.state().members[bob].table_round == 2
    assert world.stage.state().members[bob].unkept == 0.0


def test_an_answer_for_gpus_that_were_lost_since_the_question_breaks_no_promise():
    world = World.of(node("n1"), node("n2"))
    bob = world.arrive("bob", rho=9.0, rows=(row(1.0, 4, 4), row(2.0, 4)))
    world.wait(20.0)
    world.agents[bob].rho, world.agents[bob].delay = 1.0, 3.0
    world.stage.take(NodesChanged((node("n3"),), ()))
    world.wait(3.0)
    world.stage.take(NodesChanged((), (node("n2").id,)))
    world.wait(3.0)
    assert world.stage.state().members[bob].estimated_in == 2
    assert world.stage.state().members[bob].unkept == 0.0


def wait_for(world, kind):
    """The messages of a kind once there are any."""
    for _ in range(60):
        if found := world.sent(kind):
            return found
        world.wait(1.0)
    raise AssertionError(f"no {kind.__name__}")
