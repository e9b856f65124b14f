"""One call of virtual clusters: what happened to gangs, and what to do."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from yarn_plugin.decide.allocators.buddy_cells.adoption import adopt
from yarn_plugin.decide.allocators.buddy_cells.gangs import Gangs
from yarn_plugin.decide.allocators.buddy_cells.guests import Guests
from yarn_plugin.decide.allocators.buddy_cells.requests import NO_CLUSTER, request_of
from yarn_plugin.decide.allocators.buddy_cells.settings import BuddyCellsSettings
from yarn_plugin.decide.allocators.buddy_cells.state import BuddyCellsState, number_of
from yarn_plugin.decide.allocators.happenings import ClaimKey, Freed, Recorded, name_of
from yarn_plugin.decide.allocators.placed_gangs import Placed, PlacedGangs
from yarn_plugin.decide.allocators.plan import Announce, Idle, Plan, Wake
from yarn_plugin.decide.allocators.pods import recorded
from yarn_plugin.decide.allocators.seen import Seen
from yarn_plugin.decide.mechanisms.buddy_cells.allocator import Call
from yarn_plugin.decide.mechanisms.buddy_cells.answers import Preempt, Reason, Wait
from yarn_plugin.decide.mechanisms.buddy_cells.cells import PhysicalCell
from yarn_plugin.decide.mechanisms.buddy_cells.cluster import Cluster
from yarn_plugin.decide.mechanisms.buddy_cells.errors import RejectedError
from yarn_plugin.decide.mechanisms.buddy_cells.gangs import Request, Stage
from yarn_plugin.decide.mechanisms.buddy_cells.low_priority import Waiting, start_in_turn
from yarn_plugin.decide.mechanisms.buddy_cells.promotion import promote_all
from yarn_plugin.decide.mechanisms.buddy_cells.reconfiguration import Reconfigured, reconfigure
from yarn_plugin.decide.mechanisms.buddy_cells.recovery import record_of
from yarn_plugin.decide.mechanisms.buddy_cells.state import CellsState
from yarn_plugin.model.causes import CellsReconfigured, LeaseDropped, QuotaReduced
from yarn_plugin.model.share import Claim, LeaseClass

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


class Turn:
    """What one call changes, and its plan so far. `resting`: until when claims are not tried, by gang."""

    def __init__(
        self,
        settings: BuddyCellsSettings,
        state: BuddyCellsState,
        seen: Seen,
        gpus: dict[PhysicalCell, str],
        placed: PlacedGangs,
    ) -> None:
        self._settings, self._seen = settings, seen
        self.gangs = Gangs(state, seen, gpus, placed)
        self.guests = Guests(settings, self.gangs, state.guests)
        self._announced = state.announced
        self._waits, self.resting = dict(state.waits), dict(state.resting)
        self._announce: list[Announce] = []
        self._wake: list[Wake] = []
        self._refused: dict[tuple[Request, tuple[str, ...]], str] = {}

    @property
    def cluster(self) -> Cluster:
        """Who holds which leaf."""
        return self.gangs.cluster

    def state(self) -> BuddyCellsState:
        """The state after the call."""
        return BuddyCellsState(
            self.gangs.cells,
            self.gangs.counter,
            self.gangs.placed.frozen(),
            self._waits,
            self.resting,
            self._announced,
            self.guests.states(),
        )

    def plan(self) -> Plan:
        """What is to be done."""
        own, hosted = self.gangs, self.guests.parts
        return Plan(
            withdraw=(*hosted.withdraw, *own.withdraw),
            drop=(*hosted.drop, *own.drop),
            reclass=(*hosted.reclass, *own.reclass),
            announce=(*hosted.announce, *self._announce),
            keep=(*hosted.keep, *own.keep),
            place=(*hosted.place, *own.place),
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
            found = [self.gangs.gpus.get(leaf) for leaf in leaves]
            cluster.set_bad(host, any(gpu is None or gpu in broken for gpu in found))

    def revise(self, claims: Iterable[ClaimKey]) -> None:
        """Claims that are new or revised are tried at once; those that are gone no longer wait."""
        for claim in claims:
            name = name_of(claim)
            if self.resting.pop(name, None) is not None:
                self._wake.append(Wake(name, None))
            if claim not in self._seen.claims:
                self._waits.pop(name, None)

    def adopt(self, what: Recorded) -> None:
        """Lease gangs what they have records of; those inside a virtual cluster of another allocator begin anew."""
        for key, leases in recorded(what, self._seen.claims).items():
            claim = self._seen.claims[key]
            request = self._request(name_of(key), claim)
            if request is not None and self.guests.guest_of(key, claim) is None:
                adopt(self.gangs, request, key, leases)

    def take_configuration(self, is_due: bool) -> None:
        """Use the configured cells from now on; or, if they downgrade gangs, once their applications had notice.

        The notice begins anew with each change of the configuration.
        """
        self.guests.change()
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
            gang, placed = self.cluster.gangs.get(name), self.gangs.placed.get(name)
            if gang is None or placed is None or placed.is_evicted or placed.kind == "opportunistic":
                continue
            cause = QuotaReduced(placed.claim[1], gang.request.cluster) if kind == "opportunistic" else None
            self._announce += [Announce(key, kind, at, cause) for key in placed.keys if key]

    def _reconfigured(self) -> Reconfigured:
        """What the gangs that run would hold in the new configuration, guaranteed and older ones first."""
        running = [gang for gang in self.cluster.gangs.values() if gang.stage is not Stage.PREEMPTING]
        order = sorted(running, key=lambda gang: (-gang.priority, number_of(self.gangs.placed.get(gang.name))))
        return reconfigure(self._settings.cells, [record_of(gang) for gang in order], self.cluster.bad_hosts())

    def _reconfigure(self, after: Reconfigured, losers: Collection[str]) -> None:
        """Use a new configuration.

        Leases of leaves that are no longer part of it are dropped, and evictions that have begun go on.
        """
        for name in [name for name, gang in self.cluster.gangs.items() if gang.stage is Stage.PREEMPTING]:
            if name in self.gangs.placed:
                self.gangs.cancel(name)
            else:
                self.gangs.mechanism.cancel(self.cluster.gangs[name])
        slots = {gang.name: gang.slots for gang in self.cluster.gangs.values()}
        self.gangs.cells = CellsState(after.allocator.cluster)
        own = [name for name in losers if name in self.gangs.placed]
        self.gangs.tell_classes(
            {name: QuotaReduced(self.gangs.placed[name].claim[1], self.gangs.cluster_of(name)) for name in own}
        )
        for name, pods in slots.items():
            gang, placed = self.cluster.gangs.get(name), self.gangs.placed.get(name)
            if gang is not None:
                gang.slots = pods
            elif placed is not None:
                self.gangs.evict(name, CellsReconfigured())
            if gang is not None and placed is not None and placed.is_evicted:
                gang.stage = Stage.PREEMPTED
        self.guests.move()

    def start(self, keys: Iterable[str]) -> bool:
        """Gangs that waited for their victims run now; whether there are any."""
        gang_of, have_waited = self.gangs.placed.by_key, False
        for name in dict.fromkeys(gang_of[key] for key in keys if key in gang_of):
            gang = self.cluster.gangs.get(name)
            if gang is not None and gang.stage is Stage.PREEMPTING:
                self.gangs.release_victims(gang)
                self.gangs.run(gang.request, self.gangs.placed[name].keys)
                have_waited = True
        return have_waited

    def free(self, freed: Sequence[Freed], is_unplaced: bool = False, is_broken: bool = False) -> None:
        """Leases are over. A gang without any gives its leaves back."""
        for each in freed:
            name = self.gangs.placed.by_key.get(each.key)
            if name is None:
                self.guests.free_orphan(each)
                continue
            if not each.is_over:
                self._lose_part(name, is_unplaced)
                continue
            placed = self.gangs.placed[name]
            slot = placed.keys.index(each.key)
            is_late = self._was_spared(placed)
            if not (is_broken or is_unplaced or is_late or placed.is_evicted):
                placed = replace(placed, given_back=placed.given_back | {slot})
            self.gangs.placed[name] = placed
            self.gangs.end_pod(name, slot)
            ended_itself = name not in self.gangs.placed and not (placed.is_evicted or is_broken or is_late)
            if placed.claim in self._seen.claims and (is_unplaced or ended_itself):
                self._rest(name)

    def _lose_part(self, name: str, is_unplaced: bool) -> None:
        """A pod has lost some of its cells, not by its own will: its gang begins anew."""
        placed = self.gangs.placed[name]
        if placed.is_evicted or not (is_unplaced or self._was_spared(placed)):
            return
        if is_unplaced:
            self._rest(name)
        self.gangs.evict(name, LeaseDropped("its gang begins anew: a pod has lost some of its cells"))

    def _was_spared(self, placed: Placed) -> bool:
        """Whether its eviction was cancelled so lately that it may not have heard of it."""
        if placed.is_evicted or placed.spared_at is None:
            return False
        return self._seen.at <= placed.spared_at + self._settings.retry_s

    def _rest(self, name: str) -> None:
        self.resting[name] = self._seen.at + self._settings.retry_s
        self._wake.append(Wake(name, self.resting[name]))

    # What to do.

    def serve(self) -> None:
        """Place what fits. A gang that lost the cells that it waited for is tried again."""
        is_done = False
        while not is_done:
            before = len(self.gangs.withdraw)
            self._serve_once()
            is_done = len(self.gangs.withdraw) == before
        self.gangs.tell_classes()

    def _serve_once(self) -> None:
        """Guaranteed gangs, pods that lost their node, promotions, opportunistic gangs."""
        waiting = {
            name_of(key): claim
            for key, claim in self._seen.claims.items()
            if key not in self.gangs.placed.claims
            and name_of(key) not in self.resting
            and not self.guests.guest_of(key, claim)
        }
        self._waits = {name: reason for name, reason in self._waits.items() if name in waiting}
        self._refused = {}
        requests = {name: request for name, claim in waiting.items() if (request := self._request(name, claim))}
        guaranteed = [name for name, request in requests.items() if request.guaranteed]
        for name in sorted(guaranteed, key=lambda name: -requests[name].priority):
            self._try(requests[name], waiting[name])
        self.gangs.refill(self.resting)
        self.gangs.spare()
        if self._settings.promotes:
            low = self.gangs.running_low()
            promote_all(
                self.gangs.mechanism,
                [name for name in low if not self.guests.is_inside(self.cluster.gangs[name].request)],
            )
        self._take_turns({name: request for name, request in requests.items() if not request.guaranteed}, waiting)

    def _request(self, name: str, claim: Claim) -> Request | None:
        found = request_of(claim, self.cluster, self._settings.default_cluster)
        if found == NO_CLUSTER:
            self._waits[name] = NO_CLUSTER
        return found if isinstance(found, Request) else None

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
                answer = self.gangs.mechanism.decide(Call(f"{request.gang}.0", request.sizes[0], request, excluded))
            except RejectedError:
                return REJECTED
            if isinstance(answer, Wait):
                return answer.reason.value
            victims = answer.victims if isinstance(answer, Preempt) else ()
            # A node may have no room for tasks, or its GPUs may still be someone's whom this room does not know.
            unusable = [leaf for leaf in answer.placement.leaves() if not self.gangs.is_usable(leaf, victims)]
            if not unusable:
                break
            self.cluster.rollback(before)
            hosts = {leaf.node.address for leaf in unusable if leaf.node is not None} - excluded
            if not hosts:
                return Reason.UNUSABLE_CELLS.value
            excluded |= hosts
            request = replace(request, ignores_exclusions=False)
        self.gangs.carry_out(request, answer, victims, claim)
        return None

    def _take_turns(self, requests: Mapping[str, Request], waiting: Mapping[str, Claim]) -> None:
        queue = [Waiting(name, waiting[name].tenant, sum(request.sizes)) for name, request in requests.items()]
        held: dict[str, int] = {}
        for name in self.gangs.running_low() if queue else ():
            claim = self._seen.claims.get(self.gangs.placed[name].claim)
            if claim is not None:
                held[claim.tenant] = held.get(claim.tenant, 0) + sum(self.cluster.gangs[name].request.sizes)
        start_in_turn(queue, held, self._settings.weights, lambda name: self._try(requests[name], waiting[name]))

    def _hosts_but(self, suggested: Sequence[str]) -> list[str]:
        """The nodes that are not suggested, by host name."""
        cells = self._seen.cells
        wanted = {cells[node].host or node if node in cells else node for node in suggested}
        return [host for host in self.cluster.forest.nodes if host not in wanted]

    def _idle(self) -> dict[str, Idle]:
        """Why cells stay free, for all of them alike."""
        reasons = [_IDLE.get(reason, Idle.RESERVED) for reason in self._waits.values()]
        reasons += self.guests.idle()
        reason = Idle.QUOTA if Idle.QUOTA in reasons else reasons[0] if reasons else Idle.NOT_WANTED
        return self._seen.everywhere(reason)
