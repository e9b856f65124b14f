"""One of two processes goes wrong while both train: what becomes of the other.

Prints a line of JSON for each fault: the other's exit code (or signal), its last words, and after how many seconds it
ended. Children are forked, so that torch is imported once.
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

TIMEOUT_S = 4.0
AT = 5


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
    for number in range(10_000):
        wrong = rank == 1 and number == AT
        if wrong:
            go_wrong(fault, failing)
        optimizer.zero_grad()
        model(torch.randn(8, 64)).square().mean().backward()
        optimizer.step()
        if number > AT + 1 and fault != "none":
            print("went on with wrong numbers", flush=True)
            os._exit(77)
        if fault == "none" and number == 20:
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


def child(rank, fault, port, log):
    pid = os.fork()
    if pid:
        return pid
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    os.environ |= {"THEMIS_COMMUNICATION_TIMEOUT_S": str(TIMEOUT_S), "THEMIS_COMMUNICATION_CHANNELS": "lo,lo"}
    try:
        train(rank, fault)
    except SystemExit as ended:
        os._exit(int(ended.code or 0))
    except Exception as problem:  # noqa: BLE001 - whatever it is, it is told
        print(f"{type(problem).__name__}: {' '.join(str(problem).split())}", flush=True)
        os._exit(1)
    os._exit(0)


def observe(fault, folder):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    logs = [folder / f"{fault}-{rank}" for rank in range(2)]
    pids = [child(rank, fault, port, logs[rank]) for rank in range(2)]
    wrong_at = None
    began = time.monotonic()
    codes = {}
    while 0 not in codes and time.monotonic() - began < 60:
        pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
        if pid and (os.WIFEXITED(status) or os.WIFSIGNALED(status)):
            codes[pids.index(pid)] = os.waitstatus_to_exitcode(status)
        if pid == pids[1]:
            wrong_at = time.monotonic()
        time.sleep(0.01)
    ended = time.monotonic()
    for rank, pid in enumerate(pids):
        if rank not in codes:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    words = logs[0].read_text().strip().splitlines() or [""]
    return {
        "fault": fault,
        "code": codes.get(0),
        "after_s": round(ended - (wrong_at or began), 2),
        "words": words[-1][:200],
    }


def main():
    folder = Path(tempfile.mkdtemp())
    all_faults = ("none", "kill", "stop", "exit", "forward", "backward", "operation", "size")
    for mode, faults in (("traced", all_faults), ("planned", ("none", "kill", "stop"))):
        os.environ["THEMIS_COMMUNICATION"] = mode
        for fault in faults:
            print(json.dumps({"mode": mode, **observe(fault, folder)}), flush=True)


if __name__ == "__main__":
    main()
