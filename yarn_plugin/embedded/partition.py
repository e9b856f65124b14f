"""An exclusive partition of GPU nodes in an embedded cluster, and the queue whose applications lease its GPUs."""

import getpass

from yarn_plugin.embedded.directory import ClusterRecord
from yarn_plugin.embedded.errors import DaemonError
from yarn_plugin.embedded.readiness import rm_url
from yarn_plugin.observe.resource_manager import ManagerError, ResourceManager
from yarn_plugin.queues import apply as queues
from yarn_plugin.queues.file import PartitionSection, QueueSection

NAME = "gpu"
"""Of the partition, and of its queue in the root."""

QUEUES = (
    QueueSection(path="root", partition={NAME: PartitionSection(capacity=100)}),
    QueueSection(
        path=f"root.{NAME}",
        # Of the other nodes, where application masters run.
        weight=2,
        maximum_capacity=100,
        user_limit_factor=1000,
        maximum_am_resource_percent=1,
        disable_preemption=True,
        default_partition=NAME,
        partition={NAME: PartitionSection(weight=1, maximum_capacity=100, maximum_am_resource_percent=1)},
    ),
)
"""One static leaf queue: YARN gives dynamic leaf queues nothing of a partition. Leases rule in it, not weights."""


def create(record: ClusterRecord) -> None:
    """Label the GPU nodes, which must have registered, and add the queue.

    Raises:
        DaemonError: the ResourceManager refused.
    """
    manager = ResourceManager([rm_url(record)], getpass.getuser())
    labelled = [{"nodeId": f"{node.host}:0", "labels": [NAME]} for node in record.spec.gpu_nodes]
    try:
        manager.post("/add-node-labels", {"nodeLabelInfo": [{"name": NAME, "exclusivity": "true"}]})
        manager.post("/replace-node-to-labels", {"nodeToLabels": labelled})
        queues.apply(manager, [section.spec() for section in QUEUES])
    except ManagerError as refused:
        raise DaemonError(f"rm: no partition {NAME!r} for --gpu-partition: {refused}") from refused
