"""The file that describes a search, such as `app.toml` (docs/training.md)."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from themis_agent import command_words
from themis_agent.agent.settings import Constraint, Settings
from themis_agent.search import bracket_sizes
from themis_agent.trial.store import store_at
from themis_agent.trial.wire import MAX_METRICS
from yarn_plugin.api.jobs import MAX_JOBS, GpuPart, Job, JobList, Pods
from yarn_plugin.errors import BadInputError
from yarn_plugin.quantities import count
from yarn_plugin.toml_files import FileError, Section, matching, read_toml, validate

Value = bool | int | float | str
"""A value of a parameter."""

Parameters = dict[str, Value]

_NAME = r"[A-Za-z_]\w{0,63}"
_PARAMETER = matching(_NAME, "must be a name of letters, digits and _, such as learning_rate")
_METRIC = matching(
    r"(?=.*[^\W_])[^\x00-\x20\x7f](?:[^\x00-\x1f\x7f]{0,98}[^\x00-\x20\x7f])?",
    "must be a name of at most 100 characters with a letter or digit, such as val_loss",
)
MAX_TRIALS = 10_000


def _of_store(url: str) -> str:
    try:
        store_at(url)
    except BadInputError as problem:
        raise ValueError(problem.expected) from None
    return url


class Dimension(Section):
    """What every parameter of a space may have. `when`: it exists only if these others have these values."""

    when: Mapping[str, Value] = Field(default={})


class FloatDimension(Dimension):
    """A number from `low` to `high`; `log`: drawn evenly on a logarithmic scale."""

    type: Literal["float"]
    low: float
    high: float
    log: bool = False

    @model_validator(mode="after")
    def _is_range(self) -> Self:
        _check_range(self.low, self.high, self.log)
        return self


class IntDimension(Dimension):
    """An integer from `low` to `high`, both included."""

    type: Literal["int"]
    low: int
    high: int
    log: bool = False

    @model_validator(mode="after")
    def _is_range(self) -> Self:
        _check_range(self.low, self.high, self.log)
        return self


class CategoricalDimension(Dimension):
    """One of these choices."""

    type: Literal["categorical"]
    choices: Annotated[list[Value], Field(min_length=1)]


AnyDimension = Annotated[FloatDimension | IntDimension | CategoricalDimension, Field(discriminator="type")]


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
    population: Variants = Variants()
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
    def ready_steps(self) -> int:
        """The steps of a generation of a population."""
        return self.population.ready_steps or -(-self.max_steps // 10)

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
            rules=2,
            by_trial=self.gpu is not None,
            ready_steps=self.ready_steps,
            quantile=self.population.quantile,
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
        found = list(_conflicts(values))
        raise FileError("; ".join([str(problem), *found]), where, [*problem.invalid, *found]) from None
    if found := list(_conflicts(app.model_dump())):
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


def _conflicts(given: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong between fields, also of a file whose single fields are not all valid."""
    space = given.get("space")
    dimensions = {name: one for name, one in space.items() if isinstance(one, dict)} if isinstance(space, dict) else {}
    yield from _number_of_trials(given)
    yield from _sharing(given)
    yield from _patterns(given)
    yield from _constraints(given)
    yield from _sampler(given, dimensions)
    yield from _command("command", given.get("command"), dimensions)
    yield from _sides(given, dimensions)
    for name, dimension in dimensions.items():
        yield from _condition(name, dimension, dimensions)
    enqueued = given.get("enqueue")
    enqueued = enqueued if isinstance(enqueued, list | tuple) else ()
    yield from _number_of_enqueued(given, len(enqueued))
    for number, one in enumerate(enqueued, 1):
        if isinstance(one, dict):
            yield from _enqueued(f"enqueue #{number}", one, dimensions)


def _trials_of_hyperband(given: Mapping[str, Any]) -> int | None:
    """How many trials Hyperband needs; None if that cannot be known."""
    steps, eta = given.get("max_steps"), given.get("eta", 3)
    if isinstance(steps, int) and isinstance(eta, int) and steps >= 1 and eta >= 2:
        return sum(size.trials for size in bracket_sizes(steps, eta))
    return None


