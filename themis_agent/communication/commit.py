"""All processes of a job begin a plan at the same iteration: prepare, vote, decision, acknowledgement (Syndicate 4.5).

What is agreed stands in a store that all processes reach. The switch iteration alone is not safe: a process that learns
of the decision late would have passed it. So a vote promises not to begin the iteration `MARGIN` after it without the
decision: only then does the data plane wait, which section 4.4.1 of the thesis says it never does. A process that has
waited too long decides itself, to abort: the first decision in the store is the one that counts, so a coordinator may
be killed at any point.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from pydantic import BaseModel, ConfigDict, ValidationError

from themis_agent.communication.errors import CommitError, PlanError
from themis_agent.communication.plan import Plan

MARGIN = 3
"""Iterations between the latest vote and the switch."""

IDLE_S, BUSY_S = 0.05, 0.002
"""How often the store is asked, while nothing is being agreed, and while something is."""


class Store(Protocol):
    """Values by keys, the same for all processes. Its methods raise RuntimeError when it is away."""

    def set(self, key: str, value: str) -> None:
        """Set a value."""

    def get(self, key: str) -> str | None:
        """The value; None: there is none."""

    def set_first(self, key: str, value: str) -> str:
        """Set the value if there is none; return the one that is there then."""


class Proposal(BaseModel):
    """What is to be agreed. `plan`: None for the order of the program."""

    model_config = ConfigDict(extra="forbid")
    version: int
    plan: Plan | None


class Vote(BaseModel):
    """`iteration`: the one that the process is in; None: it refuses, for this reason."""

    iteration: int | None = None
    reason: str = ""


class Decision(BaseModel):
    """`at`: the first iteration of the plan; None: the plan before stays, for this reason."""

    at: int | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of a proposal, by its number."""

    number: int

    @property
    def proposal(self) -> str:
        """Of the proposal."""
        return f"plan/{self.number}/proposal"

    @property
    def decision(self) -> str:
        """Of the decision."""
        return f"plan/{self.number}/decision"

    def vote(self, rank: int) -> str:
        """Of the vote of a process."""
        return f"plan/{self.number}/vote/{rank}"

    def acknowledgement(self, rank: int) -> str:
        """Of the acknowledgement of a process."""
        return f"plan/{self.number}/acknowledged/{rank}"


