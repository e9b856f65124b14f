"""`fit` says when a gang starts at the latest: that is never exceeded while nobody else comes."""

import random

from tests.cells_world import World, random_request
from yarn_plugin.decide.mechanisms.buddy_cells.allocator import Call
from yarn_plugin.decide.mechanisms.buddy_cells.answers import Bind, Preempt
from yarn_plugin.decide.mechanisms.buddy_cells.errors import RejectedError
from yarn_plugin.decide.mechanisms.buddy_cells.explanation import ask, latest_start
from yarn_plugin.decide.mechanisms.buddy_cells.gangs import Stage

GRACE_S = 30.0
CASES = 100


def starts_at(world, call, ends):
    """When it starts: tried again whenever a gang ends; its victims end by themselves, or leave within the grace."""
    allocator, cluster = world.allocator, world.cluster
    for now, name in [(0.0, ""), *sorted((end, name) for name, end in ends.items())]:
        if name in cluster.gangs:
            allocator.release(cluster.gangs[name])
        answer = ask(allocator, call)
        if isinstance(answer, Bind):
            return now
        if isinstance(answer, Preempt):
            return min(now + GRACE_S, max(now, *(ends[victim] for victim in answer.victims)))
    return None


def test_the_latest_start_is_never_exceeded_in_100_cases():
    found, reached, seed = 0, set(), 0
    while found < CASES:
        seed += 1
        draw, world = random.Random(seed), World(seed, lazy=False)
        for _ in range(30):
            world.step()
        for gang in list(world.cluster.gangs.values()):
            if gang.stage is Stage.PREEMPTING:
                world.allocator.cancel(gang)
        request = random_request(draw, world.cluster, "asked", lazy=False)
        call = Call("asked-0", request.sizes[0], request)
        at_latest = {name: draw.uniform(0, 1000) for name in world.cluster.gangs if draw.random() < 0.9}
        try:
            now = ask(world.allocator, call)
            latest = latest_start(world.allocator, call, at_latest, GRACE_S)
        except RejectedError:
            continue
        if latest is None:
            continue
        found += 1
        reached.add(type(now).__name__)
        ends = {name: draw.uniform(0, at_latest.get(name, 1e6)) for name in world.cluster.gangs}
        started = starts_at(world, call, ends)
        assert started is not None and started <= latest, (seed, started, latest)
    assert reached == {"Bind", "Preempt", "Wait"}
