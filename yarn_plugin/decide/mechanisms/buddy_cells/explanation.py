"""Why a gang waits: what it lacks in its virtual cluster, and whose end would make room.

Nothing here changes the cluster.
"""

from collections import Counter
from dataclasses import dataclass, replace

from yarn_plugin.decide.mechanisms.buddy_cells.allocator import Allocator, Call
from yarn_plugin.decide.mechanisms.buddy_cells.answers import Answer, Wait
from yarn_plugin.decide.mechanisms.buddy_cells.gangs import Gang, Request, Stage
from yarn_plugin.decide.mechanisms.buddy_cells.packing import pack

PACK_LIMIT = 100_000


@dataclass(frozen=True, slots=True)
class Missing:
    """Why a gang could not even be placed in an empty virtual cluster, in one chain.

    `largest`: the leaves of the largest cell on which a pod could be placed. `lacks`: the type of the smallest cell of
    the quota that would hold the largest pod, "" if none would; None if each pod fits somewhere, but not all at once.
    """

    chain: str
    pod: int
    largest: int
    lacks: str | None


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a gang waits.

    `missing`: not empty if it can never be placed. `after`: gangs, the end of any one of which would let it start.
    """

    answer: Wait
    missing: tuple[Missing, ...]
    after: tuple[str, ...]


def ask(allocator: Allocator, call: Call) -> Answer:
    """What the answer to a request would be now."""
    before = allocator.cluster.savepoint()
    try:
        return allocator.decide(call)
    finally:
        allocator.cluster.rollback(before)


def explain(allocator: Allocator, call: Call, wait: Wait) -> Explanation:
    """Why a request waits."""
    missing = never_fits(allocator, call.request)
    return Explanation(wait, missing, () if missing else _ends_that_help(allocator, call))


def never_fits(allocator: Allocator, request: Request) -> tuple[Missing, ...]:
    """Why a gang would wait for ever, by chain; empty if it would be placed in an empty cluster."""
    found: list[Missing] = []
    for chain, rooms in _rooms_when_empty(allocator, request):
        if pack(rooms, request.sizes, PACK_LIMIT) is not None:
            return ()
        shape = allocator.cluster.chains[chain].chain
        pod, largest = max(request.sizes), max(rooms, default=0)
        lacks: str | None = None
        if pod > largest:
            enough = (level for level in range(1, shape.node_level + 1) if shape.sizes[level - 1] >= pod)
            lacks = next((shape.types[level - 1] for level in enough), "")
        found.append(Missing(chain, pod, largest, lacks))
    return tuple(found)


def _rooms_when_empty(allocator: Allocator, request: Request) -> list[tuple[str, Counter[int]]]:
    """For each chain to try, how many nodes of each size the gang would find in an empty cluster."""
    if not request.guaranteed:
        low = ((state.chain.name, state.nodes.nodes) for state in allocator.chains_for(request))
        return [(chain, Counter(node.size for node in nodes)) for chain, nodes in low]
    return [
        (partition.cells.chain.name, Counter(node.size for node in partition.nodes.nodes))
        for partition in allocator.partitions_for(request)
    ]


def _ends_that_help(allocator: Allocator, call: Call) -> tuple[str, ...]:
    """The gangs, the end of any single one of which would let the request be placed."""
    cluster = allocator.cluster
    helpful: list[str] = []
    for gang in list(cluster.gangs.values()):
        if gang.name == call.request.gang:
            continue
        before = cluster.savepoint()
        _end(allocator, gang)
        if not isinstance(allocator.decide(replace(call, reserves=False)), Wait):
            helpful.append(gang.name)
        cluster.rollback(before)
    return tuple(helpful)


def _end(allocator: Allocator, gang: Gang) -> None:
    if gang.stage is Stage.PREEMPTING:
        allocator.cancel(gang)
    else:
        allocator.release(gang)
