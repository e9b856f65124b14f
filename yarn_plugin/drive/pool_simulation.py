"""The engine of simulations of one pool: its own controller and solvers in virtual time, with whoever claims its cells.

It has no YARN in it, so the controller knows of no containers: those of a lease are taken to start and leave at once.
So it can run months of a large cluster; `drive.simulator` has the rest of the arbiter and a simulated YARN.
"""

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

from yarn_plugin.decide.pools.commands import Ask, Command, Downgrade, Grant, LeaseEnded, Offer, Renew, Revoke, Solve
from yarn_plugin.decide.pools.controller import Registry
from yarn_plugin.decide.pools.inputs import FromApp, Input, Outcome
from yarn_plugin.decide.pools.view import View
from yarn_plugin.drive.virtual_pool import VirtualPool
from yarn_plugin.drive.virtual_time import Agenda
from yarn_plugin.errors import ReportedError
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


class PoolSimulation:
    """A pool in virtual time. `solve_s`: how long a solver takes.

    Raises:
        NoControllerError: the pool's controller cannot be created.
    """

    def __init__(
        self, pool: Pool, registry: Registry, topology: Topology, claimants: Claimants, solve_s: float = 0.0
    ) -> None:
        self._pool, self._claimants, self._solve_s = VirtualPool(pool, registry), claimants, solve_s
        self._solver = registry.solver()
        self._view = View(capacity=topology.capacity(), topology=topology, steering=True)
        self._shown = self._view.only(self._pool.reads)
        self._agenda = Agenda()
        self._claims_changed = False
        self._inputs: deque[Input] = deque()
        self.now = 0.0

    def run(self) -> None:
        """Run until nobody claims anything any more, or nothing more would ever happen.

        Raises:
            SimulationError: the controller loops.
        """
        self._carry_out(self._pool.start(self._shown, 0.0))
        self._claimants.settle()
        progress_at = 0.0
        while not self._claimants.is_done() and self.now < progress_at + STUCK_AFTER:
            due, timer = self._agenda.next_at(), self._pool.next_due()
            if min(due, timer) == math.inf:
                break
            if timer <= due:
                self.now = timer
                self._carry_out(self._pool.fire(self._shown, timer))
            else:
                self.now = progress_at = due
                while self._agenda.next_at() == due:
                    self._agenda.pop()[1](due)
            self.drain()
            # What happens at one moment is one change: a lease that ends and is won back moves nothing.
            if min(self._agenda.next_at(), self._pool.next_due()) > self.now:
                self._claimants.settle()
            progress_at = progress_at if self._agenda.is_idle() else self.now

    @property
    def inputs(self) -> int:
        """How many inputs the controller was given."""
        return self._pool.inputs

    @property
    def state(self) -> Any:
        """The controller's state."""
        return self._pool.state

    def put(self, at: float, action: Callable[[float], None]) -> None:
        """Call this at a time."""
        self._agenda.put(at, action)

    def revise(self) -> None:
        """What is claimed has changed."""
        self._claims_changed = True

    def send(self, message: FromApp) -> None:
        """A message of an application to the controller."""
        self._inputs.append(message)

    def drain(self) -> None:
        """Give the controller all that waits for it at this moment.

        Raises:
            SimulationError: it does not come to rest.
        """
        for _ in range(MAX_INPUTS_AT_ONCE):
            if self._claims_changed:
                self._see()
            elif self._inputs:
                self._carry_out(self._pool.take(self._shown, self.now, self._inputs.popleft()))
            else:
                return
        raise SimulationError(f"the controller of the pool does not come to rest at {self.now:.0f} s")

    def _see(self) -> None:
        self._claims_changed = False
        self._view = replace(self._view, claims=self._claimants.claims())
        shown = self._view.only(self._pool.reads)
        if shown != self._shown:
            self._shown = shown
            self._carry_out(self._pool.see(shown, self.now))

    def _carry_out(self, commands: Sequence[Command]) -> None:
        for command in commands:
            match command:
                case Solve(name, problem):
                    self._solve(name, problem)
                case Ask(_, app, question) | Offer(_, app, question):
                    answer = self._claimants.answer(app, question)
                    if answer is not None:
                        self._inputs.append(FromApp(app, answer))
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

    def _solve(self, name: str, problem: object) -> None:
        outcome = Outcome(name, "done", self._solver(problem))
        if self._solve_s:
            self.put(self.now + self._solve_s, lambda at: self._inputs.append(outcome))
        else:
            self._inputs.append(outcome)
