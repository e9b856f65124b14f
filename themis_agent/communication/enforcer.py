"""Executes the operations that a program calls as the motifs of a plan, in the plan's order (Syndicate section 4.4.4).

For any kind of channel: what a motif does, and how it tells that it has ended, is the job's. There is no thread for the
order: a motif begins in the thread that took away the last thing that held it back, the program's or a channel's.
"""

import hashlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from themis_agent.communication.capture import Event, Seen, What
from themis_agent.communication.comparing import Done
from themis_agent.communication.errors import CommunicationError, DifferentOperationsError
from themis_agent.communication.iteration import Operation
from themis_agent.communication.options import Option, Placed, placed
from themis_agent.communication.order import Key, Order
from themis_agent.communication.plan import Plan

_AS_CALLED = Option()

LONGEST = 10_000
"""Operations of an iteration that is traced. A program that never ends one would fill its memory with the trace."""


class Job(Protocol):
    """What an operation does. `check`: begins to compare a number with that of the other processes, which fails where
    they differ. `begin`: begins a motif, and returns at once. `finish`: makes the result whole after all motifs.
    """

    def check(self, fingerprint: int, done: Done) -> None:
        """Begin to compare."""

    def begin(self, number: int, motif: Placed, done: Done) -> None:
        """Begin a motif: the step of this number."""

    def finish(self) -> None:
        """All motifs have ended."""


class Plans(Protocol):
    """Where plans come from."""

    def at(self, iteration: int) -> tuple[int, Plan | None]:
        """The version of the plan for an iteration, and the plan; 0 and None: none. May wait.

        Raises:
            CommitError: it cannot be known.
        """

    def dropped(self, iteration: int) -> None:
        """The program did not call what the plan expects: it is no longer in force."""


class Completion:
    """The end of an operation."""

    def __init__(self) -> None:
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._then: list[Done] = []
        self.error: BaseException | None = None

    @property
    def ended(self) -> bool:
        """Whether it has ended, well or not."""
        return self._ended.is_set()

    def end(self, error: BaseException | None = None) -> None:
        """End it, unless it has ended."""
        with self._lock:
            if self._ended.is_set():
                return
            self.error = error
            self._ended.set()
            waiting, self._then = self._then, []
        for call in waiting:
            call(error)

    def then(self, call: Done) -> None:
        """Call this at the end; at once, if it has ended."""
        with self._lock:
            if not self._ended.is_set():
                self._then.append(call)
                return
        call(self.error)

    def wait(self) -> None:
        """Wait for the end.

        Raises:
            CommunicationError: the operation has failed.
        """
        self._ended.wait()
        if self.error is not None:
            raise CommunicationError(str(self.error)) from self.error


@dataclass
class _Running:
    operation: int
    job: Job
    steps: tuple[Placed, ...]
    since: float
    completion: Completion = field(default_factory=Completion)
    left: int = 0
    waits_for: list[int] = field(default_factory=list)


