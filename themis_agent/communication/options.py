"""Execution options of a collective operation: which motifs it becomes, and the channel of each (its physical plan)."""

import enum
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from themis_agent.communication.costs import CostTable
from themis_agent.communication.iteration import Kind, Operation
from themis_agent.communication.motifs import Composition, Step, rewrite, ring, segment, spline, steps, tree, whole

SEGMENTS = (1, 2, 4, 8)
MIN_SEGMENT_BYTES = 64 * 1024
"""Smaller segments cost more in dispatch than they can gain."""


class Algorithm(enum.StrEnum):
    """How the pattern of an operation is divided."""

    WHOLE = "whole"
    SPLINE = "spline"
    RING = "ring"
    TREE = "tree"


@dataclass(frozen=True, slots=True)
class Option:
    """`ways`: of a spline, or the fan of a tree. `channels`: the segments take turns on them."""

    algorithm: Algorithm = Algorithm.WHOLE
    ways: int = 1
    segments: int = 1
    channels: tuple[int, ...] = (0,)

    def __str__(self) -> str:
        name = self.algorithm if self.ways == 1 else f"{self.algorithm} {self.ways}"
        pieces = f", {self.segments} segments" if self.segments > 1 else ""
        return f"{name}{pieces} on {'+'.join(map(str, self.channels))}"


@dataclass(frozen=True, slots=True)
class Placed:
    """A step of an operation on its channel."""

    step: Step
    channel: int


def composition(operation: Operation, option: Option) -> Composition:
    """The motifs of an operation under an option."""
    divided = rewrite(whole(operation), segment(option.segments))
    match option.algorithm:
        case Algorithm.SPLINE:
            return rewrite(divided, spline(option.ways))
        case Algorithm.RING:
            return rewrite(divided, ring)
        case Algorithm.TREE:
            return rewrite(divided, tree(option.ways))
    return divided


@lru_cache(maxsize=4096)
def placed(operation: Operation, option: Option) -> tuple[Placed, ...]:
    """The steps of an operation under an option, each on its channel: of equal motifs, one after the other of the
    option's channels; a step that waits for others is where the first of them is.
    """
    found: list[Placed] = []
    turns = itertools.cycle(option.channels)
    for step in steps(composition(operation, option)):
        channel = found[step.after[0]].channel if step.after else next(turns)
        found.append(Placed(step, channel))
    return tuple(found)


def options(operation: Operation, channels: int, segments: Sequence[int] = SEGMENTS) -> Iterator[Option]:
    """Every option of an operation."""
    if operation.kind is Kind.OTHER or operation.ranks < 2:
        yield Option()
        return
    places = [(channel,) for channel in range(channels)]
    for pieces in segments:
        if pieces > 1 and operation.bytes / pieces < MIN_SEGMENT_BYTES:
            continue
        # All channels at once are worth it only for as many segments.
        spread = [tuple(range(channels))] if channels > 1 and pieces >= channels else []
        for chosen in [*places, *spread]:
            yield Option(segments=pieces, channels=chosen)
            if operation.kind is Kind.ALL_REDUCE:
                yield Option(Algorithm.RING, segments=pieces, channels=chosen)
                yield Option(Algorithm.TREE, 2, pieces, chosen)
            elif operation.kind is Kind.ALL_TO_ALL:
                for ways in (2, 4):
                    if ways <= operation.ranks:
                        yield Option(Algorithm.SPLINE, ways, pieces, chosen)


@dataclass(frozen=True, slots=True)
class TimedMotif:
    """A motif as the scheduler sees it: seconds on a channel, after other motifs of the same operation."""

    channel: int
    seconds: float
    after: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TimedOption:
    """An option with the time of each of its motifs."""

    option: Option
    motifs: tuple[TimedMotif, ...]

    @property
    def total_s(self) -> float:
        """How long the operation takes alone: the busiest channel, or the longest chain."""
        ends: list[float] = []
        free: dict[int, float] = {}
        for motif in self.motifs:
            start = max([free.get(motif.channel, 0.0), *(ends[place] for place in motif.after)])
            ends.append(start + motif.seconds)
            free[motif.channel] = ends[-1]
        return max(ends, default=0.0)


def timed(operation: Operation, option: Option, costs: CostTable) -> TimedOption:
    """The option with times from the table.

    Raises:
        PlanError: the table lacks them.
    """
    return TimedOption(
        option,
        tuple(
            TimedMotif(one.channel, costs.seconds(one.step.motif, one.channel, operation.bytes_each), one.step.after)
            for one in placed(operation, option)
        ),
    )
