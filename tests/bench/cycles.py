"""The arbiter's cycle in one process: an answer of the ResourceManager in, commands out, on a journal on disk.

`python -m tests.bench.cycles latency APPS NODES EVENTS` and `... memory APPS NODES INPUTS [INPUTS ...]` print JSON.
Latency goes from the answer's bytes to the commands: JSON read, translated, compared with what is known, journaled
(with fsync), decided on. The memory run leaves the answers out and hands in events.
"""

import gc
import itertools
import json
import os
import random
import resource
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
from pydantic_core import from_json

from tests.bench.simulated_manager import STARTED_MS, VCORES, World
from tests.clock import HandClock
from yarn_plugin.decide.commands import Command, ReadLeaves, WriteWeights
from yarn_plugin.decide.events import (
    AppsChanged,
    Configured,
    Event,
    LeavesSeen,
    Looked,
    ManagerReached,
    NodesChanged,
    QueuesChanged,
    Registered,
    TimerFired,
    WeightsWritten,
)
from yarn_plugin.decide.observations import learn
from yarn_plugin.decide.state import State
from yarn_plugin.drive.journaling import open_intake
from yarn_plugin.drive.serve import tune_garbage_collection
from yarn_plugin.journal.intake import Decided, Intake
from yarn_plugin.journal.records import Record, RecordFile
from yarn_plugin.model.cluster import Capabilities, ClusterView
from yarn_plugin.model.share import Demand, Pool
from yarn_plugin.observe import translate
from yarn_plugin.observe.changes import changed_items
from yarn_plugin.observe.nodes import parse_nodes
from yarn_plugin.observe.polled_lists import POLLED_LISTS

POOL = Pool("sql", "root.sql", ("memory-mb", "vcores"))
MIX = {"use": 0.44, "arrive": 0.26, "end": 0.26, "lose": 0.02, "join": 0.02}
"""How often what happens: `use` is 250 applications at once that hold one container more or less. Those that
end were registered and those that arrive are not, so that in time some of the 250 change what everybody may have."""
CHANGING = 250
BETWEEN_S = 2.0
"""Seconds of the arbiter's time between two events, so that grace periods and preemptions come due in between."""


class CountedFile(RecordFile):
    """A journal that counts what is appended to it."""

    appended = 0

    def append(self, *records: Record | bytes, durable: bool = True) -> None:
        """Add records, and count their bytes."""
        before = self.size
        super().append(*records, durable=durable)
        self.appended += self.size - before


class Cycle:
    """An intake on a real file in which every application of a world is registered and has its share."""

    def __init__(self, world: World, folder: Path) -> None:
        self.world, self.now = world, STARTED_MS / 1000.0 + 1e6
        self.weights: dict[str, float] = {}
        self.file = CountedFile(folder / "journal")
        self.intake = open_intake(self.file, HandClock(lambda: self.now))
        seed(self.intake, world, self.now)
        for command in self.intake.history[-1].commands:
            self.answer(command)

    def known(self) -> ClusterView:
        """The cluster as the arbiter knows it."""
        return self.intake.state.cluster

    def take(self, event: Event) -> Decided[Event, Command]:
        """Take an event in."""
        return self.intake.take(event)

    def answer(self, command: Command) -> Event | None:
        """Take in how a command turned out: weights are always written, everything else is lost."""
        match command:
            case WriteWeights(weights, forget):
                self.weights = {queue: one for queue, one in self.weights.items() if queue not in set(forget)}
                self.weights |= dict(weights)
                answer: Event = WeightsWritten(weights, forget)
            case ReadLeaves():
                answer = LeavesSeen((), tuple(self.weights.items()))
            case _:
                return None
        self.take(answer)
        return answer

    def timer_is_due(self) -> bool:
        """Whether the time asked for has come."""
        timer = self.intake.state.timer
        return timer is not None and timer <= self.now


def seed(intake: Intake[State, Event, Command], world: World, at: float) -> None:
    """Register every application of the world and send all shares in one step instead of one step each.

    Every second one says how much it can use, each of those something else.
    """
    numbers = itertools.count(1)
    state = State()

    def told(event: Event) -> None:
        nonlocal state
        state, _ = learn(state, next(numbers), at, event)

    apps = translate.apps(json.loads(world.answer("/apps") or b""))
    queues = translate.queues(json.loads(world.answer("/scheduler") or b""))
    told(Configured((POOL,)))
    told(ManagerReached("http://127.0.0.1:8088", Capabilities("3.5.0", True, True)))
    told(NodesChanged(tuple(parse_nodes(json.loads(world.answer("/nodes") or b"")).values()), ()))
    told(QueuesChanged((queues[POOL.queue],), ()))
    told(AppsChanged(tuple(apps.values()), ()))
    for number, app in enumerate(apps.values()):
        wanted = app.used.scaled(1.0 + (number % 997) / 997) if number % 2 else None
        told(
            Registered(
                request_id=f"request-{number}",
                name=app.name,
                user=app.user,
                pool=POOL.name,
                weight=1.0,
                demand=None if wanted is None else Demand((wanted,)),
                grace=None,
                yarn_app=app.id,
            )
        )
    told(LeavesSeen((), ()))
    told(Looked())
    intake._execution.state, intake._execution.seq = state, next(numbers)
    intake.take(Configured((POOL,)))


