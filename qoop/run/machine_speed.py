"""The latest runs on this machine, on disk, from which its speed is learned."""

import contextlib
from pathlib import Path
from typing import Annotated

import platformdirs
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from qoop.estimate.speed import Speed, TimedRun, speed_of
from yarn_plugin.files import write

MAX_RUNS = 20
"""How many runs are kept, cold and others each: a machine that becomes busier or idle is known after half as many."""

Seconds = Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)]


class _Run(BaseModel):
    model_config = ConfigDict(frozen=True)
    nominal: Seconds
    seconds: Seconds
    cold: bool


class _File(BaseModel):
    runs: Annotated[list[_Run], Field(max_length=2 * MAX_RUNS)] = []


def read_speed() -> Speed:
    """The speed of this machine; nominal, if nothing was run yet."""
    return speed_of(TimedRun(**dict(run)) for run in _read())


def add_run(run: TimedRun) -> None:
    """Keep what a run took. If two processes add at once, what one adds may be lost."""
    try:
        every = [*_read(), _Run(nominal=run.nominal, seconds=run.seconds, cold=run.cold)]
    except ValidationError:
        # A run of no measurable time.
        return
    kept = [one for cold in (True, False) for one in [run for run in every if run.cold == cold][-MAX_RUNS:]]
    with contextlib.suppress(OSError):
        _path().parent.mkdir(parents=True, exist_ok=True)
        write(_path(), _File(runs=kept).model_dump_json())


def _path() -> Path:
    return Path(platformdirs.user_cache_dir("qoop")) / "speed-1.json"


def _read() -> list[_Run]:
    try:
        return _File.model_validate_json(_path().read_bytes()).runs
    except (OSError, ValidationError):
        return []
