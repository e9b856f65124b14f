"""The file that describes a search, such as `app.toml` (docs/training.md)."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from themis_agent import command_words
from themis_agent.agent.settings import RULES, Settings
from themis_agent.app_conflicts import conflicts, constraint
from themis_agent.dimensions import MAX_TRIALS, AnyDimension, Parameters, Value, combinations
from themis_agent.search import bracket_sizes
from themis_agent.trial.store import store_at
from themis_agent.trial.wire import MAX_METRICS
from yarn_plugin.api.jobs import MAX_JOBS, GpuPart, Job, JobList, Pods
from yarn_plugin.errors import BadInputError
from yarn_plugin.toml_files import FileError, Section, matching, read_toml, validate

_NAME = r"[A-Za-z_]\w{0,63}"
_PARAMETER = matching(_NAME, "must be a name of letters, digits and _, such as learning_rate")
_METRIC = matching(
    r"(?=.*[^\W_])[^\x00-\x20\x7f](?:[^\x00-\x1f\x7f]{0,98}[^\x00-\x20\x7f])?",
    "must be a name of at most 100 characters with a letter or digit, such as val_loss",
)


def _of_store(url: str) -> str:
    try:
        store_at(url)
    except BadInputError as problem:
        raise ValueError(problem.expected) from None
    return url


class GpusPerTrial(Section):
    """A trial can use `min`, `min` + `step`, ... up to `max` GPUs."""

    min: Annotated[int, Field(ge=1)] = 1
    max: Annotated[int, Field(ge=1)] = 1
    step: Annotated[int, Field(ge=1)] = 1

    @model_validator(mode="after")
    def _is_range(self) -> Self:
        if self.max < self.min:
            raise ValueError(f"max must be at least min, {self.min}")
        return self


class Environment(Section):
    """What the command runs in. `python`: an interpreter, which `python` at the start of the command then stands for.
    `files`, `archives`: localised into its working directory, as PATH#NAME under another name. `env`: environment
    variables. `image`: of a container."""

    python: str | None = None
    files: tuple[str, ...] = ()
    archives: tuple[str, ...] = ()
    env: dict[Annotated[str, matching(_NAME, "must be the name of an environment variable")], str] = Field(default={})
    image: str | None = None


class Side(Section):
    """How a trial runs on a GPU, or on a slot of cores. `command`, `memory_mb`, `vcores`: by default, the search's.
    `env`: environment variables beside those of the search. `speed`: its steps per second, if that is known."""

    command: str | list[str] | None = None
    env: dict[Annotated[str, matching(_NAME, "must be the name of an environment variable")], str] = Field(default={})
    memory_mb: Annotated[int, Field(ge=64)] | None = None
    vcores: Annotated[int, Field(ge=1)] | None = None
    speed: Annotated[float, Field(gt=0, le=1e12)] | None = None


class Variants(Section):
    """How a population goes on (`algorithm = "population"`). `ready_steps`: of a generation; by default, a tenth of
    `max_steps`. `quantile`: the part of the population that is replaced at its end. The parameters of a new trial are
    those of its parent: each number times `perturbation` or divided by it, or with the probability `resample`, drawn
    anew, as a choice may be."""

    ready_steps: Annotated[int, Field(ge=1, le=10**9)] | None = None
    quantile: Annotated[float, Field(gt=0, le=0.5)] = 0.25
    perturbation: Annotated[float, Field(gt=1, le=100)] = 1.2
    resample: Annotated[float, Field(ge=0, le=1)] = 0.25


class Data(Section):
    """Data that every node localises once, read-only: file:///PATH, or file:///PATH#NAME."""

    urls: tuple[str, ...] = ()


