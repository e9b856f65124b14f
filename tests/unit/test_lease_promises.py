"""What applications say of their finish-time fairness: bounded by what is known, and discounted if it does not come."""

import math

import pytest

from tests.lease_world import World, node, row
from yarn_plugin.api.causes import text
from yarn_plugin.decide.mechanisms.plausible_rho import Known

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
    for _ in range(60):
        world.wait(each)
        for app, gpus in world.held().items():
            held[app] += len(gpus) * each
    assert held[eve] <= 1.25 * sum(held.values()) / 4
    named = [record for record in world.rounds() if eve in dict(record.discounted)]
    assert named
    assert not any(app in dict(record.discounted) for record in world.rounds() for app in others)
    assert f"discounted for a rho worse than promised: {eve} x " in text(named[0])


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
