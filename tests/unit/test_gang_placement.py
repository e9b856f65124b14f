"""Packing of gangs: one slot, one machine, one rack, else spread; best fit."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yarn_plugin.decide.mechanisms.gang_placement import (
    ListedGpus,
    PackedGpus,
    Span,
    combined,
    slowdown_factor,
    span_within,
)
from yarn_plugin.model.gpus import Machine, Slot, Slowdown


def cluster(*machines):
    """Machines from (rack, free GPUs of each slot): machine `a` has the slots a1, a2, ..."""
    return [
        Machine(name, rack, tuple(Slot(f"{name}{number}", gpus) for number, gpus in enumerate(slots, 1)))
        for name, (rack, slots) in zip("abcdefgh", machines, strict=False)
    ]


def packed(machines, wanted, *held):
    return dict(combined(PackedGpus(machines).take(wanted, held)))


def test_one_slot_of_the_fullest_machine():
    machines = cluster(("r", [2, 2]), ("r", [4, 0]), ("r", [2, 0]), ("r", [3, 0]))
    assert packed(machines, 2) == {"c1": 2}
    assert packed(machines, 3) == {"d1": 3}
    assert packed(machines, 4) == {"b1": 4}


def test_one_slot_comes_before_a_fuller_machine():
    assert packed(cluster(("r", [1, 1]), ("r", [4, 4])), 2) == {"b1": 2}


def test_one_machine_in_as_few_slots_as_possible():
    machines = cluster(("r", [2, 2, 2, 2]), ("r", [1, 2, 2, 0]))
    assert packed(machines, 5) == {"b1": 1, "b2": 2, "b3": 2}
    assert packed(machines, 3) == {"b1": 1, "b2": 2}
    assert packed(machines, 8) == {"a1": 2, "a2": 2, "a3": 2, "a4": 2}


def test_one_rack_in_as_few_machines_as_possible():
    machines = cluster(("r", [4]), ("r", [4]), ("s", [4]), ("s", [2]), ("s", [1]))
    assert packed(machines, 7) == {"c1": 4, "d1": 2, "e1": 1}
    assert packed(machines, 6) == {"c1": 4, "d1": 2}
    assert packed(machines, 8) == {"a1": 4, "b1": 4}
    assert packed(machines, 5) == {"c1": 4, "e1": 1}


def test_across_racks_where_no_rack_suffices():
    machines = cluster(("r", [2]), ("s", [4]), ("t", [3]))
    assert packed(machines, 6) == {"b1": 4, "a1": 2}
    assert packed(machines, 9) == {"a1": 2, "b1": 4, "c1": 3}


def test_around_what_is_held():
    machines = cluster(("r", [2, 1]), ("r", [4, 4]), ("s", [8, 0]))
    assert packed(machines, 1, "a2") == {"a2": 1}
    assert packed(machines, 2, "a2") == {"a2": 1, "a1": 1}
    assert packed(machines, 5, "a2") == {"a1": 2, "a2": 1, "b1": 2}
    assert packed(machines, 4, "c2") == {"c1": 4}
    assert packed(machines, 10, "c2") == {"c1": 8, "a1": 2}
    assert packed(machines, 2, "a1", "b1") == {"a1": 2}
    assert packed(machines, 2, "gone") == {"a1": 2}


def test_spans_and_their_slowdowns():
    free = PackedGpus(cluster(("r", [2, 2]), ("r", [2]), ("s", [2])))
    assert free.reach() == (2, 4, 6, 8)
    spans = [span_within(free.reach(), wanted) for wanted in (2, 3, 6, 7)]
    assert spans == [Span.SLOT, Span.MACHINE, Span.RACK, Span.CLUSTER]
    assert [slowdown_factor(Slowdown(1.1, 1.2, 1.3), span) for span in spans] == [1.0, 1.1, 1.2, 1.3]
    assert span_within(free.reach(), 9) is None
    assert free.reach(["a1"]) == (2, 4, 6, 8)
    assert free.reach(["a1", "a2"]) == (0, 4, 6, 8)
    assert free.reach(["c1"]) == (2, 2, 2, 8)
    assert free.reach(["a1", "b1"]) == (0, 0, 6, 8)
    assert free.reach(["a1", "c1"]) == (0, 0, 0, 8)
    assert free.take(1, ["a2"]) == [("a2", 1)]
    assert free.reach(["a2"]) == (1, 3, 5, 7)
    assert free.reach() == (2, 3, 5, 7)
    assert free.span_of(["a1", "c1"]) == Span.CLUSTER
    assert free.total == 7


def test_listed_gpus_come_in_order():
    free = ListedGpus(cluster(("r", [2, 1]), ("s", [0, 3])))
    assert free.take(1) == [("a1", 1)]
    assert free.take(3) == [("a1", 1), ("a2", 1), ("b2", 1)]
    assert (free.total, free.take(2), free.total) == (2, [("b2", 2)], 0)


machine_lists = st.lists(
    st.tuples(st.sampled_from("rst"), st.lists(st.integers(0, 4), min_size=1, max_size=3)), min_size=1, max_size=6
).map(lambda machines: cluster(*machines))


@given(machines=machine_lists, gangs=st.lists(st.integers(1, 9), max_size=12), draw=st.data())
@pytest.mark.parametrize("kind", [PackedGpus, ListedGpus])
def test_each_gang_gets_what_it_wants_and_no_gpu_is_taken_twice(kind, machines, gangs, draw):
    free = {slot.id: slot.gpus for machine in machines for slot in machine.slots}
    gpus, slots = kind(machines), sorted(free)
    taken = Counter()
    for wanted in gangs:
        if wanted > gpus.total:
            continue
        before = gpus.total
        choice = gpus.take(wanted, draw.draw(st.lists(st.sampled_from(slots), max_size=2)))
        assert sum(number for _, number in choice) == wanted == before - gpus.total
        assert all(number > 0 for _, number in choice)
        taken.update(dict(combined(choice)))
    assert all(taken[slot] <= free[slot] for slot in taken)


def narrowest(machines, wanted, held):
    """What so many GPUs and those held span at least, by looking at every slot, machine and rack."""
    homes = {machine.id for machine in machines for slot in machine.slots if slot.id in held}
    racks = {machine.rack for machine in machines if machine.id in homes}
    sums = [
        [slot.gpus for machine in machines for slot in machine.slots if held in ((), (slot.id,))],
        [machine.gpus for machine in machines if homes <= {machine.id}],
        [sum(one.gpus for one in machines if one.rack == rack) for rack in "rst" if racks <= {rack}],
    ]
    return next((Span(level) for level, free in enumerate(sums) if any(gpus >= wanted for gpus in free)), Span.CLUSTER)


@given(machines=machine_lists, gangs=st.lists(st.integers(1, 9), min_size=1, max_size=8), draw=st.data())
def test_a_packed_gang_spans_no_more_than_it_must(machines, gangs, draw):
    gpus = PackedGpus(machines)
    free = {slot.id: slot.gpus for machine in machines for slot in machine.slots}
    for wanted in gangs:
        if wanted > gpus.total:
            continue
        now = [Machine(one.id, one.rack, tuple(Slot(slot.id, free[slot.id]) for slot in one.slots)) for one in machines]
        held = tuple(draw.draw(st.sets(st.sampled_from(sorted(free)), max_size=2)))
        least = narrowest(now, wanted, held)
        assert span_within(gpus.reach(held), wanted) == least
        choice = dict(combined(gpus.take(wanted, held)))
        assert gpus.span_of({*choice, *held}) == least
        for slot, number in choice.items():
            free[slot] -= number
