"""The arbiter's configuration file (TOML)."""

from collections.abc import Callable, Collection
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import ConfigDict, Field, ValidationInfo, field_validator

from yarn_plugin.api import wire
from yarn_plugin.api.jobs import TENANT
from yarn_plugin.cells.file import read_cells
from yarn_plugin.decide.allocators import AllocatorKind
from yarn_plugin.decide.allocators.auction import on_ledger
from yarn_plugin.decide.allocators.buddy_cells import BuddyCellsSettings
from yarn_plugin.decide.arbiter import BUILT_IN
from yarn_plugin.decide.leases.settings import RECORDS_S, LedgerSettings
from yarn_plugin.decide.pools.controller import Kind, Registry
from yarn_plugin.decide.pools.lease.settings import LeaseSettings
from yarn_plugin.errors import BadInputError
from yarn_plugin.journal.codec import Codec, UnknownRecordError
from yarn_plugin.model.share import Pool
from yarn_plugin.observe.poller import PollIntervals
from yarn_plugin.sharing.file import read_interference
from yarn_plugin.toml_files import Section, matching, read_toml, validate
from yarn_plugin.validation import one_of

Seconds = Annotated[float, Field(ge=0, le=86_400)]


def _registry(info: ValidationInfo) -> Registry:
    registry: Registry = (info.context or {}).get("registry", BUILT_IN)
    return registry


def _named(name: str, known: Collection[str]) -> str:
    if name not in known:
        raise ValueError(one_of(known, name))
    return name


def _tagged(owner: str, kind: Kind | AllocatorKind, registry: Registry, given: object) -> dict[str, Any]:
    """The parameters of a kind as the journal has them."""
    tag = next((tag for tag, one in registry.tags().items() if one is kind.parameters), None)
    if tag is None:
        raise ValueError(f"{owner} declares no journal tag for its parameters; report this to its author")
    if not isinstance(given, dict):
        raise ValueError(f"must be a table with the parameters of {owner}")
    fixed = kind.fixed if isinstance(kind, Kind) else {}
    for name in ("type", *fixed):
        if name in given:
            raise ValueError(f"{name}: {owner} has no such parameter; remove it")
    return {**given, **fixed, "type": tag}


_FILES: dict[str, Callable[[str, Path], Any]] = {"cells": read_cells, "interference": read_interference}
"""Settings of allocators that may name a file instead, relative to the configuration file's folder."""


def _from_file(field: str, name: str, folder: Path) -> dict[str, Any]:
    return asdict(_FILES[field](f"{field} = {name!r}", folder / name))


