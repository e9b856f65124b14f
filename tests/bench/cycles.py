"""The arbiter's cycle in one process: from an answer of the ResourceManager to commands, with a journal on disk.

`python -m tests.bench.cycles latency APPS NODES CHANGES` and `... memory APPS NODES EVENTS [EVENTS ...]` print JSON.
Latency is measured from the bytes of the answer to the commands: JSON is parsed, translated, compared with the known
state, journaled (with fsync) and decided on. The memory run skips the answers and starts from events.
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
"""The frequency of each change. `use`: 250 applications at once use one container more or less. Those that end were
registered and those that arrive are not, so that in time some of the 250 change the shares of the registered ones."""
CHANGING = 250
INTERVAL_S = 2.0
"""Seconds of the arbiter's time between two changes, so that grace periods end and preemptions are due in between."""


class CountedFile(RecordFile):
    """A journal that counts the bytes appended to it."""

    appended = 0

    def append(self, *records: Record | bytes, durable: bool = True) -> None:
        """Append records, and count their bytes."""
        before = self.size
        super().append(*records, durable=durable)
        self.appended += self.size - before


class Cycle:
    """An intake with a journal on disk, where every application of a world is registered and has its share."""

    def __init__(self, world: World, folder: Path) -> None:
        self.world, self.now = world, STARTED_MS / 1000.0 + 1e6
        self.weights: dict[str, float] = {}
        self.file = CountedFile(folder / "journal")
        self.intake = open_intake(self.file, HandClock(lambda: self.now))
        seed(self.intake, world, self.now)
        for command in self.intake.history[-1].commands:
            self.answer(command)

    def known(self) -> ClusterView:
        """The arbiter's view of the cluster."""
        return self.intake.state.cluster

    def take(self, event: Event) -> Decided[Event, Command]:
        """Process an event."""
        return self.intake.take(event)

    def answer(self, command: Command) -> Event | None:
        """Process the outcome of a command: weights are always written, other commands are ignored."""
        match command:
            case WriteWeights(weights, forget):
                self.weights = {queue: weight for queue, weight in self.weights.items() if queue not in set(forget)}
                self.weights |= dict(weights)
                answer: Event = WeightsWritten(weights, forget)
            case ReadLeaves():
                answer = LeavesSeen((), tuple(self.weights.items()))
            case _:
                return None
        self.take(answer)
        return answer

    def timer_is_due(self) -> bool:
        """Whether the arbiter's timer has expired."""
        timer = self.intake.state.timer
        return timer is not None and timer <= self.now


