"""Programs as users write them, plain over gloo, traced, and under a plan that divides what it can.

python -m tests.torch_jobs.programs NAME,NAME... SEGMENTS PROCESSES

Prints a line of JSON for each program and process: whether all parameters are equal, and the largest difference;
`in_flight_together`: pairs of operations of which the second was called before the first had ended. Children are
forked, so that torch is imported once.
"""

import json
import math
import os
import sys
import tempfile
import time
import traceback
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
import torch.distributed.nn.functional as differentiable
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from themis_agent import communication
from themis_agent.communication import session
from themis_agent.communication.capture import typical, waits
from themis_agent.communication.formats import save
from themis_agent.communication.iteration import Kind
from themis_agent.communication.options import Algorithm, Option, placed
from themis_agent.communication.plan import Plan, Turn

ITERATIONS = 60
WIDTH = 64


def network():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH)
    )


def batch(number):
    generator = torch.Generator().manual_seed(1000 * number + dist.get_rank())
    return torch.randn(16, WIDTH, generator=generator)


class Loop:
    """Trains for some iterations."""

    def __init__(self, model, parameters):
        self.model, self.parameters = model, list(parameters)
        self.optimizer = torch.optim.SGD(self.parameters, 0.05)

    def run(self, until):
        for number in range(ITERATIONS):
            self.optimizer.zero_grad()
            self.model(batch(number)).square().mean().backward()
            self.optimizer.step()
            until(number)
        return self.parameters


def ddp():
    net = network()
    return Loop(DistributedDataParallel(net, bucket_cap_mb=0.02), net.parameters())


def fsdp2():
    net = network()
    for layer in net:
        if isinstance(layer, nn.Linear):
            fully_shard(layer)
    fully_shard(net)
    return Loop(net, net.parameters())


def fsdp2_overlapped():
    loop = fsdp2()
    communication.overlap_fsdp(loop.model)
    return loop


def fsdp2_accumulating():
    """Gradients of two batches in an iteration: the second is added to the first as soon as it is there."""
    loop = fsdp2_overlapped()
    net = loop.model
    loop.model = lambda rows: (net(rows.flip(0)).square().mean().backward(), net(rows))[1]
    return loop


def mean_of_all(gradient):
    return functional.all_reduce(gradient, "sum", dist.group.WORLD) / dist.get_world_size()


class Exchanging(nn.Module):
    """An all-to-all between two layers, with autograd, and functional collectives for the gradients."""

    def __init__(self, exchange):
        super().__init__()
        self.first, self.second, self.exchange = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH), exchange
        for parameter in self.parameters():
            parameter.register_hook(
                lambda grad: functional.all_reduce(grad, "sum", dist.group.WORLD) / dist.get_world_size()
            )

    def forward(self, rows):
        return self.second(self.exchange(self.first(rows)))


def all_to_all():
    torch.manual_seed(0)

    def exchange(rows):
        return differentiable.all_to_all_single(torch.empty_like(rows), rows.contiguous())

    net = Exchanging(exchange)
    return Loop(net, net.parameters())


def functional_collectives():
    torch.manual_seed(0)

    def exchange(rows):
        gathered = functional.all_gather_tensor(rows.detach(), 0, dist.group.WORLD)
        scattered = functional.reduce_scatter_tensor(gathered, "sum", 0, dist.group.WORLD)
        return rows + scattered.view_as(rows) / dist.get_world_size()

    net = Exchanging(exchange)
    return Loop(net, net.parameters())


def compiled():
    net = network()
    # With the buckets of DDP: torch.compile divides the graph by them, and refuses some that are very small.
    model = DistributedDataParallel(net)
    return Loop(torch.compile(model, backend="aot_eager"), net.parameters())


PROGRAMS = {
    one.__name__: one
    for one in (ddp, fsdp2, fsdp2_overlapped, fsdp2_accumulating, all_to_all, functional_collectives, compiled)
}


