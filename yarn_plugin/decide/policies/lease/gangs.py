"""How many GPUs a job can use: min, min + step, min + 2 step, ... up to max."""

from yarn_plugin.model.gpus import Job


def next_size(job: Job, now: int) -> int | None:
    """The next larger number of GPUs than `now` that it can use; None if there is none."""
    if now < job.min_gpus:
        return job.min_gpus
    larger = job.min_gpus + ((now - job.min_gpus) // job.step_gpus + 1) * job.step_gpus
    return larger if larger <= job.max_gpus else None


def largest_size(job: Job, limit: int) -> int:
    """The largest number of GPUs up to `limit` that it can use; 0 if it needs more."""
    limit = min(limit, job.max_gpus)
    if limit < job.min_gpus:
        return 0
    return limit - (limit - job.min_gpus) % job.step_gpus
