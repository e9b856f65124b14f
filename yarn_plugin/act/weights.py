"""Queue weights: written in one request, then read back. A refused queue does not affect the others."""

import math
from collections.abc import Collection, Mapping, Sequence

from yarn_plugin.act.ownership import Ownership
from yarn_plugin.decide.events import LeavesSeen, WeightsWritten
from yarn_plugin.observe import scheduler_configuration
from yarn_plugin.observe.capabilities import is_read_only
from yarn_plugin.observe.resource_manager import ManagerError, ManagerRefusedError, ResourceManager
from yarn_plugin.observe.scheduler_configuration import CAPACITY, SchedulerConfiguration, weight_of


class WeightsIgnoredError(ManagerError):
    """The ResourceManager accepted a request and changed nothing."""


def leaves_in(configuration: SchedulerConfiguration, parents: Collection[str]) -> LeavesSeen:
    """The child queues of the parents: the static ones, and the weights of the others."""
    static = static_queues(configuration, parents)
    weights = (
        (queue, weight)
        for parent in parents
        for queue, value in configuration.capacities_below(parent)
        if queue not in static and (weight := weight_of(value)) is not None
    )
    return LeavesSeen(tuple(sorted(static)), tuple(sorted(weights)))


def static_queues(configuration: SchedulerConfiguration, parents: Collection[str]) -> frozenset[str]:
    """The static child queues of the parents."""
    return frozenset(queue for parent in parents for queue in configuration.children(parent))


def write_weights(
    manager: ResourceManager,
    weights: Sequence[tuple[str, float]],
    forget: Sequence[str],
    parents: Collection[str] | None = None,
    ownership: Ownership | None = None,
) -> WeightsWritten:
    """Set the weights of dynamic leaf queues, delete those of removed queues (`forget`), and verify.

    The ResourceManager rejects a request as a whole, and does not always name the queue at fault. So a rejected request
    is split until single queues are rejected, and the others are written.

    `parents`: only their dynamic child queues are changed; None: any queue. `ownership`: checked before and after.

    Raises:
        SupersededError: another arbiter owns the pools' queues now.
        ManagerError: nothing was written: the ResourceManager rejected or ignored everything.
    """
    wanted = {queue: f"{weight:g}w" for queue, weight in weights} | dict.fromkeys(forget, "")
    protected: dict[str, str] = {}
    if parents is not None or ownership is not None:
        stored = scheduler_configuration.read(manager)
        if ownership is not None:
            ownership.require_owned(stored)
            ownership.renew(manager, stored)
        if parents is not None:
            protected = _protected(wanted, stored, parents)
    wanted = {queue: value for queue, value in wanted.items() if queue not in protected}
    if not wanted:
        return _written(weights, forget, protected)
    refused = _CapacityWriter(manager, len(wanted)).write(wanted)
    stored = scheduler_configuration.read(manager)
    if ownership is not None:
        ownership.require_owned(stored)
    accepted = {queue: value for queue, value in wanted.items() if queue not in refused}
    ignored = _ignored(accepted, stored)
    failed = refused | ignored
    # A single failed queue says nothing about the others, so it is reported as refused.
    if len(failed) == len(wanted) > 1:
        queue, reason = next(iter(failed.items()))
        raise WeightsIgnoredError(f"queue {queue}: {reason}")
    return _written(weights, forget, protected | failed)


def _protected(
    wanted: Mapping[str, str], configuration: SchedulerConfiguration, parents: Collection[str]
) -> dict[str, str]:
    """The queues that must not be changed, with the reasons."""
    static = static_queues(configuration, parents)
    protected = {
        queue: "a static queue, defined in the configuration; only dynamic (auto-created) queues are changed"
        for queue in wanted
        if queue in static
    }
    elsewhere = [queue for queue in wanted if queue.rpartition(".")[0] not in parents]
    return protected | dict.fromkeys(elsewhere, "not a child of a pool's queue")


def _ignored(wanted: Mapping[str, str], configuration: SchedulerConfiguration) -> dict[str, str]:
    """The queues whose configuration differs from the written one, with both values."""
    ignored: dict[str, str] = {}
    for queue, value in wanted.items():
        if not configuration.has_value(queue, CAPACITY, value):
            found = configuration.get(queue, CAPACITY) or ""
            ignored[queue] = f"capacity {value!r} was written, but the ResourceManager reports {found[:100]!r}"
    return ignored


def _written(weights: Sequence[tuple[str, float]], forget: Sequence[str], refused: Mapping[str, str]) -> WeightsWritten:
    return WeightsWritten(
        weights=tuple((queue, weight) for queue, weight in weights if queue not in refused),
        forgotten=tuple(queue for queue in forget if queue not in refused),
        refused=tuple(refused.items()),
    )


class _CapacityWriter:
    """Writes capacities of queues in few requests: each makes the ResourceManager reinitialize its scheduler."""

    def __init__(self, manager: ResourceManager, queues: int) -> None:
        self._manager = manager
        # Enough to find two queues at fault; with more, the queues are not the cause.
        self._refusals_left = 4 + 4 * math.ceil(math.log2(queues + 1))

    def write(self, wanted: Mapping[str, str]) -> dict[str, str]:
        """Write as many capacities as possible. Returns the refused queues with the reasons.

        Raises:
            ManagerError: not caused by a queue: the ResourceManager is away, or its configuration is read-only.
        """
        try:
            update = {queue: {CAPACITY: value} for queue, value in wanted.items()}
            scheduler_configuration.write(self._manager, update)
        except ManagerRefusedError as refusal:
            if is_read_only(refusal) or refusal.status >= 500:
                raise
            self._refusals_left -= 1
            if len(wanted) == 1 or self._refusals_left <= 0:
                return dict.fromkeys(wanted, str(refusal))
        else:
            return {}
        queues = list(wanted)
        first, second = queues[: len(queues) // 2], queues[len(queues) // 2 :]
        refused = self.write({queue: wanted[queue] for queue in first})
        return refused | self.write({queue: wanted[queue] for queue in second})