class Enforcer:
    """The enforcer of a process, over all its groups. `timeout_s`: of an operation, from its call on. `observe`: gets
    every iteration of at most `longest` operations when it is over. `abandon`: called once with the error when
    the first operation fails; it must not wait.
    """

    def __init__(
        self,
        channels: int,
        plans: Plans,
        timeout_s: float,
        observe: Callable[[Seen], None] = lambda seen: None,
        abandon: Callable[[BaseException], None] = lambda error: None,
        longest: int = LONGEST,
    ) -> None:
        self._plans, self._timeout_s, self._observe, self._abandon = plans, timeout_s, observe, abandon
        self._order = Order(channels)
        self._lock = threading.RLock()
        self._iteration, self._version = 0, 0
        self._longest, self._calls = longest, 0
        self._operations: list[Operation] = []
        self._events: list[Event] = []
        self._running: dict[tuple[int, int], _Running] = {}
        self._free_at = [0.0] * channels
        self._in_flight = self._unchecked = 0
        # What a motif has failed with, while checks that have not ended may still tell why.
        self._failing: BaseException | None = None
        self._issued: dict[Key, float] = {}
        self._held_since: float | None = None
        self._held_s = 0.0
        self._began = time.perf_counter()
        self._broken: BaseException | None = None
        self._closed = threading.Event()
        self._watchdog = threading.Thread(target=self._watch, name="communication watchdog", daemon=True)
        self._watchdog.start()

    @property
    def iteration(self) -> int:
        """The number of the iteration; the first is 0."""
        return self._iteration

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed.is_set()

    @property
    def version(self) -> int:
        """Of the plan in force; 0: none."""
        return self._version

    def call(self, operation: Operation, job: Job) -> tuple[Completion, int, int]:
        """The program calls an operation; return its end, its iteration and its place there.

        Raises:
            CommunicationError: an operation has failed before.
        """
        with self._lock:
            self._refuse_if_broken()
            index, self._calls = self._calls, self._calls + 1
            if index < self._longest:
                self._operations.append(operation)
            plan = self._order.plan
            if plan is not None and (index >= len(plan.operations) or plan.operations[index] != operation):
                self._drop(index)
                plan = None
            option = plan.options[index] if plan is not None else _AS_CALLED
            running = _Running(index, job, placed(operation, option), time.perf_counter())
            running.left = len(running.steps) + 1
            running.waits_for = [len(one.step.after) for one in running.steps]
            self._running[self._iteration, index] = running
            self._note(What.CALL, index)
            key = (self._iteration, index)
            self._unchecked += 1
            job.check(self._fingerprint(index, operation), lambda error: self._checked(key, error))
            if plan is None:
                self._order.call(Key(*key, 0), 0)
            for step, one in enumerate(running.steps):
                if not one.step.after:
                    self._begin(self._order.ready(Key(*key, step)))
            return running.completion, *key

    def next_iteration(self) -> None:
        """The program has ended an iteration.

        Raises:
            CommunicationError: an operation has failed before, or the next plan cannot be known.
        """
        with self._lock:
            self._refuse_if_broken()
            plan = self._order.plan
            if plan is not None and self._calls < len(plan.operations):
                self._drop(self._calls)
            now = time.perf_counter()
            self._account(now)
            seen = Seen(
                self._iteration,
                now - self._began,
                tuple(self._operations),
                tuple(self._events),
                self._version,
                self._held_s,
            )
            traced = self._calls <= self._longest
        if traced:
            self._observe(seen)
        try:
            version, plan = self._plans.at(self._iteration + 1)
        except CommunicationError as problem:
            self.fail(problem)
            raise
        with self._lock:
            self._iteration += 1
            self._calls, self._operations, self._events = 0, [], []
            self._began, self._held_s = time.perf_counter(), 0.0
            self._version = version
            self._begin(self._order.begin(self._iteration, plan))

    def waiting(self, iteration: int, operation: int, over: bool) -> None:
        """The program begins to wait for an operation, or goes on."""
        with self._lock:
            if iteration == self._iteration:
                self._note(What.GO_ON if over else What.WAIT, operation)

    def fail(self, error: BaseException) -> None:
        """End all operations, and those to come, with this error."""
        with self._lock:
            first = self._broken is None
            if first:
                self._broken = error
            ending = [running.completion for running in self._running.values()]
            self._running.clear()
        if first:
            self._abandon(error)
        for completion in ending:
            completion.end(self._broken)

    def close(self) -> None:
        """End: what still runs fails."""
        self._closed.set()
        self.fail(CommunicationError("the process group was destroyed"))
        if threading.current_thread() is not self._watchdog:
            self._watchdog.join()

    def _refuse_if_broken(self) -> None:
        if self._broken is not None:
            raise CommunicationError(f"an earlier operation failed: {self._broken}") from self._broken

    def _drop(self, index: int) -> None:
        self._begin(self._order.drop(self._iteration, index))
        self._version = 0
        self._plans.dropped(self._iteration)

    def _fingerprint(self, index: int, operation: Operation) -> int:
        """The same in all processes that do the same under the same plan; below 2^62."""
        same = f"{self._version} {self._iteration} {index} {operation}"
        return int.from_bytes(hashlib.blake2b(same.encode(), digest_size=8).digest()) >> 2

    def _begin(self, motifs: list[tuple[int, Key]]) -> None:
        for channel, key in motifs:
            running = self._running.get((key.iteration, key.operation))
            if running is None:
                continue
            now = time.perf_counter()
            self._issued[key] = now
            self._in_flight += 1
            try:
                running.job.begin(key.step, running.steps[key.step], partial(self._ended, key, channel))
            except RuntimeError as problem:
                self.fail(problem)
                return
        self._account(time.perf_counter())

    def _ended(self, key: Key, channel: int, error: BaseException | None) -> None:
        whole = (key.iteration, key.operation)
        with self._lock:
            now = time.perf_counter()
            self._in_flight -= 1
            began = max(self._issued.pop(key, now), self._free_at[channel])
            self._free_at[channel] = now
            if key.iteration == self._iteration:
                self._note(What.BEGIN, key.operation, key.step, channel, began)
                self._note(What.END, key.operation, key.step, channel, now)
            running = self._running.get(whole)
            if running is not None and error is None:
                for step, one in enumerate(running.steps):
                    if key.step in one.step.after:
                        running.waits_for[step] -= 1
                        if not running.waits_for[step]:
                            self._begin(self._order.ready(Key(*whole, step)))
            self._account(now)
            if error is not None:
                # Perhaps because another process has found out that operations differ: a check will tell.
                self._failing = self._failing or error
                if self._unchecked:
                    return
        if error is not None:
            self.fail(error)
        else:
            self._part_ended(whole)

    def _checked(self, whole: tuple[int, int], error: BaseException | None) -> None:
        with self._lock:
            self._unchecked -= 1
            failing = self._failing if not self._unchecked or error is not None else None
        if isinstance(error, DifferentOperationsError) or (error is not None and failing is None):
            self.fail(error)
        elif failing is not None:
            self.fail(failing)
        else:
            self._part_ended(whole)

    def _part_ended(self, whole: tuple[int, int]) -> None:
        """A motif or the check of an operation has ended well."""
        with self._lock:
            running = self._running.get(whole)
            if running is None:
                return
            running.left -= 1
            if running.left:
                return
            del self._running[whole]
            if whole[0] == self._iteration:
                self._note(What.COMPLETE, whole[1])
        try:
            running.job.finish()
        except RuntimeError as problem:
            running.completion.end(problem)
            self.fail(problem)
            return
        running.completion.end()

    def _note(self, what: What, operation: int, step: int = 0, channel: int = 0, at: float | None = None) -> None:
        if operation < self._longest:
            at = time.perf_counter() if at is None else at
            self._events.append(Event(what, at - self._began, operation, step, channel))

    def _account(self, now: float) -> None:
        """Count the time in which motifs are ready, nothing runs, and the order alone holds them back."""
        if self._held_since is not None:
            self._held_s += now - max(self._held_since, self._began)
        self._held_since = now if self._order.held and not self._in_flight else None

    def _watch(self) -> None:
        while not self._closed.wait(min(1.0, self._timeout_s / 4)):
            with self._lock:
                oldest = min(self._running.values(), key=lambda one: one.since, default=None)
            if oldest is not None and time.perf_counter() - oldest.since > self._timeout_s:
                late = CommunicationError(f"operation {oldest.operation} did not end within {self._timeout_s:g} s")
                self.fail(self._failing or late)
