"""What a claim asks for: the virtual cluster, and the pods of its gang."""

from collections.abc import Mapping
from typing import Any

from yarn_plugin.decide.allocators.happenings import name_of
from yarn_plugin.decide.allocators.pods import pods_by_size
from yarn_plugin.decide.mechanisms.buddy_cells.cells import OPPORTUNISTIC
from yarn_plugin.decide.mechanisms.buddy_cells.cluster import Cluster
from yarn_plugin.decide.mechanisms.buddy_cells.gangs import Request
from yarn_plugin.model.share import Claim

NO_CLUSTER = "no virtual cluster"
"""Why a claim waits whose tenant has no virtual cluster."""


def request_of(claim: Claim, cluster: Cluster, default_cluster: str) -> Request | str | None:
    """What a claim asks for; `NO_CLUSTER`; or None if it uses no GPUs."""
    pods = pods_by_size(claim, _node_size(cluster, claim.leaf_type))
    if not pods:
        return None
    virtual = cluster_of(claim, cluster.virtual) or default_cluster
    if not virtual:
        return NO_CLUSTER
    return Request(
        name_of((claim.app, claim.job)),
        virtual,
        max(OPPORTUNISTIC, claim.priority),
        pods,
        claim.leaf_type,
        claim.pinned or "",
        claim.lazy_preemption,
        claim.ignore_suggested,
    )


def _node_size(cluster: Cluster, leaf_type: str) -> int:
    """The GPUs of the largest node."""
    chains = [state.chain for state in cluster.chains.values()]
    sizes = [chain.sizes[chain.node_level - 1] for chain in chains if leaf_type in ("", chain.leaf_type)]
    return max(sizes, default=1)


def cluster_of(claim: Claim, known: Mapping[str, Any]) -> str:
    """The virtual cluster that a claim's path names, or the longest beginning of it that is one; else empty."""
    path = claim.virtual_cluster or claim.tenant
    while path and path not in known:
        path = path.rpartition("/")[0]
    return path
