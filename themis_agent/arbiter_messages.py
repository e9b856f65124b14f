"""Between the arbiter's messages and the agent's events and commands."""

from collections.abc import Callable
from typing import Any

from themis_agent.agent import commands, events, messages
from themis_agent.agent.searching import is_trial_id
from yarn_plugin.model.auction import Release


class Translation:
    """Translates the messages of one application. `journal_time`: seconds since the epoch in the agent's time."""

    def __init__(self, journal_time: Callable[[float], float]) -> None:
        self._journal_time = journal_time

    def translated(self, message: messages.FromArbiter) -> tuple[events.Event, ...]:
        """What a message means to the agent."""
        match message:
            case messages.Ask():
                return (events.Asked(message.id, message.question),)
            case messages.Offer():
                return (events.Offered(message.id, message.offer),)
            case messages.Grant():
                return tuple(
                    events.Granted(lease.id, _gpus(lease), self._time(lease.until), _trial(lease))
                    for lease in message.leases
                )
            case messages.Renew():
                return (events.Renewed(message.lease, self._time(message.until)),)
            case messages.Revoke():
                return (events.Revoked(message.lease, self._journal_time(message.by), message.cells),)
            case messages.LeaseEnded():
                return (events.LeaseEnded(message.lease, message.cells),)
            case messages.Leases():
                return (events.LeasesRead(tuple(map(self._held, message.leases))),)

    def _held(self, lease: messages.Lease) -> events.HeldLease:
        until, by = self._time(lease.until), self._time(lease.vacate_by)
        return events.HeldLease(lease.id, _gpus(lease), until, lease.revoked, by, _trial(lease))

    def _time(self, wall: float | None) -> float | None:
        return None if wall is None else self._journal_time(wall)


def _trial(lease: messages.Lease) -> str:
    """The trial that a lease is for; "": it is for a search as a whole."""
    return lease.job if is_trial_id(lease.job) else ""


def _gpus(lease: messages.Lease) -> tuple[events.Gpu, ...]:
    """The GPUs of a lease. That of a trial has one GPU, with cores of its node, or a slot: cores and memory of one."""
    if not _trial(lease):
        return tuple(map(_gpu, lease.holdings))
    gpus = tuple(_gpu(holding) for holding in lease.holdings if holding.place is not None)
    if gpus:
        return gpus
    node = lease.holdings[0].cell
    return (events.Gpu(events.slot_name(node, lease.id), node, node, "", node.partition(":")[0]),)


def _gpu(holding: messages.Holding) -> events.Gpu:
    cell, place = holding.cell, holding.place
    if place is None:
        machine = cell.partition("/")[0]
        return events.Gpu(cell, cell.rpartition("/")[0] or cell, machine, "", machine)
    return events.Gpu(cell, place.slot, place.machine, place.rack, place.host, place.ordinal, place.model)


def answer(command: commands.Command) -> tuple[str, dict[str, Any]] | None:
    """The message of a command, as `ArbiterClient.send` takes it; None if it is not for the arbiter."""
    match command:
        case commands.SendEstimate():
            return messages.write(command.estimate)
        case commands.SendBid():
            return messages.write(command.bid)
        case commands.ReleaseGpus():
            return messages.write(Release(command.lease, command.cells))
        case _:
            return None
