"""What an operator can watch of leased GPUs."""

import math
import re
from pathlib import Path

from tests.lease_world import World, node, row
from yarn_plugin.api import metrics
from yarn_plugin.api.lease_metrics import lease_metrics


def figures(world):
    """The value of each metric, by name and labels but the pool's."""
    state, now = world.stage.intake.state, world.stage.clock.time
    return {
        (sample.name.removeprefix("yarn_arbiter_lease_"), *(v for k, v in sample.labels.items() if k != "pool")):
        sample.value
        for metric in lease_metrics(state, now)
        for sample in metric.samples
    }  # fmt: skip


def test_a_round_with_a_payment_and_idle_gpus_is_seen():
    world = World.of(node("n1", 4), node("n2", 4), f=0.0)
    world.arrive("ann", rho=4.0, rows=(row(2.0, 4), row(1.0, 4, 4)))
    world.arrive("bob", rho=2.0, rows=(row(1.0, 4),))
    world.wait(60.0)
    (last, *_) = reversed(world.rounds())
    found = figures(world)
    assert (found["gpus",], found["rounds_total",]) == (8, last.round)
    assert found["leased_gpus",] == sum(map(len, world.held().values())) > 0
    assert found["count",] == len(world.stage.state().leases)
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
