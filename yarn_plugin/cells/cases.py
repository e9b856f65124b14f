"""Recorded cases: a sequence of requests, ends and failures, and what another scheduler answered (JSON).

    {"name": ..., "config": "design", "specs": {key: pod specification}, "steps": [{"op": "schedule", ...}, ...]}

`config` names a configuration file NAME.json (or .yaml, .toml) in `configs/` beside the case's directory, or beside the
case. Names of fields are those of the HiveD scheduler.
"""

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from yarn_plugin.cells.file import read_cells, read_yaml
from yarn_plugin.decide.mechanisms.buddy_cells.gangs import Request
from yarn_plugin.decide.mechanisms.buddy_cells.specification import ClusterSpec
from yarn_plugin.toml_files import FileError, validate

Pods = list[tuple[str, list[int | str]]]
"""For each pod its node, and the addresses of its leaves."""


class _Table(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, frozen=True, extra="ignore", populate_by_name=True)


class Operation(StrEnum):
    """What a step does."""

    SCHEDULE = "schedule"
    DELETE = "delete"
    DELETE_UNALLOCATED = "delete_unallocated"
    BAD_NODE = "bad_node"
    HEALTHY_NODE = "healthy_node"
    RESTART = "restart"
    RECONFIGURE = "reconfigure"
    INIT = "init"


class Outcome(StrEnum):
    """The class of an answer. `CRASH`: the recorded scheduler broke; any answer is right."""

    BIND = "bind"
    PREEMPT = "preempt"
    WAIT = "wait"
    REJECTED = "rejected"
    CRASH = "crash"
    OK = "ok"


class Agreement(StrEnum):
    """How far the recorded scheduler agrees with itself when irrelevant orders change."""

    EXACT = "exact"
    NODE = "node"
    SHAPE = "shape"
    CLASS = "class"
    NONE = "none"


class Member(_Table):
    """Pods of one size in a gang."""

    pod_number: int = 0
    leaf_cell_number: int = 0


class AffinityGroup(_Table):
    """A gang."""

    name: str
    members: list[Member] = Field(default_factory=list)


class PodSpec(_Table):
    """What a pod asks for, but for the number of its leaves."""

    virtual_cluster: str = ""
    priority: int = 0
    pinned_cell_id: str = ""
    leaf_cell_type: str = ""
    lazy_preemption_enable: bool = False
    ignore_suggested_nodes: bool = False
    affinity_group: AffinityGroup | None = None

    def request(self, pod: str, size: int) -> Request:
        """The request of the gang; a pod without one is a gang of its own."""
        group = self.affinity_group or AffinityGroup(name=pod, members=[Member(pod_number=1, leaf_cell_number=size)])
        return Request(
            gang=group.name,
            cluster=self.virtual_cluster,
            priority=self.priority,
            pods=tuple((member.pod_number, member.leaf_cell_number) for member in group.members),
            leaf_type=self.leaf_cell_type,
            pinned=self.pinned_cell_id,
            lazy=self.lazy_preemption_enable,
            ignores_exclusions=self.ignore_suggested_nodes,
        )


class Shape(_Table):
    """A placement but for the names of nodes and leaves."""

    chain: str
    pod_levels: dict[str, list[int]]
    per_node: list[int]
    span: int


class Expectation(_Table):
    """What the recorded scheduler answered."""

    outcome: Outcome
    node: str = ""
    leaf_cells: list[int | str] = Field(default_factory=list)
    chain: str = ""
    group: dict[str, Pods] | None = None
    group_leaf_cells: int | None = None
    preassigned: str | dict[str, list[list[str]]] | None = None
    shape: Shape | None = None
    victims: dict[str, list[str]] = Field(default_factory=dict)
    vc_fit: bool | None = None
    agree: Agreement = Agreement.NONE


class After(_Table):
    """What has changed in the state of the recorded scheduler."""

    groups: dict[str, str | None] = Field(default_factory=dict)
    vc_bad_cells: dict[str, int] = Field(default_factory=dict)
    used: tuple[int, int] | None = None


class Step(_Table):
    """One operation."""

    op: Operation
    pod: str = ""
    spec: str = ""
    leaf_cell_number: int = 0
    phase: str = "preempting"
    suggested: list[str] | None = None
    suggested_except: list[str] | None = None
    no_commit: bool = False
    node: str = ""
    config: str = ""
    replay_order: list[str] = Field(default_factory=list)
    expect: Expectation
    after: After = Field(default_factory=After)


class CaseFile(_Table):
    """A case as in its file."""

    name: str
    config: str
    specs: dict[str, PodSpec] = Field(default_factory=dict)
    steps: Annotated[list[Step], Field(min_length=1)]


class Case(BaseModel):
    """A case with its configurations."""

    model_config = ConfigDict(arbitrary_types_allowed=True, frozen=True)
    file: CaseFile
    directories: tuple[Path, ...]

    def configuration(self, name: str) -> ClusterSpec:
        """A configuration by name.

        Raises:
            FileError: there is no such file, or it is invalid.
        """
        path = self.path_of(name)
        return read_cells(f"configuration {str(path)!r}", path)

    def path_of(self, name: str) -> Path:
        """The file of a configuration.

        Raises:
            FileError: there is none.
        """
        names = [name] if Path(name).suffix in (".json", ".yaml", ".yml", ".toml") else _with_suffixes(name)
        candidates = [directory / each for directory in self.directories for each in names]
        for path in candidates:
            if path.is_file():
                return path
        looked = ", ".join(str(directory) for directory in self.directories)
        raise FileError(f"case {self.file.name}: config {name!r}: no file {name}.json, .yaml or .toml in {looked}")


def _with_suffixes(name: str) -> list[str]:
    return [f"{name}{suffix}" for suffix in (".json", ".yaml", ".yml", ".toml")]


def read_case(where: str, path: Path) -> Case:
    """Read a case.

    Raises:
        FileError: it cannot be read, or a value in it is invalid.
    """
    file = validate(CaseFile, read_yaml(where, path), where)
    for position, step in enumerate(file.steps):
        if step.op in (Operation.SCHEDULE, Operation.DELETE_UNALLOCATED) and step.spec not in file.specs:
            known = ", ".join(list(file.specs)[:10]) or "none"
            raise FileError(f"{where}: steps #{position}.spec {step.spec!r}: must be a key of specs: {known}")
    return Case(file=file, directories=(path.parent.parent / "configs", path.parent))


def sizes_of(groups: Mapping[str, Any]) -> list[str]:
    """The sizes of pods, as keys of a placement, ascending."""
    return sorted(groups, key=int)
