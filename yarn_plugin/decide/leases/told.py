"""Leases as applications know them: as GPUs one by one, with their places, and as fractions of other cells."""

from collections.abc import Iterable, Iterator

from yarn_plugin.decide.allocators import plan
from yarn_plugin.decide.allocators.cells import Cells
from yarn_plugin.decide.leases.state import Entry
from yarn_plugin.model.resources import GPU
from yarn_plugin.model.share import Holding, Lease


def told(entry: Entry, cells: Cells) -> Lease:
    """A lease for its application."""
    leased = entry.leased
    app, job = leased.claim
    holdings = tuple(one for holding in leased.holdings for one in _told(holding, cells))
    return Lease(entry.id, app, job, leased.member, holdings, leased.alternative, leased.until, leased.kind)


def _told(holding: plan.Holding, cells: Cells) -> Iterator[Holding]:
    place = cells.gpus.get(holding.cell)
    if holding.amounts:
        capacity = cells[holding.cell].capacity
        for name, amount in holding.amounts:
            yield Holding(holding.cell, name, amount / capacity[name], holding.container, place)
        return
    gpus = [gpu for gpu in cells.gpus_in(holding.cell) if gpu == holding.cell or gpu not in cells.broken]
    for gpu in gpus:
        yield Holding(gpu, GPU, 1.0, holding.container, cells.gpus[gpu])
    for name, _ in () if gpus else cells[holding.cell].capacity:
        yield Holding(holding.cell, name, 1.0, holding.container, None)


def told_cells(holdings: Iterable[plan.Holding], cells: Cells) -> tuple[str, ...]:
    """The cells of these holdings as the application knows them, each once."""
    found: dict[str, None] = {}
    for holding in holdings:
        # Cells that are gone are known by their own id.
        known = _told(holding, cells) if holding.cell in cells else [Holding(holding.cell, "")]
        found |= dict.fromkeys(one.cell for one in known)
    return tuple(found)
