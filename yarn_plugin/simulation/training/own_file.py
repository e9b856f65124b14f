"""Workloads in our own format, TOML or JSON, to write by hand.

[[apps]]
name = "speech search"
arrival_s = 600
search = "successive_halving"      # or "curve_stopping"; default: "plain"
phases = [8, 16, 36]               # iterations of each job of a phase
user = "ann"                       # optional, as is weight = 2.0

[[apps.jobs]]
count = 4                          # equal jobs; optional, as is id = "a"
iterations = 60
iteration_s = 100                  # on one GPU
max_gpus = 8                       # optional, as are min_gpus and step_gpus
model = "VGG16"                    # a network of table 3.4, or
slowdown = { machine = 1.4, rack = 2.0 }     # slot, machine, rack; at least 1
speeds = { A100 = 2.5 }            # optional: on models of GPUs; 1 on others
loss = { kind = "sublinear", seed = 7 }      # optional
"""

from collections import Counter
from collections.abc import Callable
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from yarn_plugin.model.gpus import Slowdown
from yarn_plugin.model.loss import Loss
from yarn_plugin.simulation.cluster import Duration
from yarn_plugin.simulation.training.apps import SearchKind, TrainingApp, TrainingJob, TrainingWorkload, ordered
from yarn_plugin.simulation.training.generate import APPS, PERIOD_S, Generator
from yarn_plugin.simulation.training.loss_curves import random_sublinear, random_superlinear
from yarn_plugin.simulation.training.models import UNKNOWN, slowdowns
from yarn_plugin.toml_files import FileError, Section, validate
from yarn_plugin.validation import one_of

Factor = Annotated[float, Field(ge=1, le=1000)]
GpuCount = Annotated[int, Field(ge=1, le=100_000)]
Iterations = Annotated[float, Field(gt=0, le=1e15)]


class SlowdownSection(Section):
    """Time factors across slots, machines and racks; each at least the one before, if left out equal to it."""

    slot: Factor = 1.0
    machine: Factor | None = None
    rack: Factor | None = None

    def slowdown(self) -> Slowdown:
        """The same with all three."""
        machine = self.slot if self.machine is None else self.machine
        return Slowdown(self.slot, machine, machine if self.rack is None else self.rack)


class LossSection(Section):
    """A loss curve drawn from a seed, which falls from 1 to 0 over the job's iterations."""

    kind: Literal["sublinear", "superlinear"] = "sublinear"
    seed: int = 0

    def loss(self, iterations: float, number: int) -> Loss:
        """The curve of the job with this number of several equal ones."""
        draw = random_sublinear if self.kind == "sublinear" else random_superlinear
        return draw(max(round(iterations), 1), self.seed + number)


class JobSection(Section):
    """`count` equal jobs; their ids get numbers if there are several."""

    id: str | None = Field(default=None, min_length=1, max_length=100)
    count: int = Field(default=1, ge=1, le=10_000)
    iterations: Iterations
    iteration_s: float = Field(gt=0, le=31_536_000)
    min_gpus: GpuCount = 1
    max_gpus: GpuCount = 1
    step_gpus: GpuCount = 1
    model: str = Field(default="", max_length=100)
    slowdown: SlowdownSection | None = None
    loss: LossSection | None = None
    speeds: dict[str, Annotated[float, Field(gt=0, le=1000)]] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.max_gpus < self.min_gpus:
            raise ValueError(f"max_gpus: must be at least min_gpus, {self.min_gpus}")
        if self.slowdown is None and self.model and self.model not in slowdowns({}):
            raise ValueError(f"model: {one_of(slowdowns({}))}; or give a slowdown")
        return self

    def jobs(self, place: int) -> list[TrainingJob]:
        """The jobs. `place`: of the section in its application, counted from 1."""
        name = self.id or str(place)
        known = slowdowns({}).get(self.model, UNKNOWN)
        return [
            TrainingJob(
                id=name if self.count == 1 else f"{name}-{number + 1}",
                iterations=self.iterations,
                iteration_s=self.iteration_s,
                min_gpus=self.min_gpus,
                max_gpus=self.max_gpus,
                step_gpus=self.step_gpus,
                slowdown=self.slowdown.slowdown() if self.slowdown else known,
                loss=self.loss.loss(self.iterations, number) if self.loss else None,
                model=self.model,
                speeds=tuple(sorted(self.speeds.items())),
            )
            for number in range(self.count)
        ]


