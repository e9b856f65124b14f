"""The arbiter's configuration file (TOML)."""

import tomllib
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from yarn_plugin.decide.policies import POLICIES
from yarn_plugin.errors import ReportedError
from yarn_plugin.model.share import Pool
from yarn_plugin.observe.watch import Rhythm

Seconds = Annotated[float, Field(ge=0, le=86_400)]


class ConfigError(ReportedError):
    """The configuration file cannot be used."""

    exit_code = 2


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid")


class PoolSection(_Section):
    """A pool: `queue` is the root of its subtree."""

    name: str = Field(pattern=r"^[A-Za-z0-9_-]+$")
    queue: str = Field(pattern=r"^root\.[^\s]+$")
    resources: list[str] = Field(default=["memory-mb", "vcores"], min_length=1)
    policy: str = "max_min"
    grace_s: Seconds = 10.0
    overstay_s: Seconds = 15.0
    settle_s: Seconds = 5.0
    submit_within_s: Seconds = 120.0
    max_weight: float = Field(default=10.0, gt=0, le=1000)
    max_grace_s: Annotated[float, Field(ge=0, le=3600)] = 300.0
    max_apps_per_user: int = Field(default=100, ge=1, le=100_000)
    max_streams_per_user: int = Field(default=200, ge=1, le=100_000)

    @field_validator("policy")
    @classmethod
    def _known(cls, policy: str) -> str:
        if policy not in POLICIES:
            raise ValueError(f"choose one of {', '.join(POLICIES)}")
        return policy

    def pool(self) -> Pool:
        """The pool as a noun."""
        return Pool(
            name=self.name,
            queue=self.queue,
            resources=tuple(sorted(self.resources)),
            policy=self.policy,
            grace=self.grace_s,
            overstay=self.overstay_s,
            settle=self.settle_s,
            submit_within=self.submit_within_s,
            max_weight=self.max_weight,
            max_grace=self.max_grace_s,
            max_apps_per_user=self.max_apps_per_user,
            max_streams_per_user=self.max_streams_per_user,
        )


class WatchSection(_Section):
    """Seconds between looks at the ResourceManager; see `Rhythm`.

    `reported_again_s`: how long nodes may take to register again after the manager restarted; Hadoop's NodeManagers
    try every 30 s. `reconcile_s`: between comparisons of the queue weights with what the manager has.
    """

    figures_s: Annotated[float, Field(ge=0.05, le=60)] = 0.4
    apps_s: Annotated[float, Field(ge=0.2, le=600)] = 5.0
    nodes_s: Annotated[float, Field(ge=0.2, le=600)] = 20.0
    queues_s: Annotated[float, Field(ge=1, le=3600)] = 60.0
    reported_again_s: Annotated[float, Field(ge=1, le=3600)] = 60.0
    reconcile_s: Annotated[float, Field(ge=1, le=3600)] = 60.0

    def rhythm(self) -> Rhythm:
        """The rhythm as a noun."""
        return Rhythm(self.figures_s, self.apps_s, self.nodes_s, self.queues_s, self.reported_again_s)


class LimitsSection(_Section):
    """What the service takes on at a time, whoever asks.

    `metrics_apps`: applications with figures of their own in /metrics; those with the largest shares.
    """

    max_connections: int = Field(default=4096, ge=16, le=1_000_000)
    max_streams: int = Field(default=2048, ge=1, le=1_000_000)
    max_body_kb: int = Field(default=256, ge=1, le=65_536)
    header_timeout_s: Annotated[float, Field(ge=0.1, le=600)] = 10.0
    metrics_apps: int = Field(default=200, ge=0, le=100_000)


class ArbiterConfig(_Section):
    """The whole file.

    `watchdog_s`: without progress for so long, the process ends. `users`: for a user of the arbiter, the YARN users
    whose applications are this user's too; left out, the name is the same.
    """

    pools: list[PoolSection] = Field(default=[PoolSection(name="sql", queue="root.sql")], min_length=1)
    watch: WatchSection = WatchSection()
    limits: LimitsSection = LimitsSection()
    users: dict[str, list[str]] = {}
    watchdog_s: Annotated[float, Field(ge=1, le=3600)] = 30.0

    @field_validator("pools")
    @classmethod
    def _apart(cls, pools: list[PoolSection]) -> list[PoolSection]:
        names = [pool.name for pool in pools]
        if len(set(names)) < len(names):
            raise ValueError("two pools have the same name")
        return pools


def load(path: Path | None) -> ArbiterConfig:
    """Read a configuration file; without one, a single pool `sql` over the queues under root.sql.

    Raises:
        ConfigError: it cannot be read, or a value is wrong: names file, field, value and what is right.
    """
    if path is None:
        return ArbiterConfig()
    try:
        return ArbiterConfig.model_validate(tomllib.loads(path.read_text()))
    except OSError as problem:
        raise ConfigError(f"--config {str(path)!r}: {problem.strerror}") from None
    except tomllib.TOMLDecodeError as problem:
        raise ConfigError(f"--config {str(path)!r}: not TOML: {problem}") from None
    except ValidationError as problem:
        raise ConfigError(f"--config {str(path)!r}: {said(problem)}") from None


def said(problem: ValidationError) -> str:
    """What pydantic found wrong, as field, value and what is right."""
    parts: list[str] = []
    for error in problem.errors():
        field = ".".join(str(step) for step in error["loc"])
        value: Any = error.get("input")
        shown = f" {value!r}" if isinstance(value, str | int | float | bool) else ""
        parts.append(f"{field}{shown}: {error['msg'].removeprefix('Value error, ')}")
    return "; ".join(parts)
