"""How long a job takes, from samples of it: a line through its seconds by batches (AlloX, section 4.1)."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sample:
    """So many `batches` (or other units of work) took so many `seconds`, the start included."""

    batches: float
    seconds: float


def estimate_seconds(samples: Sequence[Sample], batches: float) -> float | None:
    """The seconds of so many batches; None: there is no sample.

    The least-squares line of the samples. Where it has a start of less than no time or batches that take none, the
    samples say too little: then all batches are taken to last as long as the average one.
    """
    if not samples:
        return None
    mean_batches = sum(one.batches for one in samples) / len(samples)
    mean_seconds = sum(one.seconds for one in samples) / len(samples)
    spread = sum((one.batches - mean_batches) ** 2 for one in samples)
    if spread:
        slope = sum((one.batches - mean_batches) * (one.seconds - mean_seconds) for one in samples) / spread
        start = mean_seconds - slope * mean_batches
        if slope > 0 and start >= 0:
            return start + slope * batches
    return batches * mean_seconds / mean_batches