class AppFile(Section):
    """A search over the parameters of a training command. docs/training.md describes all fields."""

    name: Annotated[
        str,
        matching(
            r"\w[\w.-]{0,63}", "must have 1 to 64 letters, digits, '.', '-' or '_', and not begin with '.' or '-'"
        ),
    ]
    command: str | list[str]
    metric: Annotated[str, _METRIC] = "loss"
    metrics: Annotated[tuple[Annotated[str, _METRIC], ...], Field(max_length=MAX_METRICS)] = ()
    constraints: tuple[str, ...] = ()
    direction: Literal["minimize", "maximize"] = "minimize"
    algorithm: Literal["hyperband", "successive_halving", "asha", "curve_stopping", "population", "plain"] = "hyperband"
    max_steps: Annotated[int, Field(ge=1, le=10**9)]
    eta: Annotated[int, Field(ge=2, le=16)] = 3
    trials: Annotated[int, Field(ge=1, le=MAX_TRIALS)] | None = None
    patience: Annotated[int, Field(ge=0)] = 0
    target: float | None = None
    trial_timeout_s: Annotated[float, Field(gt=0)] | None = None
    max_time_s: Annotated[float, Field(gt=0)] | None = None
    step_s: Annotated[float, Field(gt=0)] | None = None
    speeds: dict[str, Annotated[float, Field(gt=0, le=1000)]] = Field(default={})
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 0
    sampler: Literal["random", "tpe", "gp", "qmc", "grid"] = "random"
    sampler_options: dict[str, Value] = Field(default={})
    warm_start: tuple[str, ...] = ()
    retries: Annotated[int, Field(ge=0, le=100)] = 1
    gpus_per_trial: GpusPerTrial = GpusPerTrial()
    memory_mb: Annotated[int, Field(ge=64)] = 2048
    vcores: Annotated[int, Field(ge=1)] = 1
    grace_s: Annotated[float, Field(gt=0)] = 30.0
    orphan_s: Annotated[float, Field(ge=0)] = 60.0
    checkpoint: Annotated[str, AfterValidator(_of_store)] | None = None
    keep_checkpoints: Annotated[int, Field(ge=1)] = 2
    loss_pattern: str | None = None
    report_timeout_s: Annotated[float, Field(ge=0)] = 1800.0
    communication: Literal["plain", "planned"] = "plain"
    storage: str | None = None
    space: Annotated[dict[Annotated[str, _PARAMETER], AnyDimension], Field(min_length=1)]
    enqueue: tuple[Parameters, ...] = ()
    jobs: JobList = Field(default=[])
    sharing: GpuPart | None = None
    gpu: Side | None = None
    cpu: Side | None = None
    population: Variants | None = None
    environment: Environment = Environment()
    data: Data = Data()

    @model_validator(mode="before")
    @classmethod
    def _with_patience(cls, given: Any) -> Any:
        """With the default patience: early losses say little about who is best in the end."""
        if not isinstance(given, dict) or given.get("algorithm") != "curve_stopping" or "patience" in given:
            return given
        steps = given.get("max_steps")
        return {**given, "patience": -(-steps // 2)} if isinstance(steps, int) and steps > 0 else given

    def words_on(self, side: Side | None) -> tuple[str, ...]:
        """The words of the command on a side; parameters are still placeholders."""
        own = side.command if side is not None else None
        return command_words.words_of(self.command if own is None else own)

    @property
    def words(self) -> tuple[str, ...]:
        """The words of the command of the search; parameters are still placeholders."""
        return self.words_on(None)

    def side(self, is_slot: bool) -> Side | None:
        """How a trial runs on a GPU, or on a slot of cores; None: the search knows no sides."""
        return self.cpu if is_slot else self.gpu

    def in_words(self) -> Self:
        """The same search, its command as a list of words."""
        return self.model_copy(update={"command": list(self.words)})

    @property
    def trial_count(self) -> int:
        """How many trials there are; Hyperband's follow from `max_steps` and `eta`."""
        if self.algorithm == "hyperband":
            return sum(size.trials for size in bracket_sizes(self.max_steps, self.eta))
        if self.sampler == "grid" and self.trials is None:
            return len(combinations(self.space))
        return self.trials or 1

    @property
    def max_gpus(self) -> int:
        """How many GPUs it can use at once."""
        return self.trial_count * self.gpus_per_trial.max

    @property
    def declared_jobs(self) -> list[Job]:
        """The jobs that are declared to the arbiter: for each trial that may run at once, a part of a GPU."""
        if self.sharing is None:
            return self.jobs
        part = [Pods(pods=1, cells_each=1)]
        count = min(self.trial_count, MAX_JOBS)
        return [Job(name=f"worker-{number}", gang=part, sharing=self.sharing) for number in range(count)]

    @property
    def trials_on_gpu(self) -> int:
        """How many trials may run on a GPU at once, by what they need of it: one of them at its peak, as in OJPP."""
        part = self.sharing
        if part is None:
            return 1
        peak = part.peak_memory or part.memory
        fitting = int(1 / part.computing + 1e-9), int((1 - peak + part.memory) / part.memory + 1e-9)
        return max(1, min(fitting))

    @property
    def variants(self) -> Variants:
        """How a population goes on, by default or as the file says."""
        return self.population or Variants()

    @property
    def ready_steps(self) -> int:
        """The steps of a generation of a population."""
        return self.variants.ready_steps or -(-self.max_steps // 10)

    def settings(self) -> Settings:
        """What the agent decides with."""
        return Settings(
            algorithm=self.algorithm,
            trials=self.trial_count,
            max_steps=self.max_steps,
            eta=self.eta,
            patience=self.patience,
            maximize=self.direction == "maximize",
            target=self.target,
            max_time_s=self.max_time_s,
            retries=self.retries,
            min_gpus=self.gpus_per_trial.min,
            max_gpus=self.gpus_per_trial.max,
            step_gpus=self.gpus_per_trial.step,
            step_s=self.step_s,
            grace_s=self.grace_s,
            constraints=tuple(map(constraint, self.constraints)),
            trial_timeout_s=self.trial_timeout_s,
            speeds=tuple(sorted(self.speeds.items())),
            rules=RULES,
            by_trial=self.gpu is not None,
            ready_steps=self.ready_steps,
            quantile=self.variants.quantile,
        )


def load(path: Path) -> AppFile:
    """Read the file.

    Raises:
        FileError: it cannot be read or is invalid; the message names every problem.
    """
    return read(read_toml(f"{str(path)!r}", path), f"{str(path)!r}")


def read(values: Mapping[str, Any], where: str) -> AppFile:
    """The fields of the file. `where`: names it in errors.

    Raises:
        FileError: something is invalid; the message names every problem.
    """
    # Problems between fields are looked for even if single fields are invalid, so that all are reported at once.
    try:
        app = validate(AppFile, values, where, keys_in="docs/training.md")
    except FileError as problem:
        if kind := kind_of(values):
            raise FileError(f"{where}: {kind}, not a search") from None
        found = list(conflicts(values))
        raise FileError("; ".join([str(problem), *found]), where, [*problem.invalid, *found]) from None
    if found := list(conflicts(app.model_dump())):
        raise FileError(f"{where}: {'; '.join(found)}", where, found)
    return app


_KINDS = {
    "nodes": "describes a cluster, which `yarn-plugin simulate --cluster` reads",
    "machines": "describes a cluster with GPUs, which `yarn-plugin simulate --cluster` reads",
    "generate": "describes a workload, which `yarn-plugin simulate --workload` reads",
    "apps": "describes applications that train, which `yarn-plugin simulate --workload` reads",
    "pools": "configures an arbiter, which `yarn-plugin arbiter --config` reads",
}


def kind_of(values: Mapping[str, Any]) -> str:
    """What a file is that has none of a search's required fields; "" if that is not known."""
    if {"name", "command", "space", "max_steps"} & values.keys():
        return ""
    return next((said for key, said in _KINDS.items() if key in values), "")
