"""HiveD as an allocator: virtual clusters with quotas of cells, gangs, and opportunistic work (HiveD, OSDI '20).

`mechanisms.buddy_cells` decides where a gang goes and whom it evicts; this room tells it what happened, and makes plans
of its answers. A claim is a gang; each of its pods is a lease without an end. What the papers leave open, and what
YARN's applications add:

- A claim belongs to the virtual cluster that its path names, or begins with; else to `default_cluster`; else it waits.
- A claim without a gang is one of as few pods as its GPUs fill: whole nodes, and one with the rest.
- Guaranteed claims are tried in the order of their priorities, then of their arrival; one that does not fit does not
  block others. Opportunistic ones then take turns by weighted max-min over tenants (`low_priority`).
- Leases that YARN does not place in time come back; their claim is tried again after `retry_s`, or when it is revised.
- A pod that gave its cells back does not return while its gang runs; one that lost its node returns with it.
- A gang whose eviction is no longer needed is spared, if all of its pods still have all their cells. What it gives back
  within `retry_s` after that, it vacated for the eviction: its pods get these cells again, each as a whole.
- A new configuration that downgrades gangs takes effect `notice_s` after their applications have been told.
- Where another allocator decides inside a virtual cluster (`inside`), it is called with virtual cells (see `hosting`).
"""

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from types import MappingProxyType
from typing import Annotated, Any

from yarn_plugin.decide.allocators import Allocator, AllocatorKind
from yarn_plugin.decide.allocators.auction import AuctionSettings
from yarn_plugin.decide.allocators.cells import Cells
from yarn_plugin.decide.allocators.cells_report import CellsReport, Reports
from yarn_plugin.decide.allocators.happenings import (
    Began,
    Broken,
    Changed,
    ClaimKey,
    Due,
    Freed,
    Reconfigured,
    Restarted,
    Started,
    Unplaced,
    Vacated,
    What,
    name_of,
)
from yarn_plugin.decide.allocators.hosting import Guest, GuestState, Lent, Parts, Pod, moved
from yarn_plugin.decide.allocators.job_rounds import JobRounds, JobRoundsSettings
from yarn_plugin.decide.allocators.placed_gangs import Placed, PlacedGangs
from yarn_plugin.decide.allocators.plan import (
    Announce,
    Drop,
    Holding,
    Idle,
    Keep,
    Place,
    Plan,
    Reclass,
    Wake,
    Withdraw,
)
from yarn_plugin.decide.allocators.pods import pods_by_size
from yarn_plugin.decide.allocators.seen import Seen
from yarn_plugin.decide.allocators.virtual_pool import VirtualPool, broken_nodes, virtual_pool
from yarn_plugin.decide.mechanisms.buddy_cells.allocator import Allocator as Mechanism
from yarn_plugin.decide.mechanisms.buddy_cells.allocator import Call
from yarn_plugin.decide.mechanisms.buddy_cells.answers import Bind, Preempt, Reason, Wait
from yarn_plugin.decide.mechanisms.buddy_cells.cells import OPPORTUNISTIC, PhysicalCell, VirtualCell
from yarn_plugin.decide.mechanisms.buddy_cells.cluster import Cluster
from yarn_plugin.decide.mechanisms.buddy_cells.errors import RejectedError
from yarn_plugin.decide.mechanisms.buddy_cells.gangs import Gang, Request, Stage
from yarn_plugin.decide.mechanisms.buddy_cells.invariants import check_quick
from yarn_plugin.decide.mechanisms.buddy_cells.low_priority import Waiting, start_in_turn
from yarn_plugin.decide.mechanisms.buddy_cells.promotion import promote_all
from yarn_plugin.decide.mechanisms.buddy_cells.reconfiguration import (
    Reconfigured as NewConfiguration,
)
from yarn_plugin.decide.mechanisms.buddy_cells.reconfiguration import reconfigure
from yarn_plugin.decide.mechanisms.buddy_cells.recovery import record_of
from yarn_plugin.decide.mechanisms.buddy_cells.specification import ClusterSpec
from yarn_plugin.decide.mechanisms.buddy_cells.state import CellsState
from yarn_plugin.decide.policies.lease import LEASE_POLICIES
from yarn_plugin.decide.pools.lease import refusal
from yarn_plugin.decide.pools.lease.state import LeaseState
from yarn_plugin.errors import BadInputError
from yarn_plugin.model.causes import Cause, CellsReconfigured, Evicted, LeaseDropped, QuotaReduced
from yarn_plugin.model.journaled import Mutable, Tagged
from yarn_plugin.model.share import Claim, LeaseClass
from yarn_plugin.validation import one_of


