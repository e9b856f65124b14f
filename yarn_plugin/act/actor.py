"""Carries out commands one after another in a thread of its own, so that a slow RM never delays a share."""

import queue
import threading
from collections.abc import Callable

from yarn_plugin.act.containers import end_containers, list_containers
from yarn_plugin.act.weights import write_weights
from yarn_plugin.decide.commands import Command, ListContainers, SignalContainers, WriteWeights
from yarn_plugin.decide.events import (
    ContainersListed,
    ContainersSignalled,
    Event,
    WeightsRefused,
    WeightsWritten,
)
from yarn_plugin.observe.resource_manager import ManagerError, ResourceManager

UNREADABLE = (LookupError, TypeError, ValueError, AttributeError)
"""What reading an answer raises that is not a ResourceManager's: no reason to carry out nothing any more."""


class Actor:
    """Takes commands; `tell` is called with the outcome of each that has one."""

    def __init__(self, manager: ResourceManager, tell: Callable[[Event], object]) -> None:
        self._manager, self._tell = manager, tell
        self._commands: queue.SimpleQueue[Command | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="act", daemon=True)
        self._thread.start()

    def carry_out(self, command: Command) -> None:
        """Carry out a command, later."""
        self._commands.put(command)

    def close(self) -> None:
        """Finish what is being done, and no more."""
        self._commands.put(None)
        self._thread.join(timeout=10)

    def _run(self) -> None:
        while (command := self._commands.get()) is not None:
            outcome = _outcome(self._manager, command)
            if outcome is not None:
                self._tell(outcome)


def _outcome(manager: ResourceManager, command: Command) -> Event | None:
    match command:
        case WriteWeights(weights, forget, _):
            try:
                write_weights(manager, weights, forget)
            except ManagerError as problem:
                return WeightsRefused(str(problem))
            except UNREADABLE as problem:
                return WeightsRefused(f"its answer cannot be read: {type(problem).__name__} {problem}")
            return WeightsWritten(weights, forget)
        case ListContainers(app, yarn_app, _):
            try:
                return ContainersListed(app, list_containers(manager, yarn_app))
            except (ManagerError, *UNREADABLE):
                # It has ended, or the RM is away: either is told by the watch, and the overstay is found again.
                return None
        case SignalContainers(app, containers, _):
            try:
                return ContainersSignalled(app, containers, end_containers(manager, containers))
            except ManagerError as problem:
                return ContainersSignalled(app, (), (str(problem),))
    return None
