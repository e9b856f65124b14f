"""Between the arbiter's messages and the agent's events and commands."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from themis_agent.agent import commands, events, messages
from themis_agent.agent.cell_names import gpu_of, part_of, slot_name
from themis_agent.agent.searching import is_trial_id
from yarn_plugin.model.auction import Release

SLOWDOWN = "shared-gpus.slowdown/1"
"""The type of the message with which an application tells a slowdown (docs/sharing.md)."""

SAMPLE = "allox.sample"
"""The type of the message with which an application tells how fast a job is (docs/allox.md). Of its alternatives the
first is a GPU, the second a slot (`trial_jobs.alternatives_of`)."""


class Translation:
    """Translates the messages of one application. `journal_time`: seconds since the epoch in the agent's time.
    `is_sharing`: its leases are of parts of GPUs, one for each of its jobs."""

    def __init__(self, journal_time: Callable[[float], float], is_sharing: bool = False) -> None:
        self._journal_time, self._is_sharing = journal_time, is_sharing

    def translated(self, message: messages.FromArbiter) -> tuple[events.Event, ...]:
        """What a message means to the agent."""
        match message:
            case messages.Ask():
                return (events.Asked(message.id, message.question),)
            case messages.Offer():
                return (events.Offered(message.id, message.offer),)
            case messages.Grant():
                return tuple(
                    events.Granted(
                        lease.id, self._gpus(lease), self._time(lease.until), _trial(lease), _is_sample(lease)
                    )
                    for lease in message.leases
                )
            case messages.Renew():
                return (events.Renewed(message.lease, self._time(message.until)),)
            case messages.Revoke():
                return (events.Revoked(message.lease, self._journal_time(message.by), self._cells(message.cells)),)
            case messages.LeaseEnded():
                return (events.LeaseEnded(message.lease, self._cells(message.cells)),)
            case messages.Leases():
                return (events.LeasesRead(self.held(message)),)

    def held(self, message: messages.Leases) -> tuple[events.HeldLease, ...]:
        """All leases of the application."""
        return tuple(map(self._held, message.leases))

    def _held(self, lease: messages.Lease) -> events.HeldLease:
        gpus = self._gpus(lease)
        revoked = tuple(gpu.cell for gpu in gpus) if self._is_sharing and lease.revoked else lease.revoked
        until, by = self._time(lease.until), self._time(lease.vacate_by)
        return events.HeldLease(lease.id, gpus, until, revoked, by, _trial(lease), _is_sample(lease))

    def _gpus(self, lease: messages.Lease) -> tuple[events.Gpu, ...]:
        gpus = _gpus(lease)
        if not self._is_sharing:
            return gpus
        # A part of a GPU has a holding for each of its resources.
        parts = {gpu.cell: replace(gpu, cell=part_of(gpu.cell, lease.job)) for gpu in gpus}
        return tuple(parts.values())

    def _cells(self, cells: tuple[str, ...]) -> tuple[str, ...]:
        """A lease of a part is of one cell: what is said of any is said of all."""
        return () if self._is_sharing else cells

    def _time(self, wall: float | None) -> float | None:
        return None if wall is None else self._journal_time(wall)


def _trial(lease: messages.Lease) -> str:
    """The trial that a lease is for; "": it is for a search as a whole."""
    return lease.job if is_trial_id(lease.job) else ""


def _is_sample(lease: messages.Lease) -> bool:
    return lease.kind == "sample"


def _gpus(lease: messages.Lease) -> tuple[events.Gpu, ...]:
    """The GPUs of a lease. That of a trial has one GPU, with cores of its node, or a slot: cores and memory of one."""
    if not _trial(lease):
        return tuple(map(_gpu, lease.holdings))
    gpus = tuple(_gpu(holding) for holding in lease.holdings if holding.place is not None)
    if gpus:
        return gpus
    node = lease.holdings[0].cell
    return (events.Gpu(slot_name(node, lease.id), node, node, "", node.partition(":")[0]),)


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
            return messages.write(Release(command.lease, tuple(map(gpu_of, command.cells))))
        case commands.SendSlowdown():
            return SLOWDOWN, {"job": command.job, "slowdown": command.slowdown}
        case commands.SendSpeed():
            run = {"job": command.trial, "alternative": int(command.is_slot)}
            return SAMPLE, {**run, "batches": command.steps, "seconds": command.seconds}
        case _:
            return None
