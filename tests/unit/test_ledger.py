"""What the ledger does with a plan: an allocator that plans what a test says, through the arbiter's own step."""

from dataclasses import replace

import pytest

from tests.lease_world import node
from tests.ledger_world import LedgerWorld
from tests.toys.allocators import IN_TURN, InTurnState, Wants
from tests.toys.registry import TOYS
from yarn_plugin.api import leases as api_leases
from yarn_plugin.decide.allocators.happenings import (
    Answer,
    Began,
    Broken,
    Changed,
    Due,
    Expiring,
    Freed,
    Restarted,
    Solved,
    Started,
    Unplaced,
    Vacated,
)
from yarn_plugin.decide.allocators.plan import (
    NOTHING,
    Ask,
    Drop,
    Holding,
    Keep,
    Place,
    Plan,
    Reclass,
    Solve,
    Wake,
    Withdraw,
)
from yarn_plugin.decide.commands import ListContainers, SignalContainers
from yarn_plugin.decide.events import (
    AppsChanged,
    Configured,
    ContainersListed,
    NodesChanged,
    NodeUseChanged,
    Superseded,
)
from yarn_plugin.decide.leases.settings import RULES, LedgerSettings
from yarn_plugin.decide.pools import commands
from yarn_plugin.decide.pools.commands import CancelRevoke, Downgrade, Grant, LeaseEnded, Renew, Revoke
from yarn_plugin.decide.pools.lease.derived import Inventories
from yarn_plugin.journal.intake import SkippedInputError
from yarn_plugin.model.auction import Release
from yarn_plugin.model.causes import LeaseDropped, LeaseLapsed, LeaseReplaced, NotPlaced, UseAsked
from yarn_plugin.model.cluster import Container
from yarn_plugin.model.resources import GPU, GPU_MEMORY, GPU_MILLI, MEMORY, VCORES, Resources

BECAUSE = LeaseDropped("a test says so")


class Scripted:
    """Plans what it finds in `plans`, in order, at each message; notes what it hears."""

    def __init__(self, plans, heard):
        self.plans, self.heard = plans, heard

    def initial_state(self):
        return InTurnState()

    def report(self, state):
        return None

    def propose(self, state, seen, what):
        self.heard.append(what)
        self.seen = seen
        plan = self.plans.pop(0) if self.plans and isinstance(what, Answer | Solved | Due | Expiring) else NOTHING
        return state, plan


class World(LedgerWorld):
    """A ledger whose allocator is scripted. Two applications, a and b; two nodes with two GPUs."""

    @staticmethod
    def start(**parameters):
        plans, heard = [], []
        kind = replace(IN_TURN, make=lambda settings, kinds: Scripted(plans, heard))
        registry = replace(TOYS, allocators={"toy-in-turn": kind})
        made = LedgerWorld.of("toy-in-turn", node("n1", 2), node("n2", 2), registry=registry, **parameters)
        world = World(made.stage)
        world.plans, world.heard = plans, heard
        world.a, world.b = world.arrive("a"), world.arrive("b")
        heard.clear()
        return world

    def plan(self, **parts):
        """Have the allocator plan this, now. Returns what was sent because of it."""
        return self.plan_as(Plan(**parts))

    def plan_as(self, plan):
        before = len(self.sent())
        self.plans.append(plan)
        self.say(self.a, Wants(0))
        return self.sent()[before:]

    def place(self, key, app, *cells, **more):
        return self.plan(place=(Place(key, (app, ""), holdings(*cells), **more),))

    def entry(self, key):
        return self.state.ledger.leases[key]

    def hear(self):
        """What the allocator has heard since the last time, but answers."""
        found = [one for one in self.heard if not isinstance(one, Answer)]
        self.heard.clear()
        return found


def holdings(*cells):
    return tuple(one if isinstance(one, Holding) else Holding(one) for one in cells)


def kinds(sent):
    return [type(one).__name__ for one in sent]


@pytest.fixture
def world():
    return World.start()


# Starts.


def test_a_lease_on_free_cells_starts_at_once(world):
    (grant,) = world.place("k", world.a, "n1/0", "n1/1")
    (lease,) = grant.leases
    assert [(one.cell, one.resource, one.fraction, one.place.ordinal) for one in lease.holdings] == [
        ("n1/0", GPU, 1.0, 0),
        ("n1/1", GPU, 1.0, 1),
    ]
    assert world.hear() == [Started(("k",))]
    assert world.leases() == {world.a: ["n1/0", "n1/1"]}


def test_a_whole_node_is_told_as_its_gpus(world):
    (grant,) = world.place("k", world.a, "n1")
    assert [one.cell for one in grant.leases[0].holdings] == ["n1/0", "n1/1"]


