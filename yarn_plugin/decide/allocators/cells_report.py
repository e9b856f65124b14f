"""Who holds which leaves of a cluster of cells: an immutable copy, for threads that may not read the cluster itself."""

from collections.abc import Callable
from dataclasses import dataclass

from yarn_plugin.decide.mechanisms.buddy_cells.cells import OPPORTUNISTIC
from yarn_plugin.decide.mechanisms.buddy_cells.cluster import Cluster
from yarn_plugin.decide.mechanisms.buddy_cells.gangs import Gang, Request, Stage
from yarn_plugin.decide.mechanisms.buddy_cells.recovery import RunningGang, RunningPod, record_of


@dataclass(frozen=True, slots=True)
class GangReport:
    """A gang that runs. `number`: older ones have smaller ones; `pods` and other fields: those of `RunningGang`."""

    name: str
    number: int
    cluster: str
    priority: int
    chain: str
    pods: tuple[RunningPod, ...]
    leaf_type: str = ""
    pinned: str = ""
    lazy: bool = False

    @property
    def held_priority(self) -> int:
        """The priority at which it holds its leaves now."""
        return self.priority if any(pod.quota_types for pod in self.pods) else OPPORTUNISTIC

    @property
    def running(self) -> RunningGang:
        """The gang as a new cluster takes it over."""
        sizes = tuple((1, len(pod.leaves)) for pod in self.pods)
        request = Request(self.name, self.cluster, self.priority, sizes, self.leaf_type, self.pinned, self.lazy)
        return RunningGang(request, self.chain, self.pods)


@dataclass(frozen=True, slots=True)
class CellsReport:
    """`gangs`: those that run, not those that wait for victims to leave. `bad_nodes`: by host name."""

    gangs: tuple[GangReport, ...] = ()
    bad_nodes: tuple[str, ...] = ()


class Reports:
    """Makes reports. Gangs that are as they were in the last one are not described again: there may be thousands."""

    def __init__(self) -> None:
        self._cluster: Cluster | None = None
        self._known: dict[str, GangReport] = {}

    def of(self, cluster: Cluster, number_of: Callable[[str], int]) -> CellsReport:
        """The report of a cluster as it is now. `number_of`: the number of a gang, by name."""
        changed = list(cluster.changed)
        if cluster is not self._cluster:
            self._cluster, self._known, changed = cluster, {}, list(cluster.gangs)
        cluster.changed.clear()
        for name in changed:
            gang = cluster.gangs.get(name)
            if gang is None or gang.stage is Stage.PREEMPTING:
                self._known.pop(name, None)
            else:
                self._known[name] = _report(gang, number_of(name))
        return CellsReport(tuple(filter(None, map(self._known.get, cluster.gangs))), tuple(cluster.bad_hosts()))


def _report(gang: Gang, number: int) -> GangReport:
    record, asked = record_of(gang), gang.request
    return GangReport(
        gang.name,
        number,
        asked.cluster,
        asked.priority,
        record.chain,
        record.pods,
        asked.leaf_type,
        asked.pinned,
        asked.lazy,
    )
