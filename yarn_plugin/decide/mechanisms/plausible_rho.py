"""What finish-time fairness an application can have at most, by what the arbiter knows without asking it.

rho = (elapsed + remaining) / T_id (equations 3.1 and 3.2 of Themis, thesis section 3.4.3). The arbiter knows how long ago
the application arrived, which GPU time it has leased since, and how many GPUs the pool has. It believes that GPUs are
worth at least a part of as many without slowdown, waits and moves: so the work done, and what is left of the declared
work, have bounds, and with them rho.
"""

import math
from dataclasses import dataclass

WORTH = 0.25
"""GPUs that an application leases are worth at least this part of as many that are used without any loss."""


@dataclass(frozen=True, slots=True)
class Known:
    """`elapsed_s`: since its arrival. `cluster_s`: its declared work, in seconds of the whole pool; None: not declared.
    `attained_gpu_s`: leased so far. `contention`: its N_avg. `cluster_gpus`: of the pool."""

    elapsed_s: float
    cluster_s: float | None
    attained_gpu_s: float
    contention: float
    cluster_gpus: int

    @property
    def done_s(self) -> float:
        """At least so much work is done, in seconds of the whole pool."""
        return WORTH * self.attained_gpu_s / self.cluster_gpus if self.cluster_gpus else 0.0

    @property
    def ideal_s(self) -> float | None:
        """T_id in seconds: of the declared work, or of what must be done already; None: not known."""
        work_s = max(self.cluster_s or 0.0, self.done_s)
        return work_s * self.contention if work_s > 0 else None

    @property
    def overdue(self) -> float:
        """By what factor it has leased more than its declared work can need; 1: it has not."""
        return max(self.done_s / self.cluster_s, 1.0) if self.cluster_s else 1.0

    def most(self, gpus: int) -> float:
        """The largest rho with so many GPUs; infinity: not known.

        With fewer than an equal part of the pool it may make as little progress as with one GPU, such as in the last
        phase of a search: whose rho rises since it is below its share is not bounded further.
        """
        ideal_s = self.ideal_s
        if ideal_s is None:
            return math.inf
        work_s = ideal_s / self.contention
        left_s = work_s if self.cluster_s is None else max(work_s - self.done_s, 0.0)
        used = gpus if gpus * self.contention >= self.cluster_gpus else 1
        return (self.elapsed_s + left_s * self.cluster_gpus / (WORTH * used)) / ideal_s
