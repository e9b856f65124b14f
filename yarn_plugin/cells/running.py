"""The file of what runs on a cluster of cells (JSON).

    {"bad_nodes": ["n4"],
     "gangs": [{"gang": "bert", "virtual_cluster": "prod", "priority": 1, "chain": "rack",
                "pods": [{"node": "n1", "leaves": ["0", "1"], "quota_types": ["node", "node"]}]}]}

`quota_types`: for each leaf, the type of the cell of the virtual cluster's quota that it came from; without it, a gang
runs as opportunistic work. `ends_in_s`: seconds until it ends at the latest, if that is known. `job`: the job of a
gang, where the scheduler inside its virtual cluster places GPUs one by one: all gangs of a job end together. The order
of the gangs is that in which they keep their cells.
"""

from collections import Counter
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, field_validator, model_validator

from yarn_plugin.cells.file import read_yaml
from yarn_plugin.decide.mechanisms.buddy_cells.cells import MAX_PRIORITY, OPPORTUNISTIC
from yarn_plugin.decide.mechanisms.buddy_cells.gangs import Request
from yarn_plugin.decide.mechanisms.buddy_cells.recovery import RunningGang, RunningPod
from yarn_plugin.toml_files import Section, validate


class _PodTable(Section):
    node: str
    leaves: Annotated[tuple[str, ...], Field(min_length=1)]
    quota_types: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _one_type_a_leaf(self) -> "_PodTable":
        if self.quota_types and len(self.quota_types) != len(self.leaves):
            raise ValueError("quota_types must have one type for each leaf, or none at all")
        return self


class _GangTable(Section):
    gang: str
    virtual_cluster: str
    priority: Annotated[int, Field(ge=OPPORTUNISTIC, le=MAX_PRIORITY)]
    chain: str
    pods: Annotated[tuple[_PodTable, ...], Field(min_length=1)]
    leaf_type: str = ""
    pinned: str = ""
    lazy: bool = False
    job: str = ""
    ends_in_s: Annotated[float, Field(ge=0)] | None = None


class RunningFile(Section):
    """What runs, and which nodes are bad."""

    gangs: tuple[_GangTable, ...] = ()
    bad_nodes: tuple[str, ...] = ()

    @field_validator("gangs")
    @classmethod
    def _each_name_once(cls, gangs: tuple[_GangTable, ...]) -> tuple[_GangTable, ...]:
        names = Counter(table.gang for table in gangs)
        if twice := next((name for name, number in names.items() if number > 1), None):
            raise ValueError(f"gang {twice!r} is listed twice; names must differ")
        holder: dict[tuple[str, str, str], str] = {}
        for table in gangs:
            for node, leaf in [(pod.node, leaf) for pod in table.pods for leaf in pod.leaves]:
                other = holder.get((table.chain, node, leaf))
                if other is not None:
                    raise ValueError(f"leaf {leaf!r} of node {node!r} is held twice, by {other} and {table.gang}")
                holder[table.chain, node, leaf] = table.gang
        return gangs

    def running(self) -> list[RunningGang]:
        """The gangs."""
        return [_gang(table) for table in self.gangs]

    def jobs(self) -> dict[str, str]:
        """The jobs of the gangs that are not whole jobs themselves, by gang."""
        return {table.gang: table.job for table in self.gangs if table.job}

    def ends_in_s(self) -> dict[str, float]:
        """When gangs end at the latest, of those that say so."""
        return {table.gang: table.ends_in_s for table in self.gangs if table.ends_in_s is not None}


def read_running(where: str, path: Path) -> RunningFile:
    """Read what runs.

    Raises:
        FileError: the file cannot be read, or a value in it is invalid.
    """
    return validate(RunningFile, read_yaml(where, path), where)


def as_json(gang: RunningGang, job: str = "") -> dict[str, Any]:
    """A gang as in the file. `job`: see there."""
    request = gang.request
    return {
        "gang": request.gang,
        "virtual_cluster": request.cluster,
        "priority": request.priority,
        "chain": gang.chain,
        "pods": [
            {"node": pod.node, "leaves": list(pod.leaves), "quota_types": list(pod.quota_types)}
            for pod in gang.pods
            if pod.leaves
        ],
        "leaf_type": request.leaf_type,
        "pinned": request.pinned,
        "lazy": request.lazy,
        "job": job,
    }


def _gang(table: _GangTable) -> RunningGang:
    pods = sorted(table.pods, key=lambda pod: len(pod.leaves))
    request = Request(
        gang=table.gang,
        cluster=table.virtual_cluster,
        priority=table.priority,
        pods=tuple((1, len(pod.leaves)) for pod in pods),
        leaf_type=table.leaf_type,
        pinned=table.pinned,
        lazy=table.lazy,
    )
    return RunningGang(request, table.chain, tuple(RunningPod(pod.node, pod.leaves, pod.quota_types) for pod in pods))