def test_slots_and_shares_are_told_as_fractions():
    world = World.start(gpu_memory_mb=16_000)
    slots = Holding("n1", Resources.of({VCORES: 8, MEMORY: 4096}))
    share = Holding("n1/0", Resources.of({GPU_MILLI: 500, GPU_MEMORY: 4000}), container="container_1")
    (grant,) = world.place("k", world.a, slots, share)
    told = [(one.cell, one.resource, one.fraction, one.container) for one in grant.leases[0].holdings]
    assert told == [
        ("n1", MEMORY, 0.0625, None),
        ("n1", VCORES, 0.25, None),
        ("n1/0", GPU_MEMORY, 0.25, "container_1"),
        ("n1/0", GPU_MILLI, 0.5, "container_1"),
    ]
    assert kinds(world.place("l", world.b, Holding("n1/0", Resources.of({GPU_MILLI: 500})))) == ["Grant"]


def test_a_lease_waits_until_its_cells_are_vacated(world):
    world.place("k", world.a, "n1/0", "n1/1")
    sent = world.plan(drop=(Drop("k", BECAUSE, ("n1/1",)),), place=(Place("l", (world.b, ""), holdings("n1/1")),))
    assert kinds(sent) == ["Revoke"]
    assert (sent[0].cells, sent[0].cause) == (("n1/1",), BECAUSE)
    world.hear()
    world.wait(31.0)
    assert world.hear() == [Vacated((Freed("k", (world.a, ""), ("n1/1",), is_over=False),)), Started(("l",))]
    assert world.leases() == {world.a: ["n1/0"], world.b: ["n1/1"]}


def test_a_gang_starts_at_once_when_all_its_cells_are_vacated(world):
    world.place("k", world.a, "n1/0")
    pods = tuple(
        Place(f"g{member}", (world.b, ""), holdings(cell), member, gang="g")
        for member, cell in enumerate(["n1/0", "n2/0", "n2/1"])
    )
    assert kinds(world.plan(drop=(Drop("k", BECAUSE),), place=pods)) == ["Revoke"]
    world.hear()
    world.wait(31.0)
    assert world.hear()[-1] == Started(("g0", "g1", "g2"))
    (grant,) = [one for one in world.sent(Grant) if one.app == world.b]
    assert [lease.member for lease in grant.leases] == [0, 1, 2]


def test_a_gang_of_which_a_cell_breaks_while_it_waits_is_over(world):
    world.place("k", world.a, "n1/0")
    pods = tuple(
        Place(f"g{member}", (world.b, ""), holdings(cell), member, gang="g")
        for member, cell in enumerate(["n1/0", "n2/0"])
    )
    world.plan(drop=(Drop("k", BECAUSE),), place=pods)
    world.hear()
    lost = node("n2", 2)
    world.take(NodesChanged((), (lost.id,), (lost,)), 0.01)
    claim = (world.b, "")
    assert world.hear()[0] == Broken((Freed("g1", claim, ("n2/0",)), Freed("g0", claim, ("n1/0",))))
    assert not [one for one in world.sent() if one.app == world.b]


# Refused plans.


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (lambda w: Plan(place=(Place("k", (w.b, ""), holdings("n2/0")),)), "'k': the key is in use"),
        (lambda w: Plan(place=(Place("l", ("who", ""), holdings("n2/0")),)), "claim .* is not there"),
        (lambda w: Plan(place=(Place("l", (w.b, ""), ()),)), "'l': it has no cells"),
        (lambda w: Plan(place=(Place("l", (w.b, ""), holdings("n1/0")),)), "n1/0: it, or a cell that .* held as a"),
        (lambda w: Plan(place=(Place("l", (w.b, ""), holdings("n1")),)), "n1: something in it is held"),
        (lambda w: Plan(place=(Place("l", (w.b, ""), holdings("n2/0", "n2/0")),)), "two holdings are of one cell"),
        (lambda w: Plan(place=(Place("l", (w.b, ""), holdings("n9/0")),)), "n9/0: it is no cell of this pool"),
        (lambda w: Plan(place=(Place("l", (w.b, ""), holdings("n2"), replaces="k"),)), "of another claim"),
        (
            lambda w: Plan(place=(Place("l", (w.b, ""), (Holding("n2", Resources.of({VCORES: 33})),)),)),
            "n2 has 32 vcores, of which 0 are held",
        ),
        (
            lambda w: Plan(place=(Place("l", (w.b, ""), (Holding("n2/0", Resources.of({GPU_MILLI: 5})),)),)),
            "n2/0 has 0 gpu-milli",
        ),
        (
            lambda w: Plan(place=(Place("l", (w.b, ""), (Holding("n2", Resources.of({GPU: 1})),)),)),
            "name its GPUs as cells",
        ),
        (lambda w: Plan(withdraw=(Withdraw("k"),)), "withdraw 'k': it has started"),
        (lambda w: Plan(drop=(Drop("k", BECAUSE, ("n2/0",)),)), "drop 'k': it has no cell 'n2/0'"),
        (lambda w: Plan(ask=(Ask("who", Wants(1), 1.0),)), "ask 'who': it has no claim"),
    ],
)
def test_a_plan_that_cannot_be_executed_changes_nothing(world, wrong, reason):
    world.place("k", world.a, "n1/0")
    before = world.state
    world.plans.append(wrong(world))
    with pytest.raises(SkippedInputError, match=reason):
        world.say(world.a, Wants(0))
    assert world.state == before


