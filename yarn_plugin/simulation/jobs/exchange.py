"""What virtual clusters gain by exchanging whole nodes (an earlier version of HiveD, sections 3.3 and 5.4).

Each tenant's jobs run as in its private cluster; beside that, every hour, nodes that it does not use are offered to
jobs of others that wait (`mechanisms.cell_exchange`). The paper leaves open what happens at the end; we decide so that
no job starts later than without exchange:

- A loan goes on from hour to hour until the private schedule of the owner needs the node. Then a node of another tenant
  that is free takes its place, without a job being moved: nodes are alike, and cells are bound to them when they are
  used. If there is none, the node is taken back at once; the jobs on it have lost their work, and wait again.
- A job whose turn comes while it runs on whole borrowed nodes goes on: they are swapped for the nodes that it would
  have got. One that shares a node starts again on its own GPUs.
- What a job that ran early would have used later stays with its tenant.
"""

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from math import ceil

from yarn_plugin.decide.mechanisms.cell_exchange import CellRequest, exchange
from yarn_plugin.simulation.outcome import JobOutcome, Outcome

HOUR_S = 3600.0
_END, _USE, _TURN, _HOUR = range(4)
"""The order of what happens at one moment."""


@dataclass(frozen=True, slots=True)
class Exchanged:
    """A tenant's GPU hours: `own`, of its jobs on its own nodes; `given`, of others' on them; `taken`, of its jobs on
    others'; `lost`, of its jobs there that had to leave. `later`: jobs that started later than without exchange."""

    tenant: str
    own: float
    given: float
    taken: float
    lost: float
    later: int

    @property
    def gain(self) -> float:
        """What it gained by giving as much, as a fraction of what it uses of its own."""
        return min(self.given, self.taken) / self.own if self.own else 0.0


@dataclass(eq=False, slots=True)
class _Node:
    """A lent node. `jobs`: GPUs of each job on it. `since`: when its present giver began to lend it;
    `earlier`: givers before, from when until when."""

    giver: str
    taker: str
    since: float
    free: int
    jobs: Counter[int] = field(default_factory=Counter)
    earlier: list[tuple[str, float, float]] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class _Run:
    """A job on borrowed nodes."""

    job: JobOutcome
    nodes: tuple[_Node, ...]
    began_at: float


def exchange_nodes(private: Mapping[str, Outcome], gpus_per_node: int) -> list[Exchanged]:
    """Exchange nodes every hour. `private`: each tenant's jobs in its private cluster."""
    return _Exchange(private, gpus_per_node).run()


