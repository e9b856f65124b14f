"""Carries out an allocator's plan. A plan that asks for what cannot be is refused as a whole: the call fails."""

from collections.abc import Collection

from yarn_plugin.decide.allocators.happenings import ClaimKey
from yarn_plugin.decide.allocators.plan import Holding, Place, Plan, PlanError
from yarn_plugin.decide.allocators.seen import Leased
from yarn_plugin.decide.leases.book import Book, Changes
from yarn_plugin.decide.leases.lifetime import announce, keep, reclass, revoke
from yarn_plugin.decide.leases.occupancy import Occupancy
from yarn_plugin.decide.leases.settings import Rules
from yarn_plugin.decide.leases.state import Entry
from yarn_plugin.model.resources import GPU


def execute(book: Book, plan: Plan, claims: Collection[ClaimKey], at: float, grace_s: float, rules: Rules) -> None:
    """Withdraw, keep, reclass, announce, drop and place, in this order. Parts about leases that are over do nothing.

    Raises:
        PlanError: a part cannot be done.
    """
    for withdrawn in plan.withdraw:
        entry = book.leases.get(withdrawn.key)
        if entry is not None:
            if entry.is_started:
                raise PlanError(f"withdraw {withdrawn.key!r}: it has started; drop it")
            book.apply(Changes({entry.key: None}))
    for kept in plan.keep:
        entry = book.leases.get(kept.key)
        if entry is not None:
            if not kept.is_revoked_still:
                _check_keep(entry, book.occupancy, rules)
            book.apply(keep(entry, kept))
    for change in plan.reclass:
        entry = book.leases.get(change.key)
        if entry is not None and entry.leased.kind != change.kind:
            book.apply(reclass(entry, change.kind, change.cause))
    for notice in plan.announce:
        entry = book.leases.get(notice.key)
        if entry is not None:
            book.apply(announce(entry, notice.kind, notice.cause, notice.at))
    for drop in plan.drop:
        entry = book.leases.get(drop.key)
        if entry is None:
            continue
        unknown = set(drop.cells).difference(entry.leased.cells)
        if unknown:
            raise PlanError(f"drop {drop.key!r}: it has no cell {min(unknown)!r}")
        if entry.is_started:
            book.apply(revoke(entry, drop.cells, drop.cause, at, grace_s))
        else:
            book.apply(Changes({entry.key: None}))
    for place in plan.place:
        book.apply(_placed(book, place, claims, at))


def _check_keep(entry: Entry, occupancy: Occupancy, rules: Rules) -> None:
    # Its tasks are there already: they need no room.
    reason = occupancy.refusal_of(entry.leased.revoked, needs_room=rules < 6)
    if reason is not None:
        raise PlanError(f"keep {entry.key!r}: others wait for its cells: {reason}")


def _placed(book: Book, place: Place, claims: Collection[ClaimKey], at: float) -> Changes:
    if place.key in book.leases:
        raise PlanError(f"place {place.key!r}: the key is in use; a key is never used again")
    if place.claim not in claims:
        raise PlanError(f"place {place.key!r}: claim {place.claim} is not there")
    if not place.holdings:
        raise PlanError(f"place {place.key!r}: it has no cells")
    if len({holding.cell for holding in place.holdings}) < len(place.holdings):
        raise PlanError(f"place {place.key!r}: two holdings are of one cell; make one of them")
    replaced = book.leases.get(place.replaces or "")
    if replaced is not None and replaced.leased.claim != place.claim:
        raise PlanError(f"place {place.key!r}: it replaces {place.replaces!r}, which is of another claim")
    if replaced is not None and replaced.key in book.occupancy.replaced:
        raise PlanError(f"place {place.key!r}: {place.replaces!r} is replaced by another lease; withdraw that one")
    for holding in place.holdings:
        _check_amounts(place, holding)
    if replaced is not None and not replaced.is_started:
        # It never began: nothing passes over, and what it was to replace goes on.
        book.apply(Changes({replaced.key: None}))
        replaced = None
    reason = book.occupancy.refusal_of(place.holdings, replaced)
    if reason is not None:
        raise PlanError(f"place {place.key!r}: {reason}")
    leased = Leased(
        place.key,
        place.claim,
        place.holdings,
        place.member,
        place.alternative,
        place.kind,
        place.until,
        place.gang,
        None if replaced is None else replaced.key,
        place.note,
        place.job,
        placed_at=at,
        won=place.won,
    )
    return Changes({place.key: Entry(leased, book.new_id())})


def _check_amounts(place: Place, holding: Holding) -> None:
    for name, amount in holding.amounts:
        if amount <= 0 or name == GPU:
            expected = "name its GPUs as cells" if name == GPU else "must be above 0"
            raise PlanError(f"place {place.key!r}: {holding.cell}: {amount} {name}: {expected}")
