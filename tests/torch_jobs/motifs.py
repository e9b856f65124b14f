"""Every option of every collective operation, on random tensors, against what torch's own gloo makes of it.

The ranks are threads of one process, so that torch is imported once.
"""

import itertools
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import torch
import torch.distributed as dist

from themis_agent.communication.enforcer import Enforcer
from themis_agent.communication.iteration import Kind, Operation
from themis_agent.communication.options import Algorithm, Option, placed
from themis_agent.communication.plan import Plan, Turn
from themis_agent.communication.process_group import Connections, PlannedGroup, gloo

CHANNELS = ("lo", "lo")


class Current:
    """The plan of the next iteration."""

    plan = None
    drops = 0

    def at(self, iteration):
        return (iteration, self.plan) if self.plan is not None else (0, None)

    def dropped(self, iteration):
        self.drops += 1


def plan_of(operation, option):
    turns = [[], []]
    for step, one in enumerate(placed(operation, option)):
        turns[one.channel].append(Turn(0, step))
    return Plan((operation,), (option,), tuple(map(tuple, turns)))


def divisions(kind):
    algorithms = {
        Kind.ALL_REDUCE: [(Algorithm.WHOLE, 1), (Algorithm.RING, 1), (Algorithm.TREE, 2)],
        Kind.ALL_TO_ALL: [(Algorithm.WHOLE, 1), (Algorithm.SPLINE, 2), (Algorithm.SPLINE, 4)],
    }.get(kind, [(Algorithm.WHOLE, 1)])
    for (algorithm, ways), segments, channels in itertools.product(algorithms, (1, 3), ((0,), (1,), (0, 1))):
        yield Option(algorithm, ways, segments, channels)


def compare(store, rank, size):
    timeout = timedelta(seconds=30)
    plans = Current()
    connections = Connections(store, rank, size, timeout, CHANNELS)
    enforcer = Enforcer(2, plans, 10.0, abandon=lambda error: connections.abandon())
    planned = PlannedGroup(enforcer, connections, 0, enforcer.close)
    plain = gloo(store, "plain", rank, size, timeout, "lo")
    elements = 12 * size * 5
    for kind in (Kind.ALL_REDUCE, Kind.ALL_TO_ALL, Kind.ALL_GATHER, Kind.REDUCE_SCATTER, Kind.BROADCAST):
        for number, option in enumerate(divisions(kind)):
            numbers = torch.Generator().manual_seed(100 * number + rank)
            # Of whole numbers: sums do not depend on their order.
            tensor = torch.randint(0, 1000, (elements,), generator=numbers).double()
            results = []
            for group in (plain, planned):
                given = tensor.clone()
                if group is planned:
                    plans.plan = plan_of(Operation(kind, elements, "float64", 8, size, "0"), option)
                    enforcer.next_iteration()
                match kind:
                    case Kind.ALL_REDUCE:
                        output = given
                        work = group.allreduce([given], dist.AllreduceOptions())
                    case Kind.BROADCAST:
                        output, options = given, dist.BroadcastOptions()
                        options.rootRank, options.rootTensor = size - 1, 0
                        work = group.broadcast([given], options)
                    case Kind.ALL_GATHER:
                        output = torch.empty(elements * size).double()
                        work = group._allgather_base(output, given)
                    case Kind.REDUCE_SCATTER:
                        output = torch.empty(elements // size).double()
                        work = group._reduce_scatter_base(output, given, dist.ReduceScatterOptions())
                    case Kind.ALL_TO_ALL:
                        output = torch.empty(elements).double()
                        work = group.alltoall_base(output, given, [], [])
                work.wait()
                results.append(output)
            assert plans.drops == 0
            assert torch.equal(*results), (kind, option)
    plain.barrier().wait()
    enforcer.close()


def main():
    for size in map(int, sys.argv[1:]):
        store = dist.HashStore()
        with ThreadPoolExecutor(size) as ranks:
            for ended in [ranks.submit(compare, store, rank, size) for rank in range(size)]:
                ended.result()
        print(size, "ok", flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
