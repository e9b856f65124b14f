"""The arbiter's configuration file (TOML)."""

import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from yarn_plugin.decide.arbiter import STANDARD
from yarn_plugin.decide.pools.controller import Kind, Registry
from yarn_plugin.errors import ReportedError
from yarn_plugin.journal.codec import Codec, UnknownRecordError
from yarn_plugin.model.share import Pool
from yarn_plugin.observe.poller import PollIntervals

Seconds = Annotated[float, Field(ge=0, le=86_400)]

MAX_PROBLEMS, MAX_SHOWN = 10, 200
"""How many problems of a file are listed, and how many characters of a wrong value are shown."""


class ConfigError(ReportedError):
    """The configuration file cannot be used."""

    exit_code = 2


class Section(BaseModel):
    """A table of a configuration file; unknown keys are errors.

    `RENAMED`: the present name of each key that had another one. The error for such a key names the present one.
    """

    model_config = ConfigDict(extra="forbid")
    RENAMED: ClassVar[Mapping[str, str]] = {}

    @model_validator(mode="before")
    @classmethod
    def _refuse_renamed_keys(cls, given: Any) -> Any:
        errors = [_renamed(*names) for names in cls.RENAMED.items() if isinstance(given, dict) and names[0] in given]
        if errors:
            raise ValidationError.from_exception_data(cls.__name__, errors)
        return given


def _renamed(name: str, present_name: str) -> InitErrorDetails:
    error = PydanticCustomError("renamed", "renamed to {present_name}", {"present_name": present_name})
    return InitErrorDetails(type=error, loc=(name,), input=None)


def _registry(info: ValidationInfo) -> Registry:
    registry: Registry = (info.context or {}).get("registry", STANDARD)
    return registry


def _named(name: str, known: Collection[str]) -> str:
    if name not in known:
        raise ValueError(f"choose one of {', '.join(sorted(known))}")
    return name


def _settings(kind: Kind, registry: Registry, given: object) -> object:
    """A controller's own settings, as they can be journaled: every field known, every number finite."""
    tag = next((tag for tag, one in registry.tags().items() if one is kind.parameters), None)
    if tag is None:
        raise ValueError(f"controller {kind.name!r} declares no tag for its settings; report this to who wrote it")
    if not isinstance(given, dict):
        raise ValueError(f"write a table of the settings of controller {kind.name!r}")
    if "type" in given:
        raise ValueError(f"type: controller {kind.name!r} has no such setting; leave it out")
    codec = Codec(registry.tags(), unknown_fields="forbid")
    try:
        settings = codec.read({**given, "type": tag})
    except UnknownRecordError as problem:
        raise ValueError(f"{problem.field}: {problem.problem}" if problem.field else problem.problem) from None
    try:
        codec.check(settings)
    except ValueError:
        raise ValueError("write finite numbers (no inf, no nan): the journal holds these settings") from None
    return settings


class PoolSection(Section):
    """A pool: `queue` is the root of its subtree; `parameters` are its controller's own settings."""

    model_config = ConfigDict(extra="forbid", validate_default=True)
    RENAMED = {
        "overstay_s": "preempt_after_s",
        "settle_s": "idle_timeout_s",
        "submit_within_s": "submit_timeout_s",
    }

    name: str = Field(pattern=r"^[A-Za-z0-9_-]+$")
    queue: str = Field(pattern=r"^root\.[^\s]+$")
    resources: list[str] = Field(default=["memory-mb", "vcores"], min_length=1)
    policy: str = "max_min"
    grace_s: Seconds = 10.0
    preempt_after_s: Seconds = 15.0
    idle_timeout_s: Seconds = 5.0
    submit_timeout_s: Seconds = 120.0
    max_weight: float = Field(default=10.0, gt=0, le=1000)
    max_grace_s: Annotated[float, Field(ge=0, le=3600)] = 300.0
    max_apps_per_user: int = Field(default=100, ge=1, le=100_000)
    max_streams_per_user: int = Field(default=200, ge=1, le=100_000)

    controller: str = "share"
    parameters: Any = None

    @field_validator("policy")
    @classmethod
    def _known_policy(cls, policy: str, info: ValidationInfo) -> str:
        return _named(policy, _registry(info).policies)

    @field_validator("controller")
    @classmethod
    def _known_controller(cls, controller: str, info: ValidationInfo) -> str:
        return _named(controller, _registry(info).kinds)

    @field_validator("parameters")
    @classmethod
    def _of_the_controller(cls, parameters: Any, info: ValidationInfo) -> Any:
        """The controller's own settings, as the type that it declares."""
        registry = _registry(info)
        kind = registry.kinds.get(info.data.get("controller", ""))
        if kind is None or (kind.parameters is None and parameters is None):
            return None
        if kind.parameters is None:
            raise ValueError(f"controller {kind.name!r} has no settings of its own; leave them out")
        return _settings(kind, registry, {} if parameters is None else parameters)

    def pool(self) -> Pool:
        """The pool as a noun."""
        return Pool(
            name=self.name,
            queue=self.queue,
            resources=tuple(sorted(self.resources)),
            policy=self.policy,
            grace=self.grace_s,
            preempt_after=self.preempt_after_s,
            idle_timeout=self.idle_timeout_s,
            submit_timeout=self.submit_timeout_s,
            max_weight=self.max_weight,
            max_grace=self.max_grace_s,
            max_apps_per_user=self.max_apps_per_user,
            max_streams_per_user=self.max_streams_per_user,
            controller=self.controller,
            parameters=self.parameters,
        )


