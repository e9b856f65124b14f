"""The gangs of a pool during one call: where they run, whom they evict, and what becomes of their leases."""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from yarn_plugin.decide.allocators.buddy_cells.state import BuddyCellsState
from yarn_plugin.decide.allocators.placed_gangs import Placed, PlacedGangs
from yarn_plugin.decide.allocators.plan import Drop, Holding, Keep, Place, Reclass, Withdraw
from yarn_plugin.decide.allocators.seen import Seen
from yarn_plugin.decide.mechanisms.buddy_cells.allocator import Allocator as Mechanism
from yarn_plugin.decide.mechanisms.buddy_cells.allocator import Call
from yarn_plugin.decide.mechanisms.buddy_cells.answers import Bind, Preempt
from yarn_plugin.decide.mechanisms.buddy_cells.cells import PhysicalCell
from yarn_plugin.decide.mechanisms.buddy_cells.cluster import Cluster
from yarn_plugin.decide.mechanisms.buddy_cells.gangs import Gang, Request, Stage
from yarn_plugin.model.causes import Cause, CellsReconfigured, Evicted, LeaseDropped
from yarn_plugin.model.share import Claim, LeaseClass


class Gangs:
    """What one call changes of the gangs, and the parts of its plan that are about their leases. The cluster is changed
    in place, as `Mutable` states are.

    `gpus`: the GPU of each leaf. `placed`: changed in place, too.
    """

    def __init__(self, state: BuddyCellsState, seen: Seen, gpus: dict[PhysicalCell, str], placed: PlacedGangs) -> None:
        self.seen, self.gpus, self.placed = seen, gpus, placed
        self.cells, self.counter = state.cells, state.counter
        self.withdraw: list[Withdraw] = []
        self.drop: list[Drop] = []
        self.keep: list[Keep] = []
        self.place: list[Place] = []
        self.reclass: list[Reclass] = []

    @property
    def cluster(self) -> Cluster:
        """Who holds which leaf."""
        return self.cells.cluster

    @property
    def mechanism(self) -> Mechanism:
        """What decides where a gang goes."""
        return self.cells.allocator

    def end_pod(self, name: str, slot: int) -> None:
        """A pod has no lease any more; with the last one, its gang is over."""
        placed = self.placed[name]
        self.placed[name] = replace(placed, keys=(*placed.keys[:slot], None, *placed.keys[slot + 1 :]))
        gang = self.cluster.gangs.get(name)
        if gang is not None and gang.stage is Stage.PREEMPTING:
            if not any(self.placed[name].keys):
                self.mechanism.cancel(gang)
        elif gang is not None and (pod := gang.slots[slot]) is not None:
            self.mechanism.end(gang, pod)
        if not any(self.placed[name].keys):
            if name in self.cluster.gangs:
                self.mechanism.release(self.cluster.gangs[name])
            del self.placed[name]

    def carry_out(self, request: Request, answer: Bind | Preempt, victims: Sequence[str], claim: Claim) -> None:
        """Lease to a gang what was found for it, and evict its victims."""
        cancelled = answer.cancelled if isinstance(answer, Bind) else self._cancelled()
        for name in cancelled:
            self._forget_waiting(name)
        for name in victims:
            self.evict(name, Evicted(claim.app, claim.job, request.cluster, request.priority))
        self.counter += 1
        keys = tuple(f"{self.counter}.{slot}" for slot in range(len(request.sizes)))
        kind: LeaseClass = "guaranteed" if answer.placement.virtual is not None else "opportunistic"
        placed = Placed((claim.app, claim.job), keys, kind)
        self.placed[request.gang] = placed
        if isinstance(answer, Bind):
            self.run(request, keys, answer)
        for slot, leaves in enumerate(answer.placement.physical):
            self._lease(placed, slot, leaves, gang=str(self.counter))

    def run(self, request: Request, keys: Sequence[str | None], first: Bind | None = None) -> None:
        """Let all pods of a gang run that has a placement, or gets it with this answer."""
        for slot, size in enumerate(request.sizes):
            pod = keys[slot]
            if pod is None:
                continue
            call = Call(pod, size, request)
            answer = first if first is not None and slot == 0 else self.mechanism.decide(call)
            assert isinstance(answer, Bind)
            self.mechanism.start(call, Bind(answer.placement, slot, answer.cancelled if slot == 0 else ()))

    def _lease(self, placed: Placed, slot: int, leaves: Iterable[PhysicalCell], gang: str | None = None) -> None:
        key = placed.keys[slot]
        assert key is not None
        holdings = tuple(Holding(self.gpus[leaf]) for leaf in leaves)
        self.place.append(Place(key, placed.claim, holdings, member=slot, kind=placed.kind, gang=gang))

    def is_usable(self, leaf: PhysicalCell, victims: Sequence[str]) -> bool:
        """Whether a gang with these victims can have a leaf: its GPU is there, with room, or a victim's."""
        gpu = self.gpus.get(leaf)
        if gpu is None or gpu in self.seen.cells.broken or self.seen.room.lacks_room(gpu):
            return False
        return self.seen.room.is_free(gpu) or (leaf.holder is not None and leaf.holder.name in victims)

    def release_victims(self, gang: Gang) -> None:
        """The other pods of its victims may still be leaving."""
        holders = {leaf.holder.name for leaf in gang.placement.leaves() if leaf.holder is not None}
        for victim in sorted(holders):
            self.mechanism.release(self.cluster.gangs[victim])

    def _cancelled(self) -> list[str]:
        """The gangs that waited for leaves which another one has taken over."""
        return [
            name
            for name, placed in self.placed.items()
            if name not in self.cluster.gangs and not placed.is_evicted and any(placed.keys)
        ]

    def cancel(self, name: str) -> None:
        """Stop waiting for leaves: the gang waits for others again."""
        self.mechanism.cancel(self.cluster.gangs[name])
        self._forget_waiting(name)

    def _forget_waiting(self, name: str) -> None:
        keys = {key for key in self.placed.pop(name).keys if key}
        self.withdraw += [Withdraw(key) for key in sorted(keys)]
        self.place = [place for place in self.place if place.key not in keys]

    def evict(self, name: str, cause: Evicted | CellsReconfigured | LeaseDropped) -> None:
        """Revoke a gang's leases; those that have not started are over at once."""
        placed = self.placed.get(name)
        # What a guest has lost in a new configuration is revoked already.
        if placed is None or placed.is_evicted:
            return
        self.placed[name] = replace(placed, is_evicted=True)
        for slot, key in enumerate(placed.keys):
            if key is None:
                continue
            lease = self.seen.leases.get(key)
            if lease is not None and lease.started_at is not None:
                self.drop.append(Drop(key, cause))
                continue
            if lease is not None:
                self.withdraw.append(Withdraw(key))
            self.place = [place for place in self.place if place.key != key]
            self.end_pod(name, slot)

    def refill(self, resting: Container[str]) -> None:
        """Lease cells again to pods that lost their node, where it is back. `resting`: gangs that are not tried now."""
        for name in self.placed.in_order(self.placed.incomplete):
            placed = self.placed[name]
            lost = [slot for slot, key in enumerate(placed.keys) if key is None and slot not in placed.given_back]
            gang = self.cluster.gangs.get(name)
            if not lost or placed.is_evicted or gang is None or gang.stage is not Stage.ALLOCATED:
                continue
            if placed.claim not in self.seen.claims or name in resting:
                continue
            for slot in lost:
                leaves = gang.placement.physical[slot]
                if leaves and all(not leaf.node.bad and self.is_usable(leaf, ()) for leaf in leaves if leaf.node):
                    self.counter += 1
                    key = f"{self.counter}.{slot}"
                    keys = (*placed.keys[:slot], key, *placed.keys[slot + 1 :])
                    self.placed[name] = placed = replace(placed, keys=keys)
                    self.mechanism.fill(gang, slot, key)
                    self._lease(placed, slot, leaves)

    def spare(self) -> None:
        """Keep the leases of gangs whose cells nobody waits for any more."""
        for name in self.placed.in_order(self.placed.evicted):
            placed, gang = self.placed[name], self.cluster.gangs.get(name)
            if gang is None or not self._has_all_cells(placed, gang):
                continue
            if any(leaf.reserver is not None for leaf in gang.placement.leaves()):
                continue
            self.cluster.undo.set(gang, "stage", Stage.ALLOCATED)
            self.placed[name] = replace(placed, is_evicted=False, spared_at=self.seen.at)
            keys = {key for key in placed.keys if key}
            self.drop = [drop for drop in self.drop if drop.key not in keys]
            self.keep += [
                Keep(key, None) for key in sorted(keys) if key in self.seen.leases and self.seen.leases[key].leaving
            ]

    def _has_all_cells(self, placed: Placed, gang: Gang) -> bool:
        """Whether no pod has vacated any of its cells."""
        leases = (self.seen.leases.get(key) if key else None for key in placed.keys)
        return all(
            lease is not None and len(lease.holdings) == len(leaves)
            for lease, leaves in zip(leases, gang.placement.physical, strict=True)
        )

    def running_low(self) -> list[str]:
        """The opportunistic gangs that nobody evicts, oldest first."""
        cluster = self.cluster
        return [name for name in self.placed.in_order(cluster.low) if cluster.gangs[name].stage is Stage.ALLOCATED]

    def cluster_of(self, name: str) -> str:
        """The virtual cluster of a gang that has a placement."""
        return self.cluster.gangs[name].request.cluster

    def tell_classes(self, causes: Mapping[str, Cause] = MappingProxyType({})) -> None:
        """Tell of gangs that were downgraded or promoted. `causes`: of those for which there is one, by gang."""
        low = self.cluster.low
        for name in self.placed.in_order(low ^ self.placed.low):
            placed, gang = self.placed[name], self.cluster.gangs.get(name)
            if gang is None or gang.stage is Stage.PREEMPTING:
                continue
            kind: LeaseClass = "opportunistic" if name in low else "guaranteed"
            self.placed[name] = replace(placed, kind=kind)
            placing = {place.key for place in self.place}
            cause = causes.get(name)
            self.reclass += [Reclass(key, kind, cause) for key in placed.keys if key and key not in placing]
            self.place = [replace(place, kind=kind) if place.key in placed.keys else place for place in self.place]
