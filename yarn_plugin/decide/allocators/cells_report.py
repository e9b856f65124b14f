"""Who holds which leaves of a cluster of cells: an immutable copy, for threads that may not read the cluster itself."""

from dataclasses import dataclass

from yarn_plugin.decide.mechanisms.buddy_cells.cluster import Cluster
from yarn_plugin.decide.mechanisms.buddy_cells.gangs import Gang, Placement, Request, Stage
from yarn_plugin.decide.mechanisms.buddy_cells.recovery import RunningGang, RunningPod, record_of


@dataclass(frozen=True, slots=True)
class GangReport:
    """A gang that runs. `pods`: of `RunningGang`, as are the other fields."""

    name: str
    cluster: str
    priority: int
    chain: str
    pods: tuple[RunningPod, ...]
    leaf_type: str = ""
    pinned: str = ""
    lazy: bool = False

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
    """Makes reports. A gang whose placement is still the same is not described again."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Placement, GangReport]] = {}

    def of(self, cluster: Cluster) -> CellsReport:
        """The report of a cluster as it is now."""
        known = {}
        for name, gang in cluster.gangs.items():
            if gang.stage is not Stage.PREEMPTING:
                before = self._known.get(name)
                is_same = before is not None and before[0] is gang.placement
                known[name] = before if before is not None and is_same else (gang.placement, _report(gang))
        self._known = known
        bad = tuple(sorted({node.address for nodes in cluster.bad.values() for node in nodes}))
        return CellsReport(tuple(report for _, report in known.values()), bad)


def _report(gang: Gang) -> GangReport:
    record, asked = record_of(gang), gang.request
    return GangReport(
        gang.name, asked.cluster, asked.priority, record.chain, record.pods, asked.leaf_type, asked.pinned, asked.lazy
    )
