"""Between the arbiter's messages and the agent's events and commands."""

from collections.abc import Callable
from typing import Any

from themis_agent.agent import commands, events, messages
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
                    events.Granted(lease.id, tuple(map(_gpu, lease.holdings)), self._time(lease.until))
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
        gpus = tuple(map(_gpu, lease.holdings))
        return events.HeldLease(lease.id, gpus, self._time(lease.until), lease.revoked, self._time(lease.vacate_by))

    def _time(self, wall: float | None) -> float | None:
        return None if wall is None else self._journal_time(wall)


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