class _Exchange:
    def __init__(self, private: Mapping[str, Outcome], gpus_per_node: int) -> None:
        self._private, self._size = private, gpus_per_node
        self._used: Counter[str] = Counter()
        self._surplus: dict[str, float] = {}
        self._waiting: dict[str, dict[int, JobOutcome]] = {name: {} for name in private}
        self._running: dict[int, _Run] = {}
        self._nodes: dict[str, list[_Node]] = {name: [] for name in private}
        """By giver, in the order in which they were lent."""
        self._starts: dict[int, float] = {}
        self._given, self._taken, self._lost = (dict.fromkeys(private, 0.0) for _ in range(3))

    def run(self) -> list[Exchanged]:
        jobs = [job for outcome in self._private.values() for job in outcome.ended]
        arrivals = deque(sorted((job for job in jobs if _turn(job) > job.arrived_at), key=lambda job: job.arrived_at))
        agenda: list[tuple[float, int, int, JobOutcome | tuple[str, int] | None]] = []
        for name, outcome in self._private.items():
            changes: Counter[float] = Counter()
            for at, change in outcome.blocked:
                changes[at] += change
            agenda += [
                (at, _USE, place, (name, change)) for place, (at, change) in enumerate(changes.items()) if change
            ]
        agenda += [(_turn(job), _TURN, job.number, job) for job in arrivals]
        last = max((_turn(job) for job in arrivals), default=0.0)
        agenda += [(hour * HOUR_S, _HOUR, 0, None) for hour in range(ceil(last / HOUR_S))]
        heapify(agenda)
        while agenda:
            at, kind, number, about = heappop(agenda)
            if kind == _USE:
                assert isinstance(about, tuple)
                self._use(at, *about)
            elif kind == _HOUR:
                while arrivals and arrivals[0].arrived_at <= at:
                    job = arrivals.popleft()
                    if _turn(job) > at:
                        self._waiting[job.group][job.number] = job
                for run in self._match(at):
                    heappush(agenda, (at + run.job.alone_s, _END, run.job.number, run.job))
            elif kind == _TURN:
                assert isinstance(about, JobOutcome)
                self._take_turn(at, about)
            elif (ended := self._running.get(number)) is not None and ended.began_at + ended.job.alone_s == at:
                self._leave(ended, at, is_lost=False)
        return [self._exchanged(name, outcome) for name, outcome in self._private.items()]

    def _use(self, at: float, tenant: str, change: int) -> None:
        """A tenant's own jobs use more nodes, or fewer; those lent last are taken back first."""
        self._used[tenant] += change
        while self._used[tenant] + len(self._nodes[tenant]) > self._private[tenant].nodes:
            node = self._nodes[tenant][-1]
            if self._replace_giver(node, at):
                continue
            for number in list(node.jobs):
                run = self._running[number]
                self._leave(run, at, is_lost=True)
                self._waiting[run.job.group][number] = run.job

    def _replace_giver(self, node: _Node, at: float) -> bool:
        """Let the tenant that has given least of those with a free node lend this one from now on."""
        others = [name for name in self._private if name not in (node.giver, node.taker) and self._free(name) > 0]
        if not others:
            return False
        self._pay_back(node, at)
        self._nodes[node.giver].remove(node)
        node.earlier.append((node.giver, node.since, at))
        node.giver, node.since = min(others, key=lambda name: (self._surplus.get(name, 0.0), name)), at
        self._nodes[node.giver].append(node)
        self._charge(node, self._size * (-at % HOUR_S) / HOUR_S)
        return True

    def _take_turn(self, at: float, job: JobOutcome) -> None:
        self._waiting[job.group].pop(job.number, None)
        run = self._running.get(job.number)
        if run is not None:
            is_whole = all(node.jobs[job.number] == self._size for node in run.nodes)
            self._leave(run, at, is_lost=not is_whole)
            if is_whole:
                # It goes on, on nodes of its own from now on.
                self._starts[job.number] = run.began_at

    def _match(self, at: float) -> Iterable[_Run]:
        """Prolong loans, use what is free on borrowed nodes, and lend more."""
        for node in [node for nodes in self._nodes.values() for node in nodes]:
            self._charge(node, self._size)
            for job in [job for job in self._waiting[node.taker].values() if node.free] if node.free else ():
                if job.gpus <= node.free:
                    yield self._begin(job, (node,), at)
        offers = {name: self._free(name) for name in self._private}
        wanted: dict[tuple[str, int], deque[list[JobOutcome]]] = {}
        requests: list[CellRequest] = []
        for tenant, waiting in self._waiting.items():
            in_order = [waiting[number] for number in sorted(waiting)]
            for cells, jobs in _packed(in_order, self._size, sum(offers.values())):
                requests.append(CellRequest(tenant, cells))
                wanted.setdefault((tenant, cells), deque()).append(jobs)
        matches, self._surplus = exchange(requests, offers, self._surplus, self._size)
        for match in matches:
            tenant = match.request.tenant
            nodes = tuple([_Node(giver, tenant, at, self._size) for giver in match.givers])
            for node in nodes:
                self._nodes[node.giver].append(node)
            for job in wanted[tenant, match.request.cells].popleft():
                yield self._begin(job, nodes, at)

    def _free(self, tenant: str) -> int:
        return self._private[tenant].nodes - self._used[tenant] - len(self._nodes[tenant])

    def _charge(self, node: _Node, gpu_hours: float) -> None:
        self._surplus[node.giver] = self._surplus.get(node.giver, 0.0) + gpu_hours
        self._surplus[node.taker] = self._surplus.get(node.taker, 0.0) - gpu_hours

    def _pay_back(self, node: _Node, at: float) -> None:
        """The rest of the hour."""
        self._charge(node, -self._size * (-at % HOUR_S) / HOUR_S)

    def _begin(self, job: JobOutcome, nodes: tuple[_Node, ...], at: float) -> _Run:
        del self._waiting[job.group][job.number]
        for node in nodes:
            node.jobs[job.number] = job.gpus // len(nodes)
            node.free -= node.jobs[job.number]
        run = self._running[job.number] = _Run(job, nodes, at)
        return run

    def _leave(self, run: _Run, at: float, is_lost: bool) -> None:
        """A job leaves its borrowed nodes; those that are empty then go back."""
        del self._running[run.job.number]
        hours = (at - run.began_at) / HOUR_S
        if at >= run.began_at + run.job.alone_s:
            self._starts[run.job.number] = run.began_at
        for node in run.nodes:
            gpus = node.jobs.pop(run.job.number)
            node.free += gpus
            gpu_hours = gpus * hours
            if is_lost:
                self._lost[node.taker] += gpu_hours
            else:
                for giver, start, end in (*node.earlier, (node.giver, node.since, at)):
                    self._given[giver] += gpus * max(0.0, end - max(start, run.began_at)) / HOUR_S
                self._taken[node.taker] += gpu_hours
            if not node.jobs:
                self._nodes[node.giver].remove(node)
                self._pay_back(node, at)

    def _exchanged(self, name: str, outcome: Outcome) -> Exchanged:
        all_hours = sum(job.gpus * job.alone_s for job in outcome.ended) / HOUR_S
        later = sum(self._starts.get(job.number, _turn(job)) > _turn(job) for job in outcome.ended)
        return Exchanged(
            name, all_hours - self._taken[name], self._given[name], self._taken[name], self._lost[name], later
        )


def _turn(job: JobOutcome) -> float:
    """When a job starts in its private cluster."""
    assert job.ended_at is not None
    return job.ended_at - job.alone_s


def _packed(jobs: Iterable[JobOutcome], size: int, most: int) -> Iterable[tuple[int, list[JobOutcome]]]:
    """Jobs in requests of whole nodes, in order: small ones share one. `most`: nodes that there are."""
    shared: list[JobOutcome] = []
    room = count = 0
    for job in jobs:
        if count >= most:
            break
        if job.gpus >= size:
            yield job.gpus // size, [job]
            count += job.gpus // size
            continue
        if job.gpus > room:
            if shared:
                yield 1, shared
            shared, room, count = [], size, count + 1
        shared.append(job)
        room -= job.gpus
    if shared:
        yield 1, shared
