"""Between the arbiter's messages and the agent's events and commands."""

from collections.abc import Callable, Iterable
from typing import Any

from themis_agent.agent import commands, events, messages
from yarn_plugin.model.auction import Release
from yarn_plugin.model.gpus import Machine


class Translation:
    """Translates the messages of one application, in their order.

    A grant names GPUs, such as `node-1/3`; in which machine, slot and rack they lie is learned from the machines of
    questions and offers before it. `journal_time`: seconds since the epoch in the agent's time.
    """

    def __init__(self, journal_time: Callable[[float], float]) -> None:
        self._journal_time = journal_time
        self._slots: dict[str, tuple[str, str]] = {}

    def translated(self, message: messages.FromArbiter) -> tuple[events.Event, ...]:
        """What a message means to the agent."""
        match message:
            case messages.Ask():
                self._learn(message.question.machines)
                return (events.Asked(message.id, message.question),)
            case messages.Offer():
                self._learn(message.offer.machines)
                return (events.Offered(message.id, message.offer),)
            case messages.Grant():
                return tuple(self._granted(lease) for lease in message.leases)
            case messages.Renew():
                return (events.Renewed(message.lease, self._time(message.until)),)
            case messages.Revoke():
                return (events.Revoked(message.lease, self._journal_time(message.by), message.cells),)
            case messages.LeaseEnded():
                return (events.LeaseEnded(message.lease, message.cells),)

    def _learn(self, machines: Iterable[Machine]) -> None:
        self._slots |= {slot.id: (machine.id, machine.rack) for machine in machines for slot in machine.slots}

    def _granted(self, lease: messages.Lease) -> events.Granted:
        return events.Granted(lease.id, tuple(map(self._gpu, lease.cells)), self._time(lease.until))

    def _gpu(self, cell: str) -> events.Gpu:
        slot = cell.rpartition("/")[0] or cell
        machine, rack = self._slots.get(slot, (slot, ""))
        return events.Gpu(cell, slot, machine, rack)

    def _time(self, wall: float | None) -> float | None:
        return None if wall is None else self._journal_time(wall)


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
