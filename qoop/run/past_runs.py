"""The earlier runs of queries, on disk: a small file for each query, which any process may lose, spoil or delete."""

import contextlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Literal

import platformdirs
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from qoop.estimate.guard import PastRun
from yarn_plugin.errors import os_reason
from yarn_plugin.files import write

MAX_RUNS = 50
"""How many runs of a query are kept, cold and others each: more than two of the guard's intervals."""

MAX_QUERIES = 1000
"""How many queries are kept; beyond that, those that ran longest ago are forgotten."""

MAX_BYTES = 64 * 1024
"""No file of ours is larger."""

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class _Run(BaseModel):
    model_config = ConfigDict(frozen=True)
    planned: bool
    seconds: Positive
    slots: Positive
    core_seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    cold: bool
    kept: bool = False


class _File(BaseModel):
    """`data`: identifies what the query read; runs on other data say nothing."""

    model_config = ConfigDict(frozen=True)
    version: Literal[1] = 1
    data: str
    runs: list[_Run]


class PastRuns:
    """The runs of one query on the same data, oldest first.

    No query depends on them: what cannot be read is ignored with a line to `warn`, what cannot be written is not kept.

    Args:
        query: identifies the query, with the settings that it runs under.
        data: identifies the data that it reads.
    """

    def __init__(self, query: str, data: str, warn: Callable[[str], None] = lambda line: None) -> None:
        self._folder = Path(platformdirs.user_cache_dir("qoop")) / "runs-1"
        self._path = self._folder / f"{query}.json"
        self._data, self._warn = data, warn

    def read(self) -> list[PastRun]:
        """The runs."""
        try:
            with self._path.open("rb") as file:
                known = _File.model_validate_json(file.read(MAX_BYTES + 1))
        except FileNotFoundError:
            return []
        except OSError as problem:
            self._warn(f"earlier runs of the query are not known: {os_reason(problem)}")
            return []
        except ValidationError:
            self._warn(f"earlier runs of the query are not known: {str(self._path)!r} is not such a record")
            return []
        return [PastRun(**run.model_dump()) for run in known.runs] if known.data == self._data else []

    def add(self, runs: Iterable[PastRun]) -> None:
        """Add the latest runs. Of two processes that do so at the same time, one may be lost."""
        every = [*self.read(), *runs]
        kept = {id(run) for cold in (True, False) for run in [one for one in every if one.cold == cold][-MAX_RUNS:]}
        try:
            content = _File(data=self._data, runs=[_run(run) for run in every if id(run) in kept])
        except ValidationError:
            # A run of no measurable time.
            return
        with contextlib.suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True)
            write(self._path, content.model_dump_json())
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        files = list(self._folder.iterdir())
        if len(files) <= MAX_QUERIES:
            return
        oldest = sorted((file.stat().st_mtime, file) for file in files)[: len(files) - MAX_QUERIES]
        for _, file in oldest:
            file.unlink(missing_ok=True)


def _run(run: PastRun) -> _Run:
    return _Run(**{name: getattr(run, name) for name in _Run.model_fields})
