"""A pool of leased GPUs decides alike live and simulated; a changed input changes the round that it touches, no other.

Timers and the solver's results are left out of a recorded history: virtual time and the solver give them again.
"""

import threading
import time
from dataclasses import replace

import pytest

from tests.clock import HandClock
from tests.fixtures.scripted_manager import ScriptedManager
from tests.lease_world import World, lease_pool, ledger_pool, node, row
from tests.toys.registry import TOYS
from tests.toys.stage import AT, INTERVALS, QUEUES, SQL, Live, check_agreement, sent
from yarn_plugin.api.leases import leased_gpus
from yarn_plugin.decide.commands import RecordRound, SetTimer, SolveInWorker
from yarn_plugin.decide.events import AppSaid, Configured, NodesChanged, Solved, TimerFired
from yarn_plugin.decide.mechanisms.partial_allocation import PartialAllocationProblem
from yarn_plugin.decide.pools.commands import Ask, Grant, LeaseEnded, Offer
from yarn_plugin.drive.daemon import Daemon
from yarn_plugin.drive.journaling import open_intake
from yarn_plugin.drive.registry import journal_tags
from yarn_plugin.drive.replay import replay
from yarn_plugin.journal.codec import Codec
from yarn_plugin.journal.records import MemoryRecords
from yarn_plugin.model.auction import Bid, Estimate
from yarn_plugin.observe.resource_manager import ResourceManager

CODEC = Codec(journal_tags(TOYS))


WARM_UP = "warm-up"
"""The id of a result that nothing waits for."""


def inputs(decided):
    """A history without what time and the solver give: (time, event)."""
    return [(one.at, one.event) for one in decided
            if not isinstance(one.event, TimerFired) and getattr(one.event, "id", WARM_UP) == WARM_UP]  # fmt: skip


def simulate(history, until):
    """The decisions in virtual time; the solver takes none."""
    clock, found = HandClock(history[0][0]), []
    intake = open_intake(MemoryRecords(), clock, TOYS)

    def note(decided):
        for one in decided:
            found.append(one)
            for command in one.commands:
                if isinstance(command, SolveInWorker):
                    result = TOYS.solver()(command.problem)
                    note(intake.take_in_order(Solved(command.pool, command.id, "done", result), one.at))

    def pass_time(to):
        while (due := intake.next_due()) is not None and due < to:
            clock.time = due
            note(list(intake.fire_due(due)))
        clock.time = to

    for at, event in history:
        pass_time(at)
        note(list(intake.take_in_order(event, at)))
    pass_time(until)
    return found


def decisions(decided):
    """Time, input and commands of each decision, as a journal has them, without numbers; the solver's aside."""
    return [
        (one.at, CODEC.dump(one.event), tuple(CODEC.dump(command) for command in one.commands))
        for one in decided
        if not isinstance(one.event, Solved)
    ]


def commands(decided):
    """The commands of a history, as a journal has them. Without the arbiter's timers, since a solver that is late has
    more of them."""
    given = (command for one in decided for command in one.commands)
    return [CODEC.dump(command) for command in given if not isinstance(command, SetTimer)]


class LiveLeases(Live):
    """A daemon with a pool of leased GPUs, whose applications bid as `bids` says: (rho, rows, delay)."""

    def __init__(self, folder, pool):
        self.folder, self.bids, self.wants, self._lock, self.decided = folder, {}, {}, threading.Lock(), []
        self.manager = ScriptedManager(QUEUES, nodes=2, gpus=2)
        self.daemon = Daemon(lambda: ResourceManager([self.manager.url], "ann"), (SQL, pool), INTERVALS, folder,
                             registry=TOYS, registry_at=AT)  # fmt: skip
        self.daemon.publish_to(self._publish)
        self.daemon.start()

    def _publish(self, decided):
        self.decided.append(decided)
        for message in sent([decided]):
            if isinstance(message, Ask | Offer):
                threading.Thread(target=self._reply, args=(message,), daemon=True).start()

    def _reply(self, message):
        with self._lock:
            rho, rows, delay = self.bids[message.app]
        if isinstance(message, Ask):
            self.daemon.post(AppSaid(message.app, Estimate(message.question.round, rho)))
        else:
            time.sleep(delay)
            self.daemon.post(AppSaid(message.app, Bid(message.offer.round, rho, rows)))

    def start_worker(self):
        """A process takes a while to start: a result that is later than a lease is long is decided on later."""
        task = SolveInWorker("gpu", WARM_UP, PartialAllocationProblem(0, 1, (), ()))
        self.daemon._dispatcher._solve(task)
        self.until(lambda: any(isinstance(one.event, Solved) for one in list(self.decided)), "the worker has started")

    def arrive(self, name, *bid):
        with self._lock:
            self.bids[f"app_{name}"] = bid
            self.bids["next"] = bid
        app = self.register(name)
        with self._lock:
            self.bids[app] = bid
        queue = self.daemon.state.registered[app].queue
        self.manager.use(self.manager.submit(queue, name, name), 1)
        return app


