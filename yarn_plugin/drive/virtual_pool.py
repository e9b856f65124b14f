"""One pool's controller in virtual time, without the rest of the arbiter: its state, its timers, its view.

For simulations of many rounds. Nothing is journaled, and an exception of the controller ends the simulation.
"""

import math
from collections.abc import Sequence
from heapq import heappop, heappush
from typing import Any

from yarn_plugin.decide.pools.advance import MIN_TIMER_DELAY
from yarn_plugin.decide.pools.commands import Command, SetTimer
from yarn_plugin.decide.pools.controller import Registry
from yarn_plugin.decide.pools.inputs import Input, Started, TimerDue, ViewChanged
from yarn_plugin.decide.pools.view import View
from yarn_plugin.model.journaled import Mutable
from yarn_plugin.model.share import Pool


class VirtualPool:
    """A controller with its timers.

    Raises:
        NoControllerError: the pool's controller cannot be created.
    """

    def __init__(self, pool: Pool, registry: Registry) -> None:
        self._controller = registry.controller(pool)
        self.reads = self._controller.reads
        self.state: Any = self._controller.initial_state()
        self._is_mutable = isinstance(self.state, Mutable)
        self.inputs = 0
        self._seen: View | None = None
        self._timers: dict[str, float] = {}
        self._due: list[tuple[float, str]] = []

    def start(self, view: View, at: float) -> Sequence[Command]:
        """Tell the controller that its pool is new."""
        return self.take(view, at, Started())

    def take(self, view: View, at: float, what: Input) -> Sequence[Command]:
        """Advance the controller by one input; returns its commands without those that set timers."""
        self.inputs += 1
        self._seen = view
        self.state, commands = self._controller.advance(self.state, view, at, what)
        if self._is_mutable:
            self.state.commit()
        others = []
        for command in commands:
            if isinstance(command, SetTimer):
                self._set(command, at)
            else:
                others.append(command)
        return others

    def see(self, view: View, at: float) -> Sequence[Command]:
        """Show the controller a view, unless it was given this very one with its last input."""
        return () if view is self._seen else self.take(view, at, ViewChanged())

    def next_due(self) -> float:
        """When the next timer is due; infinity without one."""
        while self._due and self._timers.get(self._due[0][1]) != self._due[0][0]:
            heappop(self._due)
        return self._due[0][0] if self._due else math.inf

    def fire(self, view: View, at: float) -> Sequence[Command]:
        """Take the first timer that is due by `at`."""
        assert self.next_due() <= at, "no timer is due"
        _, key = heappop(self._due)
        del self._timers[key]
        return self.take(view, at, TimerDue(key))

    def _set(self, timer: SetTimer, at: float) -> None:
        if timer.at is None:
            self._timers.pop(timer.key, None)
            return
        # As live: a controller that sets timers in the past must not keep the arbiter busy at one moment.
        due = timer.at if timer.at > at else at + MIN_TIMER_DELAY
        if self._timers.get(timer.key) != due:
            self._timers[timer.key] = due
            heappush(self._due, (due, timer.key))
