"""Iterations of about 50 ms, in turns over gloo itself and through the enforcer, nothing divided.

Rank 0 writes to the file that is named: the median ratio of the times of an iteration, the times, and processor times,
which depend less on what else the machine does.
"""

import json
import os
import statistics
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from themis_agent import communication

PAIRS, ITERATIONS = 10, 12


def loop(group, level, done):
    """`level`: torch's debug level. `done`: called at the end of every iteration."""
    dist.set_debug_level(level)
    torch.manual_seed(0)
    net = nn.Sequential(*[nn.Linear(512, 512) for _ in range(4)])
    model = DistributedDataParallel(net, bucket_cap_mb=1, process_group=group)
    rows = torch.randn(64, 512)

    def run():
        dist.set_debug_level(level)
        taken, began_cpu = [], time.process_time()
        for _ in range(ITERATIONS):
            began = time.perf_counter()
            # Of a computation that no other process slows down.
            time.sleep(0.04)
            model(rows).square().mean().backward()
            done()
            taken.append(time.perf_counter() - began)
        return statistics.median(taken), (time.process_time() - began_cpu) / ITERATIONS

    return run


def main():
    os.environ["THEMIS_COMMUNICATION"] = "traced"
    os.environ["THEMIS_COMMUNICATION_CHANNELS"] = "lo,lo"
    communication.init_process_group("gloo")
    asked = dist.get_debug_level()
    # With TORCH_DISTRIBUTED_DEBUG=DETAIL, torch 2.15 itself ends with a segmentation fault in DDP over plain gloo.
    dist.set_debug_level(dist.DebugLevel.OFF)
    plain = loop(dist.new_group(backend="gloo"), dist.DebugLevel.OFF, lambda: None)
    ours = loop(None, asked, communication.iteration_done)
    plain(), ours()
    pairs = [(plain(), ours()) for _ in range(PAIRS)]
    medians = {
        f"{name}_{what}ms": 1000 * statistics.median(pair[side][place] for pair in pairs)
        for side, name in enumerate(("gloo", "ours"))
        for place, what in enumerate(("", "cpu_"))
    }
    ratio = statistics.median(ours[0] / gloo[0] for gloo, ours in pairs)
    if dist.get_rank() == 0:
        Path(sys.argv[1]).write_text(json.dumps({"ratio": ratio, **medians}))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
