"""What always holds of a ledger, in one place. Tests check it after every step."""

from yarn_plugin.decide.allocators.cells import Cells
from yarn_plugin.decide.leases.occupancy import Occupancy, Tally
from yarn_plugin.decide.leases.state import Entry, Ledger, key_of


class InvalidLedgerError(AssertionError):
    """A rule is broken: a fault of this program."""


def validate(ledger: Ledger, cells: Cells, occupancy: Occupancy | None = None) -> None:
    """Check that

    1. no dimension of any cell is exceeded: neither by what leases hold now, nor by what they keep and what others wait
       for; a whole cell is held once, and nothing in it or around it beside;
    2. no held cell is broken or unknown;
    3. each lease is in one state: it waits (nothing was said of it, nothing is revoked), is held, or is being vacated
       (by a time, with an open command); cells that are leaving are its own;
    4. ids are unique, keys are those of the leases, and each lease is of a known claim;
    5. a lease that another one replaces is of the same claim, and only one replaces it;
    6. `occupancy`, which was changed with the leases, is what follows from them.

    Raises:
        InvalidLedgerError: one of these does not hold.
    """
    claims, ids = {key_of(claim) for claim in ledger.claims}, set[str]()
    replaced: dict[str, str] = {}
    for key, entry in ledger.leases.items():
        leased = entry.leased
        _require(key == entry.key, f"lease {key} is kept under the key of {entry.key}")
        _require(entry.id not in ids, f"two leases have the id {entry.id}")
        ids.add(entry.id)
        _require(leased.claim in claims, f"lease {key} is of {leased.claim}, which is gone")
        _require(bool(leased.holdings), f"lease {key} holds nothing, and is not over")
        for cell in leased.cells:
            _require(cell in cells and cell not in cells.broken, f"lease {key}: cell {cell} is broken or gone")
        _check_state(entry)
        old = ledger.leases.get(leased.replaces or "")
        if old is not None:
            _require(old.leased.claim == leased.claim, f"lease {key} replaces one of another claim")
            _require(old.key not in replaced, f"leases {key} and {replaced.get(old.key)} replace the same one")
            replaced[old.key] = key
    fresh = Occupancy(cells, ledger.leases)
    _check_cells("now", fresh.now, cells)
    _check_cells("later", fresh.later, cells)
    if occupancy is not None:
        for name in ("waiting", "leaving", "unplaced", "by_app", "by_id", "on_cell", "ends", "replaced"):
            _require(getattr(fresh, name) == getattr(occupancy, name), f"the occupancy's {name} is out of date")
        for name in ("now", "later"):
            kept, right = getattr(occupancy, name), getattr(fresh, name)
            same = (kept.totals, kept.counts, kept.whole) == (right.totals, right.counts, right.whole)
            _require(same, f"the occupancy's tally of {name} is out of date")


def _check_state(entry: Entry) -> None:
    leased, name = entry.leased, f"lease {entry.key}"
    if not entry.is_started:
        _require(not entry.said and entry.revoke is None, f"{name} waits, and its application was told of it")
    if leased.leaving:
        _require(entry.is_started and leased.by is not None, f"{name} is being vacated, by no time")
        _require(entry.revoke is not None and entry.revoked_at is not None, f"{name} is being vacated, unrevoked")
    else:
        _require(leased.by is None and entry.revoke is None, f"{name} is revoked, and keeps all cells")
    _require(set(leased.leaving) <= set(leased.cells), f"{name}: leaving cells are not its own")


def _check_cells(when: str, tally: Tally, cells: Cells) -> None:
    for cell, totals in tally.totals.items():
        capacity = cells[cell].capacity
        for name, amount in totals.items():
            within = 0 <= amount <= capacity[name]
            _require(within, f"{when}: {cell} has {capacity[name]} {name}, and {amount} are held")
    for cell, count in tally.whole.items():
        _require(count == 1, f"{when}: {cell} is held {count} times as a whole")
        _require(tally.counts[cell] == 1, f"{when}: {cell} is held as a whole, and others hold part of it")
        above = [other for other in cells.paths[cell][1:] if other in tally.whole]
        _require(not above, f"{when}: {cell} and {above} are held as a whole")


def _require(holds: bool, problem: str) -> None:
    if not holds:
        raise InvalidLedgerError(problem)
