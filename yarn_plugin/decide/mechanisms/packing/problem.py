"""What is packed: workers of jobs that may share GPUs, and how much they may disturb each other (OJPP, section 3).

OJPP is the paper "Interference-aware Opportunistic Job Placement for Shared Distributed Deep Learning Clusters". Its
opportunistic memory is called varying memory here, as `opportunistic` is a class of leases.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from yarn_plugin.errors import BadInputError

TOLERANCE = 1e-9
"""By how much a sum may exceed its limit, for rounding."""


@dataclass(frozen=True, slots=True)
class Job:
    """A job of alike workers. `kind`: of its training, by which interference is known.

    Each worker needs these fractions of a GPU: `computing`; `memory`, always; `increment`, memory beyond it with
    `probability`, independently of all other workers.
    """

    id: str
    kind: str
    workers: int
    computing: float
    memory: float
    increment: float = 0.0
    probability: float = 0.0


@dataclass(frozen=True, slots=True)
class Limits:
    """`collision`: the greatest probability that two or more workers of a GPU need their increments at once.
    `interference`: the greatest slowdown of a worker: 0.2 if an iteration may take 1.2 times its time alone. `balance`:
    the greatest difference of slowdowns between the workers of one job."""

    collision: float = 0.1
    interference: float = 0.2
    balance: float = 0.1


Slowdowns = Mapping[tuple[str, str], float]
"""The slowdown of a worker of the first kind beside one of the second; pairs that are missing may not share a GPU.
Beside several workers it is the sum."""


@dataclass(frozen=True, slots=True)
class PackingProblem:
    """Jobs to be packed onto as few GPUs as possible."""

    jobs: tuple[Job, ...]
    slowdowns: Slowdowns
    limits: Limits = Limits()

    def check(self) -> None:
        """Check the numbers.

        Raises:
            BadInputError: a field is out of its range, or two jobs have the same id.
        """
        ids = set()
        for job in self.jobs:
            if job.id in ids:
                raise BadInputError("jobs.id", job.id, "an id of its own for each job")
            ids.add(job.id)
            if job.workers < 1:
                raise BadInputError(f"jobs.{job.id}.workers", job.workers, "at least 1")
            for field in ("computing", "memory"):
                if not 0 < getattr(job, field) <= 1:
                    raise BadInputError(f"jobs.{job.id}.{field}", getattr(job, field), "more than 0, at most 1")
            for field in ("increment", "probability"):
                if not 0 <= getattr(job, field) <= 1:
                    raise BadInputError(f"jobs.{job.id}.{field}", getattr(job, field), "from 0 to 1")
            if job.memory + job.increment > 1 + TOLERANCE:
                expected = f"at most {1 - job.memory:g}: with memory it may not exceed the whole GPU"
                raise BadInputError(f"jobs.{job.id}.increment", job.increment, expected)
        for (kind, beside), slowdown in self.slowdowns.items():
            if not 0 <= slowdown < math.inf:
                raise BadInputError(f"slowdowns.{kind}.{beside}", slowdown, "a number of at least 0")
        for field in ("collision", "interference", "balance"):
            if not 0 <= getattr(self.limits, field) < math.inf:
                raise BadInputError(f"limits.{field}", getattr(self.limits, field), "a number of at least 0")


@dataclass(frozen=True, slots=True)
class Packing:
    """`gpus`: for each GPU the jobs (their indices, ascending) of its workers. `bound`: no packing uses fewer GPUs."""

    gpus: tuple[tuple[int, ...], ...]
    bound: int

    @property
    def gap(self) -> float:
        """By what fraction more GPUs are used than the bound."""
        return len(self.gpus) / self.bound - 1 if self.bound else 0.0


def collision(probabilities: tuple[float, ...]) -> float:
    """The probability that at least two of these workers need their increments at once (equation 4)."""
    none, one = 1.0, 0.0
    for probability in probabilities:
        none, one = none * (1 - probability), one * (1 - probability) + none * probability
    return max(0.0, 1 - none - one)
