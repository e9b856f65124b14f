"""One of several processes goes wrong while all train: what becomes of the others.

Prints a line of JSON for each fault: the others' exit codes (or signals), their last words, and after how many seconds
the last of them ended; and the last words of the process that went wrong. Children are forked, so that torch is
imported once.
"""

import json
import os
import signal
import socket
import sys
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from themis_agent import communication
from themis_agent.communication import session

TIMEOUT_S = 4.0
AT = 5
WRONG = 1
"""The rank of the process that goes wrong."""


class Fails(nn.Module):
    """Raises in the chosen direction, when told to."""

    where = None

    def forward(self, rows):
        if self.where == "forward":
            raise ValueError("forward failed")
        if self.where == "backward":
            rows.register_hook(self._backward)
        return rows

    def _backward(self, gradient):
        raise ValueError("backward failed")


def train(rank, fault):
    communication.init_process_group("gloo")
    torch.manual_seed(0)
    failing = Fails()
    net = nn.Sequential(nn.Linear(64, 64), failing, nn.Linear(64, 64), nn.Linear(64, 64))
    model = DistributedDataParallel(net, bucket_cap_mb=0.02)
    optimizer = torch.optim.SGD(net.parameters(), 0.01)
    planned = os.environ["THEMIS_COMMUNICATION"] == "planned"
    at = None
    for number in range(100_000):
        # In the same iteration everywhere: that in which a plan is first in force.
        if at is None and (session._session.enforcer.version if planned else number == AT):
            at = number
            if rank == WRONG:
                go_wrong(fault, failing)
        optimizer.zero_grad()
        model(torch.randn(8, 64)).square().mean().backward()
        optimizer.step()
        if at is not None and number > at + 1 and fault != "none":
            print("went on with wrong numbers", flush=True)
            os._exit(77)
        if at is not None and number == at + 10:
            dist.destroy_process_group()
            return


def go_wrong(fault, failing):
    match fault:
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        case "exit":
            sys.exit(0)
        case "forward" | "backward":
            failing.where = fault
        case "operation":
            dist.broadcast(torch.zeros(4160), 0)
        case "size":
            dist.all_reduce(torch.zeros(3))


def child(rank, size, fault, port, log):
    pid = os.fork()
    if pid:
        return pid
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    os.environ |= {"THEMIS_COMMUNICATION_TIMEOUT_S": str(TIMEOUT_S), "THEMIS_COMMUNICATION_CHANNELS": "lo,lo"}
    try:
        train(rank, fault)
    except SystemExit as ended:
        os._exit(int(ended.code or 0))
    except Exception as problem:  # noqa: BLE001 - whatever it is, it is told
        print(f"{type(problem).__name__}: {' '.join(str(problem).split())}", flush=True)
        os._exit(1)
    os._exit(0)


def observe(fault, size, folder):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    logs = [folder / f"{fault}-{rank}" for rank in range(size)]
    pids = [child(rank, size, fault, port, logs[rank]) for rank in range(size)]
    others = [rank for rank in range(size) if rank != WRONG]
    began = wrong_at = time.monotonic()
    codes = {}
    while not codes.keys() >= set(others) and time.monotonic() - began < 90:
        pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
        if pid and (os.WIFEXITED(status) or os.WIFSIGNALED(status)):
            codes[pids.index(pid)] = os.waitstatus_to_exitcode(status)
        if pid == pids[WRONG]:
            wrong_at = time.monotonic()
        time.sleep(0.01)
    ended = time.monotonic()
    for rank, pid in enumerate(pids):
        if rank not in codes:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    words = [(log.read_text().strip().splitlines() or [""])[-1][:300] for log in logs]
    return {
        "fault": fault,
        "processes": size,
        "codes": [codes.get(rank) for rank in others],
        "after_s": round(ended - wrong_at, 2),
        "words": [words[rank] for rank in others],
        "own_words": words[WRONG],
    }


def main():
    """With this many processes."""
    size = int(sys.argv[1])
    folder = Path(tempfile.mkdtemp())
    all_faults = ("none", "kill", "stop", "exit", "forward", "backward", "operation", "size")
    for mode, faults in (("traced", all_faults), ("planned", ("none", "kill", "stop", "backward"))):
        os.environ["THEMIS_COMMUNICATION"] = mode
        for fault in faults:
            print(json.dumps({"mode": mode, **observe(fault, size, folder)}), flush=True)


if __name__ == "__main__":
    main()
