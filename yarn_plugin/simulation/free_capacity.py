"""Free capacity of nodes. Nodes with equal free amounts are interchangeable, so they are indexed together."""

Amounts = tuple[int, ...]
"""Amounts of the cluster's resources, in an order defined by the simulated YARN."""


class FreeCapacity:
    """The free amounts of each node; finds a node with room without scanning all of them."""

    def __init__(self) -> None:
        self.free: dict[str, Amounts] = {}
        self._nodes_by_free: dict[Amounts, dict[str, None]] = {}
        self._last: dict[Amounts, Amounts] = {}

    def add(self, node: str, amounts: Amounts) -> None:
        """Add an empty node."""
        self._put(node, amounts)

    def remove(self, node: str) -> None:
        """Remove a node and everything on it."""
        self._take_out(node)

    def place(self, size: Amounts, count: int) -> dict[str, int]:
        """Allocate up to `count` containers, on the emptiest nodes first. Returns the number placed on each node."""
        placed: dict[str, int] = {}
        while count > 0 and (free := self._free_amounts_for(size)) is not None:
            node = next(iter(self._nodes_by_free[free]))
            fit = min([count, *(available // needed for available, needed in zip(free, size, strict=True) if needed)])
            self._take_out(node)
            self._put(node, tuple([available - fit * needed for available, needed in zip(free, size, strict=True)]))
            placed[node] = placed.get(node, 0) + fit
            count -= fit
        return placed

    def release(self, node: str, size: Amounts, count: int) -> None:
        """Release containers of a node."""
        free = self._take_out(node)
        self._put(node, tuple([available + count * needed for available, needed in zip(free, size, strict=True)]))

    def _free_amounts_for(self, size: Amounts) -> Amounts | None:
        """The free amounts of a node with room: those of the last call if such nodes remain, else the largest."""
        last = self._last.get(size)
        if last is not None and last in self._nodes_by_free:
            return last
        found = max((free for free in self._nodes_by_free if _fits(size, free)), default=None)
        if found is not None:
            self._last[size] = found
        return found

    def _put(self, node: str, free: Amounts) -> None:
        self.free[node] = free
        self._nodes_by_free.setdefault(free, {})[node] = None

    def _take_out(self, node: str) -> Amounts:
        free = self.free.pop(node)
        nodes = self._nodes_by_free[free]
        del nodes[node]
        if not nodes:
            del self._nodes_by_free[free]
        return free


def _fits(size: Amounts, free: Amounts) -> bool:
    return all(needed <= available for needed, available in zip(size, free, strict=True))
