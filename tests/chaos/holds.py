"""A slow and plain account of who holds what: every holding is compared with every other one."""

from collections import Counter

from yarn_plugin.model.resources import GPU_MILLI


class Holds:
    """What is held of some cells. `holdings`: those that count."""

    def __init__(self, cells, holdings=()):
        self.cells, self.holdings = cells, list(holdings)

    def has(self, outer, inner):
        """Whether a cell is another one, or contains it."""
        return outer in self.cells.paths.get(inner, (inner,))

    def amounts(self, holding):
        return holding.amounts or self.cells[holding.cell].capacity

    def are_apart(self, one, other):
        """Whether no whole cell of two holdings is in the other's, or around it."""
        return not (
            (not one.amounts and self.has(one.cell, other.cell))
            or (not other.amounts and self.has(other.cell, one.cell))
            or (not one.amounts and self.has(other.cell, one.cell) and not other.amounts)
        )

    def fits(self, added):
        """Whether these can be held too: no cell is broken, held as a whole and by another, or held beyond its
        capacity."""
        every = [*self.holdings, *added]
        if any(one.cell not in self.cells or one.cell in self.cells.broken for one in added):
            return False
        for place, one in enumerate(added):
            others = [*self.holdings, *added[:place]]
            # Something in a cell excludes the whole cell.
            if not all(self.are_apart(one, other) for other in others):
                return False
            for above in self.cells.paths[one.cell]:
                if not self._is_within(above, every):
                    return False
        return True

    def _is_within(self, cell, holdings):
        total = Counter()
        for one in holdings:
            if self.has(cell, one.cell):
                total.update(dict(self.amounts(one)))
        return all(amount <= self.cells[cell].capacity[name] for name, amount in total.items())

    def is_valid(self):
        return Holds(self.cells).fits(self.holdings)

    def is_held(self, gpu):
        return not all(one.cell != gpu and (one.amounts or not self.has(one.cell, gpu)) for one in self.holdings)

    def gpus_on(self, node):
        """How many whole GPUs of a node are held."""
        return sum(
            self.cells.gpus[gpu].machine == node
            for one in self.holdings
            if not one.amounts and one.cell in self.cells
            for gpu in self.cells.gpus_in(one.cell)
        )


def later(cells, leases):
    """What is held once every hand-over is done. `leases`: those of a ledger, as an allocator sees them."""
    passed = {one.replaces: one for one in leases if one.started_at is None and one.replaces is not None}
    found = []
    for one in leases:
        to = passed.get(one.key)
        found += [held for held in one.staying if to is None or not passes(cells, held, to.holdings)]
    return Holds(cells, found)


def passes(cells, held, to):
    """Whether a lease's holding passes over to one that has these and replaces it."""
    return any(one.cell == held.cell or (not one.amounts and one.cell in cells.paths.get(held.cell, ())) for one in to)


def whole_gpus(cells, holdings):
    """The whole GPUs of each node that these are."""
    return Counter(cells.gpus[gpu].machine for one in holdings if not one.amounts for gpu in cells.gpus_in(one.cell))


def leased_on(cells, leases, app):
    """How many GPUs of each node an application leases: whole ones, and those of which it leases parts."""
    mine = [held for one in leases if one.claim[0] == app and one.started_at is not None for held in one.holdings]
    found = whole_gpus(cells, [one for one in mine if one.cell in cells])
    parts = {one.cell for one in mine if one.amounts and one.cell in cells.gpus and one.amounts[GPU_MILLI]}
    found.update(cells.gpus[gpu].machine for gpu in parts)
    return found
