"""The cluster file: nodes, pools, failures and timing."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import Field, model_validator

from yarn_plugin.decide.pools.controller import Registry
from yarn_plugin.drive.config import PoolSection
from yarn_plugin.model.cluster import Node
from yarn_plugin.model.resources import GPU, MEMORY, VCORES, Resources
from yarn_plugin.model.share import Pool
from yarn_plugin.toml_files import Section, read_toml, validate

Duration = Annotated[float, Field(ge=0, le=31_536_000, allow_inf_nan=False)]
MAX_NODES = 100_000


class NodeGroup(Section):
    """`count` identical machines, `rack_size` per rack."""

    count: int = Field(ge=1, le=MAX_NODES)
    memory_mb: int = Field(ge=1, le=1_000_000_000)
    vcores: int = Field(ge=1, le=100_000)
    gpus: int = Field(default=0, ge=0, le=1000)
    rack_size: int = Field(default=40, ge=1)


class NodeFailure(Section):
    """`nodes` nodes from number `node` on (counted from 1 in the file's order) are lost for `duration_s` seconds."""

    RENAMED: ClassVar = {"for_s": "duration_s"}

    at_s: Duration
    node: int = Field(ge=1)
    nodes: int = Field(default=1, ge=1)
    duration_s: Duration


class ManagerFailure(Section):
    """The ResourceManager is down for `duration_s` seconds; `preserve_weights`: its store is persistent."""

    RENAMED: ClassVar = {"for_s": "duration_s", "keeps_weights": "preserve_weights"}

    at_s: Duration
    duration_s: Duration
    preserve_weights: bool = True


class TimingSection(Section):
    """Seconds. `poll_s`: between polls of the ResourceManager. `heartbeat_s`: between allocations. `command_s`: from a
    command to its outcome. `notify_s`: from a decision to the notification of the application. `submit_s`: from
    registration to submission. `solve_s`: duration of a solve. `reconcile_s`: between comparisons of queue weights."""

    RENAMED: ClassVar = {"look_s": "poll_s", "answer_s": "command_s", "tell_s": "notify_s"}

    poll_s: float = Field(default=0.4, gt=0, le=600)
    heartbeat_s: float = Field(default=1.0, gt=0, le=600)
    command_s: float = Field(default=0.1, ge=0, le=600)
    notify_s: float = Field(default=0.05, ge=0, le=600)
    submit_s: float = Field(default=1.0, ge=0, le=600)
    solve_s: float = Field(default=1.0, ge=0, le=86_400)
    reconcile_s: float = Field(default=60.0, ge=1, le=86_400)


@dataclass(frozen=True, slots=True)
class Outage:
    """Nodes that are lost from `at` until `until`, in seconds."""

    at: float
    until: float
    nodes: tuple[str, ...]


class ClusterFile(Section):
    """A cluster: groups of nodes, pools as in the arbiter's configuration, failures, timing."""

    nodes: list[NodeGroup] = Field(min_length=1)
    pools: list[PoolSection] = Field(default=[PoolSection(name="sql", queue="root.sql")], min_length=1)
    failures: tuple[NodeFailure, ...] = ()
    manager_failures: tuple[ManagerFailure, ...] = ()
    timing: TimingSection = TimingSection()

    @model_validator(mode="after")
    def _consistent(self) -> "ClusterFile":
        names = [pool.name for pool in self.pools]
        if len(set(names)) < len(names):
            raise ValueError("pools: names must be different")
        total = sum(group.count for group in self.nodes)
        if total > MAX_NODES:
            raise ValueError(f"has {total:,} nodes; must be at most {MAX_NODES:,}")
        for failure in self.failures:
            last = failure.node + failure.nodes - 1
            if last > total:
                raise ValueError(f"failures: node {last}: must be at most {total}, the number of nodes")
        return self

    def machines(self) -> tuple[Node, ...]:
        """The nodes, in the file's order."""
        nodes: list[Node] = []
        rack = 0
        for group in self.nodes:
            capacity = Resources.of({MEMORY: group.memory_mb, VCORES: group.vcores, GPU: group.gpus})
            for place in range(group.count):
                rack += place % group.rack_size == 0
                nodes.append(Node(f"node{len(nodes) + 1:05d}:8041", f"/rack{rack}", capacity))
        return tuple(nodes)

    def outages(self) -> tuple[Outage, ...]:
        """The outages of nodes."""
        names = [node.id for node in self.machines()]
        return tuple(
            Outage(
                failure.at_s,
                failure.at_s + failure.duration_s,
                tuple(names[failure.node - 1 : failure.node - 1 + failure.nodes]),
            )
            for failure in self.failures
        )

    def domain_pools(self, policy: str | None = None) -> tuple[Pool, ...]:
        """The pools; `policy`, if given, replaces that of each pool."""
        pools = tuple(section.pool() for section in self.pools)
        return pools if policy is None else tuple(replace(pool, policy=policy) for pool in pools)


def load(path: Path, registry: Registry) -> ClusterFile:
    """A cluster file.

    Raises:
        FileError: the file is invalid; names the file, the field, the value and what is expected.
    """
    where = f"--cluster {str(path)!r}"
    return validate(ClusterFile, read_toml(where, path), where, {"registry": registry}, "docs/simulator.md")
