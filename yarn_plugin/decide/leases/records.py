"""Checks applications' records of leases after the journal was lost.

The owner of an application is known by its token, and YARN lists how many GPUs of each node its containers use, but not
which. So if two applications have records of one GPU, and both have containers on its node, the first to register gets
it.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from yarn_plugin.decide.allocators.plan import Holding
from yarn_plugin.decide.leases.occupancy import Occupancy
from yarn_plugin.model.causes import RecordRefused, RefusedFor
from yarn_plugin.model.share import LeaseRecord


def check(
    leases: Sequence[LeaseRecord], app: str, occupancy: Occupancy, in_use: Mapping[str, int]
) -> tuple[tuple[LeaseRecord, ...], list[RecordRefused]]:
    """The leases with the GPUs that may be the application's, and refusals of the other GPUs.

    `in_use`: by node, the GPUs that it uses.
    """
    refusals: dict[RefusedFor, set[str]] = {"unknown": set(), "leased": set(), "unused": set()}
    left = {node: used - occupancy.gpus_on(app, node) for node, used in in_use.items()}
    found: list[LeaseRecord] = []
    taken: set[str] = set()
    for lease in leases:
        gpus = []
        for gpu in lease.gpus:
            why = _refusal(gpu, taken, occupancy, left)
            if why is None:
                gpus.append(gpu)
                taken.add(gpu)
                left[occupancy.cells.gpus[gpu].machine] -= 1
            elif gpu not in taken:
                refusals[why].add(gpu)
        if gpus:
            found.append(replace(lease, gpus=tuple(gpus)))
    return tuple(found), [one for why, gpus in refusals.items() for one in refused(leases, why, gpus)]


def _refusal(gpu: str, taken: Collection[str], occupancy: Occupancy, left: Mapping[str, int]) -> RefusedFor | None:
    cells, holding = occupancy.cells, Holding(gpu)
    if gpu not in cells.gpus or gpu in cells.broken:
        return "unknown"
    if gpu in taken or any(tally.refusal(cells, holding) for tally in (occupancy.now, occupancy.later)):
        return "leased"
    return None if left.get(cells.gpus[gpu].machine, 0) > 0 else "unused"


def refused(leases: Iterable[LeaseRecord], why: RefusedFor, gpus: Collection[str]) -> Iterable[RecordRefused]:
    """The refusals of these GPUs: one for each of their leases."""
    for lease in leases:
        mine = tuple([gpu for gpu in lease.gpus if gpu in gpus])
        if mine:
            yield RecordRefused(lease.lease, mine, why)
