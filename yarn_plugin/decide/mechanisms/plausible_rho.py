"""The worst finish-time fairness that an application can have, by what the arbiter knows without asking it.

rho = (elapsed + remaining) / T_id (equations 3.1 and 3.2 of Themis, thesis section 3.4.3). The arbiter knows how long
ago the application arrived, which GPU time it has leased since, how much work it declared, and how many GPUs the pool
has.
Of an application that has an equal part of the pool it believes that GPUs are used without loss; of one that has less,
only that they are worth a part of as many without slowdown, waits and moves.
"""

import math
from dataclasses import dataclass

WORTH = 0.25
"""GPUs of an application below its equal part are worth at least this part of as many that are used without loss."""


NEARLY = 0.9
"""So much of an equal part counts as one."""


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
    def attained_s(self) -> float:
        """The GPU time that it has leased, in seconds of the whole pool."""
        return self.attained_gpu_s / self.cluster_gpus if self.cluster_gpus else 0.0

    @property
    def ideal_s(self) -> float | None:
        """T_id in seconds: of the declared work, or of the GPU time that it has leased; None: not known."""
        work_s = max(self.cluster_s or 0.0, self.attained_s)
        return work_s * self.contention if work_s > 0 else None

    @property
    def overdue(self) -> float:
        """By what factor it has leased more than its declared work can need; 1: it has not."""
        return max(WORTH * self.attained_s / self.cluster_s, 1.0) if self.cluster_s else 1.0

    def has_part(self, gpus: int) -> bool:
        """Whether an application with this many GPUs has an equal part of the pool, now or on average so far.

        N_avg changes a little all the time, so that nearly an equal part is one.
        """
        is_now = gpus * self.contention >= NEARLY * self.cluster_gpus
        return gpus > 0 and (is_now or self.attained_s * self.contention >= self.elapsed_s)

    def most(self, gpus: int) -> float:
        """The largest rho with this many GPUs; infinity: not known.

        With fewer than an equal part of the pool it may make as little progress as with one GPU, such as in the last
        phase of a search: whose rho rises since it is below its share is not bounded further.
        """
        has_part = self.has_part(gpus)
        worth = 1.0 if has_part else WORTH
        done_s = worth * self.attained_s
        work_s = max(self.cluster_s or 0.0, done_s)
        if work_s <= 0:
            return math.inf
        left_s = max(work_s - done_s, 0.0) if self.cluster_s or has_part else work_s
        remaining_s = left_s * self.cluster_gpus / (worth * (gpus if has_part else 1))
        return (self.elapsed_s + remaining_s) / (work_s * self.contention)
