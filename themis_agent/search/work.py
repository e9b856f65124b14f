"""What an application has yet to run: jobs of the present phase, and phases to come.

This is what bids are made from. Every kind of search, and a single job, describes itself in these terms.
"""

from dataclasses import dataclass

from yarn_plugin.model.gpus import Job


@dataclass(frozen=True, slots=True)
class Phase:
    """A phase to come, when it is not known yet which jobs will run in it.

    `jobs`: how many. `iterations`: of each job. `max_gpus`: cap on the GPUs of one job.
    """

    jobs: int
    iterations: float
    max_gpus: int


@dataclass(frozen=True, slots=True)
class Bracket:
    """A sequence of phases, each begun when the slowest job of the one before has ended.

    `jobs`: those of the present phase, `iterations_left` until its end; 0 for a job that waits for the others.
    `phases`: to come.
    """

    jobs: tuple[Job, ...]
    phases: tuple[Phase, ...] = ()


@dataclass(frozen=True, slots=True)
class Work:
    """All that an application has yet to run: brackets, side by side; none when it has ended.

    `budget_gpu_s`: the work of its whole life in seconds on one GPU, what is done included (`B` in equation 3.2 of
    Themis, thesis section 3.4.3; `iter_total * iter_serial_time` in equation 3.1). `max_gpus`: the most GPUs that it
    can ever use at once (`app_demand_max`, `job_demand_max`).
    """

    brackets: tuple[Bracket, ...]
    budget_gpu_s: float
    max_gpus: int

    @property
    def jobs(self) -> tuple[Job, ...]:
        """The unfinished jobs of all present phases."""
        if len(self.brackets) == 1 and min([job.iterations_left for job in self.brackets[0].jobs], default=0) > 0:
            return self.brackets[0].jobs
        return tuple(job for bracket in self.brackets for job in bracket.jobs if job.iterations_left > 0)


def single_job(job: Job) -> Work:
    """The work of an application with one job (equation 3.1)."""
    return plain((job,))


def plain(jobs: tuple[Job, ...]) -> Work:
    """The work of an application that runs all its jobs to their ends; those that have ended have 0 iterations left."""
    budget = sum((job.iterations_done + job.iterations_left) * job.iteration_s for job in jobs)
    unfinished = tuple(job for job in jobs if job.iterations_left > 0)
    return Work((Bracket(unfinished),) if unfinished else (), budget, sum(job.max_gpus for job in jobs))
