"""How many cells of each level the virtual clusters may still claim, and whether all of those can be served.

HiveD (OSDI '20), section 3.2, Theorem 1. With r the quota, a what is allocated of it, f the free cells, all of level k,
and h the children of a cell of level k + 1, every legal request can be served while, at each level of each chain,

    r[k] - a[k] <= f[k] + F[k],    F[k] = (f[k+1] + F[k+1] - (r[k+1] - a[k+1])) * h[k+1],    F[top] = 0.

This counts bad cells like any others: the guarantee holds while all nodes are healthy. A pinned cell is allocated from
the start. Opportunistic work holds no cell, so it does not enter.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from yarn_plugin.decide.mechanisms.buddy_cells.errors import InfeasibleError
from yarn_plugin.decide.mechanisms.buddy_cells.specification import Chain
from yarn_plugin.decide.mechanisms.buddy_cells.undo import UndoLog


@dataclass(frozen=True, slots=True)
class Shortage:
    """Cells of a level that virtual clusters may claim and that the free cells cannot be split into."""

    level: int
    needed: int
    available: int


class Quotas:
    """The unallocated quotas of one chain: `left[level - 1]` of all virtual clusters, `of[cluster]` of each."""

    __slots__ = ("_undo", "chain", "left", "of")

    def __init__(self, chain: Chain, quotas: Mapping[str, Sequence[int]], undo: UndoLog) -> None:
        self.chain, self._undo = chain, undo
        self.of = {cluster: list(cells) for cluster, cells in quotas.items()}
        self.left = [sum(cells) for cells in zip(*self.of.values(), strict=True)] if self.of else [0] * chain.top

    def change(self, cluster: str, level: int, number: int) -> None:
        """Add to what a virtual cluster may still claim."""
        self._add(cluster, level, number)
        self._undo.record(self._add, cluster, level, -number)

    def _add(self, cluster: str, level: int, number: int) -> None:
        self.of[cluster][level - 1] += number
        self.left[level - 1] += number

    def can_add(self, level: int, number: int, free: Sequence[int]) -> bool:
        """Whether this many more cells of a level could be claimed."""
        left = list(self.left)
        left[level - 1] += number
        return shortage(self.chain, left, free) is None

    def shortage(self, free: Sequence[int]) -> Shortage | None:
        """The highest level at which Theorem 1's invariant fails. `free[level - 1]`: free cells."""
        return shortage(self.chain, self.left, free)


def shortage(chain: Chain, left: Sequence[int], free: Sequence[int]) -> Shortage | None:
    """The highest level at which Theorem 1's invariant fails for these quotas and free cells."""
    from_above = 0
    for level in range(chain.top, 0, -1):
        available = free[level - 1] + from_above
        needed = left[level - 1]
        if needed > available:
            return Shortage(level, needed, available)
        if level > 1:
            from_above = (available - needed) * chain.fan_out(level)
    return None


def check_feasible(quotas: Quotas, free: Sequence[int]) -> None:
    """Check that everything a virtual cluster may claim can be served.

    Raises:
        InfeasibleError: it cannot; with the level and the numbers.
    """
    if (missing := quotas.shortage(free)) is not None:
        chain = quotas.chain
        raise InfeasibleError(
            chain.name, missing.level, chain.types[missing.level - 1], missing.needed, missing.available
        )
