"""What an operator can watch of leased GPUs."""

import math
import re
from pathlib import Path

import pytest

from tests.lease_world import World, node, row
from tests.small_cells import in_prod
from yarn_plugin.api import metrics
from yarn_plugin.api.lease_metrics import lease_metrics
from yarn_plugin.decide.pools.commands import Grant
from yarn_plugin.model.resources import GPU


def figures(world):
    """The value of each metric, by name and labels but the pool's."""
    state, now = world.stage.intake.state, world.stage.clock.time
    return {
        (sample.name.removeprefix("yarn_arbiter_lease_"), *(v for k, v in sample.labels.items() if k != "pool")):
        sample.value
        for metric in lease_metrics(state, now)
        for sample in metric.samples
    }  # fmt: skip


@pytest.mark.parametrize("is_ledger", [False, True])
def test_a_round_with_a_payment_and_idle_gpus_is_seen(is_ledger):
    world = World.of(node("n1", 4), node("n2", 4), f=0.0, is_ledger=is_ledger)
    world.arrive("ann", rho=4.0, rows=(row(2.0, 4), row(1.0, 4, 4)))
    world.arrive("bob", rho=2.0, rows=(row(1.0, 4),))
    world.wait(60.0)
    (last, *_) = reversed(world.rounds())
    found = figures(world)
    assert (found["gpus",], found["rounds_total",]) == (8, last.round)
    assert found["leased_gpus",] == sum(map(len, world.held().values())) > 0
    assert found["count",] == len([lease for one in world.sent(Grant) for lease in one.leases])
    assert found["max_rho",] == max(rho for _, rho in last.rhos)
    assert found["gap",] == last.gap
    for what in ("won", "paid", "leftover", "idle"):
        assert found["round_gpus", what] == sum(count for _, count in getattr(last, what))
    assert found["round_gpus", "won"] > 0


def test_a_round_in_progress_is_timed():
    world = World.of(node("n1", 4), solves=False, f=0.0)
    world.arrive("ann", rho=4.0, rows=(row(2.0, 4),))
    assert figures(world)["round_seconds",] == 0
    world.wait(60.0)
    opened_at = world.stage.state().round.opened_at
    assert figures(world)["round_seconds",] == world.stage.clock.time - opened_at > 0
    assert ("gap",) not in figures(world)


def test_an_unbounded_rho_is_infinite():
    world = World.of(node("n1", 4), f=0.0)
    world.arrive("ann", rho=None, rows=(row(2.0, 4),))
    world.wait(60.0)
    assert None in [rho for _, rho in world.rounds()[0].rhos]
    assert any(value == math.inf for name, value in figures(world).items() if name == ("max_rho",))


def test_the_rounds_of_a_virtual_cluster_have_its_name():
    world = in_prod()
    world.arrive("a", {GPU: 4})
    world.wait(30.0)
    metrics_now = lease_metrics(world.stage.intake.state, world.stage.clock.time)
    rounds = {
        one.labels["pool"]: one.value for each in metrics_now for one in each.samples if "rounds_total" in one.name
    }
    assert rounds == {"gpu/prod": 1}


def test_they_are_among_the_metrics_of_the_arbiter():
    world = World.of(node("n1", 4))
    text = metrics.render(
        metrics.Figures(world.stage.intake.state, world.stage.clock.time, 0, 0, 0, 0, {}, {}, True, None, 10)
    )
    assert 'yarn_arbiter_lease_gpus{pool="gpu"} 4.0' in text.splitlines()


def test_the_documented_ones_exist():
    world = World.of(node("n1", 4), f=0.0)
    world.arrive("ann", rho=4.0, rows=(row(2.0, 4),))
    world.wait(60.0)
    named = set(
        re.findall(r"`yarn_arbiter_lease_(\w+)", (Path(__file__).parents[2] / "docs" / "leases.md").read_text())
    )
    assert named == {name for name, *_ in figures(world)}
