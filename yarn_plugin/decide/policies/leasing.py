"""The contract of policies that lease GPUs to jobs without an auction, the baselines of Themis (thesis, section 3.6.1).

A policy is a module with a pure function `allocate(LeaseProblem) -> tuple[Assignment, ...]`.
"""

from dataclasses import dataclass

from yarn_plugin.model.gpus import Gpus, Job, Machine


@dataclass(frozen=True, slots=True)
class AppStatus:
    """An application with its unfinished jobs. `arrived_at`: seconds. `attained_gpu_s`: of all its jobs so far."""

    app: str
    arrived_at: float
    jobs: tuple[Job, ...]
    weight: float = 1.0
    attained_gpu_s: float = 0.0


@dataclass(frozen=True, slots=True)
class LeaseProblem:
    """Which free GPUs to lease for the next `lease_s` seconds to which job.

    `machines`: all machines of the pool with their free GPUs, those whose leases have just ended included. Jobs that
    hold GPUs under a running lease keep them. `seed`: for random choices.
    """

    round: int
    at: float
    lease_s: float
    machines: tuple[Machine, ...]
    apps: tuple[AppStatus, ...]
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Assignment:
    """Free GPUs for a job, in addition to those that it holds."""

    app: str
    job: str
    gpus: Gpus
