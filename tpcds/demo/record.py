"""The files that the demo leaves behind, and its report is made of.

A folder with `story.json` (`Story`), beside it what that names, by paths relative to it:

- a journal for each run of a query (`qoop.run.journal`), as the query's driver wrote it;
- for each scene a file of samples of the cluster: JSON lines, a `Sample` each, about one a second, from before the
  first submission to after the last end. What is no longer there is left out of the next sample.

Times are seconds since the epoch, on one clock.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tpcds.errors import TpcdsError


class DemoReportError(TpcdsError):
    """The report of the demo cannot be made from its files."""


Fraction = Annotated[float, Field(ge=0)]


class Recorded(BaseModel):
    """Something on disk: unknown fields are refused, so a misspelt one is noticed."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class AppSample(Recorded):
    """An application at one moment.

    `name`: that of its run ("A", "B"), or YARN's where it is none of the story's. `guarantee`, `entitlement`: the
    share that the arbiter told it last, as fractions of the pool; None before it was told one.
    """

    name: str
    memory_mb: int
    vcores: int
    containers: int
    guarantee: Fraction | None = None
    entitlement: Fraction | None = None


class Sample(Recorded):
    """The cluster at one moment: what it has (nodes that take containers), and what each application holds."""

    at: float
    memory_mb: int
    vcores: int
    apps: tuple[AppSample, ...]


class Run(Recorded):
    """A run of a query.

    `name`: "A" or "B". `seconds`: from the query's text to its last row, as its driver measured it, without the start
    of Spark. `equal_to_duckdb`: None where it was not compared. `journal`: None where none was written.
    """

    name: str
    query: int
    switching: bool
    submitted_at: float
    ended_at: float
    seconds: float
    rows: int
    equal_to_duckdb: bool | None = None
    differences: tuple[str, ...] = ()
    journal: Path | None = None
    yarn_app: str | None = None


class Scene(Recorded):
    """Queries that had the cluster at the same time, in the order of their submission; the first is A."""

    runs: Annotated[tuple[Run, ...], Field(min_length=1)]
    samples: Path | None = None


class Environment(Recorded):
    """What the demo ran on. `quotas`: how a node's processor time is limited, in words, or why it is not."""

    versions: dict[str, str]
    machine_cores: int
    machine_memory_mb: int
    nodes: int
    node_vcores: int
    node_memory_mb: int
    cpu_per_node: float | None
    quotas: str
    executor: str


class Story(Recorded):
    """The demo. `switching`: A, and B beside it. `fixed`: the same with A's switching off. `alone`: A without B.

    `notes`: anything else that a reader should know, a sentence each.
    """

    version: Literal[1] = 1
    scale: float
    switching: Scene
    fixed: Scene
    alone: Scene
    environment: Environment
    notes: tuple[str, ...] = ()

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read `story.json`.

        Raises:
            DemoReportError: it cannot be read, or is not a story; with the field.
        """
        try:
            return cls.model_validate_json(path.read_bytes())
        except OSError as problem:
            raise DemoReportError(f"story {str(path)!r}: {problem.strerror}") from None
        except ValidationError as wrong:
            raise DemoReportError(f"story {str(path)!r}: {_first(wrong)}") from None

    def scenes(self) -> tuple[tuple[str, Scene], ...]:
        """The scenes with their names."""
        return ("with switching", self.switching), ("switching off", self.fixed), ("without B", self.alone)


def read_samples(path: Path) -> Iterator[Sample]:
    """The samples of a file, in order.

    Raises:
        DemoReportError: it cannot be read, or a line is no sample.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as problem:
        raise DemoReportError(f"samples {str(path)!r}: {problem.strerror}") from None
    for number, line in enumerate(lines, 1):
        try:
            yield Sample.model_validate_json(line)
        except ValidationError as wrong:
            if number == len(lines):
                # The sampler was ended while it wrote.
                return
            raise DemoReportError(f"samples {str(path)!r}, line {number}: {_first(wrong)}") from None


def _first(wrong: ValidationError) -> str:
    error = wrong.errors()[0]
    where = ".".join(map(str, error["loc"]))
    return f"{where}: {error['msg']}" if where else str(error["msg"])