@dataclass(frozen=True, slots=True)
class BuddyCellsSettings:
    """`cells`: the cluster and its virtual clusters. `default_cluster`: that of tenants without one; empty: they wait.

    `weights`: of tenants, for opportunistic work; 1 where absent. `promotes`: opportunistic work becomes guaranteed
    where its virtual cluster has room for it. `retry_s`, `notice_s`: see the module. `inside`: who decides within a
    virtual cluster: an allocator, or a lease policy, whose leases last `inside_lease_s` seconds; HiveD itself where
    absent.
    """

    cells: ClusterSpec
    default_cluster: str = ""
    weights: Mapping[str, float] = field(default_factory=dict)
    promotes: bool = True
    retry_s: float = 60.0
    notice_s: float = 30.0
    inside: Mapping[str, str] = field(default_factory=dict)
    inside_lease_s: float = 600.0

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            BadInputError: the cells are contradictory, the quotas cannot be served, or a value is out of range.
        """
        known = Cluster(self.cells).virtual
        if self.default_cluster and self.default_cluster not in known:
            raise BadInputError("default_cluster", self.default_cluster, one_of(known, self.default_cluster))
        for tenant, weight in self.weights.items():
            if not 0 < weight < math.inf:
                raise BadInputError(f"weights.{tenant}", weight, "must be a number above 0")
        for name in ("retry_s", "inside_lease_s"):
            if not 0 < getattr(self, name) < math.inf:
                raise BadInputError(name, getattr(self, name), "must be a number of seconds above 0")
        if not 0 <= self.notice_s < math.inf:
            raise BadInputError("notice_s", self.notice_s, "must be a number of seconds, at least 0")
        for name in self.inside:
            if name not in known or ":" in name:
                choices = [each for each in known if ":" not in each]
                raise BadInputError(
                    "inside", name, f"no virtual cluster that can have a scheduler; {one_of(choices, name)}"
                )

    def scheduler_of(self, claim: Claim, cluster: str) -> str | None:
        """Who decides inside a virtual cluster on a claim: not on pinned and opportunistic ones; None: HiveD itself."""
        is_its = claim.priority > OPPORTUNISTIC and claim.pinned is None
        return self.inside.get(cluster) if is_its else None

    def check_inside(self, kinds: Mapping[str, AllocatorKind]) -> None:
        """Check that the schedulers inside virtual clusters exist.

        Raises:
            BadInputError: one does not.
        """
        choices = sorted({*LEASE_POLICIES, *(name for name, kind in kinds.items() if _has_defaults(kind))})
        for name, scheduler in self.inside.items():
            if scheduler not in choices:
                raise BadInputError(f"inside.{name}", scheduler, one_of(choices, scheduler))


@dataclass(frozen=True, slots=True)
class BuddyCellsState:
    """`cluster`: who holds which leaf (a `CellsState`). `placed`: by the gang's name. `turns`: the opportunistic claims
    that wait. `waits`: why each claim without leases waits. `resting`: until when claims are not tried, by gang.
    `announced`: the gangs that a new configuration will downgrade, as their applications know. `guests`: the allocators
    inside virtual clusters."""

    cluster: Annotated[object, Tagged()]
    counter: int = 0
    placed: Mapping[str, Placed] = field(default_factory=dict)
    turns: tuple[Waiting, ...] = ()
    waits: Mapping[str, str] = field(default_factory=dict)
    resting: Mapping[str, float] = field(default_factory=dict)
    announced: tuple[str, ...] = ()
    guests: Mapping[str, GuestState] = field(default_factory=dict)

    def parts(self) -> tuple[Mutable, ...]:
        """The mutable parts."""
        return (self.cells, *(part for guest in self.guests.values() for part in guest.parts()))

    @property
    def cells(self) -> CellsState:
        """Who holds which leaf."""
        assert isinstance(self.cluster, CellsState)
        return self.cluster


NO_CLUSTER = "no virtual cluster"
"""Why a claim waits whose tenant has no virtual cluster."""

REJECTED = "rejected"
"""Why a claim waits that asks for what does not exist."""

RECONFIGURE = "reconfigure"
"""The key of the time at which a new configuration takes effect. Other keys are names of gangs, which have a /."""

_IDLE: dict[str, Idle] = {
    Reason.NO_ROOM: Idle.QUOTA,
    Reason.NEVER_FITS: Idle.TOO_FEW,
    NO_CLUSTER: Idle.QUOTA,
    REJECTED: Idle.QUOTA,
}
"""Why cells stay idle, by why claims wait; for other reasons they are reserved."""


class BuddyCells:
    """See the module."""

    def __init__(self, settings: BuddyCellsSettings, kinds: Mapping[str, AllocatorKind]) -> None:
        settings.check_inside(kinds)
        self._settings = settings
        self._inside = {name: _allocator(scheduler, settings, kinds) for name, scheduler in settings.inside.items()}
        self._pools: dict[str, tuple[Cluster, frozenset[str], VirtualPool]] = {}
        self._gpus: tuple[Cells, Cluster, dict[PhysicalCell, str]] | None = None
        self._placed: PlacedGangs | None = None
        self._reports = Reports()

    def initial_state(self) -> BuddyCellsState:
        """An empty cluster."""
        return BuddyCellsState(CellsState(Cluster(self._settings.cells)))

    def report(self, state: BuddyCellsState) -> CellsReport:
        """Who holds which leaves, for other threads."""
        return self._reports.of(state.cells.cluster, lambda name: _number(state.placed.get(name)))

    def propose(self, state: BuddyCellsState, seen: Seen, what: What) -> tuple[BuddyCellsState, Plan]:
        """Learn what happened, then place whatever fits."""
        if isinstance(what, Began):
            state = self.initial_state()
        # An exception leaves none behind: they may have been changed in part.
        placed, self._placed = self._placed, None
        if placed is None or placed.frozen() is not state.placed:
            placed = PlacedGangs(state.placed)
        call = _Deciding(self._settings, state, seen, self._leaf_gpus(state, seen), placed)
        match what:
            case Began() | Restarted():
                call.learn_health(call.cluster.forest.nodes)
            case Reconfigured():
                call.take_configuration(is_due=False)
            case Due(key) if key == RECONFIGURE:
                call.take_configuration(is_due=True)
            case Changed(claims, cells):
                call.learn_health(_hosts(seen.cells, cells, call.cluster))
                call.revise(claims)
            case Started(keys) if not call.start(keys) and not self._inside:
                # Nothing has become free since the last call.
                self._placed = placed
                return state, Plan()
            case Vacated(freed):
                call.free(freed)
            case Unplaced(freed):
                call.free(freed, is_unplaced=True)
            case Broken(freed):
                call.free(freed, is_broken=True)
            case Due(gang):
                call.resting.pop(gang, None)
        if call.cluster is not state.cells.cluster:
            call.gpus = self._leaf_gpus(call.state(), seen)
            call.learn_health(call.cluster.forest.nodes)
        call.open(self._inside, self._pool)
        call.tell_guests(what)
        call.serve()
        check_quick(call.cluster)
        self._placed = placed
        return call.state(), call.plan()

    def _pool(self, cluster: Cluster, name: str) -> VirtualPool:
        """A virtual cluster as a pool. Kept while neither the cluster nor what is broken changes."""
        broken, known = broken_nodes(cluster, name), self._pools.get(name)
        if known is None or known[0] is not cluster or known[1] != broken:
            known = self._pools[name] = cluster, broken, virtual_pool(cluster, name, broken)
        return known[2]

    def _leaf_gpus(self, state: BuddyCellsState, seen: Seen) -> dict[PhysicalCell, str]:
        """The GPU of each leaf whose node is there with all its GPUs. Kept while neither changes."""
        cluster = state.cells.cluster
        if self._gpus is None or self._gpus[0] is not seen.cells or self._gpus[1] is not cluster:
            self._gpus = (seen.cells, cluster, _leaf_gpus(seen.cells, cluster))
        return self._gpus[2]


class _Deciding:
    """One call: what it changes, and the plan so far. The cluster is changed in place, as `Mutable` states are."""

    def __init__(
        self,
        settings: BuddyCellsSettings,
        state: BuddyCellsState,
        seen: Seen,
        gpus: dict[PhysicalCell, str],
        placed: PlacedGangs,
    ) -> None:
        self._settings, self._seen, self.gpus = settings, seen, gpus
        self._cells = state.cells
        self._counter, self._turns, self._announced = state.counter, state.turns, state.announced
        self._placed, self._waits, self.resting = placed, dict(state.waits), dict(state.resting)
        self._withdraw: list[Withdraw] = []
        self._drop: list[Drop] = []
        self._keep: list[Keep] = []
        self._place: list[Place] = []
        self._reclass: list[Reclass] = []
        self._announce: list[Announce] = []
        self._wake: list[Wake] = []
        self._refused: dict[tuple[Request, tuple[str, ...]], str] = {}
        self._known_guests = dict(state.guests)
        self._lost: dict[str, tuple[Lent, ...]] = {}
        self._guests: dict[str, Guest] = {}
        self._pools: dict[str, VirtualPool] = {}
        self._hosted = Parts()
        self._released: set[str] = set()

    @property
    def cluster(self) -> Cluster:
        """Who holds which leaf."""
        return self._cells.cluster

    @property
    def _mechanism(self) -> Mechanism:
        return self._cells.allocator

    def state(self) -> BuddyCellsState:
        """The state after the call."""
        return BuddyCellsState(
            self._cells,
            self._counter,
            self._placed.frozen(),
            self._turns,
            self._waits,
            self.resting,
            self._announced,
            {**self._known_guests, **{name: guest.state() for name, guest in self._guests.items()}},
        )

    def plan(self) -> Plan:
        """What is to be done."""
        hosted = self._hosted
        return Plan(
            withdraw=(*hosted.withdraw, *self._withdraw),
            drop=(*hosted.drop, *self._drop),
            reclass=(*hosted.reclass, *self._reclass),
            announce=(*hosted.announce, *self._announce),
            keep=(*hosted.keep, *self._keep),
            place=(*hosted.place, *self._place),
            ask=tuple(hosted.ask),
            solve=tuple(hosted.solve),
            wake=(*hosted.wake, *self._wake),
            hold=tuple(hosted.hold),
            accept=tuple(hosted.accept),
            record=tuple(hosted.record),
            idle=self._idle(),
        )

    # What happened.

    def learn_health(self, hosts: Iterable[str]) -> None:
        """A node is bad if it, or one of its GPUs, is broken or not there."""
        cluster, broken = self.cluster, self._seen.cells.broken
        for host in hosts:
            leaves = [leaf for node in cluster.forest.nodes.get(host, ()) for leaf in node.leaves]
            found = [self.gpus.get(leaf) for leaf in leaves]
            cluster.set_bad(host, any(gpu is None or gpu in broken for gpu in found))

    def revise(self, claims: Iterable[ClaimKey]) -> None:
        """Claims that are new or revised are tried at once; those that are gone no longer wait."""
        for claim in claims:
            name = name_of(claim)
            if self.resting.pop(name, None) is not None:
                self._wake.append(Wake(name, None))
            if claim not in self._seen.claims:
                self._waits.pop(name, None)

    def take_configuration(self, is_due: bool) -> None:
        """Use the configured cells from now on; or, if they downgrade gangs, once their applications had notice.

        The notice begins anew with each change of the configuration.
        """
        self._change_guests()
        is_new = self.cluster.spec != self._settings.cells
        after = self._reconfigured() if is_new else None
        losers = set(after.downgraded if after is not None else ())
        waits = bool(losers) and not is_due and self._settings.notice_s > 0
        if waits:
            self._tell_before(losers, "opportunistic", self._seen.at + self._settings.notice_s)
        self._tell_before(set(self._announced) - losers, "guaranteed", self._seen.at)
        self._wake.append(Wake(RECONFIGURE, self._seen.at + self._settings.notice_s if waits else None))
        self._announced = tuple(sorted(losers)) if waits else ()
        if after is not None and not waits:
            self._reconfigure(after, losers)

    def _tell_before(self, gangs: Iterable[str], kind: LeaseClass, at: float) -> None:
        for name in sorted(gangs):
            gang, placed = self.cluster.gangs.get(name), self._placed.get(name)
            if gang is None or placed is None or placed.is_evicted or placed.kind == "opportunistic":
                continue
            cause = QuotaReduced(placed.claim[1], gang.request.cluster) if kind == "opportunistic" else None
            self._announce += [Announce(key, kind, at, cause) for key in placed.keys if key]

    def _reconfigured(self) -> NewConfiguration:
        """What the gangs that run would hold in the new configuration, guaranteed and older ones first."""
        running = [gang for gang in self.cluster.gangs.values() if gang.stage is not Stage.PREEMPTING]
        order = sorted(running, key=lambda gang: (-gang.priority, _number(self._placed.get(gang.name))))
        return reconfigure(self._settings.cells, [record_of(gang) for gang in order], self.cluster.bad_hosts())

    def _reconfigure(self, after: NewConfiguration, losers: Collection[str]) -> None:
        """Use a new configuration.

        Leases of leaves that are no longer part of it are dropped, and evictions that have begun go on.
        """
        for name in [name for name, gang in self.cluster.gangs.items() if gang.stage is Stage.PREEMPTING]:
            if name in self._placed:
                self._cancel(name)
            else:
                self._mechanism.cancel(self.cluster.gangs[name])
        slots = {gang.name: gang.slots for gang in self.cluster.gangs.values()}
        self._cells = CellsState(after.allocator.cluster)
        own = [name for name in losers if name in self._placed]
        self._tell_classes({name: QuotaReduced(self._placed[name].claim[1], self._cluster_of(name)) for name in own})
        for name, pods in slots.items():
            gang, placed = self.cluster.gangs.get(name), self._placed.get(name)
            if gang is not None:
                gang.slots = pods
            elif placed is not None:
                self._evict(name, CellsReconfigured())
            if gang is not None and placed is not None and placed.is_evicted:
                gang.stage = Stage.PREEMPTED
        self._move_guests()

    def start(self, keys: Iterable[str]) -> bool:
        """Gangs that waited for their victims run now; whether there are any."""
        gang_of, have_waited = self._placed.by_key, False
        for name in dict.fromkeys(gang_of[key] for key in keys if key in gang_of):
            gang = self.cluster.gangs.get(name)
            if gang is not None and gang.stage is Stage.PREEMPTING:
                self._release_victims(gang)
                self._run(gang.request, self._placed[name].keys)
                have_waited = True
        return have_waited

    def free(self, freed: Sequence[Freed], is_unplaced: bool = False, is_broken: bool = False) -> None:
        """Leases are over. A gang without any gives its leaves back."""
        for each in freed:
            name = self._placed.by_key.get(each.key)
            if name is None:
                self._free_orphan(each)
                continue
            if not each.is_over:
                if self._was_spared(self._placed[name]):
                    self._drop.append(Drop(each.key, LeaseDropped("some of its cells were vacated for an eviction")))
                continue
            placed = self._placed[name]
            slot = placed.keys.index(each.key)
            is_late = self._was_spared(placed)
            if not (is_broken or is_unplaced or is_late or placed.is_evicted):
                placed = replace(placed, given_back=placed.given_back | {slot})
            self._placed[name] = placed
            self._end_pod(name, slot)
            ended_itself = name not in self._placed and not (placed.is_evicted or is_broken or is_late)
            if placed.claim in self._seen.claims and (is_unplaced or ended_itself):
                self._rest(name)

    def _was_spared(self, placed: Placed) -> bool:
        """Whether its eviction was cancelled so lately that it may not have heard of it."""
        if placed.is_evicted or placed.spared_at is None:
            return False
        return self._seen.at <= placed.spared_at + self._settings.retry_s

    def _end_pod(self, name: str, slot: int) -> None:
        """A pod has no lease any more; with the last one, its gang is over."""
        placed = self._placed[name]
        self._placed[name] = replace(placed, keys=(*placed.keys[:slot], None, *placed.keys[slot + 1 :]))
        gang = self.cluster.gangs.get(name)
        if gang is not None and gang.stage is Stage.PREEMPTING:
            if not any(self._placed[name].keys):
                self._mechanism.cancel(gang)
        elif gang is not None and (pod := gang.slots[slot]) is not None:
            self._mechanism.end(gang, pod)
        if not any(self._placed[name].keys):
            if name in self.cluster.gangs:
                self._mechanism.release(self.cluster.gangs[name])
            del self._placed[name]

    def _rest(self, name: str) -> None:
        self.resting[name] = self._seen.at + self._settings.retry_s
        self._wake.append(Wake(name, self.resting[name]))

    # Allocators inside virtual clusters. A GPU of theirs is a gang of one leaf (`lent_gang`).

    def open(self, allocators: Mapping[str, Allocator], pool: Callable[[Cluster, str], VirtualPool]) -> None:
        """Let the allocators inside see what is so now."""
        self._lent_to = {
            lent.leased.claim: name for name, known in self._known_guests.items() for lent in known.lent.values()
        }
        # A virtual cluster of a configuration that takes effect later is not there yet.
        allocators = {name: each for name, each in allocators.items() if name in self.cluster.virtual}
        claims: dict[str, dict[ClaimKey, Claim]] = {name: {} for name in allocators}
        for key, claim in self._seen.claims.items() if allocators else ():
            name = self._guest_of(key, claim)
            if name in claims:
                claims[name][key] = claim
        for name, allocator in allocators.items():
            self._pools[name] = own = pool(self.cluster, name)
            known = self._known_guests.get(name)
            if known is None:
                known = GuestState(self._settings.inside[name], broken=tuple(sorted(broken_nodes(self.cluster, name))))
            self._guests[name] = Guest(name, allocator, known, own.cells, self._seen, claims[name], self._hosted, self)

    def tell_guests(self, what: What) -> None:
        """Tell the allocators inside what happened, and carry out their plans."""
        for name, guest in self._guests.items():
            if name not in self._known_guests:
                guest.begin()
            else:
                if lost := self._lost.get(name):
                    gone = (lent.leased for lent in lost)
                    guest.tell(Broken(tuple([Freed(lease.key, lease.claim, lease.cells) for lease in gone])))
                guest.hear(what)
            claims = what.claims if isinstance(what, Changed) else ()
            guest.hear_of_changes(claims, broken_nodes(self.cluster, name), are_cells_new=name in self._lost)
            guest.bind_waiting()

    def _guest_of(self, key: ClaimKey, claim: Claim) -> str | None:
        """The virtual cluster whose own allocator decides on a claim: the one that has leases of it, else its own."""
        if key in self._lent_to or not self._settings.inside:
            return self._lent_to.get(key)
        cluster = self._claimed_cluster(claim)
        is_placed = key in self._placed.claims
        return None if is_placed or self._settings.scheduler_of(claim, cluster) is None else cluster

    def _is_inside(self, request: Request) -> bool:
        return request.cluster in self._settings.inside and not request.pinned

    def bind(self, name: str, pods: Sequence[Pod]) -> list[dict[str, str]] | None:
        """See `hosting.Binder`."""
        leaves, excluded = self._pools[name].leaves, frozenset[str]()
        while True:
            found = self._find_leaves([[leaves[gpu] for gpu in pod.gpus] for pod in pods], excluded)
            if found is None:
                return None
            unusable = [leaf for leaf in found.values() if not self._can_lend(leaf)]
            hosts = {leaf.node.address for leaf in unusable if leaf.node is not None} - excluded
            if not unusable:
                break
            if not hosts:
                return None
            excluded |= hosts
        bound = []
        for pod in pods:
            claim, pairs = pod.claim, {gpu: (found[leaves[gpu]], leaves[gpu]) for gpu in pod.gpus}
            bound.append({gpu: self.gpus[leaf] for gpu, (leaf, _) in pairs.items()})
            for leaf, virtual in pairs.values():
                gang = lent_gang(pod.name, self.gpus[leaf])
                request = Request(gang, name, max(0, claim.priority), ((1, 1),))
                for victim in self._mechanism.hold(request, (leaf, virtual)):
                    self._evict(victim, Evicted(claim.app, claim.job, name, claim.priority))
        return bound

    def _find_leaves(
        self, pods: Sequence[Sequence[VirtualCell]], excluded: frozenset[str]
    ) -> dict[VirtualCell, PhysicalCell] | None:
        by_chain: dict[str, list[list[VirtualCell]]] = {}
        for pod in pods:
            mine: dict[str, list[VirtualCell]] = {}
            for leaf in sorted(pod, key=lambda leaf: leaf.number):
                mine.setdefault(leaf.chain.name, []).append(leaf)
            for chain, part in mine.items():
                by_chain.setdefault(chain, []).append(part)
        found: dict[VirtualCell, PhysicalCell] = {}
        for parts in by_chain.values():
            physical = self._mechanism.find_leaves(parts, excluded)
            if physical is None:
                return None
            for part, served in zip(parts, physical, strict=True):
                found |= zip(part, served, strict=True)
        return found

    def _can_lend(self, leaf: PhysicalCell) -> bool:
        gpu = self.gpus.get(leaf)
        if gpu is None or gpu in self._seen.cells.broken:
            return False
        return self._seen.room.is_free(gpu) or leaf.holder is not None or gpu in self._released

    def _lent_gangs(self, name: str, gpus: Iterable[str]) -> Iterator[Gang]:
        for gpu in gpus:
            if (gang := self.cluster.gangs.get(lent_gang(name, gpu))) is not None:
                yield gang

    def unbind(self, name: str, gpus: Iterable[str]) -> None:
        """See `hosting.Binder`."""
        gpus = list(gpus)
        self._released.update(gpus)
        for gang in self._lent_gangs(name, gpus):
            if gang.stage is Stage.PREEMPTING:
                self._mechanism.cancel(gang)
            else:
                self._mechanism.release(gang)

    def start_lent(self, name: str, gpus: Iterable[str]) -> None:
        """See `hosting.Binder`."""
        for gang in self._lent_gangs(name, gpus):
            if gang.stage is Stage.PREEMPTING:
                self._release_victims(gang)
                self._mechanism.start(Call(gang.name, 1, gang.request), Bind(gang.placement, 0))

    def _release_victims(self, gang: Gang) -> None:
        """The other pods of its victims may still be leaving."""
        holders = {leaf.holder.name for leaf in gang.placement.leaves() if leaf.holder is not None}
        for victim in sorted(holders):
            self._mechanism.release(self.cluster.gangs[victim])

    def spare(self, name: str, gpus: Iterable[str]) -> None:
        """See `hosting.Binder`."""
        for gang in self._lent_gangs(name, gpus):
            self.cluster.undo.set(gang, "stage", Stage.ALLOCATED)

    def _change_guests(self) -> None:
        """Other schedulers are configured: leases of former ones are revoked, and gangs in cells on which this room no
        longer decides go on as opportunistic work."""
        for name, known in list(self._known_guests.items()):
            if self._settings.inside.get(name) != known.scheduler:
                del self._known_guests[name]
                for lent in known.lent.values():
                    self._revoke(f"{name}:{lent.leased.key}", lent)
        for gang in list(self.cluster.gangs.values()):
            is_new = gang.request.cluster not in self._known_guests and self._is_inside(gang.request)
            if gang.name in self._placed and is_new and gang.stage is not Stage.PREEMPTING:
                self._mechanism.downgrade(gang)

    def _move_guests(self) -> None:
        """In a new configuration: the virtual cells of what is lent may be others. What lost its own is revoked."""
        for name, known in list(self._known_guests.items()):
            lost = tuple(known.lent.values())
            if name in self.cluster.virtual:
                names = virtual_pool(self.cluster, name).names()
                self._known_guests[name], lost = moved(known, self._renamed(names), name)
                self._lost[name] = lost
            else:
                del self._known_guests[name]
            for lent in lost:
                self._revoke(f"{name}:{lent.leased.key}", lent)

    def _renamed(self, names: Mapping[VirtualCell, str]) -> Callable[[str, str], str | None]:
        def name(lease: str, gpu: str) -> str | None:
            gang = self.cluster.gangs.get(lent_gang(lease, gpu))
            virtual = None if gang is None else gang.placement.virtual
            return None if virtual is None else names.get(virtual[0][0])

        return name

    def _revoke(self, name: str, lent: Lent) -> None:
        """Revoke what a guest has lost; what has not started is over at once."""
        lease = self._seen.leases.get(name)
        for gang in self._lent_gangs(name, lent.gpus.values()):
            if lease is None or lease.started_at is None:
                self._mechanism.release(gang)
            else:
                self._mechanism.downgrade(gang)
        if lease is not None and lease.started_at is None:
            self._hosted.withdraw.append(Withdraw(name))
        elif lease is not None:
            self._hosted.drop.append(Drop(name, CellsReconfigured()))

    def _free_orphan(self, freed: Freed) -> None:
        """A lease is over that a guest lost before."""
        name, _, key = freed.key.partition(":")
        known = self._known_guests.get(name)
        if known is None or key not in known.lent:
            for gang in list(self._lent_gangs(freed.key, freed.cells)):
                self._mechanism.release(gang)

    # What to do.

    def serve(self) -> None:
        """Place what fits. A gang that lost the cells that it waited for is tried again."""
        is_done = False
        while not is_done:
            before = len(self._withdraw)
            self._serve_once()
            is_done = len(self._withdraw) == before
        self._tell_classes()

    def _serve_once(self) -> None:
        """Guaranteed gangs, pods that lost their node, promotions, opportunistic gangs."""
        waiting = {
            name_of(key): claim
            for key, claim in self._seen.claims.items()
            if key not in self._placed.claims and name_of(key) not in self.resting and not self._guest_of(key, claim)
        }
        self._waits = {name: reason for name, reason in self._waits.items() if name in waiting}
        self._refused = {}
        requests = {name: request for name, claim in waiting.items() if (request := self._request(name, claim))}
        guaranteed = [name for name, request in requests.items() if request.guaranteed]
        for name in sorted(guaranteed, key=lambda name: -requests[name].priority):
            self._try(requests[name], waiting[name])
        self._refill()
        self._spare()
        if self._settings.promotes:
            low = self._running_low()
            promote_all(
                self._mechanism, [name for name in low if not self._is_inside(self.cluster.gangs[name].request)]
            )
        self._take_turns({name: request for name, request in requests.items() if not request.guaranteed}, waiting)

    def _request(self, name: str, claim: Claim) -> Request | None:
        found = request_of(claim, self.cluster, self._settings.default_cluster)
        if found == NO_CLUSTER:
            self._waits[name] = NO_CLUSTER
        return found if isinstance(found, Request) else None

    def _claimed_cluster(self, claim: Claim) -> str:
        return _cluster_of(claim, self.cluster.virtual) or self._settings.default_cluster

    def _try(self, request: Request, claim: Claim) -> bool:
        """Place a gang if it fits, evicting others if it must.

        Once one has no room, others that ask for the same have none either: those that were placed since took room.
        """
        shape = replace(request, gang=""), claim.suggested
        reason = self._refused.get(shape) or self._place_gang(request, claim)
        if reason is None:
            self._waits.pop(request.gang, None)
            return True
        self._waits[request.gang] = self._refused[shape] = reason
        return False

    def _place_gang(self, request: Request, claim: Claim) -> str | None:
        """Place a gang; why it waits, if it does not fit."""
        excluded = frozenset(self._hosts_but(claim.suggested)) if claim.suggested else frozenset()
        while True:
            before = self.cluster.savepoint()
            try:
                answer = self._mechanism.decide(Call(f"{request.gang}.0", request.sizes[0], request, excluded))
            except RejectedError:
                return REJECTED
            if isinstance(answer, Wait):
                return answer.reason.value
            victims = answer.victims if isinstance(answer, Preempt) else ()
            # A node may have no room for tasks, or its GPUs may still be someone's whom this room does not know.
            unusable = [leaf for leaf in answer.placement.leaves() if not self._is_usable(leaf, victims)]
            if not unusable:
                break
            self.cluster.rollback(before)
            hosts = {leaf.node.address for leaf in unusable if leaf.node is not None} - excluded
            if not hosts:
                return Reason.UNUSABLE_CELLS.value
            excluded |= hosts
            request = replace(request, ignores_exclusions=False)
        self._carry_out(request, answer, victims, claim)
        return None

    def _carry_out(self, request: Request, answer: Bind | Preempt, victims: Sequence[str], claim: Claim) -> None:
        cancelled = answer.cancelled if isinstance(answer, Bind) else self._cancelled()
        for name in cancelled:
            self._forget_waiting(name)
        for name in victims:
            self._evict(name, Evicted(claim.app, claim.job, request.cluster, request.priority))
        self._counter += 1
        keys = tuple(f"{self._counter}.{slot}" for slot in range(len(request.sizes)))
        kind: LeaseClass = "guaranteed" if answer.placement.virtual is not None else "opportunistic"
        placed = Placed((claim.app, claim.job), keys, kind)
        self._placed[request.gang] = placed
        if isinstance(answer, Bind):
            self._run(request, keys, answer)
        for slot, leaves in enumerate(answer.placement.physical):
            self._lease(placed, slot, leaves, gang=str(self._counter))

    def _run(self, request: Request, keys: Sequence[str | None], first: Bind | None = None) -> None:
        """Let all pods of a gang run that has a placement, or gets it with this answer."""
        for slot, size in enumerate(request.sizes):
            pod = keys[slot]
            if pod is None:
                continue
            call = Call(pod, size, request)
            answer = first if first is not None and slot == 0 else self._mechanism.decide(call)
            assert isinstance(answer, Bind)
            self._mechanism.start(call, Bind(answer.placement, slot, answer.cancelled if slot == 0 else ()))

    def _lease(self, placed: Placed, slot: int, leaves: Iterable[PhysicalCell], gang: str | None = None) -> None:
        key = placed.keys[slot]
        assert key is not None
        holdings = tuple(Holding(self.gpus[leaf]) for leaf in leaves)
        self._place.append(Place(key, placed.claim, holdings, member=slot, kind=placed.kind, gang=gang))

    def _is_usable(self, leaf: PhysicalCell, victims: Sequence[str]) -> bool:
        gpu = self.gpus.get(leaf)
        if gpu is None or gpu in self._seen.cells.broken:
            return False
        return self._seen.room.is_free(gpu) or (leaf.holder is not None and leaf.holder.name in victims)

    def _cancelled(self) -> list[str]:
        """The gangs that waited for leaves which another one has taken over."""
        return [
            name
            for name, placed in self._placed.items()
            if name not in self.cluster.gangs and not placed.is_evicted and any(placed.keys)
        ]

    def _cancel(self, name: str) -> None:
        """Stop waiting for leaves: the gang waits for others again."""
        self._mechanism.cancel(self.cluster.gangs[name])
        self._forget_waiting(name)

    def _forget_waiting(self, name: str) -> None:
        keys = {key for key in self._placed.pop(name).keys if key}
        self._withdraw += [Withdraw(key) for key in sorted(keys)]
        self._place = [place for place in self._place if place.key not in keys]

    def _evict(self, name: str, cause: Evicted | CellsReconfigured) -> None:
        """Revoke a gang's leases; those that have not started are over at once."""
        placed = self._placed.get(name)
        # What a guest has lost in a new configuration is revoked already.
        if placed is None or placed.is_evicted:
            return
        self._placed[name] = replace(placed, is_evicted=True)
        for slot, key in enumerate(placed.keys):
            if key is None:
                continue
            lease = self._seen.leases.get(key)
            if lease is not None and lease.started_at is not None:
                self._drop.append(Drop(key, cause))
                continue
            if lease is not None:
                self._withdraw.append(Withdraw(key))
            self._place = [place for place in self._place if place.key != key]
            self._end_pod(name, slot)

    def _refill(self) -> None:
        """Lease cells again to pods that lost their node, where it is back."""
        for name in self._placed.in_order(self._placed.incomplete):
            placed = self._placed[name]
            lost = [slot for slot, key in enumerate(placed.keys) if key is None and slot not in placed.given_back]
            gang = self.cluster.gangs.get(name)
            if not lost or placed.is_evicted or gang is None or gang.stage is not Stage.ALLOCATED:
                continue
            if placed.claim not in self._seen.claims or name in self.resting:
                continue
            for slot in lost:
                leaves = gang.placement.physical[slot]
                if leaves and all(not leaf.node.bad and self._is_usable(leaf, ()) for leaf in leaves if leaf.node):
                    self._counter += 1
                    key = f"{self._counter}.{slot}"
                    keys = (*placed.keys[:slot], key, *placed.keys[slot + 1 :])
                    self._placed[name] = placed = replace(placed, keys=keys)
                    self._mechanism.fill(gang, slot, key)
                    self._lease(placed, slot, leaves)

    def _spare(self) -> None:
        """Keep the leases of gangs whose cells nobody waits for any more."""
        for name in self._placed.in_order(self._placed.evicted):
            placed, gang = self._placed[name], self.cluster.gangs.get(name)
            if gang is None or not self._has_all_cells(placed, gang):
                continue
            if any(leaf.reserver is not None for leaf in gang.placement.leaves()):
                continue
            self.cluster.undo.set(gang, "stage", Stage.ALLOCATED)
            self._placed[name] = replace(placed, is_evicted=False, spared_at=self._seen.at)
            keys = {key for key in placed.keys if key}
            self._drop = [drop for drop in self._drop if drop.key not in keys]
            self._keep += [
                Keep(key, None) for key in sorted(keys) if key in self._seen.leases and self._seen.leases[key].leaving
            ]

    def _has_all_cells(self, placed: Placed, gang: Gang) -> bool:
        """Whether no pod has vacated any of its cells."""
        leases = (self._seen.leases.get(key) if key else None for key in placed.keys)
        return all(
            lease is not None and len(lease.holdings) == len(leaves)
            for lease, leaves in zip(leases, gang.placement.physical, strict=True)
        )

    def _take_turns(self, requests: Mapping[str, Request], waiting: Mapping[str, Claim]) -> None:
        overtaken = {turn.gang: turn.overtaken for turn in self._turns}
        queue = [
            Waiting(name, waiting[name].tenant, sum(request.sizes), overtaken.get(name, 0))
            for name, request in requests.items()
        ]
        held: dict[str, int] = {}
        for name in self._running_low() if queue else ():
            claim = self._seen.claims.get(self._placed[name].claim)
            if claim is not None:
                held[claim.tenant] = held.get(claim.tenant, 0) + sum(self.cluster.gangs[name].request.sizes)
        turns = start_in_turn(
            queue, held, self._settings.weights, lambda name: self._try(requests[name], waiting[name])
        )
        self._turns = turns.waiting

    def _running_low(self) -> list[str]:
        """The opportunistic gangs that nobody evicts, oldest first."""
        cluster = self.cluster
        return [name for name in self._placed.in_order(cluster.low) if cluster.gangs[name].stage is Stage.ALLOCATED]

    def _cluster_of(self, name: str) -> str:
        return self.cluster.gangs[name].request.cluster

    def _tell_classes(self, causes: Mapping[str, Cause] = MappingProxyType({})) -> None:
        """Tell of gangs that were downgraded or promoted. `causes`: of those for which there is one, by gang."""
        low = self.cluster.low
        for name in self._placed.in_order(low ^ self._placed.low):
            placed, gang = self._placed[name], self.cluster.gangs.get(name)
            if gang is None or gang.stage is Stage.PREEMPTING:
                continue
            kind: LeaseClass = "opportunistic" if name in low else "guaranteed"
            self._placed[name] = replace(placed, kind=kind)
            placing = {place.key for place in self._place}
            cause = causes.get(name)
            self._reclass += [Reclass(key, kind, cause) for key in placed.keys if key and key not in placing]
            self._place = [replace(place, kind=kind) if place.key in placed.keys else place for place in self._place]

    def _hosts_but(self, suggested: Sequence[str]) -> list[str]:
        """The nodes that are not suggested, by host name."""
        cells = self._seen.cells
        wanted = {cells[node].host or node if node in cells else node for node in suggested}
        return [host for host in self.cluster.forest.nodes if host not in wanted]

    def _idle(self) -> dict[str, Idle]:
        """Why cells stay free, for all of them alike."""
        reasons = [_IDLE.get(reason, Idle.RESERVED) for reason in self._waits.values()]
        reasons += [guest.idle for guest in self._guests.values() if guest.idle not in (None, Idle.NOT_WANTED)]
        reason = Idle.QUOTA if Idle.QUOTA in reasons else reasons[0] if reasons else Idle.NOT_WANTED
        return self._seen.everywhere(reason)


