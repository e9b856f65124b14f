"""The findings of `yarn-plugin doctor` about a pool whose GPUs are leased: its queue and its partition. Pure."""

from collections.abc import Iterator, Mapping

from yarn_plugin.checks import Finding
from yarn_plugin.decide.leases.settings import LedgerSettings
from yarn_plugin.decide.pools.lease.settings import LeaseSettings
from yarn_plugin.model.resources import GPU
from yarn_plugin.model.share import Pool
from yarn_plugin.observe.capabilities import NODE_LABELS, ManagerFacts
from yarn_plugin.observe.nodes import PLUGINS
from yarn_plugin.observe.partitions import Partition
from yarn_plugin.observe.queue_tree import QueueReport


def leased_pool(
    pool: Pool,
    settings: LeaseSettings | LedgerSettings,
    facts: ManagerFacts,
    tree: Mapping[str, QueueReport],
    partitions: Mapping[str, Partition],
) -> Iterator[Finding]:
    """Check the queue of a pool, which exists, the partitions of which it has a part, and who sees its GPUs."""
    topic, queue = f"pool {pool.name}", tree[pool.queue]
    if settings.partition and settings.partition not in dict(queue.partitions):
        yield _no_part(topic, settings.partition, queue)
    elif queue.partitions:
        yield from _partition(topic, queue, partitions)
    elif settings.has_task_size:
        follows = "Other applications may run on the GPU nodes; GPUs are offered where their tasks have room."
        yield Finding(topic, "no partition, size of a task given", "good", follows)
    else:
        yield _no_partition(topic, queue, facts)
    if not queue.preemption_disabled:
        follows = "YARN may preempt containers that hold leased GPUs. Set disable_preemption = true in the queue file."
        yield Finding(topic, "preemption enabled", "limited", follows)
    yield _isolation(topic, facts)


def _isolation(topic: str, facts: ManagerFacts) -> Finding:
    if facts.isolates_gpus:
        return Finding(topic, "GPUs are isolated", "good", "A container sees its own GPUs alone.")
    follows = (
        "YARN counts GPUs and isolates nothing: a process may use any GPU of its node. Trials are told theirs by "
        f"CUDA_VISIBLE_DEVICES. Set {PLUGINS}={GPU} on the NodeManagers and the ResourceManager."
    )
    return Finding(topic, "GPUs are counted, not isolated", "limited", follows)


def _no_part(topic: str, leased: str, queue: QueueReport) -> Finding:
    follows = (
        f"The pool leases GPUs of partition {leased}, and YARN gives {queue.path} nothing of it. Add a "
        f"[queue.partition.{leased}] to it and its parents in the queue file, or change the pool's parameters."
    )
    return Finding(topic, f"no part of partition {leased}", "limited", follows)


def _partition(topic: str, queue: QueueReport, partitions: Mapping[str, Partition]) -> Iterator[Finding]:
    names = ", ".join(name for name, _ in queue.partitions)
    if queue.makes_leaves:
        follows = (
            f"YARN accepts applications in dynamic leaf queues and gives them nothing of {names}. "
            "Set dynamic_leaves = false in the queue file, and submit applications to the queue itself."
        )
        yield Finding(topic, f"partition {names}, dynamic leaf queues", "limited", follows)
        return
    empty = [name for name, maximum in queue.partitions if maximum <= 0]
    if empty:
        follows = f"YARN gives {queue.path} nothing of {empty[0]}. Set its part and its parents' in the queue file."
        yield Finding(topic, f"partition {empty[0]}, maximum 0%", "limited", follows)
        return
    shown = ", ".join(f"{name} up to {maximum:.0%}" for name, maximum in queue.partitions)
    if queue.default_partition not in dict(queue.partitions):
        follows = (
            "Containers whose request names neither a node nor a label run outside it. "
            f'Set default_partition = "{queue.partitions[0][0]}" in the queue file.'
        )
        yield Finding(topic, f"partition {shown}, not the default", "limited", follows)
        return
    bare = [name for name, _ in queue.partitions if name in partitions and not partitions[name].nodes]
    if bare:
        follows = f"It has no GPUs. Label its nodes: yarn rmadmin -replaceLabelsOnNode NODE={bare[0]}."
        yield Finding(topic, f"partition {shown}; no node of {bare[0]} accepts containers", "limited", follows)
        return
    shared = [name for name, _ in queue.partitions if name in partitions and not partitions[name].is_exclusive]
    if shared:
        follows = (
            "While its nodes are idle, applications of other queues run there. Remove the label and add it again: "
            f'yarn rmadmin -addToClusterNodeLabels "{shared[0]}(exclusive=true)".'
        )
        yield Finding(topic, f"partition {shown}, {shared[0]} not exclusive", "limited", follows)
        return
    yield Finding(topic, f"partition {shown}", "good", "Only queues with a part of it use its nodes.")


def _no_partition(topic: str, queue: QueueReport, facts: ManagerFacts) -> Finding:
    remedy = (
        f"add a [queue.partition.LABEL] to {queue.path} and its parents in the queue file"
        if facts.has_partitions
        else f"set {NODE_LABELS}=true and yarn.node-labels.fs-store.root-dir, and label the GPU nodes"
    )
    follows = (
        "Other applications may fill the memory and vcores of leased GPUs' nodes; such leases come back unused. Set "
        f"task_memory_mb and task_vcores in the pool's parameters, or {remedy}."
    )
    found = "no partition" if facts.has_partitions else "no partition, node labels are off"
    return Finding(topic, found, "limited", follows)
