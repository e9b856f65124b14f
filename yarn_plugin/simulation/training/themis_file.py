"""Workloads in the JSON format of the Themis authors' simulator.

A list of jobs; job_group_id names the application. Times are in minutes, in some
files in seconds; the slowdowns are speed multipliers of at most
1, ours are time factors of at least 1. Numbers may be written as strings. At an application's first arrival its
simulator cuts the iterations of all but the job with the most, as successive halving would.
"""

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from yarn_plugin.model.gpus import Slowdown
from yarn_plugin.model.loss import Loss
from yarn_plugin.quantities import count
from yarn_plugin.simulation.training.apps import TrainingApp, TrainingJob, TrainingWorkload, ordered
from yarn_plugin.simulation.training.files import ignored_keys, read_json
from yarn_plugin.simulation.training.loss_curves import random_sublinear, random_superlinear
from yarn_plugin.toml_files import FileError, validate

TIME_UNITS = {"minutes": 60.0, "seconds": 1.0}
"""Seconds of each unit that a file may have; it does not say which one."""

Identifier = Annotated[str, BeforeValidator(lambda value: str(value) if isinstance(value, int) else value)]
Multiplier = Annotated[float, Field(gt=0, le=1)]


class JobFields(BaseModel):
    """A job; a model's profile has some of these fields."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)

    job_id: Identifier = Field(min_length=1, max_length=100)
    job_group_id: Identifier = Field(min_length=1, max_length=100)
    start_time: float = Field(ge=0, le=1e9)
    total_iterations: int = Field(ge=0, le=10**12)
    time_per_iteration: float = Field(gt=0, le=1e6)
    max_parallelism: int = Field(ge=1, le=100_000)
    cross_slot_slowdown: Multiplier = 1.0
    cross_machine_slowdown: Multiplier = 1.0
    cross_rack_slowdown: Multiplier = 1.0
    loss_function_type: Literal["sublinear", "superlinear"] = "sublinear"
    random_seed: int = 0

    def slowdown(self) -> Slowdown:
        """As time factors."""
        return Slowdown(1 / self.cross_slot_slowdown, 1 / self.cross_machine_slowdown, 1 / self.cross_rack_slowdown)

    def loss(self) -> Loss:
        """The loss curve that its seed draws, from 1 to 0 over all of its iterations."""
        draw = random_sublinear if self.loss_function_type == "sublinear" else random_superlinear
        return draw(max(self.total_iterations, 1), self.random_seed)


class WorkloadFile(BaseModel):
    """The list of jobs, under a name for errors."""

    jobs: tuple[JobFields, ...] = Field(min_length=1)


@dataclass(frozen=True, slots=True)
class _CutJob:
    fields: JobFields
    iterations: int


def load(where: str, path: Path, cut: bool = True, time_unit: str = "minutes") -> TrainingWorkload:
    """The applications of a file. `where`: names it in errors. `cut`: apply the cut of iterations. `time_unit`: of its
    times.

    Raises:
        FileError: the file is invalid; names the job, the field, the value and what is expected.
    """
    listed = read_json(where, path)
    if not isinstance(listed, list):
        raise FileError(f"{where}: must be a list of jobs")
    return workload(where, listed, cut, time_unit)


def workload(where: str, listed: list[Any], cut: bool = True, time_unit: str = "minutes") -> TrainingWorkload:
    """The applications of a list of jobs, each an object.

    Raises:
        FileError: a job is invalid.
    """
    jobs = validate(WorkloadFile, {"jobs": listed}, where).jobs
    _check_unique(where, jobs)
    groups: dict[str, list[JobFields]] = defaultdict(list)
    for job in jobs:
        groups[job.job_group_id].append(job)
    notes = list(ignored_keys((key for job in listed for key in job), JobFields.model_fields))
    if any(len({job.start_time for job in group}) > 1 for group in groups.values()):
        notes.append("all jobs of a group arrive with its first")
    empty = sum(job.total_iterations == 0 for job in jobs)
    if empty:
        notes.append(f"left out {count(empty, 'job')} of 0 iterations")
    unit_s = TIME_UNITS[time_unit]
    apps = [_app(name, _cut(group) if cut else _whole(group), unit_s) for name, group in groups.items()]
    return TrainingWorkload(ordered([app for app in apps if app.jobs]), tuple(notes))


def _check_unique(where: str, jobs: tuple[JobFields, ...]) -> None:
    seen: dict[tuple[str, str], int] = {}
    for number, job in enumerate(jobs, 1):
        first = seen.setdefault((job.job_group_id, job.job_id), number)
        if first != number:
            raise FileError(f"{where}: jobs #{number}.job_id {job.job_id!r}: must differ from that of job #{first}")


def _app(name: str, jobs: list[_CutJob], unit_s: float) -> TrainingApp:
    arrival = min(job.fields.start_time for job in jobs) * unit_s
    return TrainingApp(f"app{name}", arrival, tuple(_job(job, unit_s) for job in jobs if job.iterations > 0))


def _job(job: _CutJob, unit_s: float) -> TrainingJob:
    fields = job.fields
    return TrainingJob(
        id=fields.job_id,
        iterations=float(job.iterations),
        iteration_s=fields.time_per_iteration * unit_s,
        max_gpus=fields.max_parallelism,
        slowdown=fields.slowdown(),
        loss=fields.loss(),
    )


def _whole(group: list[JobFields]) -> list[_CutJob]:
    return [_CutJob(job, job.total_iterations) for job in group]


def _cut(group: list[JobFields]) -> list[_CutJob]:
    """With n jobs sorted by (iterations, id) and step = most iterations / floor(log2 n): the lower half of them runs at
    most step iterations, half of the rest at most 2 step, and so on; the last keeps its own."""
    jobs = sorted(group, key=lambda job: (job.total_iterations, _order(job.job_id)))
    if len(jobs) == 1:
        return _whole(jobs)
    step = jobs[-1].total_iterations // (len(jobs).bit_length() - 1)
    cut: list[_CutJob] = []
    for phase in range(1, len(jobs)):
        for job in jobs[len(cut) : len(cut) + (len(jobs) - len(cut)) // 2]:
            cut.append(_CutJob(job, min(job.total_iterations, step * phase)))
    return [*cut, *_whole(jobs[len(cut) :])]


def _order(identifier: str) -> tuple[int, str]:
    """Numbers in their order, before other identifiers."""
    return (int(identifier), identifier) if identifier.isdecimal() else (10**18, identifier)
