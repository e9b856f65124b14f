"""Containers beyond leases: who uses more GPUs of a node than it leases there has the newest containers signalled."""

from collections.abc import Iterator
from dataclasses import replace

from yarn_plugin.decide.commands import ListContainers
from yarn_plugin.decide.events import ContainersListed
from yarn_plugin.decide.leases import excess as beyond
from yarn_plugin.decide.leases.state import Excess
from yarn_plugin.decide.pools.lease.turn import Turn
from yarn_plugin.model.causes import BeyondLease


def find_excess(turn: Turn) -> None:
    """List the containers of applications that stay beyond their leases for the grace period.

    Who overstays a revoked lease has had it already. Unregistered applications lease nothing.
    """
    index = turn.index
    if _is_known(turn):
        return
    found: dict[str, Excess] = {}
    for app, machine, used, leased, is_overdue in _excesses(turn) if turn.view.steering else ():
        key, grace = f"{app} {machine}", turn.settings.grace_s
        excess = turn.state.excess.get(key, Excess(turn.at))
        if is_overdue:
            excess = replace(excess, since=min(excess.since, turn.at - grace))
        yarn_app = turn.claims[app].yarn_app
        if yarn_app is not None and turn.at >= beyond.next_list(excess, grace):
            excess = replace(excess, listed_at=turn.at)
            turn.commands.append(ListContainers(app, yarn_app, BeyondLease(app, machine, used, leased)))
        found[key] = excess
    if found != turn.state.excess:
        turn.change(excess=found)
    index.is_within = None if found else (index.shrunk, turn.view)


def _is_known(turn: Turn) -> bool:
    """Whether nothing has changed since nobody used more than it leases."""
    index, view = turn.index, turn.view
    if index.is_within is None or index.leaving:
        return False
    shrunk, before = index.is_within
    same = view.use is before.use and view.claims is before.claims and view.steering == before.steering
    return same and index.shrunk == shrunk


def _excesses(turn: Turn) -> Iterator[tuple[str, str, int, int, bool]]:
    for app, on in turn.in_use().items():
        if app not in turn.claims:
            continue
        for machine, used in on.items():
            leased, is_overdue = allowed(turn, app, machine)
            if used > leased:
                yield app, machine, used, leased, is_overdue


def allowed(turn: Turn, app: str, machine: str) -> tuple[int, bool]:
    """How many GPUs of a machine an application may use now, and whether it had to vacate others before."""
    count, places = turn.index.on_machine(app, machine), turn.inventory.places
    overdue = 0
    for lease in turn.index.leaving:
        held = turn.state.leases[lease]
        if held.lease.app == app and held.started_at is not None and held.by is not None and held.by <= turn.at:
            overdue += sum(gpu in places and places[gpu].machine == machine for gpu in held.leaving)
    return count - overdue, overdue > 0


def signal(turn: Turn, found: ContainersListed) -> None:
    """Signal the newest containers with GPUs beyond the lease, never a master; none if the application complied."""
    if not turn.view.steering or found.app not in turn.claims:
        return
    turn.commands += beyond.signal(
        turn.state.excess, found, turn.view.topology, lambda machine, used: allowed(turn, found.app, machine)[0]
    )