def lent_gang(lease: str, gpu: str) -> str:
    """The name of the gang that a GPU is which the scheduler inside a virtual cluster leases. `lease`: its key."""
    return f"{lease}@{gpu}"


def _number(placed: Placed | None) -> int:
    """The number of a gang's placement: older ones have smaller numbers, those of guests (None) the smallest."""
    return min(int(key.partition(".")[0]) for key in placed.keys if key) if placed is not None else 0


def request_of(claim: Claim, cluster: Cluster, default_cluster: str) -> Request | str | None:
    """What a claim asks for; `NO_CLUSTER`; or None if it uses no GPUs."""
    pods = pods_by_size(claim, _node_size(cluster, claim.leaf_type))
    if not pods:
        return None
    virtual = _cluster_of(claim, cluster.virtual) or default_cluster
    if not virtual:
        return NO_CLUSTER
    return Request(
        name_of((claim.app, claim.job)),
        virtual,
        max(OPPORTUNISTIC, claim.priority),
        pods,
        claim.leaf_type,
        claim.pinned or "",
        claim.lazy_preemption,
        claim.ignore_suggested,
    )


def _node_size(cluster: Cluster, leaf_type: str) -> int:
    """The GPUs of the largest node."""
    chains = [state.chain for state in cluster.chains.values()]
    sizes = [chain.sizes[chain.node_level - 1] for chain in chains if leaf_type in ("", chain.leaf_type)]
    return max(sizes, default=1)


