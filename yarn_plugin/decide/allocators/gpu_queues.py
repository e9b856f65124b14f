"""GPUs by queue, as YARN's own schedulers give them out: baselines that pools of cells are compared with.

- `capacity`: as the CapacityScheduler divides. Each queue is assured of its GPUs, and may use up to its maximum while
  others do not; the queue that uses the least of what it is assured of comes first, and in a queue the first job. With
  `preempts`, a job within its queue's GPUs takes them back from queues that are beyond theirs. This is also the
  quota-based YARN-CS of HiveD (OSDI '20, section 5): quotas are numbers of GPUs, whatever nodes they lie on.
- `fair`: as the FairScheduler divides: the queue that holds the fewest GPUs for its weight comes first.

A job's queue is its virtual cluster, or its tenant. Its pods start together, each on one node, the fullest that has
room, and keep what they hold. Nothing is known of cells: that is what these policies are compared for.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

from yarn_plugin.decide.allocators import AllocatorKind
from yarn_plugin.decide.allocators.cells import Cells
from yarn_plugin.decide.allocators.happenings import Began, ClaimKey, Recorded, Vacated, What, name_of
from yarn_plugin.decide.allocators.plan import ADOPTED, Drop, Holding, Idle, Place, Plan
from yarn_plugin.decide.allocators.pods import fit, match, pods_of, recorded
from yarn_plugin.decide.allocators.seen import Leased, Seen
from yarn_plugin.errors import BadInputError
from yarn_plugin.model.causes import Evicted
from yarn_plugin.model.share import Claim
from yarn_plugin.model.topology import NODE

DivisionOrder = Literal["capacity", "fair"]


@dataclass(frozen=True, slots=True)
class GpuQueuesSettings:
    """`order`: see the module. With `capacity`, `assured`: the GPUs of each queue; one without has none.

    `max_gpus`: that a queue may hold at most; without, all. With `fair`, `weights`: of queues; 1 where absent.
    """

    order: DivisionOrder = "capacity"
    assured: Mapping[str, int] = field(default_factory=dict)
    max_gpus: Mapping[str, int] = field(default_factory=dict)
    weights: Mapping[str, float] = field(default_factory=dict)
    preempts: bool = True

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            BadInputError: one is out of range.
        """
        for name in ("assured", "max_gpus"):
            for queue, gpus in getattr(self, name).items():
                if gpus < 0:
                    raise BadInputError(f"{name}.{queue}", gpus, "must be a number of GPUs, not negative")
        for queue, weight in self.weights.items():
            if not 0 < weight < math.inf:
                raise BadInputError(f"weights.{queue}", weight, "must be a number above 0")


@dataclass(frozen=True, slots=True)
class GpuQueuesState:
    """`counter`: of jobs that were started. `preempted`: those whose leases are being revoked. `done`: those that gave
    back what they held, and want nothing more."""

    counter: int = 0
    preempted: frozenset[str] = frozenset()
    done: frozenset[str] = frozenset()


class GpuQueues:
    """See the module."""

    def __init__(self, settings: GpuQueuesSettings | None) -> None:
        self._settings = settings or GpuQueuesSettings("fair")
        self._node_size: tuple[Cells, int] | None = None

    def initial_state(self) -> GpuQueuesState:
        """Nothing was started."""
        return GpuQueuesState()

    def report(self, state: GpuQueuesState) -> None:
        """None: the state itself is immutable."""

    def propose(self, state: GpuQueuesState, seen: Seen, what: What) -> tuple[GpuQueuesState, Plan]:
        """Start the jobs whose turn it is."""
        match what:
            case Began():
                state = GpuQueuesState(state.counter)
            case Vacated(freed):
                over = {name_of(each.claim) for each in freed if each.is_over}
                state = replace(state, preempted=state.preempted - over, done=state.done | (over - state.preempted))
        if state.preempted or state.done:
            known = {name_of(claim) for claim in seen.claims}
            state = replace(state, preempted=state.preempted & known, done=state.done & known)
        if self._node_size is None or self._node_size[0] is not seen.cells:
            nodes = (len(list(seen.cells.gpus_in(node.id))) for node in seen.cells.at(NODE))
            self._node_size = seen.cells, max(nodes, default=1)
        turn = _Turn(self._settings, state, seen, self._node_size[1])
        if isinstance(what, Recorded):
            turn.adopt(what)
        else:
            turn.serve()
        return turn.state(), turn.plan()


