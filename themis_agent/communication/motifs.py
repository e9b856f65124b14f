"""Motifs: the parts of a collective operation that are scheduled one by one (Syndicate sections 4.4.2 and C.0.1).

A composition is a motif, or compositions one after the other, or side by side. An operator replaces a motif by a
composition that has the same effect: segmentation divides the payload, splining divides the pattern of transfers.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise

from themis_agent.communication.iteration import Kind, Operation


@dataclass(frozen=True, slots=True)
class Motif:
    """A part of a collective operation, which is not interrupted once it has begun.

    `start`, `stop`: the elements that it is for. An all-to-all, reduce-scatter or all-gather has a part for each
    member: that of member r is `r * stride + start` to `r * stride + stop`. `members`: the ranks that take part.
    `root`: of a reduction or broadcast. `shifts`: an all-to-all sends from rank i to the ranks i + shift modulo the
    number of members.
    """

    kind: Kind
    start: int
    stop: int
    members: tuple[int, ...]
    stride: int = 0
    root: int | None = None
    shifts: tuple[int, int] | None = None

    @property
    def elements(self) -> int:
        """How many elements a process puts in."""
        length = self.stop - self.start
        if self.kind is Kind.ALL_TO_ALL:
            first, last = self.shifts or (0, len(self.members))
            return length * (last - first)
        return length * len(self.members) if self.kind is Kind.REDUCE_SCATTER else length


@dataclass(frozen=True, slots=True)
class Sequential:
    """One after the other."""

    parts: tuple["Composition", ...]


@dataclass(frozen=True, slots=True)
class Parallel:
    """In any order, or at the same time."""

    parts: tuple["Composition", ...]


Composition = Motif | Sequential | Parallel
Operator = Callable[[Motif], Composition]


def whole(operation: Operation, root: int | None = None) -> Motif:
    """A collective operation as one motif."""
    parts = operation.ranks if operation.kind in (Kind.ALL_TO_ALL, Kind.REDUCE_SCATTER) else 1
    length = operation.elements // parts
    return Motif(operation.kind, 0, length, tuple(range(operation.ranks)), length, root)


def segment(pieces: int) -> Operator:
    """Divide the payload into this many pieces of nearly equal size."""

    def divide(motif: Motif) -> Composition:
        length = motif.stop - motif.start
        count = min(pieces, length)
        if count <= 1 or motif.kind is Kind.OTHER:
            return motif
        ends = [motif.start + length * number // count for number in range(count + 1)]
        return Parallel(tuple(replace(motif, start=a, stop=b) for a, b in pairwise(ends)))

    return divide


def spline(ways: int) -> Operator:
    """Divide the pattern of an all-to-all into this many, each to a part of the destinations."""

    def divide(motif: Motif) -> Composition:
        if motif.kind is not Kind.ALL_TO_ALL:
            return motif
        first, last = motif.shifts or (0, len(motif.members))
        count = min(ways, last - first)
        if count <= 1:
            return motif
        ends = [first + (last - first) * number // count for number in range(count + 1)]
        return Parallel(tuple(replace(motif, shifts=pair) for pair in pairwise(ends)))

    return divide


def ring(motif: Motif) -> Composition:
    """All-reduce as reduce-scatter, then all-gather. Elements that do not divide evenly are all-reduced beside it."""
    count = len(motif.members)
    share = (motif.stop - motif.start) // count
    if motif.kind is not Kind.ALL_REDUCE or count < 2 or share == 0:
        return motif
    even = motif.start + share * count
    scattered = Sequential(
        (
            replace(motif, kind=Kind.REDUCE_SCATTER, stop=motif.start + share, stride=share),
            replace(motif, kind=Kind.ALL_GATHER, stop=motif.start + share, stride=share),
        )
    )
    return scattered if even == motif.stop else Parallel((scattered, replace(motif, start=even)))


def tree(fan: int) -> Operator:
    """All-reduce as reductions in groups of `fan`, an all-reduce of their roots, and broadcasts in the groups; again
    for the roots, while they are more than `fan`.
    """

    def divide(motif: Motif) -> Composition:
        if motif.kind is not Kind.ALL_REDUCE or len(motif.members) < 2 or fan < 2:
            return motif
        members = motif.members
        groups = [members[first : first + fan] for first in range(0, len(members), fan)]
        inner = [group for group in groups if len(group) > 1]
        roots = replace(motif, members=tuple(group[0] for group in groups))
        up, down = (
            Parallel(tuple(replace(motif, kind=kind, members=group, root=group[0]) for group in inner))
            for kind in (Kind.REDUCE, Kind.BROADCAST)
        )
        if len(groups) == 1:
            return Sequential((up, down))
        return Sequential((up, divide(roots) if len(groups) > fan else roots, down))

    return divide


def rewrite(composition: Composition, operator: Operator) -> Composition:
    """Apply an operator to every motif."""
    match composition:
        case Motif():
            return operator(composition)
        case Sequential(parts):
            return Sequential(tuple(rewrite(part, operator) for part in parts))
        case Parallel(parts):
            return Parallel(tuple(rewrite(part, operator) for part in parts))


@dataclass(frozen=True, slots=True)
class Step:
    """A motif, and the earlier steps of the same composition that it waits for."""

    motif: Motif
    after: tuple[int, ...] = ()


def steps(composition: Composition) -> tuple[Step, ...]:
    """The motifs of a composition in an order in which they can be executed."""
    found: list[Step] = []
    _collect(composition, (), found)
    return tuple(found)


def _collect(composition: Composition, after: tuple[int, ...], found: list[Step]) -> tuple[int, ...]:
    """Append the steps of a composition; return its last ones."""
    match composition:
        case Motif():
            found.append(Step(composition, after))
            return (len(found) - 1,)
        case Sequential(parts):
            for part in parts:
                after = _collect(part, after, found)
            return after
        case Parallel(parts):
            return tuple(last for part in parts for last in _collect(part, after, found)) or after
