"""Which nodes and GPUs jobs hold over time: the cell map, and the fragmentation of a cluster."""

from collections import Counter
from collections.abc import Iterable

from yarn_plugin.model.share import Holding as LeasedCell
from yarn_plugin.simulation.outcome import Holding


class CellMap:
    """What jobs hold. A node is *blocked* while a guaranteed job holds any of its GPUs: it cannot take another one that
    needs the whole node (HiveD, OSDI '20, section 5.2).

    `blocked`: by how many nodes that changed, and when. `holdings`: who held which GPU; kept only if `keeps_holdings`.
    """

    def __init__(self, keeps_holdings: bool) -> None:
        self.blocked: list[tuple[float, int]] = []
        self.holdings: list[Holding] = []
        self._keeps_holdings = keeps_holdings
        self._guaranteed: Counter[str] = Counter()

    def block(self, at: float, cells: Iterable[LeasedCell]) -> None:
        """A guaranteed job holds these from now on."""
        for node in _nodes(cells):
            self._guaranteed[node] += 1
            if self._guaranteed[node] == 1:
                self.blocked.append((at, 1))

    def unblock(self, at: float, cells: Iterable[LeasedCell]) -> None:
        """It holds them no longer, or is no longer guaranteed."""
        for node in _nodes(cells):
            self._guaranteed[node] -= 1
            if not self._guaranteed[node]:
                self.blocked.append((at, -1))

    def add(self, cells: Iterable[LeasedCell], job: str, tenant: str, start: float, end: float) -> None:
        """A job of a tenant has held these."""
        if self._keeps_holdings:
            self.holdings += [Holding(cell.cell, job, tenant, start, end) for cell in cells if cell.place is not None]


def _nodes(cells: Iterable[LeasedCell]) -> Iterable[str]:
    return (cell.place.machine for cell in cells if cell.place is not None)