class AppSection(Section):
    """An application."""

    name: str | None = Field(default=None, min_length=1, max_length=100)
    arrival_s: Duration = 0.0
    search: SearchKind = "plain"
    phases: tuple[Iterations, ...] = ()
    doubling: bool = False
    min_gain: float = Field(default=0.0, ge=0, le=1)
    user: str = Field(default="user", min_length=1, max_length=100)
    weight: float = Field(default=1.0, gt=0, le=1000)
    jobs: tuple[JobSection, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if (self.search == "successive_halving") != bool(self.phases):
            raise ValueError("phases: required with search = 'successive_halving', and only with it")
        if self.doubling and not self.phases:
            raise ValueError("doubling: only with search = 'successive_halving'")
        count = sum(job.count for job in self.jobs)
        if self.phases and count >> (len(self.phases) - 1) < 1:
            raise ValueError(f"phases: {count} jobs can be halved at most {count.bit_length() - 1} times")
        ids = [
            job.id for section, place in zip(self.jobs, range(1, 10**6), strict=False) for job in section.jobs(place)
        ]
        if len(set(ids)) < len(ids):
            raise ValueError("jobs: ids must be different")
        return self

    def app(self, place: int) -> TrainingApp:
        """The application. `place`: in the file, counted from 1."""
        jobs = tuple(job for number, section in enumerate(self.jobs, 1) for job in section.jobs(number))
        return TrainingApp(
            self.name or f"app{place}",
            self.arrival_s,
            jobs,
            self.search,
            self.phases,
            self.min_gain,
            self.user,
            self.weight,
            self.doubling,
        )


class GenerateSection(Section):
    """Generated applications; see `Generator`."""

    workload: Literal[1, 2]
    apps: int = Field(default=APPS, ge=1, le=100_000)
    period_s: float = Field(default=PERIOD_S, gt=0, le=31_536_000)
    scale: float = Field(default=1.0, gt=0, le=1000)
    network_share: float | None = Field(default=None, ge=0, le=1)
    gangs: bool = False

    def generator(self) -> Generator:
        """The same inside."""
        return Generator(self.workload, self.apps, self.period_s, self.scale, self.network_share, self.gangs)


class OwnFile(Section):
    """Applications: listed, generated, or both."""

    apps: tuple[AppSection, ...] = ()
    generate: GenerateSection | None = None

    @model_validator(mode="after")
    def _some(self) -> Self:
        if not self.apps and self.generate is None:
            raise ValueError("has no applications; list them as [[apps]], or add [generate]")
        return self


def read(where: str, table: Any) -> Callable[[int], TrainingWorkload]:
    """The applications of a table, for each seed of those that are generated.

    Raises:
        FileError: it is invalid; names all fields that are.
    """
    file = validate(OwnFile, table, where, keys_in="docs/training-workloads.md")
    listed = [section.app(place) for place, section in enumerate(file.apps, 1)]
    generator = None if file.generate is None else file.generate.generator()

    def workload(seed: int) -> TrainingWorkload:
        apps = [*listed, *(generator.generate(seed).apps if generator else ())]
        repeated = [name for name, times in Counter(app.name for app in apps).items() if times > 1]
        if repeated:
            names = ", ".join(map(repr, sorted(repeated)))
            raise FileError(f"{where}: apps: names must be different; {names} is repeated")
        return TrainingWorkload(ordered(apps))

    return workload