def test_parts_about_leases_that_are_over_do_nothing(world):
    gone = {"withdraw": (Withdraw("x"),), "drop": (Drop("x", BECAUSE),), "keep": (Keep("x", None),)}
    assert world.plan(**gone, reclass=(Reclass("x", "sample"),)) == []


def test_an_allocator_that_never_comes_to_rest_is_stopped():
    world = World.start()
    kind = replace(IN_TURN, make=lambda settings, kinds: Restless())
    registry = replace(TOYS, allocators={"toy-in-turn": kind})
    restless = LedgerWorld.of("toy-in-turn", node("n1", 2), registry=registry)
    restless.arrive("a")
    assert "does not come to rest" in restless.failure.error
    assert world.failure is None


class Restless(Scripted):
    """Places a lease and drops it as soon as it has started, with no grace period: again and again."""

    def __init__(self):
        super().__init__([], [])

    def propose(self, state, seen, what):
        state = replace(state, counter=state.counter + 1)
        withdraw = tuple(Withdraw(key) for key, lease in seen.leases.items() if lease.phase == "waiting")
        held = [key for key, lease in seen.leases.items() if lease.phase == "held"]
        claim = next(iter(seen.claims), None)
        replaces = held[0] if held else None
        places = () if claim is None else (Place(f"k{state.counter}", claim, holdings("n1/0"), replaces=replaces),)
        return state, Plan(withdraw=withdraw, place=places)


# Changes of leases.


def test_a_kept_lease_is_renewed_and_its_revocation_cancelled(world):
    world.place("k", world.a, "n1/0", until=5000.0)
    assert kinds(world.plan(keep=(Keep("k", 6000.0),))) == ["Renew"]
    assert kinds(world.plan(drop=(Drop("k", BECAUSE),))) == ["Revoke"]
    cancelled, renewed = world.plan(keep=(Keep("k", 7000.0),))
    assert (type(cancelled), type(renewed), renewed.until) == (CancelRevoke, Renew, 7000.0)
    world.wait(60.0)
    assert world.leases() == {world.a: ["n1/0"]}


def test_a_lease_whose_cells_another_one_waits_for_cannot_be_kept(world):
    world.place("k", world.a, "n1/0")
    world.plan(drop=(Drop("k", BECAUSE),), place=(Place("l", (world.b, ""), holdings("n1/0")),))
    world.plans.append(Plan(keep=(Keep("k", None),)))
    with pytest.raises(SkippedInputError, match="keep 'k': others wait for its cells"):
        world.say(world.a, Wants(0))
    assert kinds(world.plan(withdraw=(Withdraw("l"),), keep=(Keep("k", None),))) == ["CancelRevoke", "Renew"]


def test_a_class_changes_in_place(world):
    world.place("k", world.a, "n1/0", kind="opportunistic")
    (downgrade,) = world.plan(reclass=(Reclass("k", "guaranteed"),))
    assert (type(downgrade), downgrade.to) == (Downgrade, "guaranteed")
    assert world.plan(reclass=(Reclass("k", "guaranteed"),)) == []


def test_a_lease_that_replaces_another_gets_what_both_hold_at_once(world):
    world.place("k", world.a, "n1/0", "n1/1")
    world.hear()
    sent = world.place("l", world.a, "n1/1", "n2/0", replaces="k")
    assert kinds(sent) == ["LeaseEnded", "Grant", "Revoke"]
    ended, _, revoke = sent
    assert (ended.cells, revoke.cells, revoke.cause) == (("n1/1",), (), LeaseReplaced())
    world.wait(31.0)
    assert world.leases() == {world.a: ["n1/1", "n2/0"]}
    ended = [one for event in world.hear() if isinstance(event, Vacated) for one in event.freed]
    assert ended == [Freed("k", (world.a, ""), ("n1/1",), is_over=False), Freed("k", (world.a, ""), ("n1/0",))]