def _with_allocator(registry: Registry, given: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The parameters of a ledger, with those of its allocator: `allocator` says whose `settings` are."""
    name = given.get("allocator")
    if not isinstance(name, str) or name not in registry.allocators:
        shown = "allocator: required;" if name is None else f"allocator {name!r}:"
        raise ValueError(f"{shown} {one_of(registry.allocators, name)}")
    kind, owner = registry.allocators[name], f"allocator {name!r}"
    settings = given.get("settings")
    if kind.parameters is None:
        if settings:
            raise ValueError(f"settings: {owner} has no parameters; remove them")
        return given
    if isinstance(settings, dict):
        settings = {
            field: _from_file(field, value, folder) if field in _FILES and isinstance(value, str) else value
            for field, value in settings.items()
        }
    try:
        return {**given, "settings": _tagged(owner, kind, registry, {} if settings is None else settings)}
    except ValueError as problem:
        raise ValueError(f"settings: {problem}") from None


def _parameters(kind: Kind, registry: Registry, given: object, folder: Path) -> object:
    """The parameters of a controller, checked so that the journal can store them; those of `lease` as the ledger's."""
    tagged = _tagged(f"controller {kind.name!r}", kind, registry, given)
    if kind.parameters is LedgerSettings:
        tagged = _with_allocator(registry, tagged, folder)
    codec = Codec(registry.tags(), unknown_fields="forbid")
    try:
        parameters = codec.read(tagged)
        if isinstance(parameters, LeaseSettings):
            parameters = on_ledger(parameters, records_s=RECORDS_S)
        if isinstance(parameters, LedgerSettings) and isinstance(parameters.settings, BuddyCellsSettings):
            parameters.settings.check_inside(registry.allocators)
    except UnknownRecordError as problem:
        shown = f" {problem.value!r}" if isinstance(problem.value, str | int | float) else ""
        raise ValueError(f"{problem.field}{shown}: {problem.problem}" if problem.field else problem.problem) from None
    except BadInputError as problem:
        raise ValueError(str(problem)) from None
    try:
        codec.check(parameters)
    except ValueError:
        raise ValueError("must have finite numbers, not inf or nan; the journal cannot store those") from None
    return parameters


class PoolSection(Section):
    """A pool. `queue`: the root of its subtree. `parameters`: of its controller."""

    model_config = ConfigDict(validate_default=True)
    RENAMED: ClassVar = {
        "overstay_s": "preempt_after_s",
        "settle_s": "idle_timeout_s",
        "submit_within_s": "submit_timeout_s",
    }

    name: Annotated[str, matching(r"[A-Za-z0-9_-]+", "must consist of letters, digits, - and _")]
    queue: Annotated[str, matching(r"root\.\S+", "must be a queue below root, such as root.sql")]
    resources: list[str] = Field(default=["memory-mb", "vcores"], min_length=1)
    policy: str = "max_min_users"
    grace_s: Seconds = 10.0
    preempt_after_s: Seconds = 15.0
    idle_timeout_s: Seconds = 5.0
    submit_timeout_s: Seconds = 120.0
    max_weight: float = Field(default=1.0, gt=0, le=1000)
    max_grace_s: Annotated[float, Field(ge=0, le=3600)] = 300.0
    max_apps_per_user: int = Field(default=10, ge=1, le=100_000)
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
        """The parameters of the controller, as the type that it declares."""
        registry = _registry(info)
        kind = registry.kinds.get(info.data.get("controller", ""))
        if kind is None or (kind.parameters is None and parameters is None):
            return None
        if kind.parameters is None:
            raise ValueError(f"controller {kind.name!r} has no parameters; remove them")
        folder = (info.context or {}).get("folder", Path())
        return _parameters(kind, registry, {} if parameters is None else parameters, folder)

    def pool(self) -> Pool:
        """The pool as a value of the model."""
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
            controller="ledger" if isinstance(self.parameters, LedgerSettings) else self.controller,
            parameters=self.parameters,
        )


class PollSection(Section):
    """Seconds between polls of the ResourceManager; see `PollIntervals`.

    `reregister_timeout_s`: how long nodes may take to register again after the ResourceManager has restarted; Hadoop's
    NodeManagers try every 30 s. `reconcile_s`: between comparisons of the queue weights with those in YARN.
    """

    RENAMED: ClassVar = {"figures_s": "metrics_s", "reported_again_s": "reregister_timeout_s"}

    metrics_s: Annotated[float, Field(ge=0.05, le=60)] = 0.4
    apps_s: Annotated[float, Field(ge=0.2, le=600)] = 5.0
    nodes_s: Annotated[float, Field(ge=0.2, le=600)] = 20.0
    queues_s: Annotated[float, Field(ge=1, le=3600)] = 60.0
    reregister_timeout_s: Annotated[float, Field(ge=1, le=3600)] = 60.0
    reconcile_s: Annotated[float, Field(ge=1, le=3600)] = 60.0

    def intervals(self) -> PollIntervals:
        """The intervals as the poller takes them."""
        return PollIntervals(self.metrics_s, self.apps_s, self.nodes_s, self.queues_s, self.reregister_timeout_s)


