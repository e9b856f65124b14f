"""The life of a lease: granted, renewed, revoked, vacated, ended."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from yarn_plugin.decide.pools.commands import LeaseEnded, Renew, Revoke
from yarn_plugin.decide.pools.lease.allocation import Allocation
from yarn_plugin.decide.pools.lease.binding import Winner
from yarn_plugin.decide.pools.lease.state import Held, Round
from yarn_plugin.decide.pools.lease.turn import Turn
from yarn_plugin.model.causes import Cause, How, LeaseLost, LeaseWon
from yarn_plugin.model.resources import GPU
from yarn_plugin.model.share import Holding, Lease, LeaseRecord


def apply(turn: Turn, now: Round, allocation: Allocation) -> None:
    """Renew what holders won back, revoke what they lost, and lease the rest to its winners."""
    when = turn.effective_at
    until = turn.settings.end_of_lease(when)
    kept: set[str] = set()
    for held in _ending(turn, now):
        holder = (held.lease.app, held.lease.job)
        mine = [gpu for gpu in held.staying if gpu in allocation.given and allocation.given[gpu][0] == holder]
        kept.update(mine)
        if mine:
            how = allocation.given[mine[0]][1]
            _renew(turn, held.lease.id, until, LeaseWon(now.number, len(mine), how))
        lost = [gpu for gpu in held.staying if gpu not in kept]
        if lost:
            revoke(turn, held.lease.id, lost, LeaseLost(now.number, len(lost)))
    won: dict[tuple[Winner, How, str], list[str]] = {}
    for gpu in sorted(allocation.given, key=turn.inventory.order.__getitem__):
        if gpu not in kept:
            winner, how = allocation.given[gpu]
            won.setdefault((winner, how, turn.inventory.places[gpu].machine), []).append(gpu)
    for ((app, job), how, _), gpus in sorted(won.items()):
        holdings = tuple(Holding(gpu, GPU) for gpu in gpus)
        turn.set_lease(Held(Lease(turn.new_id(), app, job, 0, holdings, until=until), now.number, how, when))
    turn.start_vacated()


def renew_all(turn: Turn, now: Round) -> None:
    """Renew the ending leases of a round that has no result."""
    for held in _ending(turn, now):
        _renew(turn, held.lease.id, turn.settings.end_of_lease(turn.at), None)


def _ending(turn: Turn, now: Round) -> list[Held]:
    return [turn.state.leases[lease] for lease in now.ending if lease in turn.state.leases]


def adopt(turn: Turn, app: str, records: Iterable[LeaseRecord]) -> None:
    """Lease an application what it has records of, for as long as they say, but for no longer than a lease."""
    latest, crowded = turn.settings.end_of_lease(turn.at), set(turn.state.crowded)
    for record in records:
        until = latest if record.until is None else min(record.until, latest)
        holdings = tuple(Holding(gpu, GPU) for gpu in record.gpus)
        lease = Lease(turn.new_id(), app, record.job, 0, holdings, until=until)
        turn.set_lease(Held(lease, turn.state.round_number, "recorded", turn.at))
        crowded.difference_update(record.gpus)
    turn.change(crowded=tuple(sorted(crowded)))


def _renew(turn: Turn, lease: str, until: float, cause: Cause | None) -> None:
    held = turn.state.leases[lease]
    turn.set_lease(replace(held, lease=replace(held.lease, until=until)))
    turn.commands.append(Renew(turn.new_id(), held.lease.app, lease, until, cause))


def revoke(turn: Turn, lease: str, gpus: Collection[str], cause: Cause) -> None:
    """Revoke GPUs of a lease: its holder has the grace period to vacate them."""
    when = turn.effective_at
    held, by = turn.state.leases[lease], when + turn.settings.grace_s
    leaving = tuple(gpu for gpu in held.gpus if gpu in gpus or gpu in held.leaving)
    is_whole = len(leaving) == len(held.gpus)
    if held.revoke is not None:
        # The new command names all that is to be vacated.
        turn.close(held.revoke)
    command = Revoke(turn.new_id(), held.lease.app, lease, by, cause, () if is_whole else leaving)
    turn.give(command)
    turn.set_lease(replace(held, leaving=leaving, by=by, revoked_at=when, revoke=command.id, lists_tell=None))


def end(turn: Turn, lease: str, gpus: Collection[str], cause: Cause) -> None:
    """End a lease of these GPUs: they are free, or their next holder's."""
    held = turn.state.leases[lease]
    rest = tuple(holding for holding in held.lease.holdings if holding.cell not in gpus)
    gone = tuple(gpu for gpu in held.gpus if gpu in gpus)
    leaving = tuple(gpu for gpu in held.leaving if gpu not in gpus)
    if not leaving and held.revoke is not None:
        turn.close(held.revoke)
    if rest:
        released = tuple(gpu for gpu in held.released if gpu not in gpus)
        kept = replace(held, lease=replace(held.lease, holdings=rest), leaving=leaving, released=released)
        turn.set_lease(kept if leaving else replace(kept, by=None, revoked_at=None, revoke=None))
    else:
        turn.remove_lease(held)
    if held.started_at is not None:
        turn.commands.append(LeaseEnded(turn.new_id(), held.lease.app, lease, gone if rest else (), cause))


def end_all(turn: Turn, gone: Mapping[str, Cause]) -> list[str]:
    """End the leases of applications that are gone, for these reasons. Returns their GPUs."""
    freed: list[str] = []
    for app, cause in gone.items():
        for held in list(turn.leases_of(app)):
            freed += held.gpus
            end(turn, held.lease.id, held.gpus, cause)
    return freed
