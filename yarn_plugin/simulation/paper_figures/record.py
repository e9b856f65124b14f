"""What is kept of a simulation for the figures: small, and the same after it was written to a file and read back."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from pydantic import TypeAdapter

from yarn_plugin.simulation.figures import job_figures, training_figures
from yarn_plugin.simulation.outcome import Outcome
from yarn_plugin.simulation.shared_queues import SharedOutcome


@dataclass(frozen=True, slots=True)
class Record:
    """A simulation. `figures`: of all together. `apps`: of each application or job that ended, its figures: of
    applications `rho` (Themis, thesis, equation 3.2), `time_s` from its arrival to its end, `gpu_s` held; of jobs
    `wait_s` and `completion_s`. `scores`: of each training job, the mean of 1 / slowdown while it computed. `wall_s`:
    how long it took."""

    figures: Mapping[str, float | None]
    apps: Mapping[str, Mapping[str, float]]
    scores: tuple[float, ...] = ()
    unfinished: int = 0
    wall_s: float = 0.0

    def figure(self, name: str) -> float:
        """A figure that every simulation of the kind has."""
        value = self.figures[name]
        assert value is not None, f"no application has ended, so there is no {name}"
        return value

    def json(self) -> dict[str, Any]:
        """As a JSON value."""
        return asdict(self)


_RECORD = TypeAdapter(Record)


def read(content: bytes) -> Record:
    """The record in a file.

    Raises:
        ValueError: it is not one.
    """
    return _RECORD.validate_json(content)


def of_training(outcome: Outcome, wall_s: float) -> Record:
    """What is kept of a simulation of training applications."""
    apps = {}
    for name, rho in outcome.app_rhos:
        jobs = [job for job in outcome.jobs if job.group == name]
        end = max(job.ended_at or 0.0 for job in jobs)
        time_s = end - min(job.arrived_at for job in jobs)
        apps[name] = {"rho": rho, "time_s": time_s, "gpu_s": sum(job.gpu_s for job in jobs)}
    scores = tuple(job.iterations_s / job.busy_gpu_s for job in outcome.jobs if job.busy_gpu_s > 0)
    return Record(asdict(training_figures(outcome)), apps, scores, outcome.unfinished, wall_s)


def of_jobs(outcome: Outcome, wall_s: float) -> Record:
    """What is kept of a simulation of jobs."""
    jobs = {
        job.name: {"wait_s": job.wait_s, "completion_s": job.completion_s}
        for job in outcome.ended
        if job.wait_s is not None and job.completion_s is not None
    }
    figures = {**asdict(job_figures(outcome.jobs, None)), "progress_spread": outcome.progress_spread}
    return Record(figures, jobs, unfinished=outcome.unfinished, wall_s=wall_s)


def of_queue(outcome: SharedOutcome, wall_s: float) -> Record:
    """What is kept of a packed queue."""
    return Record(asdict(outcome), {}, wall_s=wall_s)