class LimitsSection(Section):
    """Limits of the service as a whole.

    `metrics_apps`: applications with metrics of their own in /metrics; those with the largest shares.
    `solve_timeout_s`: for one problem in the worker process. `changes_per_s`, `changes_burst`: registrations,
    revisions and the like of one user, and messages of one application: how many a second, and how many at once.
    """

    RENAMED: ClassVar = {"solve_s": "solve_timeout_s"}

    max_connections: int = Field(default=4096, ge=16, le=1_000_000)
    max_streams: int = Field(default=2048, ge=1, le=1_000_000)
    max_body_kb: int = Field(default=256, ge=1, le=65_536)
    header_timeout_s: Annotated[float, Field(ge=0.1, le=600)] = 10.0
    metrics_apps: int = Field(default=200, ge=0, le=100_000)
    changes_per_s: Annotated[float, Field(gt=0, le=1_000_000)] = 10.0
    changes_burst: int = Field(default=100, ge=1, le=1_000_000)
    solve_timeout_s: Annotated[float, Field(ge=0.1, le=86_400)] = 60.0


class TopologySection(Section):
    """`file`: a topology file (see `drive.topology`), relative to the configuration file's folder."""

    file: Path | None = None

    @field_validator("file")
    @classmethod
    def _relative_to_this_file(cls, file: Path | None, info: ValidationInfo) -> Path | None:
        return None if file is None else (info.context or {}).get("folder", Path()) / file


class ArbiterConfig(Section):
    """The whole file.

    `watchdog_s`: the process exits after so many seconds without progress. `users`: for each user of the arbiter, the
    YARN users that submit its applications; by default, the same name. `tenants`: for each tenant, the users whose jobs
    may name it; every user may name their own name.
    """

    RENAMED: ClassVar = {"watch": "poll"}

    pools: list[PoolSection] = Field(default=[PoolSection(name="sql", queue="root.sql")], min_length=1)
    poll: PollSection = PollSection()
    limits: LimitsSection = LimitsSection()
    topology: TopologySection = TopologySection()
    users: dict[str, list[str]] = Field(default_factory=dict)
    tenants: dict[Annotated[str, matching(TENANT, wire.USER_NAME)], list[str]] = Field(default_factory=dict)
    watchdog_s: Annotated[float, Field(ge=1, le=3600)] = 30.0

    @field_validator("pools")
    @classmethod
    def _unique_names(cls, pools: list[PoolSection]) -> list[PoolSection]:
        names = [pool.name for pool in pools]
        if len(set(names)) < len(names):
            repeated = next(name for name in names if names.count(name) > 1)
            raise ValueError(f"two pools have the name {repeated!r}; names must be unique")
        return pools

    @field_validator("pools")
    @classmethod
    def _side_by_side(cls, pools: list[PoolSection], info: ValidationInfo) -> list[PoolSection]:
        kinds = _registry(info).kinds
        for check in dict.fromkeys(kind.check_pools for kind in kinds.values()):
            try:
                check([pool.pool() for pool in pools if kinds[pool.controller].check_pools == check])
            except BadInputError as problem:
                raise ValueError(str(problem)) from None
        return pools


def load(path: Path | None, registry: Registry = BUILT_IN) -> ArbiterConfig:
    """Read a configuration file. Without one: the defaults, with the pool `sql` of queue root.sql.

    Raises:
        FileError: it cannot be read, or a value is invalid.
    """
    if path is None:
        return ArbiterConfig()
    context = {"registry": registry, "folder": path.parent}
    where = f"--config {str(path)!r}"
    return validate(ArbiterConfig, read_toml(where, path), where, context, keys_in="docs/operations.md")


def cells_files(path: Path | None) -> dict[str, Path]:
    """The cells files that a valid configuration file names, by pool."""
    pools = () if path is None else read_toml(f"--config {str(path)!r}", path).get("pools", ())
    named: dict[str, Path] = {}
    for pool in pools:
        parameters = pool.get("parameters") or {}
        settings = parameters.get("settings") or {}
        if path is not None and isinstance(settings, dict) and isinstance(settings.get("cells"), str):
            named[pool["name"]] = path.parent / settings["cells"]
    return named
