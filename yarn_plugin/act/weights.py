"""Queue weights: written in one request, read back, compared; a queue that is refused does not keep others back."""

import math
from collections.abc import Collection, Mapping, Sequence

from yarn_plugin.act.ownership import Ownership
from yarn_plugin.decide.events import LeavesSeen, WeightsWritten
from yarn_plugin.observe import scheduler_configuration
from yarn_plugin.observe.capabilities import is_read_only
from yarn_plugin.observe.resource_manager import ManagerError, ManagerRefusedError, ResourceManager
from yarn_plugin.observe.scheduler_configuration import CAPACITY, SchedulerConfiguration, weight_of


class WeightsIgnoredError(ManagerError):
    """The ResourceManager said yes and did not do it."""


def leaves_in(configuration: SchedulerConfiguration, parents: Collection[str]) -> LeavesSeen:
    """The queues directly below the parents: static ones, and the weights of others."""
    static = static_queues(configuration, parents)
    weights = (
        (queue, weight)
        for parent in parents
        for queue, value in configuration.capacities_below(parent)
        if queue not in static and (weight := weight_of(value)) is not None
    )
    return LeavesSeen(tuple(sorted(static)), tuple(sorted(weights)))


def static_queues(configuration: SchedulerConfiguration, parents: Collection[str]) -> frozenset[str]:
    """The queues directly below the parents that the configuration itself defines."""
    return frozenset(queue for parent in parents for queue in configuration.children(parent))


def write_weights(
    manager: ResourceManager,
    weights: Sequence[tuple[str, float]],
    forget: Sequence[str],
    parents: Collection[str] | None = None,
    ownership: Ownership | None = None,
) -> WeightsWritten:
    """Give dynamic leaf queues their weights, take back those of queues that are gone, and check.

    Of a request that is refused nothing is done, and the answer does not always name the culprit: it is halved until
    single queues are refused, and the others are written.

    `parents`: the only queues directly below which anything is written, unless the configuration itself defines it.
    `ownership`: checked before and after.

    Raises:
        SupersededError: another arbiter owns the pools' queues now.
        ManagerError: nothing was written: the RM refused everything, or kept nothing.
    """
    wanted = {queue: f"{weight:g}w" for queue, weight in weights} | dict.fromkeys(forget, "")
    barred: dict[str, str] = {}
    if parents is not None or ownership is not None:
        found = scheduler_configuration.read(manager)
        if ownership is not None:
            ownership.require(found)
            ownership.renew(manager, found)
        if parents is not None:
            barred = _barred(wanted, found, parents)
    wanted = {queue: value for queue, value in wanted.items() if queue not in barred}
    if not wanted:
        return _written(weights, forget, barred)
    refused = _Writing(manager, len(wanted)).write(wanted)
    found = scheduler_configuration.read(manager)
    if ownership is not None:
        ownership.require(found)
    accepted = {queue: value for queue, value in wanted.items() if queue not in refused}
    ignored = _ignored(accepted, found)
    failed = refused | ignored
    # One alone is not known to be everything: it is left, as it would be among others, for them to be written.
    if len(failed) == len(wanted) > 1:
        queue, said = next(iter(failed.items()))
        raise WeightsIgnoredError(f"queue {queue}: {said}")
    return _written(weights, forget, barred | failed)


def _barred(
    wanted: Mapping[str, str], configuration: SchedulerConfiguration, parents: Collection[str]
) -> dict[str, str]:
    """The queues that are not ours to write, and why."""
    static = static_queues(configuration, parents)
    barred = {queue: "the configuration defines it" for queue in wanted if queue in static}
    elsewhere = [queue for queue in wanted if queue.rpartition(".")[0] not in parents]
    return barred | dict.fromkeys(elsewhere, "it is not directly below the queue of a pool")


def _ignored(wanted: Mapping[str, str], configuration: SchedulerConfiguration) -> dict[str, str]:
    """The queues that do not have what was written, and what they have."""
    ignored: dict[str, str] = {}
    for queue, value in wanted.items():
        if not configuration.has(queue, CAPACITY, value):
            found = configuration.get(queue, CAPACITY) or ""
            ignored[queue] = f"capacity {value!r} was written, the RM has {found[:100]!r}"
    return ignored


def _written(weights: Sequence[tuple[str, float]], forget: Sequence[str], refused: Mapping[str, str]) -> WeightsWritten:
    return WeightsWritten(
        weights=tuple((queue, weight) for queue, weight in weights if queue not in refused),
        forgotten=tuple(queue for queue in forget if queue not in refused),
        refused=tuple(refused.items()),
    )


class _Writing:
    """Writes capacities of queues. Every request makes the RM set up its scheduler anew, so that few are sent."""

    def __init__(self, manager: ResourceManager, queues: int) -> None:
        self._manager = manager
        # Enough to find two single culprits; where it is more, something else is wrong than a queue.
        self._refusals_left = 4 + 4 * math.ceil(math.log2(queues + 1))

    def write(self, wanted: Mapping[str, str]) -> dict[str, str]:
        """Write what can be written; returns the queues that were refused, each with what was said.

        Raises:
            ManagerError: it is not about the queues: the RM is away, or its configuration cannot be changed.
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