def dividing(operations, segments):
    """A plan that uses each operator: on alternate channels, every operation that can be divided is."""
    options = []
    for number, operation in enumerate(operations):
        ways = {Kind.ALL_REDUCE: [(Algorithm.WHOLE, 1), (Algorithm.RING, 1), (Algorithm.TREE, 2)],
                Kind.ALL_TO_ALL: [(Algorithm.SPLINE, 2), (Algorithm.WHOLE, 1)]}.get(operation.kind)  # fmt: skip
        algorithm, parts = ways[number % len(ways)] if ways and segments > 1 else (Algorithm.WHOLE, 1)
        if operation.kind is Kind.OTHER:
            options.append(Option())
        else:
            options.append(Option(algorithm, parts, segments, (number % 2,) if segments == 1 else (0, 1)))
    turns = [[], []]
    for number, (operation, option) in enumerate(zip(operations, options, strict=True)):
        for step, one in enumerate(placed(operation, option)):
            turns[one.channel].append(Turn(number, step))
    return Plan(tuple(operations), tuple(options), tuple(map(tuple, turns)))


def train(program, mode, plan=None):
    """The parameters, what was traced, and the versions of the plans that were in force."""
    os.environ["THEMIS_COMMUNICATION"] = mode
    os.environ.pop("THEMIS_COMMUNICATION_PLAN", None)
    if plan is not None:
        os.environ["THEMIS_COMMUNICATION_PLAN"] = str(plan)
    os.environ["MASTER_PORT"] = str(int(os.environ["MASTER_PORT"]) + 1)
    # With TORCH_DISTRIBUTED_DEBUG=DETAIL, torch 2.15 itself ends with a segmentation fault in DDP over plain gloo.
    dist.set_debug_level(dist.DebugLevel.OFF) if mode == "plain" else dist.set_debug_level_from_env()
    communication.init_process_group("gloo")
    torch.compiler.reset()
    # Slow enough that the plan is in force before the end.
    pause = 0.02 if mode == "planned" else 0.0
    parameters = program().run(lambda number: time.sleep(pause))
    values = [one.to_local() if hasattr(one, "to_local") else one for one in parameters]
    values = [one.detach().clone() for one in values]
    seen = session._session.trace().iterations if mode != "plain" else []
    dist.barrier()
    dist.destroy_process_group()
    return values, seen


def compare(name, segments, folder):
    """What becomes of a program in the three modes."""
    began = time.monotonic()
    plain, _ = train(PROGRAMS[name], "plain")
    traced, seen = train(PROGRAMS[name], "traced")
    same = typical([one for one in seen if one.number > 2])
    operations = same[0].operations
    made = dividing(operations, segments)
    save(made, folder / f"{name}.json")
    planned, seen = train(PROGRAMS[name], "planned", folder / f"{name}.json")
    return {
        "program": name,
        "operations": len(operations),
        "in_flight_together": math.comb(len(operations), 2) - len(waits(same)),
        "motifs": sum(map(len, made.turns)),
        "sum": sum(float(one.double().sum()) for one in plain),
        "planned_iterations": sum(one.version == 1 for one in seen),
        "traced_equal": all(map(torch.equal, plain, traced)),
        "planned_equal": all(map(torch.equal, plain, planned)),
        "difference": max(float((a - b).abs().max()) for a, b in zip(plain, planned, strict=True)),
        "seconds": round(time.monotonic() - began, 1),
    }


def child(rank, names, segments):
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        os.environ["RANK"] = os.environ["LOCAL_RANK"] = str(rank)
        folder = Path(tempfile.mkdtemp())
        for name in names:
            # In one write, as children share the output: print may write the end of a line on its own.
            print(json.dumps({"rank": rank, **compare(name, segments, folder)}) + "\n", end="", flush=True)
        code = 0
    except Exception:  # noqa: BLE001 - whatever it is, it is told
        traceback.print_exc()
    finally:
        os._exit(code)


def main():
    names, segments, processes = sys.argv[1].split(","), int(sys.argv[2]), int(sys.argv[3])
    os.environ["WORLD_SIZE"] = str(processes)
    os.environ["THEMIS_COMMUNICATION_CHANNELS"] = "lo,lo"
    os.environ["THEMIS_COMMUNICATION_TIMEOUT_S"] = "60"
    pids = [child(rank, names, segments) for rank in range(processes)]
    sys.exit(max(abs(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])) for pid in pids))


if __name__ == "__main__":
    main()