class Participant:
    """The part of one process. `check`: raises PlanError for a plan that does not fit the program. `timeout_s`: how
    long an iteration waits for a decision at most. `poll` is called by a thread of its own, `at` by the program.
    """

    def __init__(self, store: Store, rank: int, timeout_s: float, check: Callable[[Plan], None]) -> None:
        self._store, self._rank, self._timeout_s, self._check = store, rank, timeout_s, check
        self._changed = threading.Condition()
        self._iteration = 0
        self._number = 1
        self._voted: tuple[Proposal, int] | None = None
        self._agreed: list[tuple[int, Proposal]] = []
        self._lost: str | None = None
        self.blocked_s = 0.0
        self.dropped_versions: set[int] = set()

    def at(self, iteration: int) -> tuple[int, Plan | None]:
        """The version and plan for an iteration that begins now. Waits only if this process has voted for a plan whose
        first iteration this may be.

        Raises:
            CommitError: the store is away while a plan is in doubt.
        """
        with self._changed:
            began = time.monotonic()
            while self._voted is not None and iteration >= self._voted[1] + MARGIN:
                left = self._timeout_s - (time.monotonic() - began)
                if self._lost is not None or left <= 0:
                    break
                self._changed.wait(left)
            self.blocked_s += time.monotonic() - began
            in_doubt = self._voted is not None and iteration >= self._voted[1] + MARGIN
        if in_doubt:
            self._give_up()
        with self._changed:
            self._iteration = iteration
            while len(self._agreed) > 1 and self._agreed[1][0] <= iteration:
                del self._agreed[0]
            if not self._agreed or self._agreed[0][0] > iteration:
                return 0, None
            proposal = self._agreed[0][1]
            if proposal.plan is None or proposal.version in self.dropped_versions:
                return 0, None
            return proposal.version, proposal.plan

    def dropped(self, iteration: int) -> None:
        """The plan in force is not used any more."""
        with self._changed:
            if self._agreed and self._agreed[0][0] <= iteration:
                self.dropped_versions.add(self._agreed[0][1].version)

    def poll(self) -> bool:
        """Ask the store for news, and answer it; whether something is being agreed.

        Raises:
            RuntimeError: the store is away.
        """
        keys = Keys(self._number)
        if self._voted is None:
            text = self._store.get(keys.proposal)
            if text is None:
                return False
            self._vote(keys, text)
            return True
        text = self._store.get(keys.decision)
        if text is not None:
            self._note(keys, Decision.model_validate_json(text))
            self._store.set(keys.acknowledgement(self._rank), "")
        return True

    def lose(self, reason: str) -> None:
        """The store is away for good."""
        with self._changed:
            self._lost = reason
            self._changed.notify_all()

    def _vote(self, keys: Keys, text: str) -> None:
        reason = ""
        try:
            proposal = Proposal.model_validate_json(text)
            if proposal.plan is not None:
                self._check(proposal.plan)
        except (ValidationError, PlanError) as problem:
            reason = " ".join(str(problem).split())
            proposal = Proposal(version=0, plan=None)
        with self._changed:
            # Written while the program cannot begin the next iteration: the promise holds from the vote on.
            vote = Vote(reason=reason) if reason else Vote(iteration=self._iteration)
            self._voted = (proposal, self._iteration)
        self._store.set(keys.vote(self._rank), vote.model_dump_json())

    def _note(self, keys: Keys, decision: Decision) -> None:
        with self._changed:
            if self._voted is None or keys.number != self._number:
                return
            if decision.at is not None:
                self._agreed.append((decision.at, self._voted[0]))
            self._voted = None
            self._number += 1
            self._changed.notify_all()

    def _give_up(self) -> None:
        """Decide to abort, unless there is a decision."""
        keys = Keys(self._number)
        reason = f"process {self._rank} had waited {self._timeout_s:g} s for the decision"
        try:
            text = self._store.set_first(keys.decision, Decision(reason=reason).model_dump_json())
        except RuntimeError as problem:
            raise CommitError(f"plan {self._number}: in doubt, and its store is away: {problem}") from None
        self._note(keys, Decision.model_validate_json(text))


class Coordinator:
    """Proposes plans to all processes, one after the other."""

    def __init__(
        self, store: Store, ranks: int, timeout_s: float, sleep: Callable[[float], object] = time.sleep
    ) -> None:
        self._store, self._ranks, self._timeout_s, self._sleep = store, ranks, timeout_s, sleep
        self._number = 0

    def propose(self, plan: Plan | None) -> Decision:
        """Have a plan agreed, and wait until all processes know.

        Raises:
            RuntimeError: the store is away.
        """
        self._number += 1
        keys = Keys(self._number)
        self._store.set(keys.proposal, Proposal(version=self._number, plan=plan).model_dump_json())
        texts = self._collect([keys.vote(rank) for rank in range(self._ranks)])
        votes = [Vote.model_validate_json(text) for text in texts.values()]
        refusals = [vote.reason for vote in votes if vote.iteration is None]
        if len(votes) < self._ranks:
            decision = Decision(reason=f"{self._ranks - len(votes)} of {self._ranks} processes did not vote")
        elif refusals:
            decision = Decision(reason=refusals[0])
        else:
            decision = Decision(at=max(vote.iteration for vote in votes if vote.iteration is not None) + MARGIN)
        decided = Decision.model_validate_json(self._store.set_first(keys.decision, decision.model_dump_json()))
        self._collect([keys.acknowledgement(rank) for rank in range(self._ranks)])
        return decided

    def _collect(self, keys: list[str]) -> dict[str, str]:
        """The values of these keys, as far as they come in time."""
        found: dict[str, str] = {}
        until = time.monotonic() + self._timeout_s
        while len(found) < len(keys) and time.monotonic() < until:
            for key in keys:
                if key not in found and (text := self._store.get(key)) is not None:
                    found[key] = text
            if len(found) < len(keys):
                self._sleep(BUSY_S)
        return found
