"""The workload file: applications listed in TOML or CSV, or generated from a seed."""

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from pydantic import ConfigDict, Field, model_validator

from yarn_plugin.errors import BadInputError
from yarn_plugin.simulation.application import Application, Container, Kind
from yarn_plugin.simulation.cluster import Duration
from yarn_plugin.simulation.files import FileError, Section, text_of, toml_of, validated
from yarn_plugin.simulation.generate import GenerateSection, drawn, generated


class Common(Section):
    """What all applications have; whatever else is given goes to the application's kind.

    `seed`: applications with the same one draw the same at random, to be compared; otherwise each draws its own.
    `registers`: with the arbiter; otherwise it is submitted to a queue of its own, and is told nothing.
    """

    model_config = ConfigDict(extra="allow", frozen=True, allow_inf_nan=False)

    kind: str
    arrival_s: Duration = 0.0
    name: str | None = Field(default=None, min_length=1, max_length=100)
    group: str | None = Field(default=None, min_length=1, max_length=100)
    user: str = Field(default="user", min_length=1, max_length=100)
    pool: str | None = None
    weight: float = Field(default=1.0, gt=0, le=1000)
    grace_s: float | None = Field(default=None, ge=0, le=3600)
    registers: bool = True
    seed: int | None = None
    memory_mb: int = Field(default=4096, ge=1, le=1_000_000_000)
    vcores: int = Field(default=1, ge=1, le=100_000)
    gpus: int = Field(default=0, ge=0, le=1000)
    master_memory_mb: int = Field(default=1024, ge=1, le=1_000_000_000)
    master_vcores: int = Field(default=1, ge=1, le=100_000)

    def container(self) -> Container:
        """The size of its containers."""
        return Container(self.memory_mb, self.vcores, self.gpus)

    def master(self) -> Container:
        """The size of its master."""
        return Container(self.master_memory_mb, self.master_vcores)

    def parameters(self) -> dict[str, Any]:
        """What is for its kind."""
        return dict(self.model_extra or {})


class WorkloadFile(Section):
    """Applications, listed or generated, or both."""

    applications: tuple[dict[str, Any], ...] = ()
    generate: GenerateSection | None = None

    @model_validator(mode="after")
    def _some(self) -> "WorkloadFile":
        if not self.applications and self.generate is None:
            raise ValueError("no applications: list some as [[applications]], or give [generate]")
        return self


@dataclass(frozen=True, slots=True)
class Submission:
    """An application that is to arrive. `given`: what all have; `parameters`: its kind's, validated."""

    number: int
    given: Common
    kind: Kind
    parameters: Any

    @property
    def name(self) -> str:
        """Its name; by its number, where it was given none."""
        return self.given.name or f"{self.given.kind}-{self.number}"

    @property
    def group(self) -> str:
        """Under which it is shown in charts and tables."""
        return self.given.group or self.given.kind

    def application(self, seed: int) -> Application:
        """It, in virtual time."""
        own = f"{seed}/{self.number}" if self.given.seed is None else f"{seed}/seed {self.given.seed}"
        return self.kind.application(self.parameters, self.given.container(), own)


def load(path: Path, kinds: Mapping[str, Kind], seed: int) -> tuple[Submission, ...]:
    """The applications of a workload file, in the order in which they arrive.

    Raises:
        FileError, BadInputError: it cannot be used; names the file, the field, the value and what is right.
    """
    where = f"--workload {str(path)!r}"
    if path.suffix.lower() == ".csv":
        rows = [{name: cell for name, cell in row.items() if cell not in ("", None)} for row in _csv(path)]
        return _submissions(where, rows, kinds)
    file = validated(WorkloadFile, toml_of("--workload", path), where)
    listed = [drawn(one, Random(f"{seed}/listed/{n}"), where) for n, one in enumerate(file.applications)]
    made = generated(file.generate, seed, where) if file.generate is not None else []
    return _submissions(where, [*listed, *made], kinds)


def _csv(path: Path) -> list[dict[str, Any]]:
    lines = [line for line in text_of("--workload", path).splitlines() if line and not line.startswith("#")]
    try:
        rows = list(csv.DictReader(lines))
    except csv.Error as problem:
        raise FileError(f"--workload {str(path)!r}: not CSV: {problem}") from None
    if not rows:
        raise FileError(f"--workload {str(path)!r}: it needs a line of column names and a line an application")
    for number, row in enumerate(rows, 1):
        if None in row:
            raise FileError(f"--workload {str(path)!r}, row {number}: {row[None]!r}: more cells than columns")
    return [dict(row) for row in rows]


def _submissions(where: str, given: list[dict[str, Any]], kinds: Mapping[str, Kind]) -> tuple[Submission, ...]:
    ordered = [(validated(Common, one, f"{where}, application {n}"), n) for n, one in enumerate(given, 1)]
    ordered.sort(key=lambda pair: (pair[0].arrival_s, pair[1]))
    return tuple(_submission(where, common, number, kinds) for common, number in ordered)


def _submission(where: str, common: Common, number: int, kinds: Mapping[str, Kind]) -> Submission:
    kind = kinds.get(common.kind)
    if kind is None:
        known = f"choose one of {', '.join(kinds)}" if kinds else "no kind is installed; install this package anew"
        raise BadInputError(f"{where}, application {number}: kind", common.kind, known)
    parameters = validated(kind.parameters, common.parameters(), f"{where}, application {number} ({common.kind})")
    return Submission(number, common, kind, parameters)