def latency(apps: int, nodes: int, events: int) -> dict[str, Any]:
    """Milliseconds from an answer to the commands, by what happened; the journal's bytes."""
    began = time.perf_counter()
    world = World(apps, nodes, greedy=0.02)
    with tempfile.TemporaryDirectory() as folder:
        cycle = Cycle(world, Path(folder))
        cycle.intake.compact()
        _say(f"{apps} applications: ready after {time.perf_counter() - began:.0f} s")
        written, appended = _written(), cycle.file.appended
        spent: dict[str, list[float]] = defaultdict(list)
        inputs = 0
        for number, what in enumerate(_happenings(events)):
            for name, ms in _happen(cycle, what):
                spent[name].append(ms)
                inputs += 1
            if number % max(events // 5, 1) == 0:
                _say(f"  {number} of {events}: {what} took {spent[what][-1]:.0f} ms")
        appended = cycle.file.appended - appended
        return {
            "ms": dict(spent),
            "journal_bytes_an_event": appended / max(inputs, 1),
            "journal_written_to_appended": (_written() - written) / appended,
            "rss_mb": _rss_mb(),
        }


def _happenings(count: int) -> list[str]:
    """A sequence in which each happens as often as the mix says; a node is lost before one joins."""
    order = [what for what, part in MIX.items() if what != "join" for _ in range(max(round(part * count), 1))]
    random.Random(11).shuffle(order)
    return [one for what in order for one in ((what, "join") if what == "lose" else (what,))]


def _happen(cycle: Cycle, what: str) -> Iterator[tuple[str, float]]:
    """Let it happen and be seen; the milliseconds of that, then of each input that follows from it."""
    world = cycle.world
    cycle.now += BETWEEN_S
    if cycle.timer_is_due():
        began = time.perf_counter()
        cycle.take(TimerFired())
        yield "timer", 1e3 * (time.perf_counter() - began)
    match what:
        case "use":
            world.use(CHANGING)
        case "arrive":
            world.arrive()
        case "end":
            world.end(next(iter(world.apps)))
        case "lose":
            world.lose()
        case "join":
            world.join()
    name = "nodes" if what in ("lose", "join") else "apps"
    subject = next(one for one in POLLED_LISTS if one.name == name)
    answer = world.answer(subject.path) or b""
    began = time.perf_counter()
    seen, known = subject.read(from_json(answer)), subject.known(cycle.known())
    gone = tuple(one for one in known if one not in seen)
    happened = [subject.event(tuple(changed_items(known, seen).values()), gone)]
    taken = [cycle.take(event) for event in happened]
    yield what, 1e3 * (time.perf_counter() - began)
    for command in [command for decided in taken for command in decided.commands]:
        began = time.perf_counter()
        if cycle.answer(command):
            yield "weights", 1e3 * (time.perf_counter() - began)


def memory(apps: int, nodes: int, counts: list[int]) -> dict[str, Any]:
    """The process's memory after so many inputs; of each 50, two are an arrival and an end, the others change use."""
    with tempfile.TemporaryDirectory() as folder:
        cycle = Cycle(World(apps, nodes), Path(folder))
        cycle.intake.compact()
        began, found = time.perf_counter(), {"0": _rss_mb()}
        written, appended, chance = _written(), cycle.file.appended, random.Random(3)
        for number in range(1, max(counts) + 1):
            _one_input(cycle, number, chance)
            if number in counts:
                found[str(number)] = _rss_mb()
                _say(f"  {number} inputs after {time.perf_counter() - began:.0f} s: {found[str(number)]:.0f} MB")
        appended = cycle.file.appended - appended
        return {
            "rss_mb": found,
            "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0,
            "journal_mb": cycle.file.size / 1e6,
            "journal_bytes_an_input": appended / max(counts),
            "journal_written_to_appended": (_written() - written) / appended,
            "inputs_a_second": max(counts) / (time.perf_counter() - began),
        }


def _one_input(cycle: Cycle, number: int, chance: random.Random) -> None:
    cycle.now += 0.1
    apps = cycle.known().apps
    if number % 50 == 0:
        cycle.take(_use(cycle.world.arrive(), 1, cycle))
    elif number % 50 == 25:
        # The newest: nobody has registered it, and what such ones use changes everybody's share.
        app = max(apps)
        cycle.world.end(app)
        cycle.take(AppsChanged((), (app,)))
    else:
        cycle.take(_use(chance.choice(sorted(apps)[:-1]), chance.randrange(1, VCORES), cycle))


def _use(app: str, containers: int, cycle: Cycle) -> AppsChanged:
    cycle.world._put(app, containers)
    return AppsChanged((translate.apps({"apps": {"app": [json.loads(cycle.world.apps[app])]}})[app],), ())


def _written() -> int:
    """The bytes that this process has written to files so far."""
    counted = psutil.Process().io_counters()
    return int(getattr(counted, "write_chars", counted.write_bytes))


def _rss_mb() -> float:
    gc.collect()
    return psutil.Process().memory_info().rss / 1e6


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main() -> None:
    """Run one measurement and print what it found."""
    tune_garbage_collection()
    what, apps, nodes, *counts = sys.argv[1:]
    sizes = [int(count) for count in counts]
    found = latency(int(apps), int(nodes), sizes[0]) if what == "latency" else memory(int(apps), int(nodes), sizes)
    print(json.dumps(found), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
