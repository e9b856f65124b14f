"""HiveD's allocator alone, from 64 to 65,536 GPUs: how long a decision and its commit take, with undo recorded.

The workload: gangs of 1, 8, 16 and 64 GPUs in equal parts, 70% guaranteed at priorities 0 to 2, the rest opportunistic,
of 4 virtual clusters that own nearly all cells, half as racks and half as nodes. The cluster is filled to 80%, then
gangs end and others come. CPU time.
"""

import gc
from random import Random
from statistics import mean, quantiles
from time import process_time

import psutil

from yarn_plugin.decide.mechanisms.buddy_cells.allocator import Allocator, Call
from yarn_plugin.decide.mechanisms.buddy_cells.answers import Bind, Preempt
from yarn_plugin.decide.mechanisms.buddy_cells.cluster import Cluster
from yarn_plugin.decide.mechanisms.buddy_cells.gangs import Request, Stage
from yarn_plugin.decide.mechanisms.buddy_cells.invariants import check_quick
from yarn_plugin.decide.mechanisms.buddy_cells.specification import (
    CellType,
    ClusterSpec,
    PhysicalSpec,
    Quota,
    VirtualClusterSpec,
)

SIZES = {64: (1, 8), 1024: (8, 16), 8192: (8, 128), 65536: (8, 1024)}
"""GPUs: racks, and nodes of 8 GPUs in each."""

GANGS = (((1, 1),), ((1, 8),), ((2, 8),), ((8, 8),))
CHURN = 2000


def measure():
    """CPU time in ms per gang, by size; seconds to start and MB of memory of the largest."""
    results = {}
    for gpus, (racks, nodes) in SIZES.items():
        gc.collect()
        before = psutil.Process().memory_info().rss
        began = process_time()
        cluster = Cluster(specification(racks, nodes))
        start_s = process_time() - began
        memory_mb = (psutil.Process().memory_info().rss - before) / 1e6
        workload = Workload(cluster, gpus)
        workload.fill()
        decide, commit, end = workload.churn(CHURN)
        both = [one + other for one, other in zip(decide, commit, strict=True)]
        results |= {
            f"decide_ms_mean_{gpus}": mean(decide),
            f"commit_ms_mean_{gpus}": mean(commit),
            f"end_ms_mean_{gpus}": mean(end),
            f"decide_and_commit_ms_mean_{gpus}": mean(both),
            f"decide_and_commit_ms_p95_{gpus}": quantiles(both, n=20)[-1],
        }
        if gpus == max(SIZES):
            results |= {"start_s": start_s, "memory_mb": memory_mb, "check_quick_ms": timed_check(cluster)}
        del cluster, workload
    middle = results["decide_and_commit_ms_mean_1024"]
    results["largest_to_1024"] = results[f"decide_and_commit_ms_mean_{max(SIZES)}"] / middle
    return results


def timed_check(cluster):
    began = process_time()
    for _ in range(1000):
        check_quick(cluster)
    return process_time() - began


def specification(racks, nodes):
    """Racks of nodes of 2 sockets of 2 switches of 2 GPUs; 4 virtual clusters with all racks but for a few nodes."""
    types = {
        "rack": CellType("node", nodes),
        "node": CellType("socket", 2, is_node=True),
        "socket": CellType("switch", 2),
        "switch": CellType("gpu", 2),
    }
    cells = tuple(
        PhysicalSpec("rack", f"r{rack}", "", tuple(PhysicalSpec("node", f"r{rack}n{node}") for node in range(nodes)))
        for rack in range(racks)
    )
    whole, split = racks // 2, racks - racks // 2
    clusters = {}
    for index in range(4):
        own_racks = whole // 4 + (index < whole % 4)
        own_nodes = split * nodes // 4 - (index == 0 and nodes > 8)
        quotas = (Quota("rack", "rack", own_racks), Quota("rack", "node", own_nodes))
        clusters[f"vc{index}"] = VirtualClusterSpec(tuple(quota for quota in quotas if quota.number))
    return ClusterSpec(types, cells, clusters, {"gpu": ("rack",)})


class Workload:
    def __init__(self, cluster, gpus):
        self.random, self.allocator, self.gpus = Random(1), Allocator(cluster), gpus
        self.cluster, self.number = cluster, 0
        self.running = []
        self.at = {}
        self.held = 0
        self.ends = []

    def fill(self):
        for _ in range(20 * self.gpus):
            if self.held >= 0.8 * self.gpus:
                return
            self.submit()

    def churn(self, number):
        decide, commit = [], []
        self.ends = []
        while len(decide) < number:
            while self.running and self.held > 0.8 * self.gpus:
                self.finish(self.random.choice(self.running))
            decided, committed = self.submit()
            if committed is not None:
                decide.append(decided)
                commit.append(committed)
            elif self.running:
                self.finish(self.random.choice(self.running))
        return decide, commit, self.ends

    def submit(self):
        """Ask for a gang; evict whom it preempts; ms to decide and to commit, None if it waits."""
        self.number += 1
        pods = self.random.choice(GANGS)
        priority = self.random.choice((0, 1, 2)) if self.random.random() < 0.7 else -1
        cluster = f"vc{self.random.randrange(4)}"
        request = Request(f"g{self.number}", cluster, priority, pods, ignores_exclusions=True)
        calls = [Call(f"p{index}", size, request) for index, size in enumerate(request.sizes)]
        began = process_time()
        answer = self.allocator.decide(calls[0])
        decided = process_time() - began
        if isinstance(answer, Preempt):
            for victim in answer.victims:
                self.finish(victim)
            answer = self.allocator.decide(calls[0])
        if not isinstance(answer, Bind):
            self.cluster.commit()
            return 1000 * decided, None
        began = process_time()
        self.allocator.start(calls[0], answer)
        committed = process_time() - began
        for call in calls[1:]:
            self.allocator.start(call, self.allocator.decide(call))
        began = process_time()
        self.cluster.commit()
        committed += process_time() - began
        self.at[request.gang] = len(self.running)
        self.running.append(request.gang)
        self.held += sum(request.sizes)
        return 1000 * decided, 1000 * committed

    def finish(self, name):
        gang = self.cluster.gangs[name]
        assert gang.stage is not Stage.PREEMPTING
        began = process_time()
        for pod in gang.pods:
            self.allocator.end(gang, pod)
        self.ends.append(1000 * (process_time() - began))
        self.held -= sum(gang.request.sizes)
        position, last = self.at.pop(name), self.running.pop()
        if last != name:
            self.running[position] = last
            self.at[last] = position
