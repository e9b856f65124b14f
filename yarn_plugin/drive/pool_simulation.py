"""The engine of simulations of one pool: its own controller and solvers in virtual time, with whoever claims its cells.

It has no YARN in it, so the controller knows of no containers: those of a lease are taken to start and leave at once.
So it can run months of a large cluster; `drive.simulator` has the rest of the arbiter and a simulated YARN.
"""

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from heapq import heappop, heappush
from typing import Any, Protocol

from yarn_plugin.decide.pools.advance import MIN_TIMER_DELAY
from yarn_plugin.decide.pools.commands import (
    Ask,
    Command,
    Downgrade,
    Grant,
    LeaseEnded,
    Offer,
    Renew,
    Revoke,
    SetTimer,
    Solve,
)
from yarn_plugin.decide.pools.controller import Registry
from yarn_plugin.decide.pools.inputs import FromApp, Input, Outcome, Started, TimerDue, ViewChanged
from yarn_plugin.decide.pools.view import View
from yarn_plugin.drive.virtual_time import Agenda, World
from yarn_plugin.errors import ReportedError
from yarn_plugin.model.journaled import Mutable
from yarn_plugin.model.share import Claim, Pool
from yarn_plugin.model.topology import Topology

MAX_INPUTS_AT_ONCE = 1_000_000
"""Inputs of one moment, after which the controller is taken to be in a loop."""

STUCK_AFTER = 86_400.0
"""Seconds with nothing but the controller's timers, after which what remains will never end."""


class SimulationError(ReportedError):
    """A simulation cannot go on: the controller leased a cell twice, loops, or leaves applications waiting forever."""


class Claimants(Protocol):
    """Those who claim a pool's cells in virtual time. Its methods are called at the engine's `now`."""

    def claims(self) -> tuple[Claim, ...]:
        """What they claim now, in order of arrival. Read again after `PoolSimulation.revise`."""
        ...

    def granted(self, command: Grant) -> None:
        """Leases have started."""
        ...

    def renewed(self, command: Renew) -> None:
        """A lease ends later than was said."""
        ...

    def revoked(self, command: Revoke) -> None:
        """Cells of a lease must be vacated now."""
        ...

    def ended(self, command: LeaseEnded) -> None:
        """Cells of a lease have been released."""
        ...

    def reclassed(self, command: Downgrade) -> None:
        """A lease is of another class now."""
        ...

    def answer(self, app: str, question: object) -> object | None:
        """The answer to a question of the controller; None: there is none."""
        ...

    def settle(self) -> None:
        """All that happens at this moment has happened."""
        ...

    def is_done(self) -> bool:
        """Whether nobody will claim anything any more."""
        ...


