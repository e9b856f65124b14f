"""Virtual clusters in which another allocator decides: the host's part of one call (see `hosting`).

A GPU of theirs is a gang of one leaf (`lent_gang`).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from yarn_plugin.decide.allocators import Allocator
from yarn_plugin.decide.allocators.buddy_cells.gangs import Gangs
from yarn_plugin.decide.allocators.buddy_cells.requests import cluster_of
from yarn_plugin.decide.allocators.buddy_cells.settings import BuddyCellsSettings
from yarn_plugin.decide.allocators.happenings import Broken, Changed, ClaimKey, Freed, What
from yarn_plugin.decide.allocators.hosting import Guest, GuestState, Lent, Parts, Pod, moved
from yarn_plugin.decide.allocators.plan import Drop, Idle, Withdraw
from yarn_plugin.decide.allocators.virtual_pool import VirtualPool, broken_nodes, virtual_pool
from yarn_plugin.decide.mechanisms.buddy_cells.allocator import Call
from yarn_plugin.decide.mechanisms.buddy_cells.answers import Bind
from yarn_plugin.decide.mechanisms.buddy_cells.cells import PhysicalCell, VirtualCell
from yarn_plugin.decide.mechanisms.buddy_cells.cluster import Cluster
from yarn_plugin.decide.mechanisms.buddy_cells.gangs import Gang, Request, Stage
from yarn_plugin.model.causes import CellsReconfigured, Evicted
from yarn_plugin.model.share import Claim


def lent_gang(lease: str, gpu: str) -> str:
    """The name of the gang that a GPU is which the scheduler inside a virtual cluster leases. `lease`: its key."""
    return f"{lease}@{gpu}"


class Guests:
    """The allocators inside virtual clusters during one call. `known`: their states before it. `parts`: of the plan."""

    def __init__(self, settings: BuddyCellsSettings, gangs: Gangs, known: Mapping[str, GuestState]) -> None:
        self._settings, self._gangs, self._seen, self._known = settings, gangs, gangs.seen, dict(known)
        self._lost: dict[str, tuple[Lent, ...]] = {}
        self._guests: dict[str, Guest] = {}
        self._pools: dict[str, VirtualPool] = {}
        self._lent_to: dict[ClaimKey, str] = {}
        self._released: set[str] = set()
        self.parts = Parts()

    @property
    def _cluster(self) -> Cluster:
        return self._gangs.cluster

    def states(self) -> dict[str, GuestState]:
        """Their states after the call."""
        return {**self._known, **{name: guest.state() for name, guest in self._guests.items()}}

    def idle(self) -> Iterator[Idle]:
        """Why their cells are free, where they want some."""
        for guest in self._guests.values():
            if guest.idle is not None and guest.idle is not Idle.NOT_WANTED:
                yield guest.idle

    def open(self, allocators: Mapping[str, Allocator], pool: Callable[[Cluster, str], VirtualPool]) -> None:
        """Let the allocators inside see what is so now."""
        self._lent_to = {lent.leased.claim: name for name, known in self._known.items() for lent in known.lent.values()}
        # A virtual cluster of a configuration that takes effect later is not there yet.
        allocators = {name: each for name, each in allocators.items() if name in self._cluster.virtual}
        claims: dict[str, dict[ClaimKey, Claim]] = {name: {} for name in allocators}
        for key, claim in self._seen.claims.items() if allocators else ():
            name = self.guest_of(key, claim)
            if name in claims:
                claims[name][key] = claim
        for name, allocator in allocators.items():
            self._pools[name] = own = pool(self._cluster, name)
            known = self._known.get(name)
            if known is None:
                known = GuestState(self._settings.inside[name], broken=tuple(sorted(broken_nodes(self._cluster, name))))
            self._guests[name] = Guest(name, allocator, known, own.cells, self._seen, claims[name], self.parts, self)

    def tell(self, what: What) -> None:
        """Tell the allocators inside what happened, and carry out their plans."""
        for name, guest in self._guests.items():
            if name not in self._known:
                guest.begin()
            else:
                if lost := self._lost.get(name):
                    gone = (lent.leased for lent in lost)
                    guest.tell(Broken(tuple([Freed(lease.key, lease.claim, lease.cells) for lease in gone])))
                guest.hear(what)
            claims = what.claims if isinstance(what, Changed) else ()
            guest.hear_of_changes(claims, broken_nodes(self._cluster, name), are_cells_new=name in self._lost)
            guest.bind_waiting()

    def guest_of(self, key: ClaimKey, claim: Claim) -> str | None:
        """The virtual cluster whose own allocator decides on a claim: the one that has leases of it, else its own."""
        if key in self._lent_to or not self._settings.inside:
            return self._lent_to.get(key)
        cluster = cluster_of(claim, self._cluster.virtual) or self._settings.default_cluster
        is_placed = key in self._gangs.placed.claims
        return None if is_placed or self._settings.scheduler_of(claim, cluster) is None else cluster

    def is_inside(self, request: Request) -> bool:
        """Whether a gang asks for cells on which another allocator decides."""
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
            bound.append({gpu: self._gangs.gpus[leaf] for gpu, (leaf, _) in pairs.items()})
            for leaf, virtual in pairs.values():
                gang = lent_gang(pod.name, self._gangs.gpus[leaf])
                request = Request(gang, name, max(0, claim.priority), ((1, 1),))
                for victim in self._gangs.mechanism.hold(request, (leaf, virtual)):
                    self._gangs.evict(victim, Evicted(claim.app, claim.job, name, claim.priority))
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
            physical = self._gangs.mechanism.find_leaves(parts, excluded)
            if physical is None:
                return None
            for part, served in zip(parts, physical, strict=True):
                found |= zip(part, served, strict=True)
        return found

    def _can_lend(self, leaf: PhysicalCell) -> bool:
        gpu = self._gangs.gpus.get(leaf)
        if gpu is None or gpu in self._seen.cells.broken or self._seen.room.lacks_room(gpu):
            return False
        return self._seen.room.is_free(gpu) or leaf.holder is not None or gpu in self._released

    def _lent_gangs(self, name: str, gpus: Iterable[str]) -> Iterator[Gang]:
        for gpu in gpus:
            if (gang := self._cluster.gangs.get(lent_gang(name, gpu))) is not None:
                yield gang

    def unbind(self, name: str, gpus: Iterable[str]) -> None:
        """See `hosting.Binder`."""
        gpus = list(gpus)
        self._released.update(gpus)
        for gang in self._lent_gangs(name, gpus):
            if gang.stage is Stage.PREEMPTING:
                self._gangs.mechanism.cancel(gang)
            else:
                self._gangs.mechanism.release(gang)

    def start_lent(self, name: str, gpus: Iterable[str]) -> None:
        """See `hosting.Binder`."""
        for gang in self._lent_gangs(name, gpus):
            if gang.stage is Stage.PREEMPTING:
                self._gangs.release_victims(gang)
                self._gangs.mechanism.start(Call(gang.name, 1, gang.request), Bind(gang.placement, 0))

    def spare(self, name: str, gpus: Iterable[str]) -> None:
        """See `hosting.Binder`."""
        for gang in self._lent_gangs(name, gpus):
            self._cluster.undo.set(gang, "stage", Stage.ALLOCATED)

    def change(self) -> None:
        """Other schedulers are configured: leases of former ones are revoked, and gangs in cells on which this room no
        longer decides go on as opportunistic work."""
        for name, known in list(self._known.items()):
            if self._settings.inside.get(name) != known.scheduler:
                del self._known[name]
                for lent in known.lent.values():
                    self._revoke(f"{name}:{lent.leased.key}", lent)
        for gang in list(self._cluster.gangs.values()):
            is_new = gang.request.cluster not in self._known and self.is_inside(gang.request)
            if gang.name in self._gangs.placed and is_new and gang.stage is not Stage.PREEMPTING:
                self._gangs.mechanism.downgrade(gang)

    def move(self) -> None:
        """In a new configuration: the virtual cells of what is lent may be others. What lost its own is revoked."""
        for name, known in list(self._known.items()):
            lost = tuple(known.lent.values())
            if name in self._cluster.virtual:
                names = virtual_pool(self._cluster, name).names()
                self._known[name], lost = moved(known, self._renamed(names), name)
                self._lost[name] = lost
            else:
                del self._known[name]
            for lent in lost:
                self._revoke(f"{name}:{lent.leased.key}", lent)

    def _renamed(self, names: Mapping[VirtualCell, str]) -> Callable[[str, str], str | None]:
        def name(lease: str, gpu: str) -> str | None:
            gang = self._cluster.gangs.get(lent_gang(lease, gpu))
            virtual = None if gang is None else gang.placement.virtual
            return None if virtual is None else names.get(virtual[0][0])

        return name

    def _revoke(self, name: str, lent: Lent) -> None:
        """Revoke what a guest has lost; what has not started is over at once."""
        lease = self._seen.leases.get(name)
        for gang in self._lent_gangs(name, lent.gpus.values()):
            if lease is None or lease.started_at is None:
                self._gangs.mechanism.release(gang)
            else:
                self._gangs.mechanism.downgrade(gang)
        if lease is not None and lease.started_at is None:
            self.parts.withdraw.append(Withdraw(name))
        elif lease is not None:
            self.parts.drop.append(Drop(name, CellsReconfigured()))

    def free_orphan(self, freed: Freed) -> None:
        """A lease is over that a guest lost before."""
        name, _, key = freed.key.partition(":")
        known = self._known.get(name)
        if known is None or key not in known.lent:
            for gang in list(self._lent_gangs(freed.key, freed.cells)):
                self._gangs.mechanism.release(gang)
