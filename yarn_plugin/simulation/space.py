"""Free room on nodes. Nodes that have the same amounts free are interchangeable, so they are kept together."""

Amounts = tuple[int, ...]
"""Amounts of the cluster's resources, in an order that the simulated YARN fixes."""


class Space:
    """What each node has free; finds one that has room without looking at all of them."""

    def __init__(self) -> None:
        self.free: dict[str, Amounts] = {}
        self._alike: dict[Amounts, dict[str, None]] = {}
        self._last: dict[Amounts, Amounts] = {}

    def add(self, node: str, amounts: Amounts) -> None:
        """A node with nothing on it."""
        self._put(node, amounts)

    def remove(self, node: str) -> None:
        """The node is gone, with all that was on it."""
        self._take_out(node)

    def place(self, size: Amounts, count: int) -> dict[str, int]:
        """Take room for up to so many containers, the emptiest nodes first. Returns how many each node takes."""
        placed: dict[str, int] = {}
        while count > 0 and (free := self._roomy(size)) is not None:
            node = next(iter(self._alike[free]))
            fit = min([count, *(has // needs for has, needs in zip(free, size, strict=True) if needs)])
            self._take_out(node)
            self._put(node, tuple([has - fit * needs for has, needs in zip(free, size, strict=True)]))
            placed[node] = placed.get(node, 0) + fit
            count -= fit
        return placed

    def give_back(self, node: str, size: Amounts, count: int) -> None:
        """Containers on a node have ended."""
        free = self._take_out(node)
        self._put(node, tuple([has + count * needs for has, needs in zip(free, size, strict=True)]))

    def _roomy(self, size: Amounts) -> Amounts | None:
        """The amounts free on a node that has room: those of last time while there are such nodes, else the most."""
        last = self._last.get(size)
        if last is not None and last in self._alike:
            return last
        found = max((free for free in self._alike if _fits(size, free)), default=None)
        if found is not None:
            self._last[size] = found
        return found

    def _put(self, node: str, free: Amounts) -> None:
        self.free[node] = free
        self._alike.setdefault(free, {})[node] = None

    def _take_out(self, node: str) -> Amounts:
        free = self.free.pop(node)
        alike = self._alike[free]
        del alike[node]
        if not alike:
            del self._alike[free]
        return free


def _fits(size: Amounts, free: Amounts) -> bool:
    return all(needs <= has for needs, has in zip(size, free, strict=True))
