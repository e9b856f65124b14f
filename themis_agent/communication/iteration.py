"""One iteration of a training job: what it computes, what it communicates, and what waits for what."""

import enum
from dataclasses import dataclass
from functools import cached_property

from themis_agent.communication.errors import PlanError


class Kind(enum.StrEnum):
    """A collective operation, as the MPI standard has them."""

    ALL_REDUCE = "all_reduce"
    ALL_TO_ALL = "all_to_all"
    ALL_GATHER = "all_gather"
    REDUCE_SCATTER = "reduce_scatter"
    REDUCE = "reduce"
    BROADCAST = "broadcast"
    OTHER = "other"
    """One that is always executed as it was called, such as a barrier."""


@dataclass(frozen=True, slots=True)
class Operation:
    """A collective operation of an iteration, as every process calls it.

    `elements`: of the input of one process. `dtype`: of an element, such as "float32"; with `bytes_each` bytes.
    `ranks`: processes that take part. `group`: the name of their group.
    """

    kind: Kind
    elements: int
    dtype: str
    bytes_each: int
    ranks: int
    group: str = ""

    @property
    def bytes(self) -> int:
        """The size of the input of one process."""
        return self.elements * self.bytes_each


@dataclass(frozen=True, slots=True)
class Need:
    """What a task waits for: another task, `lag` iterations earlier."""

    task: int
    lag: int = 0


@dataclass(frozen=True, slots=True)
class Task:
    """A task of an iteration: computation of `seconds`, or a collective operation."""

    name: str
    needs: tuple[Need, ...] = ()
    seconds: float = 0.0
    operation: Operation | None = None


@dataclass(frozen=True)
class Iteration:
    """The tasks of an iteration in the order in which the program issues them. One stream executes the computation, in
    this order (Syndicate section 4.3.1).

    Raises:
        PlanError: a task needs one that does not exist, or a later one of the same iteration.
    """

    tasks: tuple[Task, ...]

    def __post_init__(self) -> None:
        for place, task in enumerate(self.tasks):
            for need in task.needs:
                if not 0 <= need.task < len(self.tasks) or need.lag < 0 or (need.lag == 0 and need.task >= place):
                    raise PlanError(f"task {task.name!r} needs task {need.task} lag {need.lag}: must be an earlier one")

    @cached_property
    def operations(self) -> tuple[int, ...]:
        """The tasks that communicate."""
        return tuple(place for place, task in enumerate(self.tasks) if task.operation is not None)

    @cached_property
    def compute_s(self) -> float:
        """The time that an iteration takes if communication takes none."""
        return sum(task.seconds for task in self.tasks)
