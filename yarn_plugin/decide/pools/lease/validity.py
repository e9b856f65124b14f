"""Estimates come from others: what they may say about their jobs. Numbers have the bounds of those in bids, so that
whatever is computed from them stays finite."""

from yarn_plugin.decide.mechanisms.partial_allocation.validity import MAX_NUMBER, MIN_NUMBER
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
        _require_in_bounds("rho", estimate.rho)


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
    _require_in_bounds(f"{field}.iteration_s", job.iteration_s)
    for name in ("iterations_left", "iterations_done", "attained_gpu_s"):
        value = getattr(job, name)
        if not 0 <= value <= MAX_NUMBER:
            raise BadInputError(f"{field}.{name}", value, f"must be a number from 0 to {MAX_NUMBER:g}")
    for name in ("min_gpus", "max_gpus", "step_gpus"):
        value = getattr(job, name)
        if not 1 <= value <= MAX_GPUS:
            raise BadInputError(f"{field}.{name}", value, f"must be a whole number from 1 to {MAX_GPUS}")
    if job.max_gpus < job.min_gpus:
        raise BadInputError(f"{field}.max_gpus", job.max_gpus, f"must be at least min_gpus, {job.min_gpus}")
    for name in ("slot", "machine", "rack"):
        _require_in_bounds(f"{field}.slowdown.{name}", getattr(job.slowdown, name))
    for place, (iteration, loss) in enumerate(job.losses):
        if not _is_loss(iteration, loss):
            expected = f"must be an iteration that is not negative and its loss, both at most {MAX_NUMBER:g}"
            raise BadInputError(f"{field}.losses.{place}", (iteration, loss), expected)
    for place, (model, speed) in enumerate(job.speeds):
        if not MIN_NUMBER <= speed <= MAX_NUMBER:
            expected = f"must be a model and a number from {MIN_NUMBER:g} to {MAX_NUMBER:g}"
            raise BadInputError(f"{field}.speeds.{place}", (model, speed), expected)
    for place, (slot, gpus) in enumerate(job.held):
        if not 1 <= gpus <= MAX_GPUS:
            expected = f"must be a slot and a number of GPUs from 1 to {MAX_GPUS}"
            raise BadInputError(f"{field}.held.{place}", (slot, gpus), expected)


def _is_valid(job: Job) -> bool:
    """The same without the reason, which takes longer than all else that the controller does with most jobs."""
    slowdown = job.slowdown
    return (
        MIN_NUMBER <= job.iteration_s <= MAX_NUMBER
        and 0 <= job.iterations_left <= MAX_NUMBER
        and 0 <= job.iterations_done <= MAX_NUMBER
        and 0 <= job.attained_gpu_s <= MAX_NUMBER
        and 1 <= job.min_gpus <= job.max_gpus <= MAX_GPUS
        and 1 <= job.step_gpus <= MAX_GPUS
        and MIN_NUMBER <= slowdown.slot <= MAX_NUMBER
        and MIN_NUMBER <= slowdown.machine <= MAX_NUMBER
        and MIN_NUMBER <= slowdown.rack <= MAX_NUMBER
        and (not job.losses or all(_is_loss(*pair) for pair in job.losses))
        and (not job.speeds or all(MIN_NUMBER <= speed <= MAX_NUMBER for _, speed in job.speeds))
        and (not job.held or all(1 <= gpus <= MAX_GPUS for _, gpus in job.held))
    )


def _is_loss(iteration: float, loss: float) -> bool:
    return 0 <= iteration <= MAX_NUMBER and -MAX_NUMBER <= loss <= MAX_NUMBER


def _require_in_bounds(field: str, value: float) -> None:
    if not MIN_NUMBER <= value <= MAX_NUMBER:
        raise BadInputError(field, value, f"must be a number from {MIN_NUMBER:g} to {MAX_NUMBER:g}")