def test_a_lease_goes_on_until_the_one_that_replaces_it_starts(world):
    world.place("k", world.a, "n1/0")
    world.place("m", world.b, "n2/0")
    move = Place("l", (world.a, ""), holdings("n2/0"), replaces="k")
    assert kinds(world.plan(drop=(Drop("m", BECAUSE),), place=(move,))) == ["Revoke"]
    assert world.leases()[world.a] == ["n1/0"]
    assert world.entry("k").leased.phase == "held"
    world.plan(withdraw=(Withdraw("l"),))
    assert world.entry("k").leased.phase == "held"


def test_what_a_withdrawn_lease_was_to_replace_keeps_its_cells(world):
    world.place("k", world.a, "n1/0")
    world.place("m", world.b, "n2/0")
    world.plan(drop=(Drop("m", BECAUSE),), place=(Place("l", (world.a, ""), holdings("n1/0", "n2/0"), replaces="k"),))
    with pytest.raises(SkippedInputError, match="place 'n': n1/0: it, or a cell that contains it, is held as a whole"):
        world.place("n", world.a, "n1/0", replaces="l")
    assert world.leases() == {world.a: ["n1/0"], world.b: ["n2/0"]}


def test_without_a_grace_period_what_is_replaced_ends_at_once():
    world = World.start(grace_s=0.0)
    world.place("k", world.a, "n1/0", "n1/1")
    assert kinds(world.place("l", world.a, "n1/1", "n2/0", replaces="k")) == [
        "LeaseEnded", "Grant", "Revoke", "LeaseEnded",
    ]  # fmt: skip
    assert world.leases() == {world.a: ["n1/1", "n2/0"]}


# Ends.


def test_an_allocator_is_told_before_a_lease_ends_and_it_lapses_unless_it_is_kept():
    world = World.start(notice_s=10.0, overtime_s=3.0)
    until = world.stage.clock.time + 100.0
    world.place("k", world.a, "n1/0", until=until)
    world.place("l", world.b, "n1/1", until=until)
    world.hear()
    world.plans.append(Plan(keep=(Keep("l", until + 100.0),)))
    world.wait(95.0)
    assert world.hear() == [Expiring(("k", "l"))]
    world.wait(9.0)
    (revoke,) = world.sent(Revoke)
    assert (revoke.app, revoke.cause, revoke.by) == (world.a, LeaseLapsed(), until + 33.0)
    world.wait(30.0)
    assert world.leases() == {world.b: ["n1/1"]}


@pytest.mark.parametrize(("rules", "told"), [(4, []), (RULES, [Expiring(("k", "l"))])])
def test_a_lease_that_ends_soon_when_it_is_placed_hides_no_other_end(rules, told):
    """By earlier rules it did, until something else happened."""
    world = World.start(notice_s=10.0, overtime_s=1000.0, rules=rules)
    now = world.stage.clock.time
    world.place("k", world.a, "n1/0", until=now + 100.0)
    world.place("l", world.b, "n1/1", until=now + 5.0)
    world.hear()
    world.wait(95.0)
    assert sorted(key for one in world.hear() for key in one.keys) == [key for one in told for key in one.keys]


def test_a_lease_ends_when_yarn_no_longer_lists_its_containers(world):
    world.place("k", world.a, "n1/0", "n1/1")
    world.run(world.a, n1=(1, 1))
    world.plan(drop=(Drop("k", BECAUSE),))
    world.run(world.a, n1=(1,))
    assert world.leases() == {world.a: ["n1/0", "n1/1"]}
    world.run(world.a)
    assert world.leases() == {}


def listed(world, app, asked_at, *containers):
    """A list, asked for at this time, of containers with one GPU of n1 each, and the master."""
    master = Container("c0", "other:8041", Resources.of({VCORES: 1}), True)
    found = (Container(name, "n1:8041", Resources.of({VCORES: 1, GPU: 1}), False) for name in containers)
    world.take(ContainersListed(app, (master, *found), asked_at), 0.01)


def asked(world):
    return [one for step in world.stage.decided for one in step.commands if isinstance(one, ListContainers)]


def test_a_list_asked_for_before_a_revocation_does_not_tell_that_cells_are_vacated(world):
    """Such as one that was read while the application replaced its container."""
    world.place("k", world.a, "n1/0")
    listed(world, world.a, None, "c1")
    before = world.stage.clock.time
    world.plan(drop=(Drop("k", BECAUSE),))
    count = len(asked(world))
    listed(world, world.a, before)
    assert world.leases() == {world.a: ["n1/0"]}
    assert [one.cause for one in asked(world)[count:]] == [UseAsked(world.a)]
    listed(world, world.a, world.stage.clock.time)
    assert world.leases() == {}


