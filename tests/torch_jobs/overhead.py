"""Iterations of about 50 ms, in turns over gloo itself and through the enforcer, nothing divided."""

import json
import os
import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from themis_agent import communication

PAIRS, ITERATIONS = 10, 12


def loop(group):
    torch.manual_seed(0)
    net = nn.Sequential(*[nn.Linear(512, 512) for _ in range(4)])
    model = DistributedDataParallel(net, bucket_cap_mb=1, process_group=group)
    rows = torch.randn(64, 512)

    def run():
        taken = []
        for _ in range(ITERATIONS):
            began = time.perf_counter()
            # Of a computation that no other process slows down.
            time.sleep(0.04)
            model(rows).square().mean().backward()
            taken.append(time.perf_counter() - began)
        return statistics.median(taken)

    return run


def main():
    os.environ["THEMIS_COMMUNICATION"] = "traced"
    os.environ["THEMIS_COMMUNICATION_CHANNELS"] = "lo,lo"
    communication.init_process_group("gloo")
    plain, ours = loop(dist.new_group(backend="gloo")), loop(None)
    plain(), ours()
    pairs = [(plain(), ours()) for _ in range(PAIRS)]
    ratio = statistics.median(b / a for a, b in pairs)
    print(json.dumps({"ratio": ratio, "gloo_ms": 1000 * statistics.median(a for a, _ in pairs)}), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
