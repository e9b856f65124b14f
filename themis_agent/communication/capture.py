"""From what a process saw in some iterations to the iteration that a plan is made for (interface A, Syndicate 4.4.1).

A program cannot tell what it will wait for. It is taken to wait for operation i before it calls operation j unless, in
one of the iterations that were seen, it called j before i had ended; what it explicitly waited for, it waits for.
"""

import enum
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from themis_agent.communication.iteration import Iteration, Need, Operation, Task


class What(enum.StrEnum):
    """What happened."""

    CALL = "call"
    """The program called an operation."""
    WAIT = "wait"
    """It began to wait for one."""
    GO_ON = "go_on"
    """It had waited long enough."""
    BEGIN = "begin"
    """A motif began on its channel."""
    END = "end"
    """A motif ended."""
    COMPLETE = "complete"
    """All motifs of an operation had ended."""


@dataclass(frozen=True, slots=True)
class Event:
    """At `at` seconds since its iteration began. `step`, `channel`: of a motif."""

    what: What
    at: float
    operation: int
    step: int = 0
    channel: int = 0


@dataclass(frozen=True, slots=True)
class Seen:
    """An iteration as a process saw it. `version`: of the plan in force; 0: none. `held_s`: how long motifs were ready
    and no channel was in use, as only the order held them back.
    """

    number: int
    seconds: float
    operations: tuple[Operation, ...]
    events: tuple[Event, ...]
    version: int = 0
    held_s: float = 0.0


def typical(seen: Sequence[Seen]) -> list[Seen]:
    """The iterations with the most frequent operations: of the first ones DDP still arranges its buckets."""
    counts: dict[tuple[Operation, ...], int] = {}
    for one in seen:
        counts[one.operations] = counts.get(one.operations, 0) + 1
    if not counts:
        return []
    most = max(counts, key=lambda operations: counts[operations])
    return [one for one in seen if one.operations == most]


def waits(seen: Sequence[Seen]) -> frozenset[tuple[int, int]]:
    """(i, j): the program waits for operation i before it calls j. `seen`: of the same operations."""
    count = len(seen[0].operations) if seen else 0
    found = {(i, j) for j in range(count) for i in range(j)}
    for one in seen:
        complete = {event.operation: event.at for event in one.events if event.what is What.COMPLETE}
        called = {event.operation: event.at for event in one.events if event.what is What.CALL}
        waited = _waited(one)
        found -= {
            (i, j) for i, j in found if (i, j) not in waited and called.get(j, 0.0) < complete.get(i, float("inf"))
        }
    return frozenset(found)


def _waited(one: Seen) -> set[tuple[int, int]]:
    """What the program waited for explicitly before each call."""
    over: set[int] = set()
    found: set[tuple[int, int]] = set()
    for event in one.events:
        if event.what is What.GO_ON:
            over.add(event.operation)
        elif event.what is What.CALL:
            found |= {(other, event.operation) for other in over if other < event.operation}
    return found


def iteration_of(seen: Sequence[Seen]) -> Iteration:
    """The tasks of a typical iteration: computation between calls and waits (medians), and the operations.

    What is still running at the end is needed by the next iteration: its optimizer step has used it.
    """
    chosen = typical(seen)
    same = [one for one in chosen if _names(one) == _names(chosen[0])]
    computed = [_computed(one) for one in same]
    edges = waits(chosen)
    tasks: list[Task] = []
    number: dict[int, int] = {}
    waiting: list[Need] = []
    last: int | None = None

    def compute(seconds: float, name: str) -> None:
        nonlocal last, waiting
        needs = ([Need(last)] if last is not None else []) + waiting
        tasks.append(Task(name, tuple(needs), seconds))
        last, waiting = len(tasks) - 1, []

    for place, (what, operation) in enumerate(_names(same[0])):
        seconds = statistics.median(one[place] for one in computed)
        if what is What.CALL:
            waiting += [Need(number[i]) for i, j in sorted(edges) if j == operation and Need(number[i]) not in waiting]
            compute(seconds, f"before {same[0].operations[operation].kind} {operation}")
            assert last is not None
            tasks.append(Task(f"{same[0].operations[operation].kind} {operation}", (Need(last),),
                              operation=same[0].operations[operation]))  # fmt: skip
            number[operation] = len(tasks) - 1
        else:
            if seconds > 0:
                compute(seconds, f"before waiting for {operation}")
            waiting.append(Need(number[operation]))
    waiting = [Need(task) for task in number.values()]
    compute(statistics.median(one[-1] for one in computed), "rest")
    return Iteration(tuple(tasks))


def _names(one: Seen) -> tuple[tuple[What, int], ...]:
    return tuple((event.what, event.operation) for event in one.events if event.what in (What.CALL, What.GO_ON))


def _computed(one: Seen) -> list[float]:
    """The seconds of computation before each call and each wait's end, and after the last. Waits in C++ are not seen:
    after its last call the program is taken to wait for all operations.
    """
    found: list[float] = []
    since = 0.0
    paused: float | None = None
    for event in one.events:
        if event.what is What.WAIT:
            paused = event.at
        elif event.what is What.GO_ON:
            found.append(max((paused if paused is not None else event.at) - since, 0.0))
            since, paused = event.at, None
        elif event.what is What.CALL:
            found.append(max(event.at - since, 0.0))
            since = event.at
    since = max([since, *(event.at for event in one.events if event.what is What.COMPLETE)])
    return [*found, max(one.seconds - since, 0.0)]