def _cluster_of(claim: Claim, known: Mapping[str, Any]) -> str:
    """The virtual cluster that a claim's path names, or the longest beginning of it that is one; else empty."""
    path = claim.virtual_cluster or claim.tenant
    while path and path not in known:
        path = path.rpartition("/")[0]
    return path


def _has_defaults(kind: AllocatorKind) -> bool:
    """Whether an allocator needs no parameters."""
    parameters = fields(kind.parameters) if kind.parameters is not None else ()
    return all(one.default is not MISSING or one.default_factory is not MISSING for one in parameters)


def _allocator(scheduler: str, settings: BuddyCellsSettings, kinds: Mapping[str, AllocatorKind]) -> Allocator:
    """The allocator inside a virtual cluster, by its own name or by that of its lease policy."""
    if scheduler in kinds:
        return kinds[scheduler].make(_inside_settings(kinds[scheduler], settings), kinds)
    return JobRounds(JobRoundsSettings(scheduler, settings.inside_lease_s))


def _inside_settings(kind: AllocatorKind, settings: BuddyCellsSettings) -> Any:
    """The parameters of an allocator inside a virtual cluster: its defaults, and how long the auction leases."""
    if kind.parameters is AuctionSettings:
        return AuctionSettings(lease_s=settings.inside_lease_s)
    return None if kind.parameters is None else kind.parameters()