class PollSection(Section):
    """Seconds between polls of the ResourceManager; see `PollIntervals`.

    `reregister_timeout_s`: how long nodes may take to register again after the ResourceManager has restarted; Hadoop's
    NodeManagers try every 30 s. `reconcile_s`: between comparisons of the queue weights with those in YARN.
    """

    RENAMED = {"figures_s": "metrics_s", "reported_again_s": "reregister_timeout_s"}

    metrics_s: Annotated[float, Field(ge=0.05, le=60)] = 0.4
    apps_s: Annotated[float, Field(ge=0.2, le=600)] = 5.0
    nodes_s: Annotated[float, Field(ge=0.2, le=600)] = 20.0
    queues_s: Annotated[float, Field(ge=1, le=3600)] = 60.0
    reregister_timeout_s: Annotated[float, Field(ge=1, le=3600)] = 60.0
    reconcile_s: Annotated[float, Field(ge=1, le=3600)] = 60.0

    def intervals(self) -> PollIntervals:
        """The intervals as the model has them."""
        return PollIntervals(self.metrics_s, self.apps_s, self.nodes_s, self.queues_s, self.reregister_timeout_s)


class LimitsSection(Section):
    """Limits of the service as a whole.

    `metrics_apps`: applications with metrics of their own in /metrics; those with the largest shares.
    `solve_timeout_s`: for one problem that a pool's controller has solved in the worker process.
    """

    RENAMED = {"solve_s": "solve_timeout_s"}

    max_connections: int = Field(default=4096, ge=16, le=1_000_000)
    max_streams: int = Field(default=2048, ge=1, le=1_000_000)
    max_body_kb: int = Field(default=256, ge=1, le=65_536)
    header_timeout_s: Annotated[float, Field(ge=0.1, le=600)] = 10.0
    metrics_apps: int = Field(default=200, ge=0, le=100_000)
    solve_timeout_s: Annotated[float, Field(ge=0.1, le=86_400)] = 60.0


class TopologySection(Section):
    """`file`: what lies where beyond the racks and nodes that YARN knows (see `drive.topology`); a path relative to
    the configuration file's folder."""

    file: Path | None = None

    @field_validator("file")
    @classmethod
    def _beside_this_file(cls, file: Path | None, info: ValidationInfo) -> Path | None:
        return None if file is None else (info.context or {}).get("folder", Path()) / file


class ArbiterConfig(Section):
    """The whole file.

    `watchdog_s`: without progress for so long, the process ends. `users`: for a user of the arbiter, the YARN users
    whose applications are this user's too; left out, the name is the same.
    """

    RENAMED = {"watch": "poll"}

    pools: list[PoolSection] = Field(default=[PoolSection(name="sql", queue="root.sql")], min_length=1)
    poll: PollSection = PollSection()
    limits: LimitsSection = LimitsSection()
    topology: TopologySection = TopologySection()
    users: dict[str, list[str]] = {}
    watchdog_s: Annotated[float, Field(ge=1, le=3600)] = 30.0

    @field_validator("pools")
    @classmethod
    def _apart(cls, pools: list[PoolSection]) -> list[PoolSection]:
        names = [pool.name for pool in pools]
        if len(set(names)) < len(names):
            raise ValueError("two pools have the same name")
        return pools


def load(path: Path | None, registry: Registry = STANDARD) -> ArbiterConfig:
    """Read a configuration file; without one, a single pool `sql` over the queues under root.sql.

    Raises:
        ConfigError: it cannot be read, or a value is wrong: names file, field, value and what is right.
    """
    if path is None:
        return ArbiterConfig()
    context = {"registry": registry, "folder": path.parent}
    try:
        return ArbiterConfig.model_validate(tomllib.loads(path.read_text()), context=context)
    except OSError as problem:
        raise ConfigError(f"--config {str(path)!r}: {problem.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise ConfigError(f"--config {str(path)!r}: not TOML: {problem}") from None
    except RecursionError:
        raise ConfigError(f"--config {str(path)!r}: nest fewer lists and tables") from None
    except ValidationError as problem:
        raise ConfigError(f"--config {str(path)!r}: {said(problem)}") from None


def said(problem: ValidationError) -> str:
    """What pydantic found wrong, as field, value and what is right; of many problems, the first ones."""
    parts: list[str] = []
    found = problem.errors()
    for error in found[:MAX_PROBLEMS]:
        field = ".".join(str(step) for step in error["loc"])
        value: Any = error.get("input")
        shown = f" {_shortened(value)}" if isinstance(value, str | int | float | bool) else ""
        parts.append(f"{field}{shown}: {error['msg'].removeprefix('Value error, ')}")
    if len(found) > MAX_PROBLEMS:
        parts.append(f"and {len(found) - MAX_PROBLEMS} more")
    return "; ".join(parts)


def _shortened(value: str | int | float | bool) -> str:
    text = repr(value)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."
