"""A cluster of cells as the state of a controller: changed in place, rolled back, dumped and loaded."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Self

from yarn_plugin.decide.mechanisms.buddy_cells import snapshot
from yarn_plugin.decide.mechanisms.buddy_cells.allocator import Allocator
from yarn_plugin.decide.mechanisms.buddy_cells.cluster import Cluster
from yarn_plugin.decide.mechanisms.buddy_cells.specification import (
    CellType,
    ClusterSpec,
    PhysicalSpec,
    Quota,
    VirtualClusterSpec,
)


class CellsState:
    """Implements `yarn_plugin.model.journaled.Mutable`."""

    def __init__(self, cluster: Cluster) -> None:
        self.allocator = Allocator(cluster)

    @property
    def cluster(self) -> Cluster:
        """The cluster."""
        return self.allocator.cluster

    def savepoint(self) -> int:
        """A savepoint to `rollback` to."""
        return self.cluster.savepoint()

    def rollback(self, savepoint: int) -> None:
        """Undo every change since the savepoint."""
        self.cluster.rollback(savepoint)

    def commit(self) -> None:
        """Discard all savepoints."""
        self.cluster.commit()

    def dump(self) -> dict[str, Any]:
        """The whole state in JSON types."""
        return {"specification": asdict(self.cluster.spec), "cluster": snapshot.dump(self.cluster)}

    @classmethod
    def load(cls, dumped: Mapping[str, Any]) -> Self:
        """The state that was dumped, also if it went through JSON."""
        return cls(snapshot.load(_specification(dumped["specification"]), dumped["cluster"]))


def _specification(dumped: Mapping[str, Any]) -> ClusterSpec:
    return ClusterSpec(
        types={name: CellType(**each) for name, each in dumped["types"].items()},
        cells=tuple(_physical(each) for each in dumped["cells"]),
        clusters={
            name: VirtualClusterSpec(tuple(Quota(**quota) for quota in each["quotas"]), tuple(each["pinned"]))
            for name, each in dumped["clusters"].items()
        },
        chain_order={name: tuple(chains) for name, chains in dumped["chain_order"].items()},
    )


def _physical(dumped: Mapping[str, Any]) -> PhysicalSpec:
    return PhysicalSpec(**{**dumped, "children": tuple(_physical(child) for child in dumped["children"])})
