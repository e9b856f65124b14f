"""Who waits longer than in a private cluster: HiveD's virtual clusters beside quotas of GPUs (HiveD, section 5.2).

Jobs of a trace in the virtual clusters with the most GPU time, in virtual time, whole seconds: FIFO in each virtual
cluster, gangs, no preemption, no low priority. Up to 8 GPUs on one node, above that whole nodes. Each virtual cluster's
quota is whole nodes: its GPU time over the load, at least what its largest job needs. Three times the same jobs:

- private: each virtual cluster has its nodes alone.
- HiveD: cells of nodes, bound when they are used; gangs are placed by the mechanism (`buddy_cells.allocator`).
- quota: GPUs of all nodes are shared. A job starts if it is within its virtual cluster's number of GPUs and fits: on
  the fullest node that has room for it, or on free nodes.

By environment variables: `PRIVATE_TRACE`, a CSV with timestamp, duration, num_gpus and cluster, without which this
bench measures nothing; `PRIVATE_FROM` (2017-10-01), the first day; `PRIVATE_RUNS`, days:load
(30:0.7,30:0.9,30:1.1,60:0.9); `PRIVATE_CLUSTERS` (8).
"""

import csv
import heapq
import math
import os
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from yarn_plugin.console import out
from yarn_plugin.decide.mechanisms.buddy_cells.allocator import Allocator, Call
from yarn_plugin.decide.mechanisms.buddy_cells.answers import Bind
from yarn_plugin.decide.mechanisms.buddy_cells.cluster import Cluster
from yarn_plugin.decide.mechanisms.buddy_cells.gangs import Request
from yarn_plugin.decide.mechanisms.buddy_cells.invariants import check_quick
from yarn_plugin.decide.mechanisms.buddy_cells.specification import (
    CellType,
    ClusterSpec,
    PhysicalSpec,
    Quota,
    VirtualClusterSpec,
)

GPUS = 8
"""Of a node."""

LATER_S = 60
"""A job that waits so much longer than in a private cluster counts."""


@dataclass(frozen=True, slots=True)
class Job:
    """A job of the trace; times in seconds from its beginning."""

    id: int
    cluster: str
    arrives: int
    seconds: int
    gpus: int

    @property
    def pods(self) -> tuple[tuple[int, int], ...]:
        """Its pods: one up to 8 GPUs, above that whole nodes."""
        return ((1, self.gpus),) if self.gpus <= GPUS else ((math.ceil(self.gpus / GPUS), GPUS),)

    @property
    def held(self) -> int:
        """The GPUs that it holds."""
        return sum(number * size for number, size in self.pods)


class Placing(Protocol):
    """Starts and ends jobs."""

    def start(self, job: Job) -> bool:
        """Start a job if it fits."""
        ...

    def end(self, job: Job) -> None:
        """End a job."""
        ...


class Hived:
    """Virtual clusters of whole nodes."""

    def __init__(self, nodes: dict[str, int]) -> None:
        types = {"node": CellType("gpu", GPUS, is_node=True)}
        cells = tuple(PhysicalSpec("node", f"n{number}") for number in range(sum(nodes.values())))
        clusters = {name: VirtualClusterSpec((Quota("node", "node", number),)) for name, number in nodes.items()}
        self._mechanism = Allocator(Cluster(ClusterSpec(types, cells, clusters, {"gpu": ("node",)})))

    def start(self, job: Job) -> bool:
        """Start a job if it fits."""
        request = Request(str(job.id), job.cluster, 0, job.pods)
        for slot, size in enumerate(request.sizes):
            call = Call(f"{job.id}.{slot}", size, request)
            answer = self._mechanism.decide(call)
            if not isinstance(answer, Bind):
                assert not slot, "a gang starts as a whole"
                return False
            self._mechanism.start(call, answer)
        self._mechanism.cluster.commit()
        return True

    def end(self, job: Job) -> None:
        """End a job."""
        self._mechanism.release(self._mechanism.cluster.gangs[str(job.id)])
        self._mechanism.cluster.commit()
        check_quick(self._mechanism.cluster)


class GpuQuota:
    """Numbers of GPUs, on shared nodes."""

    def __init__(self, nodes: dict[str, int]) -> None:
        self._left = {name: number * GPUS for name, number in nodes.items()}
        self._free = [GPUS] * sum(nodes.values())
        self._on: dict[int, list[tuple[int, int]]] = {}

    def start(self, job: Job) -> bool:
        """Start a job if it fits."""
        if self._left[job.cluster] < job.held:
            return False
        (number, size) = job.pods[0]
        fitting = sorted((free, node) for node, free in enumerate(self._free) if free >= size)[:number]
        if len(fitting) < number:
            return False
        self._on[job.id] = [(node, size) for _, node in fitting]
        for _, node in fitting:
            self._free[node] -= size
        self._left[job.cluster] -= job.held
        return True

    def end(self, job: Job) -> None:
        """End a job."""
        for node, size in self._on.pop(job.id):
            self._free[node] += size
        self._left[job.cluster] += job.held


