"""Gangs with leases: what is kept of them is what looking at all of them would find."""

import random
from dataclasses import replace

from yarn_plugin.decide.allocators.placed_gangs import Placed, PlacedGangs


def validate(gangs):
    again = PlacedGangs(dict(gangs))
    assert list(gangs) == list(again)
    for kept in ("by_key", "claims", "evicted", "low", "incomplete"):
        assert getattr(gangs, kept) == getattr(again, kept)


def changed(draw, gang):
    """A gang after one of the changes that happen to it."""
    slot = draw.randrange(len(gang.keys))
    return draw.choice(
        [
            replace(gang, keys=(*gang.keys[:slot], None, *gang.keys[slot + 1 :])),
            replace(gang, kind="opportunistic" if gang.kind == "guaranteed" else "guaranteed"),
            replace(gang, is_evicted=not gang.is_evicted),
        ]
    )


def test_what_is_kept_follows_every_change():
    draw, gangs = random.Random(0), PlacedGangs({})
    for step in range(500):
        name = f"app_{draw.randrange(20)}/"
        if name not in gangs:
            pods = draw.randrange(1, 4)
            kind = draw.choice(["guaranteed", "opportunistic"])
            gangs[name] = Placed((name[:-1], ""), tuple(f"{step}.{slot}" for slot in range(pods)), kind)
        elif draw.random() < 0.2:
            del gangs[name]
        else:
            gangs[name] = changed(draw, gangs[name])
        validate(gangs)


def test_a_frozen_copy_stays_as_it_was_and_is_the_same_one_while_nothing_changes():
    gangs = PlacedGangs({})
    gangs["a/"] = Placed(("a", ""), ("1.0",), "guaranteed")
    frozen = gangs.frozen()
    assert gangs.frozen() is frozen
    del gangs["a/"]
    assert list(frozen) == ["a/"]
    assert gangs.frozen() == {}


def test_gangs_come_in_the_order_in_which_they_were_placed():
    gangs = PlacedGangs({name: Placed((name, ""), (name,), "opportunistic") for name in "cab"})
    gangs["c"] = replace(gangs["c"], is_evicted=True)
    assert gangs.in_order({"b", "c", "gone"}) == ["c", "b"]