def _number_of_trials(given: Mapping[str, Any]) -> Iterator[str]:
    algorithm, trials = given.get("algorithm", "hyperband"), given.get("trials")
    if algorithm == "hyperband":
        steps, eta, needed = given.get("max_steps"), given.get("eta", 3), _trials_of_hyperband(given)
        if needed is not None and needed > MAX_TRIALS:
            yield f"max_steps {steps}: Hyperband with eta {eta} needs {needed} trials; must be at most {MAX_TRIALS}"
        elif needed is not None and trials is not None and trials != needed:
            yield f"trials {trials!r}: Hyperband with max_steps {steps} and eta {eta} has {needed}; leave it out"
    elif (
        trials is None
        and given.get("sampler") != "grid"
        and algorithm in ("successive_halving", "asha", "curve_stopping", "population", "plain")
    ):
        yield f"trials: required by the algorithm {algorithm}"
    elif algorithm == "population" and isinstance(trials, int) and trials < 2:
        yield f"trials {trials}: must be at least 2: the algorithm population replaces one by another"
    if algorithm != "population" and given.get("population") not in (None, Variants().model_dump()):
        yield f"population: only with the algorithm population, not with {algorithm}"


def _sharing(given: Mapping[str, Any]) -> Iterator[str]:
    if given.get("sharing") is None:
        return
    gpus = given.get("gpus_per_trial")
    most = gpus.get("max", 1) if isinstance(gpus, dict) else 1
    if most != 1:
        yield f"gpus_per_trial.max {most!r}: must be 1 with [sharing]: a trial has a part of one GPU"
    if given.get("jobs"):
        yield "jobs: must be left out with [sharing], which declares a job for each trial"
    if given.get("gpu") is not None or given.get("cpu") is not None:
        yield "sharing: must be left out with [gpu] and [cpu]: a trial has a whole GPU, or a slot"


def _number_of_enqueued(given: Mapping[str, Any], enqueued: int) -> Iterator[str]:
    is_hyperband = given.get("algorithm", "hyperband") == "hyperband"
    trials = _trials_of_hyperband(given) if is_hyperband else given.get("trials")
    if isinstance(trials, int) and enqueued > trials:
        advice = "leave some out" if is_hyperband else "raise trials, or leave some out"
        yield f"enqueue: {count(enqueued, 'trial')}, but the search has {trials}; {advice}"


def _patterns(given: Mapping[str, Any]) -> Iterator[str]:
    pattern = given.get("loss_pattern")
    if isinstance(pattern, str):
        try:
            groups = re.compile(pattern).groupindex
        except re.error as problem:
            yield f"loss_pattern {pattern!r}: not a regular expression: {problem}"
            return
        if "loss" not in groups:
            yield f"loss_pattern {pattern!r}: needs a group named loss, such as loss=(?P<loss>[0-9.]+)"


_CONSTRAINT = re.compile(r"\s*(?P<metric>.+?)\s*(?P<kind><=|>=)\s*(?P<limit>\S+)\s*")


def constraint(text: str) -> Constraint:
    """A constraint such as "latency_ms <= 20".

    Raises:
        ValueError: it is none.
    """
    found = _CONSTRAINT.fullmatch(text)
    try:
        limit = float(found["limit"]) if found is not None else math.nan
    except ValueError:
        limit = math.nan
    if found is None or not math.isfinite(limit):
        raise ValueError("must be a metric, <= or >=, and a number, such as 'latency_ms <= 20'")
    return Constraint(found["metric"], limit, found["kind"] == "<=")


def _constraints(given: Mapping[str, Any]) -> Iterator[str]:
    texts, metrics = given.get("constraints"), given.get("metrics")
    known = list(metrics) if isinstance(metrics, list | tuple) else []
    for text in texts if isinstance(texts, list | tuple) else ():
        try:
            name = constraint(str(text)).metric
        except ValueError as problem:
            yield f"constraints {text!r}: {problem}"
            continue
        if name not in known:
            yield f"constraints {text!r}: {name} is not in metrics; it has {', '.join(known) or 'nothing'}"
    if texts and given.get("algorithm") == "curve_stopping":
        yield "constraints: not with curve_stopping, which goes by the curve of the metric alone"


def _sampler(given: Mapping[str, Any], space: Mapping[str, Any]) -> Iterator[str]:
    name, options = given.get("sampler", "random"), given.get("sampler_options")
    if name == "grid":
        for parameter, one in space.items():
            if one.get("type") == "float":
                yield f"space.{parameter}: the sampler grid needs choices, or an int; a float has too many values"
    elif isinstance(name, str) and (name != "random" or options):
        # Optuna takes most of a second to import.
        from themis_agent.samplers import problems

        yield from problems(name, options if isinstance(options, dict) else {})


def combinations(space: Mapping[str, AnyDimension]) -> list[Parameters]:
    """All that a space without floats has, in order: a parameter whose condition does not hold is left out."""
    found: list[Parameters] = [{}]
    for name in in_order(space):
        dimension, longer = space[name], []
        for one in found:
            if all(other in one and one[other] == value for other, value in dimension.when.items()):
                longer += [{**one, name: value} for value in _values(dimension)]
            else:
                longer.append(one)
        found = longer[:MAX_TRIALS]
    return found


