"""What a search needs to know of a cluster, and why it may not fit."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from themis_agent.app_file import AppFile, Side
from yarn_plugin.model.resources import GPU, MEMORY, VCORES, Resources
from yarn_plugin.observe.nodes import isolate_gpus, parse_nodes
from yarn_plugin.observe.queue_tree import QueueReport, queue_tree
from yarn_plugin.observe.resource_manager import ResourceManager
from yarn_plugin.quantities import count

_MAX_ALLOCATION = {
    MEMORY: "yarn.scheduler.maximum-allocation-mb",
    VCORES: "yarn.scheduler.maximum-allocation-vcores",
}


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """`nodes`: the capacity of each that accepts containers. `partitions`: the node labels of those with one. `queues`:
    of the CapacityScheduler, by path; empty with another scheduler. `limits`: of one container, by resource, as far as
    known. `isolates_gpus`: a container sees its own GPUs alone, as far as the ResourceManager's configuration says."""

    url: str
    nodes: Mapping[str, Resources]
    partitions: Mapping[str, str]
    queues: Mapping[str, QueueReport]
    limits: Mapping[str, int]
    isolates_gpus: bool = False

    def gpu_nodes(self, partition: str | None) -> dict[str, Resources]:
        """The nodes with GPUs in a partition; "": those without label; None: in any."""
        return {node: one for node, one in self.nodes_in(partition).items() if one[GPU]}

    def nodes_in(self, partition: str | None) -> dict[str, Resources]:
        """The nodes in a partition, as of `gpu_nodes`."""
        return {
            node: one
            for node, one in self.nodes.items()
            if partition is None or self.partitions.get(node, "") == partition
        }

    def partition_of(self, queue: str) -> str | None:
        """The partition of containers of a queue, which may be one that a submission creates; None if it is not known,
        as there is no such queue."""
        known, parent = self.queues.get(queue), self.queues.get(queue.rpartition(".")[0])
        if known is None and parent is not None and parent.makes_leaves:
            known = parent
        if known is None:
            return None if self.queues else ""
        return known.default_partition


def observe(manager: ResourceManager) -> ClusterFacts:
    """Ask the ResourceManager.

    Raises:
        ManagerError: there is no answer, or not a ResourceManager's.
    """
    nodes = parse_nodes(manager.get("/nodes", states="RUNNING"))
    conf = manager.configuration()
    limits = {name: conf.get(key, "") for name, key in _MAX_ALLOCATION.items()}
    return ClusterFacts(
        url=manager.url,
        nodes={name: node.capacity for name, node in nodes.items()},
        partitions=nodes.partitions,
        queues=queue_tree(manager.get("/scheduler")),
        limits={name: int(text) for name, text in limits.items() if text.isdigit()},
        isolates_gpus=isolate_gpus(conf),
    )


def queue_problem(cluster: ClusterFacts, queue: str) -> str | None:
    """Why no application can be submitted to a queue; None: one can."""
    if not cluster.queues:
        return None
    leaf, parent = cluster.queues.get(queue), cluster.queues.get(queue.rpartition(".")[0])
    if leaf is None:
        if parent is None or not parent.makes_leaves:
            return f"--queue {queue!r}: the ResourceManager has no such queue"
        leaf = parent
    elif leaf.makes_leaves or any(one.parent == queue for one in cluster.queues.values()):
        return f"--queue {queue!r}: is a parent queue; give one below it, such as {queue}.NAME"
    return None if leaf.state == "RUNNING" else f"--queue {queue!r}: is {leaf.state.lower() or 'not running'}"


def fit_problems(app: AppFile, cluster: ClusterFacts, partition: str | None) -> Iterator[str]:
    """Why no trial could run on the cluster's GPUs. `partition`: None if it is not known."""
    nodes = cluster.gpu_nodes(partition)
    if not nodes:
        others = "without a label " if not partition and cluster.gpu_nodes(None) else ""
        where = f"{_where(partition)}{others}"
        yield f"ResourceManager {cluster.url}: no node {where}has GPUs ({GPU}), which trials need"
        return
    total, largest = sum(one[GPU] for one in nodes.values()), max(one[GPU] for one in nodes.values())
    smallest = app.gpus_per_trial.min
    if smallest > total:
        yield f"gpus_per_trial.min {smallest}: all nodes {_where(partition)}together have {count(total, 'GPU')}"
    if app.gpu is not None and app.cpu is not None:
        yield from _side_problems("gpu", app, app.gpu, nodes.values(), cluster)
        yield from _side_problems("cpu", app, app.cpu, cluster.nodes_in(partition).values(), cluster)
        return
    together = min(smallest, largest)
    for field, each, resource in (("memory_mb", app.memory_mb, MEMORY), ("vcores", app.vcores, VCORES)):
        most = max(one[resource] for one in nodes.values() if one[GPU] >= together)
        most = min(most, cluster.limits.get(resource, most))
        if each * together > most:
            on = count(together, "GPU")
            yield f"{field} {each}: {on} on one machine need {each * together}, the largest container has {most}"


def _side_problems(
    name: str, app: AppFile, side: Side, nodes: Iterable[Resources], cluster: ClusterFacts
) -> Iterator[str]:
    """Why a trial could run on no machine of a side."""
    needs = ((MEMORY, "memory_mb", side.memory_mb or app.memory_mb), (VCORES, "vcores", side.vcores or app.vcores))
    for resource, field, needed in needs:
        most = max(one[resource] for one in nodes)
        most = min(most, cluster.limits.get(resource, most))
        if needed > most:
            yield f"{name}.{field} {needed}: the largest container there has {most}"


def notes(app: AppFile, cluster: ClusterFacts, partition: str) -> Iterator[str]:
    """What is worth knowing, though the search can run."""
    nodes = cluster.gpu_nodes(partition)
    largest = max((one[GPU] for one in nodes.values()), default=0)
    if 0 < largest < app.gpus_per_trial.min:
        yield (
            f"each trial needs {app.gpus_per_trial.min} GPUs, the largest machine has {largest}: it will run on several"
        )


def _where(partition: str | None) -> str:
    return f"of partition {partition} " if partition else ""
