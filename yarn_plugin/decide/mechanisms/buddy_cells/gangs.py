"""Gangs of pods: what they ask for, and what they hold."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain, repeat

from yarn_plugin.decide.mechanisms.buddy_cells.cells import OPPORTUNISTIC, PhysicalCell, VirtualCell


@dataclass(frozen=True, slots=True)
class Request:
    """A gang: pods that start together or not at all, in one chain, each pod's leaves on one node.

    `priority`: `OPPORTUNISTIC`, or 0 to 1,000 within its virtual cluster. `pods`: number of pods and leaves of each.
    `leaf_type`: "" for any. `pinned`: the pinned cell to use, "" for none. `lazy`: when work of its virtual cluster
    with a higher priority takes its place there, it goes on as opportunistic work instead of being evicted.
    `ignores_exclusions`: excluded nodes may be used.
    """

    gang: str
    cluster: str
    priority: int
    pods: tuple[tuple[int, int], ...]
    leaf_type: str = ""
    pinned: str = ""
    lazy: bool = False
    ignores_exclusions: bool = False
    sizes: tuple[int, ...] = field(init=False, repr=False, compare=False)
    """The leaves of each pod, ascending."""

    def __post_init__(self) -> None:
        sizes = sorted(size for number, size in self.pods for _ in range(number))
        object.__setattr__(self, "sizes", tuple(sizes))

    @property
    def guaranteed(self) -> bool:
        """Whether it is placed on cells of its virtual cluster."""
        return self.priority > OPPORTUNISTIC


@dataclass(frozen=True, slots=True)
class Placement:
    """The leaves of each pod, in the order of `Request.sizes`.

    `virtual`: the leaves of the virtual cluster that they serve, in the same order; None if opportunistic.
    """

    physical: tuple[tuple[PhysicalCell, ...], ...]
    virtual: tuple[tuple[VirtualCell, ...], ...] | None = None

    def leaves(self) -> Iterator[PhysicalCell]:
        """All its leaves."""
        return chain.from_iterable(self.physical)

    def pairs(self) -> Iterator[tuple[PhysicalCell, VirtualCell | None]]:
        """All its leaves, each with the virtual leaf that it serves."""
        if self.virtual is None:
            return zip(self.leaves(), repeat(None))
        return zip(self.leaves(), chain.from_iterable(self.virtual), strict=True)


class Stage(StrEnum):
    """Where a gang stands. `PREEMPTED`: higher-priority work has claimed some of its leaves; it must leave."""

    ALLOCATED = "allocated"
    PREEMPTING = "preempting"
    PREEMPTED = "being_preempted"


class Gang:
    """A gang that holds leaves, or reserves them while it waits for others to leave.

    `slots`: the pod in each place of the placement, None where none runs. `downgraded`: it was placed as guaranteed
    work and has lost its virtual cells; it goes on as opportunistic work.
    """

    __slots__ = ("downgraded", "placement", "request", "slots", "stage", "waiting")

    def __init__(self, request: Request, placement: Placement, stage: Stage) -> None:
        self.request, self.placement, self.stage = request, placement, stage
        self.downgraded = False
        self.slots: tuple[str | None, ...] = (None,) * len(placement.physical)
        self.waiting: frozenset[str] = frozenset()
        """While preempting: the pods that wait for the victims to leave."""

    @property
    def name(self) -> str:
        """Its name, unique in the cluster."""
        return self.request.gang

    @property
    def priority(self) -> int:
        """The priority at which it holds its leaves."""
        return OPPORTUNISTIC if self.placement.virtual is None else self.request.priority

    @property
    def pods(self) -> tuple[str, ...]:
        """Its running pods."""
        return tuple(pod for pod in self.slots if pod is not None)

    def empty_slot(self, size: int) -> int | None:
        """The first place for a pod of a size in which none runs."""
        for slot, (pod, leaves) in enumerate(zip(self.slots, self.placement.physical, strict=True)):
            if pod is None and len(leaves) == size:
                return slot
        return None

    def __repr__(self) -> str:
        return f"<gang {self.name} {self.stage}>"
