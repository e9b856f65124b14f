"""Who holds which leaves of a cluster of cells: an immutable copy, for threads that may not read the cluster itself."""

from collections.abc import Callable
from dataclasses import dataclass

from yarn_plugin.decide.mechanisms.buddy_cells.cells import OPPORTUNISTIC
from yarn_plugin.decide.mechanisms.buddy_cells.cluster import Cluster
from yarn_plugin.decide.mechanisms.buddy_cells.gangs import Gang, Placement, Request, Stage
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
    """Makes reports. A gang whose placement is still the same is not described again."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Placement, GangReport]] = {}

    def of(self, cluster: Cluster, number_of: Callable[[str], int]) -> CellsReport:
        """The report of a cluster as it is now. `number_of`: a gang's number, by its name."""
        before, self._known = self._known, {}
        for name, gang in cluster.gangs.items():
            if gang.stage is Stage.PREEMPTING:
                continue
            known, number = before.get(name), number_of(name)
            if known is None or known[0] is not gang.placement or known[1].number != number:
                known = gang.placement, _report(gang, number)
            self._known[name] = known
        bad = tuple(sorted({node.address for nodes in cluster.bad.values() for node in nodes}))
        return CellsReport(tuple(report for _, report in self._known.values()), bad)


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