def overstaying(**parameters):
    """A holds n1/0, which was revoked and whose grace period is over, and n1/1 since then; c1 ran on n1/0."""
    world = World.start(**parameters)
    world.place("k", world.a, "n1/0")
    listed(world, world.a, None, "c1")
    world.plan(drop=(Drop("k", BECAUSE),), place=(Place("m", (world.b, ""), holdings("n1/0")),))
    world.place("l", world.a, "n1/1")
    world.wait(31.0)
    return world


def test_a_lease_that_yarn_has_placed_nothing_on_yet_hides_no_overdue_one():
    world = overstaying()
    assert world.leases() == {world.a: ["n1/0", "n1/1"]}
    listed(world, world.a, world.stage.clock.time, "c1")
    assert world.leases() == {world.a: ["n1/0", "n1/1"]}
    signals = [one for step in world.stage.decided for one in step.commands if isinstance(one, SignalContainers)]
    assert signals[0].containers == ("c1",)
    listed(world, world.a, world.stage.clock.time)
    assert world.leases() == {world.a: ["n1/1"], world.b: ["n1/0"]}


def test_containers_that_run_since_a_lease_was_revoked_are_of_other_leases():
    world = overstaying()
    listed(world, world.a, world.stage.clock.time, "c2")
    assert world.leases() == {world.a: ["n1/1"], world.b: ["n1/0"]}


def test_what_ran_on_a_lease_goes_on_on_the_one_that_replaced_it():
    world = World.start()
    world.place("k", world.a, "n1/0", "n1/1")
    listed(world, world.a, None, "c1", "c2")
    world.plan(place=(Place("l", (world.a, ""), holdings("n1/0"), replaces="k"),))
    world.wait(31.0)
    listed(world, world.a, world.stage.clock.time, "c1")
    assert world.leases() == {world.a: ["n1/0"]}
    assert not [one for step in world.stage.decided for one in step.commands if isinstance(one, SignalContainers)]


@pytest.mark.parametrize(("rules", "signalled"), [(4, {"c1", "c2"}), (RULES, {"c1"})])
def test_what_is_to_be_vacated_on_another_node_signals_no_container_within_a_lease(rules, signalled):
    """By earlier rules it did: what ran before on a GPU that is leased since."""
    world = World.start(rules=rules)

    def run():
        found = (Container(name, f"{host}:8041", Resources.of({VCORES: 1, GPU: 1}), False)
                 for name, host in (("c1", "n1"), ("c2", "n2")))  # fmt: skip
        world.take(ContainersListed(world.a, tuple(found), world.stage.clock.time), 0.01)

    world.place("k", world.a, "n1/0")
    run()
    world.plan(drop=(Drop("k", BECAUSE),), place=(Place("l", (world.a, ""), holdings("n2/0")),))
    for _ in range(2):
        world.wait(31.0)
        run()
    signals = [one for step in world.stage.decided for one in step.commands if isinstance(one, SignalContainers)]
    assert {name for one in signals for name in one.containers} == signalled


@pytest.mark.parametrize("rules", [2, 3])
def test_by_earlier_rules_a_new_lease_hides_an_overdue_one(rules):
    assert World.leases(world := overstaying(rules=rules)) == {world.a: ["n1/1"], world.b: ["n1/0"]}


def test_cells_in_use_are_not_another_ones_after_the_grace_period_and_containers_are_signalled(world):
    world.place("k", world.a, "n1/0")
    world.run(world.a, n1=(1,))
    world.plan(drop=(Drop("k", BECAUSE),), place=(Place("l", (world.b, ""), holdings("n1/0")),))
    world.wait(31.0)
    assert world.leases() == {world.a: ["n1/0"]}
    world.run(world.a, n1=(1,))
    signals = [one for step in world.stage.decided for one in step.commands if isinstance(one, SignalContainers)]
    assert [one.containers for one in signals][:1] == [(f"container_{world.a}_n1_000",)]
    world.run(world.a)
    assert world.leases() == {world.b: ["n1/0"]}


def test_a_container_that_ends_on_another_gpu_of_the_node_vacates_no_revoked_one(world):
    world.place("k", world.a, "n1/0", "n1/1")
    world.run(world.a, n1=(1, 1))
    world.plan(drop=(Drop("k", BECAUSE, ("n1/1",)),), place=(Place("l", (world.b, ""), holdings("n1/1")),))
    world.run(world.a, n1=(1,))
    assert world.leases() == {world.a: ["n1/0", "n1/1"]}, "which of the two is idle is not known"
    world.say(world.a, Release(world.entry("k").id, ("n1/1",)))
    assert world.leases() == {world.a: ["n1/0"], world.b: ["n1/1"]}


