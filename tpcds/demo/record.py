"""The files that the demo writes, from which its report is made.

A folder with `demo.json` (`DemoRecord`), and the files it refers to, by paths relative to it:

- the journal of each run of a query (`qoop.run.journal`), written by the query's driver;
- a file of cluster samples for each scenario: JSON lines, a `Sample` per line and about one per second, from before
  the first submission to after the last end. An application that has ended is missing from the next sample.

Times are seconds since the epoch, on one clock.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tpcds.demo.effects import Times
from tpcds.errors import TpcdsError
from yarn_plugin import files
from yarn_plugin.errors import os_reason
from yarn_plugin.validation import expectation


class DemoReportError(TpcdsError):
    """The demo's report cannot be made from its files."""


Fraction = Annotated[float, Field(ge=0)]


class RecordModel(BaseModel):
    """A model stored on disk; unknown fields are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    def write(self, path: Path) -> None:
        """Write it to a file, atomically.

        Raises:
            DemoReportError: it cannot be written; what was in the file stays.
        """
        try:
            files.write(path, self.model_dump_json(indent=2) + "\n")
        except OSError as problem:
            raise DemoReportError(f"record {str(path)!r}: cannot be written ({os_reason(problem)})") from None


class AppSample(RecordModel):
    """An application at one moment.

    `name`: that of its run ("A", "B"), or its name in YARN if it is not part of the demo. `guarantee`, `entitlement`:
    the share last sent by the arbiter, as fractions of the pool; None before the first one.
    """

    name: str
    memory_mb: int
    vcores: int
    containers: int
    guarantee: Fraction | None = None
    entitlement: Fraction | None = None


class Sample(RecordModel):
    """The cluster at one moment: the capacity of its active nodes, and what is allocated to each application."""

    at: float
    memory_mb: int
    vcores: int
    apps: tuple[AppSample, ...]


class Run(RecordModel):
    """A run of a query.

    `name`: "A" or "B". `seconds`: from the query's text to its last row, measured by its driver, without the startup
    of Spark. `equal_to_duckdb`: None if it was not compared. `journal`: None if none was written.
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


class Scenario(RecordModel):
    """Queries that shared the cluster, in the order of their submission; the first one is A."""

    runs: Annotated[tuple[Run, ...], Field(min_length=1)]
    samples: Path | None = None


class Environment(RecordModel):
    """The environment of the demo. `quotas`: how a node's CPU time is limited, or why it is not, as text."""

    versions: dict[str, str]
    machine_cores: int
    machine_memory_mb: int
    nodes: int
    node_vcores: int
    node_memory_mb: int
    cpu_per_node: float | None
    quotas: str
    executor: str


class DemoRecord(RecordModel):
    """The demo. `switching`: A and B together. `once`: the same, but A keeps its first plan; None in early records.
    `fixed`: the same, but A runs as written. `alone`: A without B.

    `notes`: further remarks for the reader, a sentence each.
    """

    version: Literal[1] = 1
    scale: float
    switching: Scenario
    once: Scenario | None = None
    fixed: Scenario
    alone: Scenario
    environment: Environment
    notes: tuple[str, ...] = ()

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read `demo.json`.

        Raises:
            DemoReportError: it cannot be read, or is invalid; names the field.
        """
        try:
            return cls.model_validate_json(path.read_bytes())
        except OSError as problem:
            raise DemoReportError(f"demo {str(path)!r}: {os_reason(problem)}") from None
        except ValidationError as wrong:
            raise DemoReportError(f"demo {str(path)!r}: {describe(wrong)}") from None

    def scenarios(self) -> tuple[tuple[str, Scenario], ...]:
        """The scenarios with their names."""
        once = () if self.once is None else (("planned once", self.once),)
        return ("with switching", self.switching), *once, ("as written", self.fixed), ("without B", self.alone)

    @property
    def times(self) -> Times:
        """What A took beside B, by how it ran."""
        once = None if self.once is None else self.once.runs[0].seconds
        return Times(self.fixed.runs[0].seconds, once, self.switching.runs[0].seconds)


def read_samples(path: Path) -> Iterator[Sample]:
    """The samples of a file, in order.

    Raises:
        DemoReportError: the file cannot be read, or a line is malformed.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as problem:
        raise DemoReportError(f"samples {str(path)!r}: {os_reason(problem)}") from None
    for number, line in enumerate(lines, 1):
        try:
            yield Sample.model_validate_json(line)
        except ValidationError as wrong:
            if number == len(lines):
                # The sampler was stopped while writing this line.
                return
            raise DemoReportError(f"samples {str(path)!r}, line {number}: {describe(wrong)}") from None


def describe(wrong: ValidationError) -> str:
    """The first error of a file, with its field."""
    error = wrong.errors()[0]
    where = ".".join(map(str, error["loc"]))
    expected = expectation(dict(error), "object")
    return f"{where}: {expected}" if where else expected
