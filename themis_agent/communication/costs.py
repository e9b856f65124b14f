"""What a motif costs on each channel: measured times, interpolated between sizes (Syndicate section 4.6.6)."""

import math
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from themis_agent.communication.errors import PlanError
from themis_agent.communication.iteration import Kind
from themis_agent.communication.motifs import Motif


@dataclass(frozen=True)
class Curve:
    """Seconds of motifs of a kind on a channel, for sizes in bytes that increase. `destinations`: of an all-to-all that
    goes to a part of the ranks; 0: to all.
    """

    kind: Kind
    channel: int
    bytes: tuple[int, ...]
    seconds: tuple[float, ...]
    destinations: int = 0

    def __post_init__(self) -> None:
        sizes = self.bytes
        if not sizes or len(sizes) != len(self.seconds) or sorted(set(sizes)) != list(sizes) or min(self.seconds) < 0:
            raise PlanError(f"costs of {self.kind}: must have as many times as sizes, and sizes that increase")

    def at(self, size: float) -> float:
        """The seconds for a size; beyond those measured, on a straight line through the nearest two."""
        if len(self.bytes) == 1:
            return self.seconds[0] * max(1.0, size / max(1, self.bytes[0]))
        place = min(max(bisect_left(self.bytes, size), 1), len(self.bytes) - 1)
        low, high = self.bytes[place - 1], self.bytes[place]
        part = (size - low) / (high - low)
        seconds = self.seconds[place - 1] + part * (self.seconds[place] - self.seconds[place - 1])
        return max(seconds, min(self.seconds))


@dataclass(frozen=True)
class CostTable:
    """Measured on the hosts of a job. `channels`: their names. `dispatch_s`: what a motif costs beside its transfers.
    `overlap[a][b]`: how many times longer a motif takes on channel a while one runs on b.
    """

    ranks: int
    channels: tuple[str, ...]
    curves: tuple[Curve, ...]
    dispatch_s: float
    overlap: tuple[tuple[float, ...], ...]

    def __post_init__(self) -> None:
        count = len(self.channels)
        if len(self.overlap) != count or any(len(row) != count for row in self.overlap):
            raise PlanError(f"overlap: must have {count} rows of {count} numbers, one for each channel")

    @cached_property
    def _by_kind(self) -> Mapping[tuple[Kind, int, int], Curve]:
        return {(curve.kind, curve.channel, curve.destinations): curve for curve in self.curves}

    def seconds(self, motif: Motif, channel: int, bytes_each: int) -> float:
        """How long a motif takes on a channel with nothing beside it.

        Raises:
            PlanError: no time was measured for its kind.
        """
        destinations = motif.shifts[1] - motif.shifts[0] if motif.shifts is not None else 0
        curve = self._by_kind.get((motif.kind, channel, destinations)) or self._by_kind.get((motif.kind, channel, 0))
        if curve is None:
            raise PlanError(f"costs: no times for {motif.kind} on channel {self.channels[channel]}")
        seconds = curve.at(motif.elements * bytes_each)
        if len(motif.members) < self.ranks:
            # Measured among all ranks; a tree among fewer has fewer levels.
            seconds *= math.log2(max(len(motif.members), 2)) / math.log2(self.ranks)
        return self.dispatch_s + seconds
