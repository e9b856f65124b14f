"""Measures what motifs cost on the channels of a job, with all its processes (Syndicate section 4.6.6).

torchrun --nproc-per-node 2 -m themis_agent.communication.measuring costs.json
"""

import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from themis_agent.communication.costs import CostTable, Curve
from themis_agent.communication.formats import save
from themis_agent.communication.iteration import Kind
from themis_agent.communication.process_group import Connections
from themis_agent.communication.settings import Settings

SIZES = (4 << 10, 64 << 10, 512 << 10, 4 << 20)
QUICK_SIZES = (16 << 10, 1 << 20)
REPEATS, QUICK_REPEATS = 7, 3

Begin = Callable[[Any], Any]
"""Begins an operation on a group, and returns torch's Work."""


def measure(connections: Connections, names: Sequence[str], sizes: Sequence[int], repeats: int) -> CostTable:
    """The cost table; every process has to call this at the same time, and each has its own."""
    channels = range(len(connections.channels))
    curves = []
    latency = _median_s(connections, 0, _operations(connections, 4)[Kind.ALL_REDUCE, 0], repeats * 3)
    for channel in channels:
        times: dict[tuple[Kind, int], list[float]] = {}
        for size in sizes:
            for what, begin in _operations(connections, size).items():
                times.setdefault(what, []).append(_median_s(connections, channel, begin, repeats))
        for (kind, destinations), seconds in times.items():
            curves.append(Curve(kind, channel, tuple(sizes), tuple(seconds), destinations))
    overlap = tuple(
        tuple(1.0 if a == b else _overlap(connections, a, b, sizes[-1], repeats) for b in channels) for a in channels
    )
    # A part of the latency is our own: handing a motif to its channel and taking it back.
    return CostTable(connections.size, tuple(names), tuple(curves), latency / 4, overlap)


def _operations(connections: Connections, size: int) -> dict[tuple[Kind, int], Begin]:
    """An operation of each kind, with this many bytes of input in each process."""
    ranks, rank = connections.size, connections.rank
    count = max(size // 4 // ranks, 1)
    whole, part = torch.ones(count * ranks), torch.ones(count)
    received, gathered = torch.empty(count * ranks), torch.empty(count * ranks * ranks)
    found: dict[tuple[Kind, int], Begin] = {
        (Kind.ALL_REDUCE, 0): lambda group: group.allreduce([whole]),
        (Kind.REDUCE_SCATTER, 0): lambda group: group._reduce_scatter_base(part, whole, dist.ReduceScatterOptions()),
        (Kind.ALL_GATHER, 0): lambda group: group._allgather_base(gathered, whole),
        (Kind.REDUCE, 0): lambda group: group.reduce([whole], dist.ReduceOptions()),
        (Kind.BROADCAST, 0): lambda group: group.broadcast([whole], dist.BroadcastOptions()),
        (Kind.ALL_TO_ALL, 0): lambda group: group.alltoall_base(received, whole, [], []),
    }
    for ways in (2, 4):
        width = ranks // ways
        if width and ranks % ways == 0:
            to = [(rank + shift) % ranks for shift in range(width)]
            sources = [(rank - shift) % ranks for shift in range(width)]
            each = max(size // 4 // width, 1)
            sends, takes = ([each if one in some else 0 for one in range(ranks)] for some in (to, sources))
            given, into = torch.ones(each * width), torch.empty(each * width)
            found[Kind.ALL_TO_ALL, width] = _exchange(into, given, takes, sends)
    return found


def _exchange(into: Any, given: Any, takes: list[int], sends: list[int]) -> Begin:
    return lambda group: group.alltoall_base(into, given, takes, sends)


def _median_s(connections: Connections, channel: int, begin: Begin, repeats: int) -> float:
    group = connections.channels[channel]
    begin(group).wait()
    taken = []
    for _ in range(repeats):
        started = time.perf_counter()
        begin(group).wait()
        taken.append(time.perf_counter() - started)
    return statistics.median(taken)


def _overlap(connections: Connections, channel: int, other: int, size: int, repeats: int) -> float:
    """How many times longer an all-reduce takes while the other channel is in use."""
    mine, beside = (_operations(connections, size)[Kind.ALL_REDUCE, 0] for _ in range(2))
    alone = _median_s(connections, channel, mine, repeats)
    taken = []
    for _ in range(repeats):
        # Twice as many beside it, so that there is always one.
        others = [beside(connections.channels[other]) for _ in range(2)]
        started = time.perf_counter()
        mine(connections.channels[channel]).wait()
        taken.append(time.perf_counter() - started)
        for work in others:
            work.wait()
    return max(1.0, round(statistics.median(taken) / alone, 3)) if alone > 0 else 1.0


def main() -> None:
    """Measure, and have rank 0 write the table to the file that is named."""
    settings = Settings.from_environment()
    store, rank, size = next(iter(dist.rendezvous("env://")))
    connections = Connections(store, rank, size, settings.timeout, settings.channels)
    table = measure(connections, settings.channel_names, SIZES, REPEATS)
    if rank == 0:
        save(table, Path(sys.argv[1]))
    connections.checks.barrier().wait()


if __name__ == "__main__":
    main()