class PoolSimulation(World):
    """A pool in virtual time: its controller with its timers, and the view that it is shown. Nothing is journaled, and
    an exception of the controller ends the simulation. `solve_s`: how long a solver takes. `state`: the controller's.
    `inputs`: how many it was given.

    Raises:
        NoControllerError: the pool's controller cannot be created.
    """

    def __init__(
        self, pool: Pool, registry: Registry, topology: Topology, claimants: Claimants, solve_s: float = 0.0
    ) -> None:
        self._claimants, self._solve_s, self._solver = claimants, solve_s, registry.solver()
        self._controller = registry.controller(pool)
        self.state: Any = self._controller.initial_state()
        self._is_mutable = isinstance(self.state, Mutable)
        self.inputs = 0
        self._view = View(capacity=topology.capacity(), topology=topology, steering=True)
        self._shown = self._view.only(self._controller.reads)
        self._agenda = Agenda()
        self._timers: dict[str, float] = {}
        self._due: list[tuple[float, str]] = []
        self._claims_changed = False
        self._waiting: deque[Input] = deque()

    def run(self) -> None:
        """Run until nobody claims anything any more, or nothing more would ever happen.

        Raises:
            SimulationError: the controller loops.
        """
        self._advance(Started())
        self._claimants.settle()
        self._agenda.run(self, STUCK_AFTER)

    def is_done(self) -> bool:
        """Whether nobody claims anything any more."""
        return self._claimants.is_done()

    def next_due(self) -> float:
        """The controller's next timer."""
        while self._due and self._timers.get(self._due[0][1]) != self._due[0][0]:
            heappop(self._due)
        return self._due[0][0] if self._due else math.inf

    def fire(self, at: float) -> None:
        """A timer of the controller is due."""
        _, key = heappop(self._due)
        del self._timers[key]
        self._advance(TimerDue(key))
        self.drain()

    def settle(self) -> None:
        """Give the controller what this moment brought; then all that happens in it is one change for the claimants: a
        lease that ends and is won back moves nothing."""
        self.drain()
        if self.is_done() or min(self._agenda.next_at(), self.next_due()) > self.now:
            self._claimants.settle()

    @property
    def now(self) -> float:
        """The current time."""
        return self._agenda.now

    def put(self, at: float, action: Callable[[float], None]) -> None:
        """Call this at a time."""
        self._agenda.put(at, action)

    def revise(self) -> None:
        """What is claimed has changed."""
        self._claims_changed = True

    def send(self, message: FromApp) -> None:
        """A message of an application to the controller."""
        self._waiting.append(message)

    def drain(self) -> None:
        """Give the controller all that waits for it at this moment.

        Raises:
            SimulationError: it does not come to rest.
        """
        for _ in range(MAX_INPUTS_AT_ONCE):
            if self._claims_changed:
                self._see()
            elif self._waiting:
                self._advance(self._waiting.popleft())
            else:
                return
        raise SimulationError(f"the controller of the pool does not come to rest at {self.now:.0f} s")

    def _see(self) -> None:
        self._claims_changed = False
        self._view = replace(self._view, claims=self._claimants.claims())
        shown = self._view.only(self._controller.reads)
        if shown != self._shown:
            self._shown = shown
            self._advance(ViewChanged())

    def _advance(self, what: Input) -> None:
        self.inputs += 1
        self.state, commands = self._controller.advance(self.state, self._shown, self.now, what)
        if self._is_mutable:
            self.state.commit()
        self._carry_out(commands)

    def _carry_out(self, commands: Sequence[Command]) -> None:
        for command in commands:
            match command:
                case SetTimer(key, at):
                    self._set_timer(key, at)
                case Solve(name, problem):
                    self._solve(name, problem)
                case Ask(_, app, question) | Offer(_, app, question):
                    answer = self._claimants.answer(app, question)
                    if answer is not None:
                        self._waiting.append(FromApp(app, answer))
                case Grant():
                    self._claimants.granted(command)
                case Renew():
                    self._claimants.renewed(command)
                case Revoke() if command.by <= self.now:
                    self._claimants.revoked(command)
                case Revoke():
                    self.put(command.by, partial(self._revoke, command))
                case LeaseEnded():
                    self._claimants.ended(command)
                case Downgrade() if command.effective_at is None:
                    self._claimants.reclassed(command)
                case _:
                    pass

    def _revoke(self, command: Revoke, at: float) -> None:
        self._claimants.revoked(command)

    def _set_timer(self, key: str, at: float | None) -> None:
        if at is None:
            self._timers.pop(key, None)
            return
        # As live: a controller that sets timers in the past must not keep the arbiter busy at one moment.
        due = at if at > self.now else self.now + MIN_TIMER_DELAY
        if self._timers.get(key) != due:
            self._timers[key] = due
            heappush(self._due, (due, key))

    def _solve(self, name: str, problem: object) -> None:
        outcome = Outcome(name, "done", self._solver(problem))
        if self._solve_s:
            self.put(self.now + self._solve_s, lambda at: self._waiting.append(outcome))
        else:
            self._waiting.append(outcome)
