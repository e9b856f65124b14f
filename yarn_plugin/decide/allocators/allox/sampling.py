"""Samples of jobs: short runs on each side whose speed nobody declared, two a side (AlloX, sections 4.1 and 4.4).

A job is matched once its own samples are done; it waits for no other's. What was measured is kept by side: of the
user's job of this name with these amounts. A finished sample is never run again. One that dies is, `MAX_TRIES` times in
all: then the job cannot run there. One that takes far longer than others is abandoned: what it took is then a lower
bound of the batches' time, and enough to know that the job is slow there. While the whole job runs, what its
application reports of it makes the estimate better.
"""

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from yarn_plugin.decide.mechanisms.batch_times import Sample, estimate_seconds
from yarn_plugin.errors import BadInputError
from yarn_plugin.model.resources import Resources
from yarn_plugin.model.share import Claim

MAX_TRIES = 3
"""How often a sample that dies is started."""

MAX_KEPT = 2000
"""Sides that are remembered; of more, those that were measured first are forgotten."""

FRACTIONS = (0.01, 0.02)
"""The work of the two samples of a side, as parts of the job's."""

MIN_SAMPLE_S = 1.0
"""A sample takes at least so long in simulations, as in the authors' simulator."""

FAR_BEHIND = 5.0
"""A sample is abandoned when it takes so many times the median of the others."""


@dataclass(frozen=True, slots=True)
class SampleRun:
    """An application says that a job did so many `batches` with one of its alternatives in so many `seconds`: in a
    sample, which is then finished, or since the job started. `batches`: in the unit of the job's `work`."""

    job: str
    alternative: int
    batches: float
    seconds: float

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            BadInputError: one is out of range.
        """
        if self.alternative < 0:
            raise BadInputError("alternative", self.alternative, "must be the index of one of the job's alternatives")
        for name in ("batches", "seconds"):
            if not 0 < getattr(self, name) <= 1e15:
                raise BadInputError(name, getattr(self, name), "must be a number above 0")


@dataclass(frozen=True, slots=True)
class Measured:
    """What is known of a side. `samples`: finished ones; `run`: the last report of the whole job; `deaths`: samples
    that were not answered; `is_abandoned`: no further sample is worth its time."""

    samples: tuple[Sample, ...] = ()
    run: Sample | None = None
    deaths: int = 0
    is_abandoned: bool = False

    @property
    def is_done(self) -> bool:
        """Whether no further sample is needed."""
        enough = len(self.samples) >= len(FRACTIONS) or self.run is not None
        return enough or self.is_abandoned or self.deaths >= MAX_TRIES

    def seconds(self, work: float) -> float | None:
        """The estimated seconds of a whole job; None: it died in its samples."""
        if self.run is not None and self.run.batches > max((one.batches for one in self.samples), default=0.0):
            return estimate_seconds((*self.samples, self.run), work)
        return estimate_seconds(self.samples, work)


@dataclass(frozen=True, slots=True)
class OpenSample:
    """A sample that runs on a lease. `job`: the claim, as text; `until`: abandoned then. `since`: when another sample
    of the job was over: an application that runs them one after the other has not begun this one before."""

    job: str
    user: str
    side: str
    alternative: int
    kind: int
    batches: float
    until: float
    since: float = 0.0


@dataclass(frozen=True, slots=True)
class Samples:
    """`measured`: by side; `open`: by lease."""

    measured: Mapping[str, Measured] = field(default_factory=dict)
    open: Mapping[str, OpenSample] = field(default_factory=dict)

    def of(self, side: str) -> Measured:
        """What is known of a side."""
        return self.measured.get(side, Measured())

    def with_measured(self, side: str, measured: Measured) -> "Samples":
        """Remember this of a side."""
        kept = {**self.measured, side: measured}
        busy = {one.side for one in self.open.values()}
        for oldest in [other for other in kept if other not in busy and other != side][: max(0, len(kept) - MAX_KEPT)]:
            del kept[oldest]
        return replace(self, measured=kept)

    def opened(self, lease: str, sample: OpenSample) -> "Samples":
        """A sample runs on this lease."""
        return replace(self, open={**self.open, lease: sample})

    def answered(self, lease: str, seconds: float, batches: float, at: float) -> "Samples":
        """A sample is finished."""
        sample = self.open[lease]
        known = self.of(sample.side)
        samples = self.withdrawn(lease, at)
        return samples.with_measured(sample.side, replace(known, samples=(*known.samples, Sample(batches, seconds))))

    def abandoned(self, lease: str, seconds: float, at: float) -> "Samples":
        """A sample is far behind the others after so many seconds."""
        sample = self.open[lease]
        known = self.of(sample.side)
        at_least = (*known.samples, Sample(sample.batches, seconds))
        abandoned = replace(known, samples=at_least, is_abandoned=True)
        return self.withdrawn(lease, at).with_measured(sample.side, abandoned)

    def died(self, lease: str, at: float) -> "Samples":
        """A sample's lease is over, and nothing was answered."""
        sample = self.open[lease]
        known = self.of(sample.side)
        return self.withdrawn(lease, at).with_measured(sample.side, replace(known, deaths=known.deaths + 1))

    def withdrawn(self, lease: str, at: float) -> "Samples":
        """A sample is over, whatever came of it."""
        job = self.open[lease].job
        left = {key: one for key, one in self.open.items() if key != lease}
        return replace(self, open={k: replace(one, since=at) if one.job == job else one for k, one in left.items()})

    def of_job(self, job: str) -> tuple[str, ...]:
        """The leases of the samples of a job, in the order in which they were placed."""
        return tuple(lease for lease, one in self.open.items() if one.job == job)

    def limit_s(self, first_s: float) -> float:
        """How long a sample may take: far longer than the median of all that were finished; `first_s` without any."""
        took = [one.seconds for known in self.measured.values() if not known.is_abandoned for one in known.samples]
        return max(FAR_BEHIND * statistics.median(took), 1.0) if took else first_s

    def next_batches(self, side: str, work: float) -> float:
        """The work of the next sample of a side, in whole batches."""
        return float(max(1, math.ceil(FRACTIONS[min(len(self.of(side).samples), len(FRACTIONS) - 1)] * work)))


def side_of(claim: Claim, kind: int, amounts: Resources) -> str:
    """The name under which a side is remembered: the user, the job's name and its shape."""
    shape = ",".join(f"{name}={amount}" for name, amount in sorted(amounts.as_dict().items()))
    return f"{claim.tenant}/{claim.job}/{kind}/{shape}"