def test_of_several_revoked_gpus_those_are_vacated_that_their_holder_names(world):
    world.place("k", world.a, "n1/0", "n1/1")
    world.run(world.a, n1=(1, 1))
    waiting = tuple(Place(f"l{number}", (world.b, ""), holdings(f"n1/{number}")) for number in range(2))
    world.plan(drop=(Drop("k", BECAUSE),), place=waiting)
    world.say(world.a, Release(world.entry("k").id, ("n1/1",)))
    assert world.leases() == {world.a: ["n1/0", "n1/1"]}, "it is still listed"
    world.run(world.a, n1=(1,))
    assert world.leases() == {world.a: ["n1/0"], world.b: ["n1/1"]}
    world.run(world.a)
    assert world.leases() == {world.b: ["n1/0", "n1/1"]}


def test_an_application_gives_cells_back(world):
    world.place("k", world.a, "n1")
    world.place("l", world.a, "n2/0", "n2/1")
    world.hear()
    lease = world.entry("l").id
    world.say(world.a, Release(lease, ("n2/1",)))
    assert world.leases()[world.a] == ["n1", "n2/0"]
    world.say(world.a, Release(world.entry("k").id, ("n1/0",)))
    assert world.leases()[world.a] == ["n1", "n2/0"], "a cell is given back as a whole"
    world.say(world.b, Release(lease))
    world.say(world.a, Release(world.entry("k").id, ("n1/0", "n1/1")))
    assert world.leases()[world.a] == ["n2/0"]
    assert kinds(world.sent(LeaseEnded)) == ["LeaseEnded"] * 2


def test_what_yarn_does_not_place_comes_back():
    world = World.start(place_within_s=20.0)
    world.place("k", world.a, "n1/0", "n1/1")
    world.run(world.a, n1=(1,))
    world.hear()
    world.wait(20.0)
    lists = [one for step in world.stage.decided for one in step.commands if isinstance(one, ListContainers)]
    assert lists[-1].cause == UseAsked(world.a)
    world.run(world.a)
    assert world.hear() == [Unplaced((Freed("k", (world.a, ""), ("n1/0", "n1/1")),))]
    assert isinstance(world.sent(LeaseEnded)[-1].cause, NotPlaced)
    assert world.leases() == {}


def test_a_lease_ends_at_the_moment_of_its_timer_whatever_is_rounded():
    until, overtime_s = 1015.0, 10.1
    assert until > (until + overtime_s) - overtime_s
    world = World.start(overtime_s=overtime_s, rules=RULES)
    world.place("k", world.a, "n1/0", until=until)
    world.stage.clock.time = until + overtime_s
    world.wait(0.0)
    assert world.sent(Revoke)[-1].cause == LeaseLapsed()


def test_what_yarn_does_not_place_comes_back_also_if_it_was_revoked_meanwhile():
    world = World.start(place_within_s=20.0, rules=RULES)
    world.place("k", world.a, "n1/0", "n1/1", until=5000.0)
    world.wait(15.0)
    assert kinds(world.plan(drop=(Drop("k", BECAUSE),))) == ["Revoke"]
    world.wait(10.0)
    world.plan(keep=(Keep("k", 6000.0),))
    world.hear()
    world.run(world.a)
    world.run(world.a)
    assert world.hear() == [Unplaced((Freed("k", (world.a, ""), ("n1/0", "n1/1")),))]


@pytest.mark.parametrize("says_so", [True, False])
def test_what_yarn_does_not_place_beside_a_container_is_revoked(says_so):
    """The container may be on the very cell that comes back."""
    world = World.start(place_within_s=20.0)
    world.place("k", world.a, "n1/0")
    world.place("l", world.a, "n1/1")
    world.run(world.a, n1=(1,))
    world.hear()
    world.wait(20.0)
    world.run(world.a, n1=(1,))
    world.run(world.a, n1=(1,))
    (revoke,) = world.sent(Revoke)
    assert (revoke.lease, revoke.cause) == (world.entry("k").id, NotPlaced("n1", 2, 1, 20.0))
    assert world.hear() == []
    if says_so:
        world.say(world.a, Release(revoke.lease))
    else:
        world.wait(31.0)
    assert world.hear() == [Unplaced((Freed("k", (world.a, ""), ("n1/0",)),))]
    assert world.leases() == {world.a: ["n1/1"]}


def test_leases_of_a_lost_node_and_of_a_gone_claim_end_at_once(world):
    world.place("k", world.a, "n1/0", "n2/0")
    world.place("l", world.b, "n2/1")
    world.hear()
    lost = node("n2", 2)
    world.take(NodesChanged((), (lost.id,), (lost,)), 0.01)
    broken, changed = world.hear()
    claim = (world.a, "")
    assert broken == Broken((Freed("k", claim, ("n2/0",), is_over=False), Freed("l", (world.b, ""), ("n2/1",))))
    assert changed == Changed((), ("n2",))
    world.leave(world.a)
    assert world.hear() == [Vacated((Freed("k", claim, ("n1/0",)),)), Changed((claim,), ())]


