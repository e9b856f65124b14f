"""Processes that train agree on one plan after the other, through the store of a parent that outlives them, as with
torchrun. One of them is late with each of its answers, and one is killed (SIGKILL) at a chosen moment.

Prints a line of JSON for each run: how each process ended, and how long after the kill the last one did. Children are
forked, so that torch is imported once.
"""

import itertools
import json
import os
import signal
import sys
import threading
import time
from datetime import timedelta

import torch
import torch.distributed as dist

from themis_agent.communication.commit import MARGIN, Coordinator, Participant
from themis_agent.communication.errors import CommitError
from themis_agent.communication.iteration import Kind, Operation
from themis_agent.communication.plan import in_order
from themis_agent.communication.process_group import gloo
from themis_agent.communication.session import TorchStore

PROCESSES, LATE = 3, 2
LATE_S, ITERATION_S, TIMEOUT_S = 0.06, 0.004, 4.0
PLAN = in_order((Operation(Kind.ALL_REDUCE, 4, "float32", 4, PROCESSES),), 1)
AGREED, FAILED, MIXED = 0, 1, 77
KILLED_AT = 12
"""The plan in whose agreement a process is killed."""


class KillingStore(TorchStore):
    """Kills this process before or after it writes a key that ends so."""

    def __init__(self, store, when, key):
        super().__init__(store)
        self._when, self._key = when, key

    def set(self, key, value):
        self._kill("before", key)
        super().set(key, value)
        self._kill("after", key)

    def set_first(self, key, value):
        self._kill("before", key)
        decided = super().set_first(key, value)
        self._kill("after", key)
        return decided

    def _kill(self, when, key):
        if when == self._when and key.endswith(self._key):
            os.kill(os.getpid(), signal.SIGKILL)


def train(rank, port, plans, kill):
    """`kill`: (rank, "before" or "after", what is written) of the one to be killed, or None."""
    store = dist.TCPStore("127.0.0.1", port, timeout=timedelta(seconds=30), wait_for_workers=False)
    group = gloo(store, "training", rank, PROCESSES, timedelta(seconds=TIMEOUT_S), "lo")

    def client():
        own = dist.PrefixStore("plans", store.clone())
        if kill is None or kill[0] != rank:
            return TorchStore(own)
        return KillingStore(own, kill[1], f"plan/{KILLED_AT}/{kill[2]}")

    participant = Participant(client(), rank, TIMEOUT_S, lambda plan: None)
    ended = threading.Event()

    def take_part():
        while not ended.wait(LATE_S if rank == LATE else 0.002):
            try:
                participant.poll()
            except RuntimeError as problem:
                participant.lose(str(problem))
                return

    decisions = []

    def coordinate():
        coordinator = Coordinator(client(), PROCESSES, TIMEOUT_S)
        decisions.extend(coordinator.propose(PLAN) for _ in range(plans))

    threading.Thread(target=take_part, daemon=True).start()
    coordinating = threading.Thread(target=coordinate, daemon=True)
    if rank == 0:
        coordinating.start()
    versions, left = set(), MARGIN + 2
    for iteration in itertools.count():
        version, _ = participant.at(iteration)
        versions.add(version)
        over = rank == 0 and not coordinating.is_alive()
        seen = torch.tensor([version, -version, over])
        options = dist.AllreduceOptions()
        options.reduceOp = dist.ReduceOp.MAX
        group.allreduce([seen], options).wait()
        if seen[0] != -seen[1]:
            return MIXED
        # The last plan may have been agreed on for a later iteration.
        left -= int(seen[2])
        if not left:
            break
        time.sleep(ITERATION_S)
    ended.set()
    refused = [one.reason for one in decisions if one.at is None]
    facts = {"plans": max(versions), "iterations": iteration, "blocked_s": round(participant.blocked_s, 2)}
    # In one write, as children share the output: print may write the end of a line on its own.
    print(json.dumps({"rank": rank, **facts, "refused": refused}) + "\n", end="", flush=True)
    return AGREED


def child(rank, port, plans, kill):
    pid = os.fork()
    if pid:
        return pid
    code = FAILED
    try:
        code = train(rank, port, plans, kill)
    except (RuntimeError, CommitError) as problem:
        print(f"rank {rank}: {type(problem).__name__}: {str(problem)[:100]}", file=sys.stderr, flush=True)
    finally:
        os._exit(code)


def run(plans, kill):
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    pids = [child(rank, store.port, plans, kill) for rank in range(PROCESSES)]
    codes, ends = {}, []
    until = time.monotonic() + 240
    while len(codes) < PROCESSES and time.monotonic() < until:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid:
            codes[pids.index(pid)] = os.waitstatus_to_exitcode(status)
            ends.append(time.monotonic())
        time.sleep(0.005)
    for rank, pid in enumerate(pids):
        if rank not in codes:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    after_s = round(ends[-1] - ends[0], 2) if ends else None
    print(json.dumps({"kill": kill, "codes": [codes.get(rank) for rank in range(PROCESSES)], "after_s": after_s}),
          flush=True)  # fmt: skip


def main():
    """Agree on this many plans, then be killed in each phase of the agreement on one."""
    run(int(sys.argv[1]), None)
    for rank, written in ((0, "proposal"), (0, "decision"), (1, "vote/1"), (1, "acknowledged/1")):
        for when in ("before", "after"):
            run(KILLED_AT + 3, (rank, when, written))


if __name__ == "__main__":
    main()
