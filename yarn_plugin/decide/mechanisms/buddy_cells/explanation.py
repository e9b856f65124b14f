"""Why a gang waits: what it lacks in its virtual cluster, and whose end would make room.

Nothing here changes the cluster.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from yarn_plugin.decide.mechanisms.buddy_cells.allocator import Allocator, Call
from yarn_plugin.decide.mechanisms.buddy_cells.answers import Answer, Preempt, Wait
from yarn_plugin.decide.mechanisms.buddy_cells.cluster import Cluster
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

    `missing`: not empty if it can never be placed. `after`: gangs or jobs, the end of any one of which would let it
    start.
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


def explain(allocator: Allocator, call: Call, wait: Wait, jobs: Mapping[str, str]) -> Explanation:
    """Why a request waits. `jobs`: of gangs that end together, by gang; others end alone."""
    missing = never_fits(allocator, call.request)
    return Explanation(wait, missing, () if missing else _ends_that_help(allocator, call, jobs))


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


def enlarged_quota(empty: Cluster, name: str, missing: Missing) -> dict[str, int] | None:
    """The quota of a virtual cluster in a chain with one cell of the type that it lacks, by type, the largest first.

    Where the others' quotas leave no room for one more, it takes the place of smaller cells of the same quota; None if
    these do not suffice. `empty`: a cluster without work, whose quotas are changed.
    """
    state, partition = empty.chains[missing.chain], empty.virtual[name].chains.get(missing.chain)
    level = state.chain.level_of(missing.lacks or "")
    if level is None:
        return None
    numbers = Counter(root.level for root in partition.cells.roots) if partition is not None else Counter[int]()
    free = state.counts()
    while not state.quotas.can_add(level, 1, free):
        smaller = max((other for other, number in numbers.items() if number and other < level), default=None)
        if smaller is None:
            return None
        numbers[smaller] -= 1
        state.quotas.change(name, smaller, -1)
    numbers[level] += 1
    return {state.chain.types[each - 1]: numbers[each] for each in sorted(numbers, reverse=True) if numbers[each]}


def latest_start(allocator: Allocator, call: Call, ends_in_s: Mapping[str, float], grace_s: float) -> float | None:
    """When a request can start at the latest, in seconds; None if that is not known.

    `ends_in_s`: when gangs end at the latest, of those for which that is known. `grace_s`: until evicted gangs have
    left. True while nobody else comes: later requests of the same virtual cluster could be served before.
    """
    cluster = allocator.cluster
    before = cluster.savepoint()
    now = 0.0
    order = sorted((ends_in_s[name], name) for name in cluster.gangs if name in ends_in_s)
    try:
        while isinstance(answer := ask(allocator, call), Wait) and order:
            now, name = order.pop(0)
            _end(allocator, cluster.gangs[name])
    finally:
        cluster.rollback(before)
    if isinstance(answer, Wait):
        return None
    return now + (grace_s if isinstance(answer, Preempt) else 0.0)


def _rooms_when_empty(allocator: Allocator, request: Request) -> list[tuple[str, Counter[int]]]:
    """For each chain to try, how many nodes of each size the gang would find in an empty cluster."""
    if not request.guaranteed:
        low = ((state.chain.name, state.nodes.nodes) for state in allocator.chains_for(request))
        return [(chain, Counter(node.size for node in nodes)) for chain, nodes in low]
    return [
        (partition.cells.chain.name, Counter(node.size for node in partition.nodes.nodes))
        for partition in allocator.partitions_for(request)
    ]


def _ends_that_help(allocator: Allocator, call: Call, jobs: Mapping[str, str]) -> tuple[str, ...]:
    """The gangs or jobs, the end of any single one of which would let the request be placed."""
    cluster = allocator.cluster
    ends: dict[str, list[Gang]] = {}
    for gang in cluster.gangs.values():
        if gang.name != call.request.gang:
            ends.setdefault(jobs.get(gang.name, gang.name), []).append(gang)
    helpful: list[str] = []
    for name, gangs in ends.items():
        before = cluster.savepoint()
        for gang in gangs:
            _end(allocator, gang)
        if not isinstance(allocator.decide(replace(call, reserves=False)), Wait):
            helpful.append(name)
        cluster.rollback(before)
    return tuple(helpful)


def _end(allocator: Allocator, gang: Gang) -> None:
    if gang.stage is Stage.PREEMPTING:
        allocator.cancel(gang)
    else:
        allocator.release(gang)
