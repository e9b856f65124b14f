"""The whole state of a cluster of cells in JSON types, and back.

The orders of free lists and of nodes are part of it, since they break ties: a loaded cluster decides as the dumped one.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from yarn_plugin.decide.mechanisms.buddy_cells.cells import PhysicalCell, VirtualCell
from yarn_plugin.decide.mechanisms.buddy_cells.cluster import ChainState, Cluster, Pair, Partition
from yarn_plugin.decide.mechanisms.buddy_cells.gangs import Gang, Placement, Request, Stage
from yarn_plugin.decide.mechanisms.buddy_cells.specification import ClusterSpec


def dump(cluster: Cluster) -> dict[str, Any]:
    """The state without the specification."""
    leaves = {leaf: number for number, leaf in enumerate(_leaves(cluster))}
    return {
        "bad": cluster.bad_hosts(),
        "gangs": [_gang(leaves, cluster.gangs[name]) for name in sorted(cluster.gangs)],
        "free": {
            name: [[cell.number for cell in cells.cells] for cells in state.free.levels]
            for name, state in cluster.chains.items()
        },
        "order": {name: state.nodes.order() for name, state in cluster.chains.items()},
        "virtual_order": [partition.nodes.order() for partition in _partitions(cluster)],
    }


def load(spec: ClusterSpec, dumped: Mapping[str, Any]) -> Cluster:
    """The cluster that was dumped."""
    cluster = Cluster(spec)
    for node in dumped["bad"]:
        cluster.set_bad(node, True)
    leaves = _leaves(cluster)
    gangs = [_loaded_gang(cluster, leaves, each) for each in dumped["gangs"]]
    for gang in gangs:
        cluster.add(gang)
        for leaf in gang.placement.leaves():
            if gang.stage is Stage.PREEMPTING:
                leaf.reserver = gang
            else:
                leaf.holder = gang
    for name, state in cluster.chains.items():
        _load_free(cluster, state, dumped["free"][name])
    for gang in gangs:
        _hold(cluster, gang)
    for name, state in cluster.chains.items():
        state.nodes.restore(dumped["order"][name])
    for partition, order in zip(_partitions(cluster), dumped["virtual_order"], strict=True):
        partition.nodes.restore(order)
    cluster.commit()
    return cluster


def _partitions(cluster: Cluster) -> Iterator[Partition]:
    return (partition for virtual in cluster.virtual.values() for partition in virtual.partitions())


def _leaves(cluster: Cluster) -> list[PhysicalCell]:
    return [leaf for levels in cluster.forest.levels.values() for leaf in levels[0]]


def _gang(leaves: Mapping[PhysicalCell, int], gang: Gang) -> dict[str, Any]:
    placement = gang.placement
    return {
        "request": {name: value for name, value in asdict(gang.request).items() if name != "sizes"},
        "stage": gang.stage.value,
        "downgraded": gang.downgraded,
        "slots": list(gang.slots),
        "waiting": sorted(gang.waiting),
        "physical": [[leaves[leaf] for leaf in pod] for pod in placement.physical],
        "virtual": None if placement.virtual is None else [[leaf.number for leaf in pod] for pod in placement.virtual],
    }


def _loaded_gang(cluster: Cluster, leaves: Sequence[PhysicalCell], dumped: Mapping[str, Any]) -> Gang:
    values = dumped["request"]
    request = Request(**{**values, "pods": tuple(map(tuple, values["pods"]))})
    physical = tuple(tuple(leaves[number] for number in pod) for pod in dumped["physical"])
    virtual: tuple[tuple[VirtualCell, ...], ...] | None = None
    if dumped["virtual"] is not None:
        own = cluster.virtual[request.cluster]
        part = (
            own.pins[request.pinned]
            if request.pinned
            else own.chains[next(leaf for pod in physical for leaf in pod).chain.name]
        )
        virtual = tuple(tuple(part.cells.levels[0][number] for number in pod) for pod in dumped["virtual"])
    gang = Gang(request, Placement(physical, virtual), Stage(dumped["stage"]))
    gang.downgraded = dumped["downgraded"]
    gang.slots, gang.waiting = tuple(dumped["slots"]), frozenset(dumped["waiting"])
    return gang


def _load_free(cluster: Cluster, state: ChainState, dumped: Sequence[Sequence[int]]) -> None:
    levels = cluster.forest.levels[state.chain.name]
    state.free.restore([[levels[depth][number] for number in numbers] for depth, numbers in enumerate(dumped)])


def _hold(cluster: Cluster, gang: Gang) -> None:
    """Let a gang hold its leaves, all of them free; the free lists are as dumped already."""
    pairs: list[Pair] = [
        pair for pair in gang.placement.pairs() if gang.stage is Stage.PREEMPTING or pair[0].reserver is None
    ]
    for physical, virtual in pairs:
        if virtual is not None:
            _bind(cluster, physical, virtual)
    cluster.book(pairs, gang.priority, 1)


def _bind(cluster: Cluster, physical: PhysicalCell, virtual: VirtualCell) -> None:
    while physical.bound is None:
        physical.bound, virtual.bound = virtual, physical
        if virtual.parent is None:
            cluster.chains[physical.chain.name].quotas.change(virtual.cluster, virtual.level, -1)
            above = physical.parent
            while above is not None:
                above.split = True
                above = above.parent
            return
        assert physical.parent is not None
        physical, virtual = physical.parent, virtual.parent