def _overtime_s(settings: BuddyCellsSettings, kinds: Mapping[str, AllocatorKind]) -> float:
    """What the allocators inside need."""
    inside = [kinds[scheduler] for scheduler in settings.inside.values() if scheduler in kinds]
    return max((kind.overtime_s(_inside_settings(kind, settings), kinds) for kind in inside), default=0.0)


def _check_answer(state: BuddyCellsState, app: str, message: object) -> None:
    """Check an answer to an auction inside a virtual cluster."""
    for guest in state.guests.values():
        if isinstance(guest.allocated, LeaseState) and any(key[0] == app for key in guest.claims):
            refusal.check(guest.allocated, app, message)


def _leaf_gpus(cells: Cells, cluster: Cluster) -> dict[PhysicalCell, str]:
    """The GPU of each leaf: a node's leaves are its GPUs, in the order of their numbers."""
    of_host: dict[str, list[str]] = {}
    for gpu, place in cells.gpus.items():
        of_host.setdefault(place.host, []).append(gpu)
    found: dict[PhysicalCell, str] = {}
    for host, nodes in cluster.forest.nodes.items():
        leaves = [leaf for node in nodes for leaf in node.leaves]
        gpus = of_host.get(host, [])
        if len(gpus) >= len(leaves):
            found |= dict(zip(leaves, gpus, strict=False))
    return found


def _hosts(cells: Cells, changed: Iterable[str], cluster: Cluster) -> list[str]:
    """The nodes, by host name, that these cells are, lie in or contain; all, if one of them is gone."""
    hosts: dict[str, None] = {}
    for cell in changed:
        node = cells.node_of(cell) if cell in cells else None
        if node is None:
            return list(cluster.forest.nodes)
        hosts[cells[node].host or node] = None
    return list(hosts)


KIND = AllocatorKind(
    "cells",
    BuddyCells,
    {
        "cells.state/1": BuddyCellsState,
        "cells.cluster/1": CellsState,
        "cells.settings/1": BuddyCellsSettings,
        "cells.report/1": CellsReport,
    },
    parameters=BuddyCellsSettings,
    messages=frozenset({"lease.estimate", "lease.bid"}),
    check=_check_answer,
    overtime_s=_overtime_s,
)
"""HiveD."""