@pytest.mark.parametrize("pool_of", [pytest.param(lease_pool, marks=pytest.mark.matrix), ledger_pool])
def test_a_live_history_with_a_late_bid_and_a_lost_node_is_decided_alike_in_virtual_time(pool_of, tmp_path):
    settings = {"f": 0.0, "lease_s": 4.0, "grace_s": 5.0, "round_window_s": 0.5, "estimate_s": 1.0, "bid_s": 0.8,
                "decide_s": 0.4, "place_within_s": 0.0}  # fmt: skip
    stage = LiveLeases(tmp_path, pool_of(settings))
    try:
        stage.until(lambda: leased_gpus(stage.state()), "the nodes are known")
        stage.start_worker()
        stage.arrive("ann", 3.0, (row(1.0, 2), row(0.8, 2, 2)), 0.0)
        late = stage.arrive("bob", 9.0, (row(1.0, 2),), 1.0)
        rounds = lambda: [c.cause for one in list(stage.decided) for c in one.commands if isinstance(c, RecordRound)]  # noqa: E731
        stage.until(lambda: len(rounds()) == 1, "the first round ends")
        stage.manager.lose_node("127.0.1.2:8041")
        stage.until(lambda: stage.sent(LeaseEnded), "the lost node's lease ends")
        stage.until(lambda: len(rounds()) >= 2, "the leases are auctioned again")
        time.sleep(0.7)
    finally:
        stage.close()
    check_agreement(tmp_path / "journal", stage.decided)
    live = list(replay(tmp_path / "journal", TOYS).history)
    assert late not in rounds()[0].bidders
    assert [one for one in live if isinstance(one.event, Solved)], "a worker solved"
    expected, simulated = commands(live), commands(simulate(inputs(live), live[-1].at + 1e-3))
    compared = min(len(expected), len(simulated))
    assert sum(b'"RecordRound"' in one for one in expected[:compared]) >= 2
    assert simulated[:compared] == expected[:compared]


# Mutations.


def recorded():
    """Four rounds: the second has a late bid, the third a lost node; leftovers in each, dealt by a draw, as by rules 1
    nobody is ahead."""
    world = World.of(node("n1", 2), node("n2", 2), node("n3", 2), lease_s=100.0, f=0.5, payments=False,
                     place_within_s=0.0, rules=1)  # fmt: skip
    a = world.arrive("ann", rho=9.0, rows=(row(1.0, 1), row(0.5, 2)))
    b = world.arrive("bob", rho=8.0, rows=(row(1.0, 1), row(0.5, 2)))
    for name, rho in (("kim", 2.0), ("lee", 1.0)):
        world.arrive(name, rho=rho, rows=(row(0.9, 1),))
    world.wait(90.0)
    world.agents[b].delay = 12.0
    world.wait(60.0)
    world.agents[b].delay = 0.1
    world.stage.take(NodesChanged((), (node("n1").id,)), 0.5)
    world.wait(80.0)
    world.agents[a].rows = (row(1.0, 1),)
    world.stage.take(Configured(world.stage.intake.state.pools), 0.5)
    world.wait(120.0)
    history = inputs(world.stage.decided)
    decided = simulate(history, world.stage.clock.time)
    assert decisions(decided) == decisions(world.stage.decided)
    return history, decided, world.stage.clock.time, (a, b)


@pytest.fixture(scope="module")
def history():
    return recorded()


def with_parameters(event, **changed):
    def change(pool):
        return replace(pool, parameters=replace(pool.parameters, **changed)) if pool.name == "gpu" else pool

    return replace(event, pools=tuple(map(change, event.pools)))


def bid_of(history, app, number):
    return next(place for place, (_, event) in enumerate(history) if isinstance(event, AppSaid) and event.app == app
                and isinstance(event.message, Bid) and event.message.round == number)  # fmt: skip


def late_bid_made_timely(history, apps):
    place = bid_of(history, apps[1], 2)
    at, event = history[place]
    moved = [*history[:place], *history[place + 1 :], (at - 8.0, event)]
    return sorted(moved, key=lambda one: one[0]), 2


def node_kept(history, apps):
    return [one for one in history if not (isinstance(one[1], NodesChanged) and one[1].gone)], 3


def one_bid_value(history, apps):
    place = bid_of(history, apps[0], 3)
    at, event = history[place]
    table = (row(0.95, 1),)
    changed = replace(event, message=replace(event.message, rows=table))
    return [*history[:place], (at, changed), *history[place + 1 :]], 3


def last_configured(history, **changed):
    place = max(n for n, (_, event) in enumerate(history) if isinstance(event, Configured))
    at, event = history[place]
    return [*history[:place], (at, with_parameters(event, **changed)), *history[place + 1 :]], 4


def other_f(history, apps):
    return last_configured(history, f=0.9)


def other_seed(history, apps):
    return last_configured(history, seed=3)


def other_rules(history, apps):
    return last_configured(history, rules=2)


@pytest.mark.parametrize("mutation", [late_bid_made_timely, node_kept, one_bid_value, other_f, other_seed, other_rules])
def test_a_changed_input_changes_the_round_that_it_touches_and_nothing_earlier(history, mutation):
    recorded, decided, until, apps = history
    changed, number = mutation(list(recorded), apps)
    first = next(place for place, (one, other) in enumerate(zip(recorded, changed, strict=False)) if one != other)
    touched_at = min(recorded[first][0], changed[first][0])
    again = simulate(changed, until)
    before, after = records(decided), records(again)
    assert len(before) >= 4
    assert before[: number - 1] == after[: number - 1]
    assert before[number - 1] != after[number - 1]
    earlier = [one for one in decisions(decided) if one[0] < touched_at]
    assert decisions(again)[: len(earlier)] == earlier


def records(decided):
    """What each round decided: its record, and the grants of it."""
    rounds = {command.cause.round: [command.cause] for one in decided for command in one.commands
              if isinstance(command, RecordRound)}  # fmt: skip
    for grant in sent(decided, Grant):
        rounds[grant.cause.round].append(tuple((grant.app, one.holdings) for one in grant.leases))
    return list(rounds.values())