def _values(dimension: AnyDimension) -> list[Value]:
    match dimension:
        case CategoricalDimension():
            return dimension.choices
        case IntDimension():
            return list(range(dimension.low, dimension.high + 1)[:MAX_TRIALS])
        case FloatDimension():
            raise ValueError("a float has too many values")


def in_order(space: Mapping[str, AnyDimension]) -> list[str]:
    """The parameters of a space, each after those that its condition looks at."""
    ordered: list[str] = []

    def add(names: Iterable[str]) -> None:
        for name in names:
            if name not in ordered:
                add(space[name].when)
                ordered.append(name)

    add(space)
    return ordered


def _sides(given: Mapping[str, Any], space: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with [gpu] and [cpu] beside each other and the rest."""
    sides = {name: given[name] for name in ("gpu", "cpu") if given.get(name) is not None}
    for name, side in sides.items():
        if isinstance(side, Mapping):
            yield from _command(f"{name}.command", side.get("command"), space)
    if len(sides) == 1:
        (name,) = sides
        other = "cpu" if name == "gpu" else "gpu"
        yield f"{other}: required beside [{name}]; a search that runs on one side alone has neither"
    if not sides:
        return
    gpus = given.get("gpus_per_trial")
    if isinstance(gpus, Mapping) and gpus.get("max", 1) != 1:
        yield f"gpus_per_trial.max {gpus['max']!r}: must be 1 with [gpu] and [cpu]: a trial has one GPU, or a slot"
    if given.get("jobs"):
        yield "jobs: must be left out with [gpu] and [cpu]: each trial is declared as a job"


def _command(field: str, command: object, space: Mapping[str, Any]) -> Iterator[str]:
    is_valid = isinstance(command, str) or (isinstance(command, list) and all(isinstance(one, str) for one in command))
    for problem in command_words.problems(command, space) if is_valid else ():  # type: ignore[arg-type]
        yield f"{field} {command!r}: {problem}"


def _condition(name: str, dimension: Mapping[str, Any], space: Mapping[str, Any]) -> Iterator[str]:
    conditions = dimension.get("when")
    for other, value in conditions.items() if isinstance(conditions, dict) else ():
        if other not in space:
            yield f"space.{name}.when {other!r}: not in [space]"
        elif not is_in(value, space[other]):
            yield f"space.{name}.when.{other} {value!r}: {_range_of(space[other])}"
    if name in _needed_by(name, space):
        yield f"space.{name}.when {conditions!r}: depends on itself"


def _needed_by(name: str, space: Mapping[str, Any]) -> set[str]:
    """The parameters that a condition looks at, directly or through theirs."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        conditions = space.get(waiting.pop(), {}).get("when")
        new = [other for other in conditions if other not in found] if isinstance(conditions, dict) else []
        found.update(new)
        waiting += new
    return found


def _enqueued(where: str, parameters: Mapping[str, Any], space: Mapping[str, Any]) -> Iterator[str]:
    for name, value in parameters.items():
        if name not in space:
            yield f"{where}.{name} {value!r}: not in [space]"
        elif not is_in(value, space[name]):
            yield f"{where}.{name} {value!r}: {_range_of(space[name])}"


def is_in(value: object, dimension: Mapping[str, Any]) -> bool:
    """Whether a value is one of a dimension (its fields as in the file; an invalid one takes every value)."""
    if dimension.get("type") == "categorical":
        choices = dimension.get("choices")
        return not isinstance(choices, list) or any(value == one and type(value) is type(one) for one in choices)
    low, high = dimension.get("low"), dimension.get("high")
    if not isinstance(low, int | float) or not isinstance(high, int | float):
        return True
    numbers = int if dimension.get("type") == "int" else int | float
    return isinstance(value, numbers) and not isinstance(value, bool) and low <= value <= high


def _range_of(dimension: Mapping[str, Any]) -> str:
    if dimension.get("type") == "categorical":
        return f"must be one of {', '.join(map(repr, dimension['choices']))}"
    kind = "an integer" if dimension.get("type") == "int" else "a number"
    return f"must be {kind} from {dimension['low']} to {dimension['high']}"


def _check_range(low: float, high: float, log: bool) -> None:
    if not low <= high or math.isinf(high - low):
        raise ValueError(f"low {low} and high {high}: low must be at most high")
    if log and low <= 0:
        raise ValueError(f"low {low}: must be above 0 with log = true")
