"""What the scheduler's configuration has for the queues directly below the pools'."""

from collections.abc import Collection

from yarn_plugin.decide.events import LeavesSeen
from yarn_plugin.observe.scheduler_configuration import SchedulerConfiguration, weight_of


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
