"""What a motif costs on each channel: measured times, interpolated between sizes (Syndicate section 4.6.6)."""

import math
from bisect import bisect_left
from dataclasses import dataclass, field

from themis_agent.communication.errors import PlanError
from themis_agent.communication.iteration import Kind
from themis_agent.communication.motifs import Motif


@dataclass(frozen=True, slots=True)
class Curve:
    """Seconds for sizes in bytes, both increasing; in between and beyond, straight lines."""

    bytes: tuple[int, ...]
    seconds: tuple[float, ...]

    def at(self, size: float) -> float:
        """The seconds for a size."""
        if len(self.bytes) == 1:
            return self.seconds[0] * max(1.0, size / max(1, self.bytes[0]))
        place = min(max(bisect_left(self.bytes, size), 1), len(self.bytes) - 1)
        low, high = self.bytes[place - 1], self.bytes[place]
        part = (size - low) / (high - low)
        seconds = self.seconds[place - 1] + part * (self.seconds[place] - self.seconds[place - 1])
        return max(seconds, min(self.seconds))


@dataclass(frozen=True)
class CostTable:
    """Measured on the hosts of a job. `channels`: their names. `curves`: by kind and channel. `dispatch_s`: what a
    motif costs beside its transfers. `overlap[a][b]`: how many times longer a motif takes on channel a while one runs
    on b. `splined`: all-to-all motifs to a part of the destinations, by (destinations, channel).
    """

    ranks: int
    channels: tuple[str, ...]
    curves: dict[tuple[Kind, int], Curve]
    dispatch_s: float
    overlap: tuple[tuple[float, ...], ...]
    splined: dict[tuple[int, int], Curve] = field(default_factory=dict)

    def __post_init__(self) -> None:
        count = len(self.channels)
        if len(self.overlap) != count or any(len(row) != count for row in self.overlap):
            raise PlanError(f"overlap: must have {count} rows of {count} numbers, one for each channel")

    def seconds(self, motif: Motif, channel: int, bytes_each: int) -> float:
        """How long a motif takes on a channel with nothing beside it.

        Raises:
            PlanError: no time was measured for its kind.
        """
        size = motif.elements * bytes_each
        if motif.shifts is not None and (curve := self.splined.get((motif.shifts[1] - motif.shifts[0], channel))):
            return self.dispatch_s + curve.at(size)
        curve = self.curves.get((motif.kind, channel))
        if curve is None:
            raise PlanError(f"cost table: has no times for {motif.kind} on channel {self.channels[channel]}")
        seconds = curve.at(size)
        if len(motif.members) not in (self.ranks, 0) and self.ranks > 1:
            # Measured for all ranks; of fewer the latency grows with the logarithm (tree) at least.
            seconds *= max(math.log2(max(len(motif.members), 2)) / math.log2(max(self.ranks, 2)), 0.1)
        return self.dispatch_s + seconds
