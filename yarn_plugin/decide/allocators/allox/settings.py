"""The parameters of AlloX, and what a job must be to run in its pool."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from yarn_plugin.decide.mechanisms.matching.problem import LONGEST_S
from yarn_plugin.errors import BadInputError
from yarn_plugin.model.resources import GPU, MEMORY, VCORES, Resources
from yarn_plugin.model.share import Job

LivePolicy = Literal["allox", "allox_plus", "sjf", "sjf_plus", "jsq_plus", "bf", "es", "drff", "drfs", "drfa"]
"""The side policies that preempt nothing, as leases here have no end."""


@dataclass(frozen=True, slots=True)
class AlloxSettings:
    """`cpu_slot`: vcores and memory-mb of a slot of cores; empty: GPUs only. `gpu_vcores`: of each GPU's job.

    `alpha`: the share of users that is considered, from 0 (the one with the least progress) to 1 (section 3.3.3).
    `unknown_s`: how long a job takes that does not say. `inline_jobs`: longer queues are matched in the worker process.
    `retry_s`: a job that YARN did not place is tried again after so many seconds. `patience_s`: how far a user may lag
    behind (see `long_run_progress`). `sample_share`: the part of the machines of a kind, at least one, that samples may
    hold at the same time; 0: no samples. `sample_s`: how long a sample may take before others show how long they take.

    `policy`: which side policy chooses the jobs that start; all but AlloX ignore `alpha`, `inline_jobs` and
    `patience_s`. `slots_per_gpu`: the number of slots that `drfa` counts a GPU as.
    """

    cpu_slot: Mapping[str, int] = field(default_factory=dict)
    gpu_vcores: int = 1
    alpha: float = 0.3
    unknown_s: float = 3600.0
    inline_jobs: int = 100
    retry_s: float = 60.0
    patience_s: float = 1800.0
    sample_share: float = 0.0
    sample_s: float = 120.0
    policy: LivePolicy = "allox"
    slots_per_gpu: float = 1.0

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            BadInputError: one is out of range.
        """
        for name, amount in self.cpu_slot.items():
            if name not in (VCORES, MEMORY) or amount < 1:
                raise BadInputError(f"cpu_slot.{name}", amount, f"must be {VCORES} and {MEMORY}, each at least 1")
        if self.cpu_slot and set(self.cpu_slot) != {VCORES, MEMORY}:
            raise BadInputError("cpu_slot", dict(self.cpu_slot), f"must have both {VCORES} and {MEMORY}")
        if not 0 <= self.alpha <= 1:
            raise BadInputError("alpha", self.alpha, "must be a number from 0 to 1")
        if not 0 <= self.sample_share <= 1:
            raise BadInputError("sample_share", self.sample_share, "must be a number from 0 to 1")
        for name in ("gpu_vcores", "inline_jobs"):
            if not 0 <= getattr(self, name) <= 1e6:
                raise BadInputError(name, getattr(self, name), "must be a number from 0 to 1,000,000")
        if not 0 < self.slots_per_gpu <= 1e6:
            raise BadInputError("slots_per_gpu", self.slots_per_gpu, "must be a number above 0, up to 1,000,000")
        for name in ("unknown_s", "retry_s", "patience_s", "sample_s"):
            if not 0 < getattr(self, name) <= LONGEST_S:
                raise BadInputError(name, getattr(self, name), f"must be a number of seconds up to {LONGEST_S:g}")


def check_job(settings: AlloxSettings | None, job: Job) -> None:
    """Check that a job can run on each machine that it names.

    Raises:
        BadInputError: one of its alternatives is larger than a GPU or a slot.
    """
    slot = Resources.of(dict((settings or AlloxSettings()).cpu_slot))
    for place, amounts in enumerate(job.demand.alternatives if job.demand is not None else ()):
        field = f"alternatives.{place}.resources"
        if amounts[GPU] > 1:
            raise BadInputError(f"{field}.{GPU}", amounts[GPU], "must be 1: a job has one GPU, or a slot of cores")
        if not amounts[GPU] and not slot:
            raise BadInputError(field, amounts.as_dict(), f"must have {GPU}: the pool has no slots of cores")
        for name in (VCORES, MEMORY) if not amounts[GPU] else ():
            if amounts[name] > slot[name]:
                raise BadInputError(
                    f"{field}.{name}", amounts[name], f"must be at most {slot[name]}: a slot has no more"
                )
