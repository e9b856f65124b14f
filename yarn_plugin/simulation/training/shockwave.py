r"""Traces of Gavel and Shockwave: a job per line, 12 columns separated by tabs, without column names.

| column | what | here |
|---|---|---|
| 1 | job type: network and batch size, `ResNet-50 (batch size 64)` | the network's slowdown |
| 2 | command that starts it | not used |
| 3 | working directory of the command | not used |
| 4 | argument of the command for the number of steps | not used |
| 5 | whether the command needs a data directory, 0 or 1 | not used |
| 6 | total steps | iterations |
| 7 | scale factor: number of workers, one GPU each | its gang: it needs all |
| 8 | mode: `static`, or how the batch size changes while it runs (`accordion`, `gns`) | all taken for static |
| 9 | priority weight | the application's weight |
| 10 | service-level objective, a multiple of the duration; negative: none | not used |
| 11 | duration on that many V100 GPUs, in seconds | with column 6, the time of an iteration |
| 12 | arrival, in seconds | arrival |

Each job is an application of its own. Its loss curve is drawn, by its line.
"""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from yarn_plugin.model.gpus import Slowdown
from yarn_plugin.quantities import count
from yarn_plugin.simulation.training.apps import TrainingApp, TrainingJob, TrainingWorkload, ordered
from yarn_plugin.simulation.training.loss_curves import random_sublinear
from yarn_plugin.simulation.training.models import UNKNOWN, slowdowns
from yarn_plugin.simulation.training.profiles import GAVEL_NAMES
from yarn_plugin.toml_files import FileError, read_text, validate

COLUMNS = (
    "job_type",
    "command",
    "working_directory",
    "num_steps_arg",
    "needs_data_dir",
    "total_steps",
    "scale_factor",
    "mode",
    "priority_weight",
    "slo",
    "duration",
    "arrival_time",
)


class TraceRow(BaseModel):
    """A line."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)

    job_type: str = Field(min_length=1)
    total_steps: float = Field(ge=1, le=1e15)
    scale_factor: int = Field(ge=1, le=100_000)
    mode: str
    priority_weight: float = Field(gt=0, le=1000)
    duration: float = Field(gt=0, le=1e9)
    arrival_time: float = Field(ge=0, le=1e10)

    @property
    def model(self) -> str:
        """The network."""
        family = self.job_type.partition(" (")[0]
        return GAVEL_NAMES.get(family, family)


class TraceFile(BaseModel):
    """The lines, under a name for errors."""

    rows: tuple[TraceRow, ...] = Field(min_length=1)


def load(where: str, path: Path, profiles: dict[str, Slowdown] | None = None) -> TrainingWorkload:
    """The applications of a file. `where`: names it in errors. `profiles`: slowdowns of networks.

    Raises:
        FileError: the file is invalid; names the row, the field, the value and what is expected.
    """
    cells = [line.split("\t") for line in read_text(where, path).splitlines() if line.strip()]
    for number, row in enumerate(cells, 1):
        if len(row) != len(COLUMNS):
            columns = f"{len(COLUMNS)} columns separated by tabs"
            raise FileError(f"{where}: rows #{number}: must have {columns}, not {len(row)}")
    rows = validate(TraceFile, {"rows": [dict(zip(COLUMNS, row, strict=True)) for row in cells]}, where).rows
    network = slowdowns(profiles or {})
    apps = [_app(f"job{number}", row, network.get(row.model, UNKNOWN), number) for number, row in enumerate(rows, 1)]
    changing = sum(row.mode != "static" for row in rows)
    notes = (f"took {count(changing, 'job')} with changing batch sizes for static",) if changing else ()
    return TrainingWorkload(ordered(apps), notes)


def _app(name: str, row: TraceRow, slowdown: Slowdown, seed: int) -> TrainingApp:
    gpus = row.scale_factor
    iteration_s = row.duration * gpus / row.total_steps
    loss = random_sublinear(round(row.total_steps), seed)
    job = TrainingJob("1", row.total_steps, iteration_s, gpus, gpus, 1, slowdown, loss, row.model)
    return TrainingApp(name, row.arrival_time, (job,), weight=row.priority_weight)
