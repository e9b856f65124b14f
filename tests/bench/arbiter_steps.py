"""The arbiter's pure step as a driver calls it, timed: processor time, without a journal, a disk or a wire."""

import gc
import itertools
from collections.abc import Sequence
from statistics import median
from time import thread_time
from typing import Any

from yarn_plugin.decide.arbiter import BUILT_IN
from yarn_plugin.decide.commands import Command
from yarn_plugin.decide.events import AppsChanged, Event, LeavesSeen, Looked, ManagerReached, NodesChanged, Registered
from yarn_plugin.decide.observations import learn
from yarn_plugin.decide.pools.controller import Registry
from yarn_plugin.decide.state import State
from yarn_plugin.drive import journaling
from yarn_plugin.model.cluster import Capabilities, Node, YarnApp
from yarn_plugin.model.resources import MEMORY, VCORES, Resources
from yarn_plugin.model.share import Demand, Pool

MASTER = Resources.of({MEMORY: 1024, VCORES: 1})


class Arbiter:
    """An arbiter without a journal. `at`: its time in seconds."""

    def __init__(self, state: State, registry: Registry = BUILT_IN) -> None:
        self.state, self.at = state, 1000.0
        self._numbers = itertools.count(100_000)
        self._machine = journaling._machine(registry)

    def take(self, event: Event, after: float = 0.001) -> tuple[float, tuple[Command, ...]]:
        """Process an event some seconds later; the milliseconds that it took, and the commands."""
        self.at += after
        began = thread_time()
        self.state, commands = self._machine.step(self.state, next(self._numbers), self.at, event)
        return 1e3 * (thread_time() - began), commands

    def until_due(self) -> float:
        """The seconds until the arbiter's timer is due."""
        assert self.state.timer is not None
        return max(self.state.timer - self.at, 0.0)


class Untimed:
    """Without garbage collection, which would be counted to any step."""

    def __enter__(self) -> None:
        gc.collect()
        gc.freeze()
        gc.disable()

    def __exit__(self, *problem: object) -> None:
        gc.enable()
        gc.unfreeze()


def percentiles(name: str, times: Sequence[float]) -> dict[str, Any]:
    """The median and the 95th and 99th percentile."""
    ordered = sorted(times)

    def at(fraction: float) -> float:
        return ordered[min(int(fraction * len(ordered)), len(ordered) - 1)]

    return {f"{name}_p50": median(ordered), f"{name}_p95": at(0.95), f"{name}_p99": at(0.99)}


def known_state(events: Sequence[Event]) -> State:
    """The state that these events are applied to, without a decision on each."""
    state = State()
    for number, event in enumerate(events, 1):
        state, _ = learn(state, number, float(number) / 1000, event)
    return state


def running(number: int, queue: str, containers: int = 4, user: str = "") -> YarnApp:
    """An application that runs, and has as many containers as it wants."""
    used = Resources.of({MEMORY: 2048 * containers, VCORES: containers})
    name = f"application_1_{number:05}"
    return YarnApp(name, name, user or f"user{number}", queue, False, float(number), used, Resources(), containers)


def beginning(nodes: Sequence[Node]) -> list[Event]:
    """The first events of an arbiter with these nodes."""
    return [ManagerReached("http://rm", Capabilities("3.5.0", True, True)), NodesChanged(tuple(nodes), ())]


def registered(pool: Pool, apps: Sequence[YarnApp], demands: bool = True) -> list[Event]:
    """The events that list and register applications. Every second one has a demand, each another one."""
    found: list[Event] = [AppsChanged(tuple(apps), ())]
    for number, app in enumerate(apps):
        wanted = app.used.scaled(1.0 + (number % 997) / 997) if number % 2 and demands else None
        demand = None if wanted is None else Demand((wanted,))
        found.append(Registered(f"request-{app.id}", app.name, app.user, pool.name, 1.0, demand, None, app.id))
    return found


def ready() -> list[Event]:
    """YARN's weights and applications have been read."""
    return [LeavesSeen((), ()), Looked()]