def seed(intake: Intake[State, Event, Command], world: World, at: float) -> None:
    """Register every application of the world and send all shares in one step instead of one step each.

    Every second application has a demand; all demands differ.
    """
    numbers = itertools.count(1)
    state = State()

    def learn_event(event: Event) -> None:
        nonlocal state
        state, _ = learn(state, next(numbers), at, event)

    apps = translate.apps(json.loads(world.answer("/apps") or b""))
    queues = translate.queues(json.loads(world.answer("/scheduler") or b""))
    learn_event(Configured((POOL,)))
    learn_event(ManagerReached("http://127.0.0.1:8088", Capabilities("3.5.0", True, True)))
    learn_event(NodesChanged(tuple(parse_nodes(json.loads(world.answer("/nodes") or b"")).values()), ()))
    learn_event(QueuesChanged((queues[POOL.queue],), ()))
    learn_event(AppsChanged(tuple(apps.values()), ()))
    for number, app in enumerate(apps.values()):
        wanted = app.used.scaled(1.0 + (number % 997) / 997) if number % 2 else None
        learn_event(
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
    learn_event(LeavesSeen((), ()))
    learn_event(Looked())
    intake._execution.state, intake._execution.seq = state, next(numbers)
    intake.take(Configured((POOL,)))


def latency(apps: int, nodes: int, changes: int) -> dict[str, Any]:
    """Milliseconds from an answer to the commands, by kind of change; the journal's bytes."""
    started = time.perf_counter()
    world = World(apps, nodes, greedy=0.02)
    with tempfile.TemporaryDirectory() as folder:
        cycle = Cycle(world, Path(folder))
        cycle.intake.compact()
        _print_progress(f"{apps} applications: ready after {time.perf_counter() - started:.0f} s")
        written, appended = _written(), cycle.file.appended
        spent: dict[str, list[float]] = defaultdict(list)
        events = 0
        for number, change in enumerate(_sequence(changes)):
            for name, ms in _apply(cycle, change):
                spent[name].append(ms)
                events += 1
            if number % max(changes // 5, 1) == 0:
                _print_progress(f"  {number} of {changes}: {change} took {spent[change][-1]:.0f} ms")
        appended = cycle.file.appended - appended
        return {
            "ms": dict(spent),
            "journal_bytes_per_event": appended / max(events, 1),
            "journal_write_amplification": (_written() - written) / appended,
            "rss_mb": _rss_mb(),
        }


def _sequence(count: int) -> list[str]:
    """Changes in the proportions of the mix; each lost node joins again at once."""
    order = [change for change, part in MIX.items() if change != "join" for _ in range(max(round(part * count), 1))]
    random.Random(11).shuffle(order)
    return [name for change in order for name in ((change, "join") if change == "lose" else (change,))]


def _apply(cycle: Cycle, change: str) -> Iterator[tuple[str, float]]:
    """Make a change and process it: its milliseconds, then those of each event that follows from it."""
    world = cycle.world
    cycle.now += INTERVAL_S
    if cycle.timer_is_due():
        started = time.perf_counter()
        cycle.take(TimerFired())
        yield "timer", 1e3 * (time.perf_counter() - started)
    match change:
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
    name = "nodes" if change in ("lose", "join") else "apps"
    polled = next(polled_list for polled_list in POLLED_LISTS if polled_list.name == name)
    answer = world.answer(polled.path) or b""
    started = time.perf_counter()
    current, known = polled.parse(from_json(answer)), polled.known(cycle.known())
    removed = tuple(name for name in known if name not in current)
    decided = cycle.take(polled.event(tuple(changed_items(known, current).values()), removed))
    yield change, 1e3 * (time.perf_counter() - started)
    for command in decided.commands:
        started = time.perf_counter()
        if cycle.answer(command):
            yield "weights", 1e3 * (time.perf_counter() - started)


def memory(apps: int, nodes: int, counts: list[int]) -> dict[str, Any]:
    """Memory after these counts of events; of each 50, one is an arrival, one an end, and the others change use."""
    with tempfile.TemporaryDirectory() as folder:
        cycle = Cycle(World(apps, nodes), Path(folder))
        cycle.intake.compact()
        started, sizes = time.perf_counter(), {"0": _rss_mb()}
        written, appended, chance = _written(), cycle.file.appended, random.Random(3)
        for number in range(1, max(counts) + 1):
            _take_event(cycle, number, chance)
            if number in counts:
                sizes[str(number)] = _rss_mb()
                _print_progress(
                    f"  {number} events after {time.perf_counter() - started:.0f} s: {sizes[str(number)]:.0f} MB"
                )
        appended = cycle.file.appended - appended
        return {
            "rss_mb": sizes,
            "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0,
            "journal_mb": cycle.file.size / 1e6,
            "journal_bytes_per_event": appended / max(counts),
            "journal_write_amplification": (_written() - written) / appended,
            "events_per_second": max(counts) / (time.perf_counter() - started),
        }


def _take_event(cycle: Cycle, number: int, chance: random.Random) -> None:
    cycle.now += 0.1
    apps = cycle.known().apps
    if number % 50 == 0:
        cycle.take(_use(cycle.world.arrive(), 1, cycle))
    elif number % 50 == 25:
        # The newest application is not registered; what unregistered ones use reduces all shares.
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
    counters = psutil.Process().io_counters()
    return int(getattr(counters, "write_chars", counters.write_bytes))


def _rss_mb() -> float:
    gc.collect()
    return psutil.Process().memory_info().rss / 1e6


def _print_progress(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main() -> None:
    """Run one measurement and print its results."""
    tune_garbage_collection()
    measurement, apps, nodes, *numbers = sys.argv[1:]
    counts = [int(number) for number in numbers]
    if measurement == "latency":
        results = latency(int(apps), int(nodes), counts[0])
    else:
        results = memory(int(apps), int(nodes), counts)
    print(json.dumps(results), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