def measure() -> dict[str, Any]:
    """How many jobs wait more than a minute longer than in private clusters, by run."""
    path = os.environ.get("PRIVATE_TRACE")
    if path is None:
        out.print("  PRIVATE_TRACE is not set: nothing is measured")
        return {}
    results: dict[str, Any] = {"hived_longer": 0}
    for run in os.environ.get("PRIVATE_RUNS", "30:0.7,30:0.9,30:1.1,60:0.9").split(","):
        days, load = run.split(":")
        jobs = read_jobs(path, int(days), int(os.environ.get("PRIVATE_CLUSTERS", "8")))
        nodes = nodes_of(jobs, int(days), float(load))
        private = {}
        for name, number in nodes.items():
            private |= waits([job for job in jobs if job.cluster == name], Hived({name: number}))
        shared, quota = waits(jobs, Hived(nodes)), waits(jobs, GpuQuota(nodes))
        longer = {"hived": later(shared, private), "quota": later(quota, private)}
        name = f"{days}_days_load_{load}"
        results[f"{name}_nodes"], results[f"{name}_jobs"] = sum(nodes.values()), len(jobs)
        for kind, found in longer.items():
            results[f"{name}_{kind}_longer"] = len(found)
            results[f"{name}_{kind}_longer_min"] = round(sum(found) / 60)
            results[f"{name}_{kind}_worst_min"] = round(max(found, default=0) / 60)
        results["hived_longer"] += sum(shared[job] > private[job] for job in shared)
    return results


def read_jobs(path: str, days: int, clusters: int) -> list[Job]:
    """The jobs of the first days, of the virtual clusters with the most GPU time."""
    with Path(path).open(newline="") as file:
        rows = [
            (datetime.fromisoformat(row["timestamp"]), float(row["duration"]), int(row["num_gpus"]), row["cluster"])
            for row in csv.DictReader(file)
        ]
    first = datetime.fromisoformat(os.environ.get("PRIVATE_FROM", "2017-10-01"))
    used: Counter[str] = Counter()
    rows = sorted(row for row in rows if 0 <= (row[0] - first).days < days and row[1] > 0 and row[2] > 0)
    for _, seconds, gpus, cluster in rows:
        used[cluster] += round(seconds * gpus)
    chosen = {name for name, _ in used.most_common(clusters)}
    return [
        Job(number, cluster, round((at - first).total_seconds()), max(round(seconds), 1), gpus)
        for number, (at, seconds, gpus, cluster) in enumerate(rows)
        if cluster in chosen
    ]


def nodes_of(jobs: Sequence[Job], days: int, load: float) -> dict[str, int]:
    """The nodes of each virtual cluster."""
    used: Counter[str] = Counter()
    largest: dict[str, int] = {}
    for job in jobs:
        used[job.cluster] += job.held * job.seconds
        largest[job.cluster] = max(largest.get(job.cluster, 0), math.ceil(job.gpus / GPUS))
    span = days * 86_400 * GPUS * load
    return {name: max(math.ceil(used[name] / span), largest[name]) for name in sorted(used)}


def waits(jobs: Sequence[Job], placing: Placing) -> dict[int, int]:
    """The seconds that each job waits, first come, first served in each virtual cluster."""
    arriving = deque(sorted(jobs, key=lambda job: (job.arrives, job.id)))
    ending: list[tuple[int, int, Job]] = []
    queues: dict[str, deque[Job]] = {job.cluster: deque() for job in jobs}
    found: dict[int, int] = {}
    while arriving or ending:
        now = min(arriving[0].arrives if arriving else math.inf, ending[0][0] if ending else math.inf)
        while ending and ending[0][0] == now:
            placing.end(heapq.heappop(ending)[2])
        while arriving and arriving[0].arrives == now:
            job = arriving.popleft()
            queues[job.cluster].append(job)
        for name in sorted(queues):
            queue = queues[name]
            while queue and placing.start(queue[0]):
                job = queue.popleft()
                found[job.id] = int(now) - job.arrives
                heapq.heappush(ending, (int(now) + job.seconds, job.id, job))
    return found


def later(waited: dict[int, int], private: dict[int, int]) -> list[int]:
    """By how many seconds jobs waited longer, of those that waited more than a minute longer."""
    return [waited[job] - private[job] for job in private if waited[job] - private[job] > LATER_S]
