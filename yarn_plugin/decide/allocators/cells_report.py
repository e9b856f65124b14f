"""Who holds which leaves of a cluster of cells: an immutable copy, for threads that may not read the cluster itself."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

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
    """Makes reports. A gang that is still placed as it was is not described again: there may be thousands."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Placement, Any, GangReport]] = {}

    def of(self, cluster: Cluster, placed: Mapping[str, Any], number_of: Callable[[Any], int]) -> CellsReport:
        """The report of a cluster as it is now.

        Args:
            placed: what is known of gangs beside the cluster, by name; an immutable value for each.
            number_of: the number of a gang, from that value or None.
        """
        before, self._known = self._known, {}
        for name, gang in cluster.gangs.items():
            if gang.stage is Stage.PREEMPTING:
                continue
            known, own = before.get(name), placed.get(name)
            if known is None or known[0] is not gang.placement or known[1] is not own:
                known = gang.placement, own, _report(gang, number_of(own))
            self._known[name] = known
        return CellsReport(tuple([known[2] for known in self._known.values()]), tuple(cluster.bad_hosts()))


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
