"""Estimates come from others: what they may say about their jobs."""

import math
from math import inf

from yarn_plugin.errors import BadInputError
from yarn_plugin.model.auction import Estimate
from yarn_plugin.model.gpus import Job

MAX_JOBS = 2_000
MAX_GPUS = 1_000_000
"""Of one job."""


def checked_estimate(estimate: Estimate) -> Estimate:
    """The estimate, if the auction and every policy can work with it.

    Raises:
        BadInputError: they cannot; names the field, such as `jobs.3.step_gpus`, and its value.
    """
    check_rho(estimate)
    checked_jobs(estimate.jobs)
    return estimate


def check_rho(estimate: Estimate) -> None:
    """The same of the rho alone."""
    if estimate.rho is not None:
        _require_above_zero("rho", estimate.rho)


def checked_jobs(jobs: tuple[Job, ...]) -> tuple[Job, ...]:
    """The same of the jobs."""
    if len(jobs) > MAX_JOBS:
        raise BadInputError("jobs", len(jobs), f"must be at most {MAX_JOBS} jobs")
    ids: set[str] = set()
    for number, job in enumerate(jobs):
        if job.id in ids:
            raise BadInputError(f"jobs.{number}.id", job.id[:100], "must be the only job with this id")
        ids.add(job.id)
        if not _is_valid(job):
            _check_job(f"jobs.{number}", job)
    return jobs


def _check_job(field: str, job: Job) -> None:
    _require_above_zero(f"{field}.iteration_s", job.iteration_s)
    for name in ("iterations_left", "iterations_done", "attained_gpu_s"):
        value = getattr(job, name)
        if not (math.isfinite(value) and value >= 0):
            raise BadInputError(f"{field}.{name}", value, "must be a finite number that is not negative")
    for name in ("min_gpus", "max_gpus", "step_gpus"):
        value = getattr(job, name)
        if not 1 <= value <= MAX_GPUS:
            raise BadInputError(f"{field}.{name}", value, f"must be a whole number from 1 to {MAX_GPUS}")
    if job.max_gpus < job.min_gpus:
        raise BadInputError(f"{field}.max_gpus", job.max_gpus, f"must be at least min_gpus, {job.min_gpus}")
    for name in ("slot", "machine", "rack"):
        _require_above_zero(f"{field}.slowdown.{name}", getattr(job.slowdown, name))
    for place, (iteration, loss) in enumerate(job.losses):
        if not (math.isfinite(iteration) and iteration >= 0 and math.isfinite(loss)):
            expected = "must be an iteration that is not negative and its loss, both finite"
            raise BadInputError(f"{field}.losses.{place}", (iteration, loss), expected)
    for place, (model, speed) in enumerate(job.speeds):
        if not 0 < speed < inf:
            raise BadInputError(f"{field}.speeds.{place}", (model, speed), "must be a model and a number above 0")
    for place, (slot, gpus) in enumerate(job.held):
        if gpus < 1:
            raise BadInputError(
                f"{field}.held.{place}", (slot, gpus), "must be a slot and a number of GPUs of 1 or more"
            )


def _is_valid(job: Job) -> bool:
    """The same without the reason, which takes longer than all else that the controller does with most jobs."""
    slowdown = job.slowdown
    return (
        0 < job.iteration_s < inf
        and 0 <= job.iterations_left < inf
        and 0 <= job.iterations_done < inf
        and 0 <= job.attained_gpu_s < inf
        and 1 <= job.min_gpus <= job.max_gpus <= MAX_GPUS
        and 1 <= job.step_gpus <= MAX_GPUS
        and 0 < slowdown.slot < inf
        and 0 < slowdown.machine < inf
        and 0 < slowdown.rack < inf
        and (not job.losses or all(0 <= iteration < inf and -inf < loss < inf for iteration, loss in job.losses))
        and (not job.speeds or all(0 < speed < inf for _, speed in job.speeds))
        and (not job.held or min([gpus for _, gpus in job.held]) >= 1)
    )


def _require_above_zero(field: str, value: float) -> None:
    if not (math.isfinite(value) and value > 0):
        raise BadInputError(field, value, "must be a finite number above 0")
