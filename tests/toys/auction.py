"""A toy auction: rounds that ask, wait, solve in the worker process and lease named cells; leases end with a grace.

Who wants cells is asked in rounds. A round opens when cells are free and the claims or the cells are not those that the
last round was about. What comes for another round is passed over. A lease that ends is revoked where others want its
cells, and renewed where nobody does; who says in time that it needs it still keeps it, if nobody wants the cells.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal

from yarn_plugin.decide.pools.commands import Ask, CancelRevoke, Grant, LeaseEnded, Renew, Revoke, SetTimer, Solve
from yarn_plugin.decide.pools.controller import Kind
from yarn_plugin.decide.pools.inputs import FromApp, Outcome, Restarted, TimerDue
from yarn_plugin.model.causes import LegacyText
from yarn_plugin.model.journaled import Tagged
from yarn_plugin.model.share import Holding, Lease

MAX_TRIES = 3
"""How often a problem is given to the worker whose process is lost."""


@dataclass(frozen=True, slots=True)
class Settings:
    """`cells`: what is leased; where there are none, the smallest cells of the view. Seconds: `ask_s` for answers,
    `lease_s`, `grace_s`, `solve_s` that a solve takes."""

    cells: tuple[str, ...] = ()
    ask_s: float = 0.4
    lease_s: float = 2.0
    grace_s: float = 0.4
    solve_s: float = 0.0
    seed: int = 1


@dataclass(frozen=True, slots=True)
class Question:
    """How many cells do you want, and what is one worth to you?"""

    round: int


@dataclass(frozen=True, slots=True)
class Answer:
    """The number of cells wanted in this round, and the value of each."""

    round: int
    wants: int
    worth: float = 1.0


@dataclass(frozen=True, slots=True)
class StillNeeded:
    """This lease is needed still."""

    lease: str


@dataclass(frozen=True, slots=True)
class Provoke:
    """Something on which the controller raises: now, or when it next does the thing that is named."""

    when: str = "now"


@dataclass(frozen=True, slots=True)
class Bid:
    """What an application wants beyond what it has."""

    app: str
    more: int
    worth: float


@dataclass(frozen=True, slots=True)
class Problem:
    """Who gets which of the free cells."""

    round: int
    seed: int
    free: tuple[str, ...]
    bids: tuple[Bid, ...]
    takes_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Allocation:
    """The cells of each that gets some."""

    round: int
    cells: tuple[tuple[str, tuple[str, ...]], ...]


def allocate(problem: Problem) -> Allocation:
    """The highest bidders first; equal bids are ordered by a hash of seed, round and name."""
    time.sleep(problem.takes_s)
    left, won = list(problem.free), {}
    for bid in sorted(problem.bids, key=lambda bid: (-bid.worth, (problem.seed * 31 + problem.round) % 2, bid.app)):
        won[bid.app], left = tuple(left[: bid.more]), left[bid.more :]
    return Allocation(problem.round, tuple((app, cells) for app, cells in sorted(won.items()) if cells))


@dataclass(frozen=True, slots=True)
class Held:
    """A lease, and until when it is to be vacated where it is revoked."""

    lease: Lease
    by: float | None = None


@dataclass(frozen=True, slots=True)
class AuctionState:
    """`asked`: of each application, the command that asks it in this round. `open`: the commands that are to be given
    again after a restart, by id. `about`: the claims and cells of the last round. `wants`: what each said last.
    `provoked`: what to raise on."""

    counter: int = 0
    round: int = 0
    phase: Literal["idle", "asking", "solving"] = "idle"
    asked: Mapping[str, str] = field(default_factory=dict)
    answers: Mapping[str, Answer] = field(default_factory=dict)
    answer_by: float | None = None
    open: Mapping[str, Annotated[object, Tagged()]] = field(default_factory=dict)
    tries: int = 0
    leases: Mapping[str, Held] = field(default_factory=dict)
    about: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    wants: Mapping[str, int] = field(default_factory=dict)
    provoked: str | None = None


class Auction:
    """See the module."""

    reads = frozenset({"claims", "topology"})

    def __init__(self, pool):
        self._pool, self._settings = pool, pool.parameters or Settings()

    def initial_state(self):
        return AuctionState()

    def report(self, state):
        return None

    def advance(self, state, view, at, what):
        """Handle one input, then end leases whose applications have ended, then open a round if one is due."""
        if state.provoked == type(what).__name__:
            raise RuntimeError(f"provoked by {state.provoked}")
        turn = _Turn(self._pool.name, self._settings, state, view, at)
        turn.take(what)
        turn.end_leases_of_those_that_left()
        turn.open_round()
        return turn.state, tuple(turn.commands)


class _Turn:
    """One call of the controller."""

    def __init__(self, path, settings, state, view, at):
        self.path, self.settings, self.state, self.view, self.at = path, settings, state, view, at
        self.commands = []
        self.claimants = tuple(claim.app for claim in view.claims if claim.is_registered)

    # What comes in.

    def take(self, what):
        match what:
            case Restarted():
                self.commands += [command for _, command in sorted(self.state.open.items())]
            case FromApp(_, Provoke("now")):
                raise RuntimeError("provoked by a message")
            case FromApp(_, Provoke(when)):
                self.change(provoked=when)
            case FromApp(app, Answer() as answer):
                self.answered(app, answer)
            case FromApp(app, StillNeeded(lease)):
                self.needed(app, lease)
            case TimerDue("answers"):
                self.solve()
            case TimerDue(key) if key.startswith("end:"):
                self.expire(key.removeprefix("end:"))
            case TimerDue(key) if key.startswith("gone:"):
                self.drop(key.removeprefix("gone:"))
            case Outcome(id, kind, result, _):
                self.solved(id, kind, result)

    def answered(self, app, answer):
        state = self.state
        is_timely = state.phase == "asking" and answer.round == state.round and state.answers.get(app) is None
        if not is_timely or app not in state.asked or answer.wants < 0 or not answer.worth > 0:
            return
        self.change(answers={**state.answers, app: answer}, wants={**state.wants, app: answer.wants})
        self.close(state.asked[app])
        if len(self.state.answers) == len(self.state.asked):
            self.solve()

    def needed(self, app, lease):
        held = self.state.leases.get(lease)
        if held is None or held.lease.app != app or held.by is None or self.is_wanted(held.lease):
            return
        self.close(f"{lease}/revoke")
        self.set(replace(held, by=None), SetTimer(f"gone:{lease}", None), CancelRevoke(self.name(), app, lease))
        self.renew(lease)

    # Rounds.

    def open_round(self):
        state, free = self.state, self.free()
        about = (self.claimants, free)
        if state.phase != "idle" or not free or not self.claimants or about == state.about:
            return
        number, deadline = state.round + 1, self.at + self.settings.ask_s
        self.change(round=number, phase="asking", asked={}, answers={}, answer_by=deadline, about=about)
        for app in self.claimants:
            ask = Ask(self.name(), app, Question(number), deadline)
            self.change(asked={**self.state.asked, app: ask.id})
            self.give(ask)
        self.commands.append(SetTimer("answers", deadline))

    def solve(self):
        state = self.state
        if state.phase != "asking":
            return
        for name in state.asked.values():
            self.close(name)
        self.commands.append(SetTimer("answers", None))
        bids = tuple(
            Bid(app, answer.wants - self.count(app), answer.worth)
            for app, answer in sorted(state.answers.items())
            if answer.wants > self.count(app) and app in self.claimants
        )
        self.change(phase="solving" if bids else "idle", asked={}, answers={}, answer_by=None, tries=1)
        if bids:
            settings = self.settings
            problem = Problem(state.round, settings.seed, self.free(), bids, settings.solve_s)
            self.give(Solve(self.name(), problem))

    def solved(self, id, kind, result):
        solve = self.state.open.get(id)
        if self.state.phase != "solving" or not isinstance(solve, Solve):
            return
        if kind == "lost" and self.state.tries < MAX_TRIES:
            self.change(tries=self.state.tries + 1)
            self.commands.append(solve)
            return
        self.close(id)
        self.change(phase="idle")
        if kind == "done" and result.round == self.state.round:
            self.grant(result)
        # What the round was about has changed by what it granted: that alone opens no other.
        self.change(about=(self.claimants, self.free()))

    def grant(self, result):
        free = set(self.free())
        for app, cells in result.cells:
            granted = [cell for cell in cells if cell in free]
            if app not in self.claimants or not granted:
                continue
            until = self.at + self.settings.lease_s
            leases = []
            for cell in granted:
                free.discard(cell)
                lease = Lease(self.name(), app, "", 0, (Holding(cell, "yarn.io/gpu"),), until=until)
                leases.append(lease)
                self.set(Held(lease), SetTimer(f"end:{lease.id}", until))
            self.commands.append(Grant(self.name(), app, tuple(leases)))

    # Leases.

    def expire(self, lease):
        held = self.state.leases.get(lease)
        if held is None or held.by is not None:
            return
        if not self.is_wanted(held.lease):
            self.renew(lease)
            return
        by = self.at + self.settings.grace_s
        self.set(replace(held, by=by), SetTimer(f"gone:{lease}", by))
        self.give(Revoke(f"{lease}/revoke", held.lease.app, lease, by, LegacyText("others wait")))

    def renew(self, lease):
        held, until = self.state.leases[lease], self.at + self.settings.lease_s
        self.set(replace(held, lease=replace(held.lease, until=until)), SetTimer(f"end:{lease}", until),
                 Renew(self.name(), held.lease.app, lease, until))  # fmt: skip

    def drop(self, lease):
        self.close(f"{lease}/revoke")
        app = self.state.leases[lease].lease.app
        self.change(leases={id: held for id, held in self.state.leases.items() if id != lease})
        self.commands.append(LeaseEnded(self.name(), app, lease))

    def end_leases_of_those_that_left(self):
        here = set(self.claimants)
        for lease, held in self.state.leases.items():
            if held.lease.app not in here:
                self.drop(lease)
                self.commands += [SetTimer(f"end:{lease}", None), SetTimer(f"gone:{lease}", None)]

    def is_wanted(self, lease):
        """Whether another application wants more than it has."""
        others = (app for app in self.claimants if app != lease.app)
        return any(self.state.wants.get(app, 1) > self.count(app) for app in others)

    # What there is.

    def free(self):
        taken = {holding.cell for held in self.state.leases.values() for holding in held.lease.holdings}
        cells = self.settings.cells
        known = self.view.topology
        if not cells and known.levels:
            cells = tuple(cell.id for cell in known.at(known.levels[-1]))
        return tuple(
            cell for cell in cells if cell not in taken and not (cell in known.cells and known.is_broken(cell))
        )

    def count(self, app):
        return sum(held.lease.app == app for held in self.state.leases.values())

    def name(self):
        """A new id."""
        self.change(counter=self.state.counter + 1)
        return f"{self.path}#{self.state.counter}"

    def give(self, command):
        """Give a command, and again after a restart, until it is closed."""
        self.change(open={**self.state.open, command.id: command})
        self.commands.append(command)

    def close(self, id):
        self.change(open={name: command for name, command in self.state.open.items() if name != id})

    def set(self, held, *commands):
        self.change(leases={**self.state.leases, held.lease.id: held})
        self.commands += commands

    def change(self, **fields):
        self.state = replace(self.state, **fields)


KIND = Kind(
    "toy-auction",
    lambda pool, registry: Auction(pool),
    {
        "toy-auction/1": AuctionState,
        "toy-auction.settings/1": Settings,
        "toy-auction.question": Question,
        "toy-auction.answer": Answer,
        "toy-auction.still-needed": StillNeeded,
        "toy-auction.provoke": Provoke,
        "toy-auction.problem": Problem,
        "toy-auction.allocation": Allocation,
    },
    parameters=Settings,
    messages=frozenset({"toy-auction.answer", "toy-auction.still-needed", "toy-auction.provoke"}),
    solvers={"toy-auction.problem": allocate},
)
