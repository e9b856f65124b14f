"""A plan for the communication of a job: an option for each operation, and the order of all motifs on each channel."""

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass

from themis_agent.communication.errors import PlanError
from themis_agent.communication.iteration import Iteration, Operation
from themis_agent.communication.options import Option, Placed, placed


@dataclass(frozen=True, slots=True)
class Turn:
    """A motif in the order of a channel: a step of an operation (its place among the operations of an iteration).
    `lag`: how many iterations later than the round that it is executed in.
    """

    operation: int
    step: int
    lag: int = 0


@dataclass(frozen=True, slots=True)
class Plan:
    """`turns`: for each channel the order of its motifs, which repeats in every round. `period_s`: what an iteration is
    expected to take.
    """

    operations: tuple[Operation, ...]
    options: tuple[Option, ...]
    turns: tuple[tuple[Turn, ...], ...]
    period_s: float = 0.0

    def steps_of(self, index: int) -> tuple[Placed, ...]:
        """The motifs of an operation."""
        return placed(self.operations[index], self.options[index])


def in_order(operations: tuple[Operation, ...], channels: int) -> Plan:
    """Every operation whole, one after the other on the first channel."""
    turns = tuple(Turn(index, 0) for index in range(len(operations)))
    return Plan(operations, tuple(Option() for _ in operations), (turns, *((),) * (channels - 1)))


def planned(iteration: Iteration, options: Mapping[int, Option], order: Iterable[Iterable[tuple[int, int, int]]],
            period_s: float) -> Plan:  # fmt: skip
    """A plan from options and an order of tasks: (task, step, lag)."""
    numbers = {task: index for index, task in enumerate(iteration.operations)}
    operations = tuple(
        operation for task in iteration.operations if (operation := iteration.tasks[task].operation) is not None
    )
    turns = tuple(tuple(Turn(numbers[task], step, lag) for task, step, lag in one) for one in order)
    return Plan(operations, tuple(options[task] for task in iteration.operations), turns, period_s)


def check(plan: Plan, edges: Set[tuple[int, int]]) -> None:
    """Refuse a plan whose order would deadlock. `edges`: (i, j) if the program waits for operation i before it calls
    operation j of the same iteration.

    Raises:
        PlanError: motifs are missing, too many or on the wrong channel; or an operation would wait for one that the
            program calls only after it.
    """
    if any(turn.lag for turns in plan.turns for turn in turns):
        raise PlanError("plan: orders motifs across iterations; a program that waits at their end could not follow")
    expected = {
        (index, step): one.channel
        for index in range(len(plan.operations))
        for step, one in enumerate(plan.steps_of(index))
    }
    listed = [(turn.operation, turn.step) for turns in plan.turns for turn in turns]
    if sorted(listed) != sorted(expected):
        raise PlanError(f"plan: orders {len(listed)} motifs; must be each of its {len(expected)} once")
    for channel, turns in enumerate(plan.turns):
        for turn in turns:
            if expected[turn.operation, turn.step] != channel:
                raise PlanError(f"plan: a motif of operation {turn.operation} is ordered on channel {channel}")
    # What goes before what, by operation, in one round: on a channel, within an operation, and by the program.
    before: dict[tuple[int, int], set[tuple[int, int]]] = {key: set() for key in expected}
    for turns in plan.turns:
        earlier: tuple[int, int] | None = None
        for turn in turns:
            if earlier is not None:
                before[turn.operation, turn.step].add(earlier)
            earlier = (turn.operation, turn.step)
    for index in range(len(plan.operations)):
        for step, one in enumerate(plan.steps_of(index)):
            before[index, step].update((index, other) for other in one.step.after)
    for first, then in edges:
        for step in range(len(plan.steps_of(then))):
            before[then, step].update((first, other) for other in range(len(plan.steps_of(first))))
    _refuse_circle(before)


def _refuse_circle(before: Mapping[tuple[int, int], set[tuple[int, int]]]) -> None:
    left = {key: len(earlier) for key, earlier in before.items()}
    after: dict[tuple[int, int], list[tuple[int, int]]] = {key: [] for key in before}
    for key, earlier in before.items():
        for one in earlier:
            after[one].append(key)
    free = [key for key, count in left.items() if not count]
    while free:
        for later in after[free.pop()]:
            left[later] -= 1
            if not left[later]:
                free.append(later)
    if stuck := sorted(key for key, count in left.items() if count):
        raise PlanError(
            f"plan: would deadlock: operation {stuck[0][0]} is ordered after one that the program calls only "
            "when it has ended"
        )
