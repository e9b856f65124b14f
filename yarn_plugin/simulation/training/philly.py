"""The CSV of Microsoft's Philly cluster: timestamp, duration, num_gpus, cluster (a virtual cluster); a line per job.

The trace does not say which jobs belong together. The rule: a job joins the application of the last job of the same
virtual cluster and number of GPUs if it was submitted at most `gap_s` after that, as a script that explores
hyperparameters does; an application has at most `max_jobs` jobs. It has one network, drawn at random by the shares of
table 3.4. A job runs an iteration per second on its own number of GPUs, all of which it needs (a gang), for as long as
it ran in the trace: its slowdown in the trace is not known, and taken for none. Its loss curve is drawn, by its place
in the application.
"""

import csv
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from random import Random

from pydantic import BaseModel, ConfigDict, Field

from yarn_plugin.model.gpus import Slowdown
from yarn_plugin.quantities import count
from yarn_plugin.simulation.training.apps import TrainingApp, TrainingJob, TrainingWorkload, ordered
from yarn_plugin.simulation.training.files import ignored_keys
from yarn_plugin.simulation.training.loss_curves import random_sublinear
from yarn_plugin.simulation.training.models import TABLE_3_4, slowdowns
from yarn_plugin.toml_files import FileError, read_text, validate

COLUMNS = ("timestamp", "duration", "num_gpus", "cluster")
NOT_NEEDED = ("gpu_time",)
"""Known, and not used: the product of two others."""

GAP_S = 60.0
MAX_JOBS = 100
"""The most jobs of an application in figure 3.2."""


class JobRow(BaseModel):
    """A line."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)

    timestamp: datetime
    duration: float = Field(gt=0, le=1e9)
    num_gpus: int = Field(ge=1, le=100_000)
    cluster: str = Field(default="", max_length=100)


class PhillyFile(BaseModel):
    """The lines, under a name for errors."""

    rows: tuple[JobRow, ...] = Field(min_length=1)


def read(
    where: str,
    path: Path,
    profiles: dict[str, Slowdown] | None = None,
    gap_s: float = GAP_S,
    max_jobs: int = MAX_JOBS,
) -> Callable[[int], TrainingWorkload]:
    """The applications of a file, for each seed of the networks that are drawn. `where`: names it in errors.
    `profiles`: slowdowns of networks.

    Raises:
        FileError: the file is invalid; names the row (counted from 1 after the column names), the field and the value.
    """
    rows, ignored = read_rows(where, path)
    groups = _groups(rows, gap_s, max_jobs)
    start, network = rows[0].timestamp, slowdowns(profiles or {})
    rule = (
        f"made {count(len(groups), 'application')} of {count(len(rows), 'job')}: those of one virtual cluster and "
        f"number of GPUs, each at most {gap_s:g} s after the one before, at most {max_jobs}"
    )
    notes = (*ignored, rule)

    def workload(seed: int) -> TrainingWorkload:
        apps = []
        for number, group in enumerate(groups, 1):
            draw = Random(f"{seed}/philly/{number}")
            model = draw.choices(TABLE_3_4, [model.share for model in TABLE_3_4])[0].name
            arrival = (group[0].timestamp - start).total_seconds()
            jobs = tuple(_job(place, row, model, network[model]) for place, row in enumerate(group, 1))
            apps.append(TrainingApp(f"app{number}", arrival, jobs, user=group[0].cluster or "user"))
        return TrainingWorkload(ordered(apps), notes)

    return workload


def read_rows(where: str, path: Path) -> tuple[list[JobRow], tuple[str, ...]]:
    """The lines of a file in order of time, and notes of what in it is not used.

    Raises:
        FileError: the file is invalid; names the row (counted from 1 after the column names), the field and the value.
    """
    lines = [line for line in read_text(where, path).splitlines() if line.strip()]
    reader = csv.DictReader(lines)
    columns = reader.fieldnames or []
    missing = [name for name in COLUMNS[:3] if name not in columns]
    if missing:
        raise FileError(f"{where}: must have the columns {', '.join(COLUMNS)}; {', '.join(missing)} not found")
    given = validate(PhillyFile, {"rows": list(reader)}, where).rows
    _require_one_clock(where, given)
    return sorted(given, key=lambda row: row.timestamp), ignored_keys(columns, (*COLUMNS, *NOT_NEEDED))


def _require_one_clock(where: str, rows: Sequence[JobRow]) -> None:
    """Times with and without a zone cannot be compared.

    Raises:
        FileError: some rows have a zone, others none; names the first that differs from the first row.
    """
    has_zone = rows[0].timestamp.tzinfo is not None
    for number, row in enumerate(rows, 1):
        if (row.timestamp.tzinfo is not None) != has_zone:
            expected = (
                "must have a time zone, as row #1 has" if has_zone else "must have no time zone, as row #1 has none"
            )
            raise FileError(f"{where}: rows #{number}.timestamp {row.timestamp.isoformat()!r}: {expected}")


def _groups(rows: list[JobRow], gap_s: float, max_jobs: int) -> list[list[JobRow]]:
    """Jobs by application, in order of their first jobs."""
    groups: list[list[JobRow]] = []
    latest: dict[tuple[str, int], list[JobRow]] = {}
    for row in rows:
        key = row.cluster, row.num_gpus
        group = latest.get(key)
        near = group is not None and (row.timestamp - group[-1].timestamp).total_seconds() <= gap_s
        if group is None or not near or len(group) >= max_jobs:
            group = latest[key] = []
            groups.append(group)
        group.append(row)
    return groups


def _job(place: int, row: JobRow, model: str, slowdown: Slowdown) -> TrainingJob:
    gpus = row.num_gpus
    loss = random_sublinear(max(round(row.duration), 1), place)
    return TrainingJob(str(place), row.duration, float(gpus), gpus, gpus, 1, slowdown, loss, model)
