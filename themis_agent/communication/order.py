"""Which motif may begin now (Syndicate section 4.4.4, pseudocode 5).

Every channel has a queue of the motifs that it is to execute. The one at its head begins when the program has called
its operation and the motifs that it waits for have ended: nothing overtakes it. The thesis has one counter for all
channels; with a queue for each, a channel does not wait for another.
"""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from themis_agent.communication.plan import Plan, Turn


@dataclass(frozen=True, slots=True, order=True)
class Key:
    """A motif: a step of an operation of an iteration."""

    iteration: int
    operation: int
    step: int


class Order:
    """The queues of the channels. All processes make the same calls in the same order of iterations and operations, so
    that their queues are the same.
    """

    def __init__(self, channels: int) -> None:
        self._queues: list[deque[Key]] = [deque() for _ in range(channels)]
        self._ready: set[Key] = set()
        self._queued: set[Key] = set()
        self._plan: Plan | None = None
        self._since = 0

    @property
    def plan(self) -> Plan | None:
        """The plan in force; None: in the order of the program."""
        return self._plan

    @property
    def held(self) -> int:
        """Motifs that could begin, but for the order."""
        return len(self._ready)

    def begin(self, iteration: int, plan: Plan | None) -> list[tuple[int, Key]]:
        """Begin an iteration under a plan; return what begins now, as (channel, motif)."""
        first = plan is not self._plan
        if first:
            self._leave(iteration, lambda key: key.iteration < iteration)
            self._plan, self._since = plan, iteration
        if plan is not None:
            for channel, turns in enumerate(plan.turns):
                earliest = iteration - max((turn.lag for turn in turns), default=0) if first else iteration
                for at in range(earliest, iteration + 1):
                    self._queue(channel, at, turns)
        return self._begin_ready()

    def call(self, key: Key, channel: int) -> None:
        """Without a plan: the program has called an operation; its motif is next on this channel."""
        self._append(channel, key)

    def ready(self, key: Key) -> list[tuple[int, Key]]:
        """Nothing but the order holds this motif back any more; return what begins now."""
        self._ready.add(key)
        return self._begin_ready()

    def drop(self, iteration: int, operation: int) -> list[tuple[int, Key]]:
        """Leave the plan before this operation of this iteration, which is not the one that it expects. What the
        program has called before is executed in the plan's order; then all goes in the order of the program.
        """
        self._leave(iteration + 1, lambda key: (key.iteration, key.operation) < (iteration, operation))
        self._plan = None
        return self._begin_ready()

    def _leave(self, until: int, stays: Callable[[Key], bool]) -> None:
        """End the plan: only motifs of called operations stay in the queues, also those of later rounds."""
        if self._plan is not None:
            for channel, turns in enumerate(self._plan.turns):
                latest = until - min((turn.lag for turn in turns), default=0)
                for at in range(until, latest + 1):
                    self._queue(channel, at, turns)
        for number, queue in enumerate(self._queues):
            self._queues[number] = deque(key for key in queue if stays(key))
        self._queued = {key for queue in self._queues for key in queue}

    def _queue(self, channel: int, at: int, turns: Iterable[Turn]) -> None:
        for turn in turns:
            if at + turn.lag >= self._since:
                self._append(channel, Key(at + turn.lag, turn.operation, turn.step))

    def _append(self, channel: int, key: Key) -> None:
        if key not in self._queued:
            self._queued.add(key)
            self._queues[channel].append(key)

    def _begin_ready(self) -> list[tuple[int, Key]]:
        found = []
        for channel, queue in enumerate(self._queues):
            while queue and queue[0] in self._ready:
                key = queue.popleft()
                self._ready.remove(key)
                self._queued.remove(key)
                found.append((channel, key))
        return found
