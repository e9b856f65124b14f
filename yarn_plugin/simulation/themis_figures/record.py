"""What is kept of a simulation for the figures: small, and the same after it was written to a file and read back."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from pydantic import TypeAdapter

from yarn_plugin.simulation.leasing.outcome import Figures, TrainingOutcome, figures


@dataclass(frozen=True, slots=True)
class AppRecord:
    """An application. `rho`: by equation 3.2. Seconds from its arrival to its end; GPU seconds held."""

    rho: float
    time_s: float
    gpu_s: float


@dataclass(frozen=True, slots=True)
class Record:
    """A simulation. `scores`: of each job, the mean of 1 / slowdown while it computed. `wall_s`: how long it took."""

    figures: Figures
    apps: Mapping[str, AppRecord]
    scores: tuple[float, ...]
    unfinished: int
    wall_s: float

    @property
    def max_rho(self) -> float:
        """The largest rho of an application."""
        return max(app.rho for app in self.apps.values())

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


def record(outcome: TrainingOutcome, wall_s: float) -> Record:
    """What is kept of an outcome."""
    rhos = dict(outcome.app_rhos)
    apps = {}
    for name, rho in rhos.items():
        jobs = [job for job in outcome.jobs if job.group == name]
        end = max(job.ended_at or 0.0 for job in jobs)
        apps[name] = AppRecord(rho, end - min(job.arrived_at for job in jobs), sum(job.gpu_s for job in jobs))
    scores = tuple(job.iterations_s / job.busy_gpu_s for job in outcome.jobs if job.busy_gpu_s > 0)
    return Record(figures(outcome), apps, scores, outcome.unfinished, wall_s)
