"""The workload file: applications listed in TOML or CSV, or generated from a seed."""

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from pydantic import ConfigDict, Field, ValidationInfo, field_validator, model_validator

from yarn_plugin.api.jobs import Job, JobList, check_together
from yarn_plugin.errors import BadInputError
from yarn_plugin.simulation.application import Application, ApplicationKind, Container
from yarn_plugin.simulation.cluster import Duration
from yarn_plugin.simulation.generate import GenerateSection, draw_fields, generate_applications
from yarn_plugin.toml_files import FileError, Section, read_text, read_toml, validate
from yarn_plugin.validation import one_of


class CommonFields(Section):
    """The fields of every application; other fields belong to its kind.

    `seed`: applications with the same seed draw the same random values, for comparison; by default each has its own.
    `registers`: with the arbiter; otherwise the application is only submitted, to a queue of its own. `jobs`: what
    it declares once it has registered. `queue`: on stock YARN, where the cluster's own queues are simulated.
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
    queue: str | None = Field(default=None, min_length=1, max_length=1000)
    jobs: JobList = Field(default=[])
    seed: int | None = None
    memory_mb: int = Field(default=4096, ge=1, le=1_000_000_000)
    vcores: int = Field(default=1, ge=1, le=100_000)
    gpus: int = Field(default=0, ge=0, le=1000)
    master_memory_mb: int = Field(default=1024, ge=1, le=1_000_000_000)
    master_vcores: int = Field(default=1, ge=1, le=100_000)

    @field_validator("jobs")
    @classmethod
    def _of_one_tenant(cls, jobs: list[Job], info: ValidationInfo) -> list[Job]:
        if jobs and not info.data.get("registers", True):
            raise ValueError("must be left out where registers is false: only registered applications declare jobs")
        return check_together(jobs, info.data.get("user"))

    def container(self) -> Container:
        """The size of the application's containers."""
        return Container(self.memory_mb, self.vcores, self.gpus)

    def master(self) -> Container:
        """The size of the application master."""
        return Container(self.master_memory_mb, self.master_vcores)

    def parameters(self) -> dict[str, Any]:
        """The fields of the application's kind."""
        return dict(self.model_extra or {})


class WorkloadFile(Section):
    """Applications: listed, generated, or both."""

    applications: tuple[dict[str, Any], ...] = ()
    generate: GenerateSection | None = None

    @model_validator(mode="after")
    def _some(self) -> "WorkloadFile":
        if not self.applications and self.generate is None:
            raise ValueError("has no applications; list them as [[applications]], or add [generate]")
        return self


@dataclass(frozen=True, slots=True)
class Submission:
    """An application to submit. `common`: its common fields; `parameters`: those of its kind, validated."""

    number: int
    common: CommonFields
    kind: ApplicationKind
    parameters: Any

    @property
    def name(self) -> str:
        """The application's name; by default, its kind and number."""
        return self.common.name or f"{self.common.kind}-{self.number}"

    @property
    def group(self) -> str:
        """The group of the application in charts and tables."""
        return self.common.group or self.common.kind

    def application(self, seed: int) -> Application:
        """The application in virtual time."""
        own = f"{seed}/{self.number}" if self.common.seed is None else f"{seed}/seed {self.common.seed}"
        return self.kind.application(self.parameters, self.common.container(), own)


def load(path: Path, kinds: Mapping[str, ApplicationKind], seed: int) -> tuple[Submission, ...]:
    """The applications of a workload file, in order of arrival.

    Raises:
        FileError, BadInputError: the file is invalid; names the file, the field, the value and what is expected.
    """
    where = f"--workload {str(path)!r}"
    if path.suffix.lower() == ".csv":
        rows = [{name: cell for name, cell in row.items() if cell not in ("", None)} for row in _csv(where, path)]
        return _submissions(where, rows, kinds)
    file = validate(WorkloadFile, read_toml(where, path), where, keys_in="docs/simulator.md")
    listed = [draw_fields(fields, Random(f"{seed}/listed/{n}"), where) for n, fields in enumerate(file.applications)]
    generated = generate_applications(file.generate, seed, where) if file.generate is not None else []
    return _submissions(where, [*listed, *generated], kinds)


def _csv(where: str, path: Path) -> list[dict[str, Any]]:
    lines = [line for line in read_text(where, path).splitlines() if line and not line.startswith("#")]
    try:
        rows = list(csv.DictReader(lines))
    except csv.Error as problem:
        raise FileError(f"{where}: not CSV: {problem}") from None
    if not rows:
        raise FileError(f"{where}: must have a line of column names and a line per application")
    if "kind" not in rows[0]:
        raise FileError(
            f"{where}: column kind: required for applications; jobs of a training trace have the columns timestamp, "
            "duration, num_gpus, cluster"
        )
    for number, row in enumerate(rows, 1):
        if None in row:
            raise FileError(f"{where}, row {number}: has more cells than columns; remove {row[None]!r}")
    return [dict(row) for row in rows]


def _submissions(
    where: str, applications: list[dict[str, Any]], kinds: Mapping[str, ApplicationKind]
) -> tuple[Submission, ...]:
    ordered = [
        (validate(CommonFields, fields, f"{where}, application {n}"), n) for n, fields in enumerate(applications, 1)
    ]
    ordered.sort(key=lambda pair: (pair[0].arrival_s, pair[1]))
    return tuple(_submission(where, common, number, kinds) for common, number in ordered)


def _submission(where: str, common: CommonFields, number: int, kinds: Mapping[str, ApplicationKind]) -> Submission:
    kind = kinds.get(common.kind)
    if kind is None:
        known = one_of(kinds, common.kind) if kinds else "no kind of application is installed; reinstall yarn-plugin"
        raise BadInputError(f"{where}, application {number}: kind", common.kind, known)
    parameters = validate(kind.parameters, common.parameters(), f"{where}, application {number} ({common.kind})")
    return Submission(number, common, kind, parameters)