@dataclass(frozen=True, slots=True)
class _Asked:
    """A job that waits. `pods`: the GPUs of each, in the order of their numbers: the small ones first."""

    claim: ClaimKey
    queue: str
    pods: tuple[int, ...]

    @property
    def gpus(self) -> int:
        return sum(self.pods)


class _Turn:
    """One call: who holds how much, and the plan so far."""

    def __init__(self, settings: GpuQueuesSettings, state: GpuQueuesState, seen: Seen, node_size: int) -> None:
        self._settings, self._before, self._seen = settings, state, seen
        self._counter, self._preempted = state.counter, set(state.preempted)
        self._place: list[Place] = []
        self._drop: list[Drop] = []
        self._running: dict[ClaimKey, list[Leased]] = {}
        for lease in seen.leases.values():
            self._running.setdefault(lease.claim, []).append(lease)
        self._waiting: dict[str, list[_Asked]] = {}
        for key, one in seen.claims.items():
            if key not in self._running and name_of(key) not in state.done and (pods := pods_of(one, node_size)):
                asked = _Asked(key, _queue(one), tuple(pods))
                self._waiting.setdefault(asked.queue, []).append(asked)
        self._held: dict[str, int] = {}
        for claim, leases in self._running.items() if self._waiting else ():
            if name_of(claim) not in self._preempted and claim in seen.claims:
                self._count(seen.claims[claim], sum(len(lease.staying) for lease in leases))

    @cached_property
    def _free(self) -> dict[str, list[str]]:
        """The free GPUs of each node. Looked up only once a queue may have more."""
        return {node.id: list(self._seen.room.free_in(node.id)) for node in self._seen.cells.at(NODE)}

    def state(self) -> GpuQueuesState:
        """The state after the call."""
        return replace(self._before, counter=self._counter, preempted=frozenset(self._preempted))

    def plan(self) -> Plan:
        """What is to be done."""
        reason = Idle.QUOTA if any(self._waiting.values()) else Idle.NOT_WANTED
        return Plan(drop=tuple(self._drop), place=tuple(self._place), idle=self._seen.everywhere(reason))

    def serve(self) -> None:
        """Start first jobs of queues, until none of them can start."""
        blocked = set[str]()
        while queues := [name for name, jobs in self._waiting.items() if jobs and name not in blocked]:
            queue = min(queues, key=lambda name: (self._precedence(self._waiting[name][0]), name))
            if self._start(self._waiting[queue][0]):
                del self._waiting[queue][0]
            else:
                blocked.add(queue)

    def adopt(self, what: Recorded) -> None:
        """Lease jobs what they have records of: all their pods, within what their queue may hold."""
        asked = {one.claim: one for jobs in self._waiting.values() for one in jobs}
        for claim, leases in recorded(what, asked).items():
            one = asked[claim]
            held = self._held.get(one.queue, 0) + one.gpus
            pods = match(dict(enumerate(one.pods)), leases, self._seen.cells)
            if len(pods) == len(one.pods) and held <= self._settings.max_gpus.get(one.queue, held):
                self._give(one, [pods[slot] for slot in range(len(pods))], ADOPTED)

    def _precedence(self, asked: _Asked) -> float:
        """Of the queue whose first job this is: the smaller, the sooner."""
        held = self._held.get(asked.queue, 0)
        match self._settings.order:
            case "capacity":
                assured = self._settings.assured.get(asked.queue, 0)
                return held / assured if assured else math.inf
            case "fair":
                return held / self._settings.weights.get(asked.queue, 1.0)

    def _start(self, asked: _Asked) -> bool:
        held, settings = self._held.get(asked.queue, 0) + asked.gpus, self._settings
        if held > settings.max_gpus.get(asked.queue, held):
            return False
        nodes = self._fit(asked.pods, self._free)
        if nodes is None and settings.order == "capacity" and settings.preempts:
            nodes = self._preempt(asked) if held <= settings.assured.get(asked.queue, 0) else None
        if nodes is None:
            return False
        pods = []
        for node, gpus in zip(nodes, asked.pods, strict=True):
            taken, self._free[node] = self._free[node][:gpus], self._free[node][gpus:]
            pods.append(taken)
        self._give(asked, pods, asked.queue)
        return True

    def _give(self, asked: _Asked, pods: Sequence[Sequence[str]], note: str) -> None:
        """Lease a job the GPUs of its pods."""
        self._counter += 1
        gang = str(self._counter)
        for slot, gpus in enumerate(pods):
            holdings = tuple(map(Holding, gpus))
            self._place.append(Place(f"{gang}.{slot}", asked.claim, holdings, member=slot, gang=gang, note=note))
        self._held[asked.queue] = self._held.get(asked.queue, 0) + asked.gpus

    def _fit(self, pods: tuple[int, ...], free: Mapping[str, list[str]]) -> list[str] | None:
        """A node for each pod, chosen for the large ones first; None: they do not all fit."""
        nodes = fit(reversed(pods), {node: len(gpus) for node, gpus in free.items()})
        return None if nodes is None else nodes[::-1]

    def _preempt(self, asked: _Asked) -> list[str] | None:
        """Make room for a job: revoke the newest jobs of queues that go on beyond what they are assured of, as few as
        are needed."""
        free = {node: list(gpus) for node, gpus in self._free.items()}
        held, victims = dict(self._held), list[ClaimKey]()
        for claim in self._newest_beyond(held):
            self._take(claim, free)
            victims.append(claim)
            if self._fit(asked.pods, free) is not None:
                break
        else:
            return None
        for spared in victims[:-1]:
            fewer = {node: list(gpus) for node, gpus in self._free.items()}
            others = [claim for claim in victims if claim != spared]
            for claim in others:
                self._take(claim, fewer)
            if self._fit(asked.pods, fewer) is not None:
                victims = others
        cause = Evicted(asked.claim[0], asked.claim[1], asked.queue, 0)
        for claim in victims:
            self._drop += [Drop(lease.key, cause) for lease in self._running[claim]]
            self._take(claim, self._free)
            self._preempted.add(name_of(claim))
            self._count(self._seen.claims[claim], -sum(len(lease.staying) for lease in self._running[claim]))
        return self._fit(asked.pods, self._free)

    def _newest_beyond(self, held: dict[str, int]) -> Iterator[ClaimKey]:
        """Jobs that can be preempted, one by one; each counts as gone once the next is asked for."""
        started = {
            claim: max(lease.placed_at for lease in leases)
            for claim, leases in self._running.items()
            if claim in self._seen.claims
            and name_of(claim) not in self._preempted
            and all(lease.started_at is not None for lease in leases)
        }
        for claim in sorted(started, key=lambda claim: (-started[claim], claim)):
            queue = _queue(self._seen.claims[claim])
            if held.get(queue, 0) > self._settings.assured.get(queue, 0):
                held[queue] -= sum(len(lease.staying) for lease in self._running[claim])
                yield claim

    def _take(self, claim: ClaimKey, free: dict[str, list[str]]) -> None:
        """Add the GPUs of a running job to those that are free."""
        for lease in self._running[claim]:
            for holding in lease.staying:
                node = self._seen.cells.node_of(holding.cell)
                if node in free and holding.cell not in self._seen.cells.broken:
                    free[node].append(holding.cell)

    def _count(self, claim: Claim, gpus: int) -> None:
        self._held[_queue(claim)] = self._held.get(_queue(claim), 0) + gpus


def _queue(claim: Claim) -> str:
    return claim.virtual_cluster or claim.tenant


KIND = AllocatorKind(
    "gpu_queues",
    lambda settings, kinds: GpuQueues(settings),
    {"gpu-queues.state/1": GpuQueuesState, "gpu-queues.settings/1": GpuQueuesSettings},
    parameters=GpuQueuesSettings,
)
"""YARN's schedulers."""