def test_a_node_that_shrinks_takes_from_the_latest_lease(world):
    world.place("k", world.a, Holding("n1", Resources.of({VCORES: 16})))
    world.place("l", world.b, Holding("n1", Resources.of({VCORES: 16})))
    world.take(NodesChanged((node("n1", 2, cores=20),), ()), 0.01)
    assert world.leases() == {world.a: ["n1"]}


def test_what_is_left_of_a_lease_that_lost_a_gpu_counts_where_its_node_shrinks(world):
    world.place("k", world.a, "n1/1", Holding("n1", Resources.of({VCORES: 16})))
    world.place("l", world.b, Holding("n1", Resources.of({VCORES: 16})))
    world.take(NodesChanged((node("n1", 1, cores=20),), ()), 0.01)
    assert world.leases() == {world.a: ["n1"]}


def test_cells_without_room_for_tasks_are_not_leased():
    world = World.start(task_vcores=4)
    world.hear()
    used = (("n1:8041", Resources.of({VCORES: 28})),)
    world.take(NodeUseChanged(used), 0.01)
    assert world.hear() == [Changed((), ("n1/1",))]
    world.plans.append(Plan(place=(Place("k", (world.a, ""), holdings("n1/1")),)))
    with pytest.raises(SkippedInputError, match="its node has no room for tasks"):
        world.say(world.a, Wants(0))
    world.take(NodeUseChanged((("n1:8041", Resources.of({VCORES: 4})),)), 0.01)
    assert world.hear()[-1] == Changed((), ("n1/1",))


def use(world, gpus, node="n1"):
    """YARN reports that so many GPUs of a node are used; whoever uses them has been counted when this returns."""
    world.take(NodeUseChanged(((f"{node}:8041", Resources.of({VCORES: gpus, GPU: gpus})),)), 0.01)
    world.say(world.a, Wants(0))


def crowded(world):
    return world.state.ledger.crowded


def test_gpus_that_applications_of_other_pools_use_are_not_leased():
    world = World.start(task_vcores=1)
    use(world, 1)
    assert crowded(world) == ("n1/1",)
    world.place("k", world.a, "n1/0")
    world.say(world.a, Wants(0))
    assert crowded(world) == ("n1/1",), "the lease has no task yet that could be what is used"
    world.run(world.a, n1=(1,))
    use(world, 2)
    assert crowded(world) == ("n1/1",)
    use(world, 1)
    assert crowded(world) == (), "all that is used is listed as the application's"


def test_a_task_is_no_strangers_until_it_is_listed():
    world = World.start(task_vcores=1)
    world.place("k", world.a, "n1/0")
    use(world, 1)
    assert crowded(world) == ()
    use(world, 2)
    assert crowded(world) == ("n1/1",), "more is used than is leased"


def test_strangers_are_not_hidden_by_a_task_that_ends():
    world = World.start(task_vcores=1)
    world.place("k", world.a, "n1/0")
    world.run(world.a, n1=(1,))
    use(world, 2)
    world.master(world.a)
    use(world, 1)
    assert crowded(world) == ("n1/1",), "the list of the ended task's application is out of date"
    world.run(world.a)
    use(world, 1)
    assert crowded(world) == ("n1/1",)


def test_gpus_of_other_pools_on_which_nothing_could_be_placed_are_not_leased_again():
    """They got in use while the lease began, so that what was used looked like its task."""
    world = World.start(task_vcores=1, place_within_s=10.0)
    world.place("k", world.a, "n1/0", "n1/1")
    world.run(world.a, n1=(1,))
    use(world, 2)
    world.wait(10.0)
    world.run(world.a, n1=(1,))
    world.wait(31.0)
    for app in (world.a, world.b):
        world.say(app, Wants(0))
    assert (world.leases(), crowded(world)) == ({world.a: ["n1/0"]}, ("n1/1",))


def test_the_node_of_an_application_that_has_ended_is_known_to_be_idle_a_little_later():
    world = World.start(task_vcores=1)
    world.place("k", world.a, "n1/0")
    world.run(world.a, n1=(1,))
    use(world, 1)
    world.hear()
    world.take(AppsChanged((), (world.stage.intake.state.yarn_apps[world.a],)), 0.01)
    assert world.leases() == {}
    world.take(NodeUseChanged((("n1:8041", Resources()),)), 0.01)
    assert [one for one in world.hear() if isinstance(one, Changed) and one.cells] == []


