"""capacity-scheduler.xml: the queues an embedded cluster starts with."""

from yarn_plugin.embedded.configuration.xml import Properties
from yarn_plugin.observe.scheduler_configuration import PREFIX, property_name

_CALCULATOR = "org.apache.hadoop.yarn.util.resource.DominantResourceCalculator"

NEW_LEAF_WEIGHT = "1w"
"""An application that has just arrived weighs a hundredth of the whole until its weight is written.

That is little enough to take no container from anybody. Much less would shut it out: the number of applications that a
queue accepts is its part of the capacity times 10,000.
"""

QUEUE_EXPIRY_S = 20
"""A dynamic queue that has been empty this long is removed at the second check after that."""

_WIDE = {
    # A single user may fill the whole queue and beyond, as far as the maximum capacity of 100%.
    "user-limit-factor": 1000,
    "maximum-capacity": 100,
}

_ONE_APPLICATION = {
    **_WIDE,
    # Preemption spares as much of a queue's application masters as this factor times its capacity. A factor above 1
    # spares the master of a small queue: at 0.9 it was killed again and again, even with nothing else waiting.
    "maximum-am-resource-percent": 1000,
}


def capacity_scheduler() -> Properties:
    """`root.default` for anyone, and `root.sql`, below which every application gets a leaf queue of its own.

    The scheduler's legacy queue mode stays on, as it is by default: without it capacities are rounded to whole vcores
    and GPUs, and two queues of equal weight get unequal shares.
    """
    return {
        f"{PREFIX}.resource-calculator": _CALCULATOR,
        # The scheduler's background thread, on by default, tries a node every 5 ms as long as anything is pending:
        # on a small machine that costs more than waiting for the nodes' heartbeats.
        f"{PREFIX}.schedule-asynchronously.enable": False,
        f"{PREFIX}.auto-queue-creation-v2.queue-expiration-time": QUEUE_EXPIRY_S,
        # One container a heartbeat and node: work spreads over the nodes instead of filling the first to answer.
        f"{PREFIX}.per-node-heartbeat.maximum-container-assignments": 1,
        f"{PREFIX}.root.queues": "default,sql",
        f"{PREFIX}.root.capacity": 100,
        **_queue("root.default", {"capacity": "2w", "maximum-am-resource-percent": 0.9, **_WIDE}),
        **_queue("root.sql", {"capacity": "8w", "maximum-capacity": 100, "auto-queue-creation-v2.enabled": True}),
        **_queue("root.sql.auto-queue-creation-v2.leaf-template", {"capacity": NEW_LEAF_WEIGHT, **_ONE_APPLICATION}),
    }


def _queue(path: str, settings: Properties) -> Properties:
    return {property_name(path, name): value for name, value in settings.items()}
