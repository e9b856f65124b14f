"""Measures twice on two channels, of which one has been made slow; and plans with what was measured."""

import json
from datetime import timedelta

import numpy as np
import torch.distributed as dist

from themis_agent.communication.iteration import Iteration, Kind, Need, Operation, Task
from themis_agent.communication.measuring import measure
from themis_agent.communication.planning import make_plan
from themis_agent.communication.process_group import Connections
from themis_agent.communication.search import Limits

SIZES = (1 << 20, 8 << 20)


class Slow:
    """A channel that does everything four times, and is counted as one that did it once."""

    def __init__(self, group):
        self._group = group

    def __getattr__(self, name):
        def call(*arguments):
            for _ in range(3):
                getattr(self._group, name)(*arguments)
            return getattr(self._group, name)(*arguments)

        return call


def main():
    store, rank, size = next(iter(dist.rendezvous("env://")))
    connections = Connections(store, rank, size, timedelta(seconds=60), ("lo", "lo"))
    connections.channels[1] = Slow(connections.channels[1])
    tables = [measure(connections, ("fast", "slow"), SIZES, 9) for _ in range(2)]
    times = [{(curve.kind, curve.channel): curve.seconds[-1] for curve in table.curves} for table in tables]
    fast, slow = (times[0][Kind.ALL_REDUCE, channel] for channel in (0, 1))
    reduce = Operation(Kind.ALL_REDUCE, 2 << 20, "float32", 4, size)
    tasks = (Task("compute", (), 0.001), Task("reduce", (Need(0),), operation=reduce), Task("rest", (Need(1),), 0.001))
    plan, _ = make_plan(Iteration(tasks), tables[0], np.random.default_rng(0), Limits())
    repeated = np.median([abs(times[1][key] / seconds - 1) for key, seconds in times[0].items()])
    used = sorted({option.channels for option in plan.options})
    print(json.dumps({"fast": fast, "slow": slow, "repeated_within": float(repeated), "channels": used}), flush=True)
    connections.checks.barrier().wait()


if __name__ == "__main__":
    main()