def test_beside_strangers_the_next_lease_waits_until_a_gpu_is_vacated():
    world = World.start(task_vcores=1)
    world.place("k", world.a, "n1/1")
    world.run(world.a, n1=(1,))
    use(world, 2)
    assert crowded(world) == ("n1/0",)
    world.plan(drop=(Drop("k", BECAUSE),))
    use(world, 2)
    assert crowded(world) == ("n1/0",), "both GPUs are still in use: the one that is vacated next is the next lease's"
    world.place("next", world.b, "n1/1")
    assert world.leases() == {world.a: ["n1/1"]}


def test_a_revocation_is_cancelled_also_where_others_have_no_room():
    world = World.start(task_vcores=4)
    world.place("k", world.a, "n1/1")
    world.plan(drop=(Drop("k", BECAUSE),))
    world.take(NodeUseChanged((("n1:8041", Resources.of({VCORES: 32})),)), 0.01)
    assert "n1/1" in crowded(world)
    assert kinds(world.plan(keep=(Keep("k", None),))) == ["CancelRevoke", "Renew"]
    world.say(world.a, Wants(0))
    assert world.leases() == {world.a: ["n1/1"]}
    assert "n1/1" not in crowded(world)


# Questions, problems, times; restarts.


def test_questions_problems_and_revocations_are_sent_again_after_a_restart(world):
    at = world.stage.clock.time
    asks = (Ask(world.b, Wants(1), at + 50.0), Ask(world.a, Wants(1), at + 50.0, is_offer=True))
    world.place("k", world.a, "n1/0")
    world.plan(drop=(Drop("k", BECAUSE),), ask=asks, wake=(Wake("w", at + 40.0),))
    world.say(world.a, Wants(0))
    world.hear()
    decided = world.take(Configured(world.stage.intake.state.pools), 5.0)
    again = [one.message for step in decided for one in step.commands if hasattr(one, "message")]
    now = world.stage.clock.time
    assert [(type(one).__name__, one.app) for one in again] == [("Revoke", world.a), ("Ask", world.b)]
    assert (again[0].by, again[1].answer_by) == (now + 30.0, pytest.approx(now + 50.0, abs=0.1))
    assert world.hear() == [Restarted()]
    assert [one.id for one in again] == [world.sent(Revoke)[0].id, world.sent(commands.Ask)[0].id]
    world.wait(60.0)
    assert Due("w") in world.hear()
    assert not world.state.ledger.asked


def test_a_problem_comes_back_under_its_key():
    world = World.start()
    world.plan(solve=(Solve("p", IN_TURN.tags["toy-in-turn.names"](("b", "a"))),))
    (solved,) = world.hear()
    assert (solved.key, solved.outcome, solved.result.apps) == ("p", "done", ("a", "b"))


def test_a_superseded_arbiter_ends_all_and_begins_anew(world):
    world.place("k", world.a, "n1/0")
    world.hear()
    world.take(Superseded("http://other"), 0.01)
    assert (world.leases(), world.hear()) == ({}, [])
    world.take(Configured(world.stage.intake.state.pools), 0.01)
    assert world.state.ledger.leases == {}


def test_another_allocator_begins_without_leases():
    world = LedgerWorld.of("toy-in-turn", node("n1", 2))
    a = world.arrive("a", {GPU: 1})
    assert world.leases() == {a: ["n1/0"]}
    pools = tuple(
        replace(one, parameters=LedgerSettings("toy-table")) if one.name == "gpu" else one
        for one in world.stage.intake.state.pools
    )
    world.take(Configured(pools), 0.01)
    assert world.state.allocator == "toy-table"
    assert isinstance(world.sent(LeaseEnded)[0].cause, LeaseDropped)
    assert world.leases() == {a: ["n1/0"]}


def test_a_new_pool_begins():
    world = World.start()
    assert not any(isinstance(one, Began) for one in world.heard)
    assert world.state.ledger.has_begun


# What others see.


def test_an_application_reads_its_leases(world):
    world.place("k", world.a, "n1", until=9000.0)
    world.place("l", world.a, "n2/0")
    world.plan(drop=(Drop("l", BECAUSE),))
    found = api_leases.leases(world.stage.intake.state, world.a, 7, 100.0, Inventories())
    assert [(one.until, [held.cell for held in one.holdings], one.revoked) for one in found.leases] == [
        (9100.0, ["n1/0", "n1/1"], []),
        (None, ["n2/0"], ["n2/0"]),
    ]
    assert api_leases.leased_gpus(world.state) == 4


def test_containers_of_those_that_lease_nothing_are_signalled(world):
    world.run(world.b, n1=(1,))
    world.wait(31.0)
    world.run(world.b, n1=(1,))
    signals = [one for step in world.stage.decided for one in step.commands if isinstance(one, SignalContainers)]
    assert signals[0].app == world.b
