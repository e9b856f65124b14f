"""An allocator inside a virtual cluster: it sees virtual cells only, and the host translates.

A `Guest` is such an allocator during one call. It is called with what happened to its own claims, leases and cells; its
plans are executed on a ledger of virtual cells, where they must be as valid as on one of its own, and then carried out
by the host: keys get the virtual cluster's name, GPUs become those that its cells are bound to (`Binder`). What cannot
be bound yet waits: to the guest it is a lease that has not started.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Protocol

from yarn_plugin.decide.allocators import Allocator
from yarn_plugin.decide.allocators.cells import Cells
from yarn_plugin.decide.allocators.happenings import (
    Answer,
    Began,
    Broken,
    Changed,
    ClaimKey,
    Due,
    Expiring,
    Freed,
    Reconfigured,
    Restarted,
    Solved,
    Started,
    Unplaced,
    Vacated,
    What,
)
from yarn_plugin.decide.allocators.plan import (
    Announce,
    Drop,
    Hold,
    Holding,
    Idle,
    Keep,
    Place,
    Plan,
    PlanError,
    Reclass,
    Record,
    Solve,
    Wake,
    Withdraw,
)
from yarn_plugin.decide.allocators.seen import Leased, Seen
from yarn_plugin.decide.leases.book import Book, Changes
from yarn_plugin.decide.leases.execution import execute
from yarn_plugin.decide.leases.state import Entry, Ledger
from yarn_plugin.model.causes import Cause
from yarn_plugin.model.journaled import Mutable, Tagged, parts_of
from yarn_plugin.model.share import Claim
from yarn_plugin.model.topology import NODE


@dataclass(frozen=True, slots=True)
class Lent:
    """A lease of a guest, as it knows it. `gpus`: the GPU that each of its virtual ones is; empty: not bound yet."""

    leased: Leased
    gpus: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GuestState:
    """`scheduler`: the guest's name; `allocated`: its state. `lent`: its leases by its keys, in the order in which it
    placed them. `claims`: those that it knows. `broken`: its broken nodes, as it knows them. `idle`: why its cells are
    free, as it said last."""

    scheduler: str
    allocated: Annotated[Any, Tagged()] = None
    lent: Mapping[str, Lent] = field(default_factory=dict)
    claims: tuple[ClaimKey, ...] = ()
    broken: tuple[str, ...] = ()
    idle: Idle | None = None

    def parts(self) -> tuple[Mutable, ...]:
        """The mutable parts of the guest's state."""
        return parts_of(self.allocated)


class Binder(Protocol):
    """The host's part: it binds virtual GPUs to physical ones, which are named here."""

    def bind(self, name: str, pods: Sequence["Pod"]) -> list[dict[str, str]] | None:
        """The GPU of each virtual one, for each pod, all or none; who is there with less right to it is evicted."""
        ...

    def unbind(self, name: str, gpus: Iterable[str]) -> None:
        """These GPUs of the lease of this name are vacated, or no longer waited for."""
        ...

    def start_lent(self, name: str, gpus: Iterable[str]) -> None:
        """The lease of this name holds these GPUs now."""
        ...

    def spare(self, name: str, gpus: Iterable[str]) -> None:
        """The lease of this name goes on: it no longer leaves these GPUs."""
        ...


@dataclass(frozen=True, slots=True)
class Pod:
    """Virtual GPUs to bind together for a lease (`name`: the host's) of a claim."""

    name: str
    claim: Claim
    gpus: tuple[str, ...]


@dataclass
class Parts:
    """What the host's plan consists of, so far."""

    withdraw: list[Withdraw] = field(default_factory=list)
    keep: list[Keep] = field(default_factory=list)
    reclass: list[Reclass] = field(default_factory=list)
    drop: list[Drop] = field(default_factory=list)
    place: list[Place] = field(default_factory=list)
    announce: list[Announce] = field(default_factory=list)
    ask: list[Any] = field(default_factory=list)
    solve: list[Solve] = field(default_factory=list)
    wake: list[Wake] = field(default_factory=list)
    hold: list[Hold] = field(default_factory=list)
    accept: list[str] = field(default_factory=list)
    record: list[Record] = field(default_factory=list)

    def take_back(self, key: str) -> None:
        """Withdraw a lease that has not started; one of this plan is not placed at all."""
        left = [place for place in self.place if place.key != key]
        if len(left) == len(self.place):
            self.withdraw.append(Withdraw(key))
        self.place = left


class Guest:
    """See the module. `name`: of its virtual cluster. `seen`: by the host. `claims`: the guest's own."""

    def __init__(
        self,
        name: str,
        allocator: Allocator,
        state: GuestState,
        cells: Cells,
        seen: Seen,
        claims: Mapping[ClaimKey, Claim],
        parts: Parts,
        binder: Binder,
    ) -> None:
        self.name, self._allocator, self._seen, self.parts, self._binder = name, allocator, seen, parts, binder
        self._scheduler, self._allocated, self._cells = state.scheduler, state.allocated, cells
        self._real_claims = claims
        self.claims = {key: replace(claim, pinned=None, suggested=(), queue=None) for key, claim in claims.items()}
        self._known_claims, self.broken, self._idle = state.claims, frozenset(state.broken), state.idle
        self._gpus = {key: dict(lent.gpus) for key, lent in state.lent.items()}
        now = {key: self._as_now(lent) for key, lent in state.lent.items()}
        self._over = {key: lent for key, lent in state.lent.items() if now[key] is None}
        leases = {key: Entry(lease, key) for key, lease in now.items() if lease is not None}
        self._book = Book(name, Ledger(leases=leases), cells)

    def state(self) -> GuestState:
        """The state after the call."""
        lent = {key: Lent(entry.leased, self._gpus[key]) for key, entry in self._book.leases.items()}
        return GuestState(
            self._scheduler,
            self._allocated,
            {**self._over, **lent},
            tuple(self.claims),
            tuple(sorted(self.broken)),
            self._idle,
        )

    def _as_now(self, lent: Lent) -> Leased | None:
        """A lease of the guest, with what the host's ledger did to it; None: it is over, and the guest has yet to hear
        of it."""
        lease, real = lent.leased, self._seen.leases.get(self.outer(lent.leased.key))
        if not lent.gpus:
            return lease
        if real is None:
            return None
        names = {gpu: virtual for virtual, gpu in lent.gpus.items()}
        held = {names[gpu] for gpu in real.cells}
        return replace(
            lease,
            holdings=tuple([holding for holding in lease.holdings if holding.cell in held]),
            until=real.until,
            kind=real.kind,
            started_at=real.started_at,
            leaving=tuple([names[gpu] for gpu in real.leaving]),
            by=real.by,
        )

    @property
    def idle(self) -> Idle | None:
        """Why its cells are free."""
        return self._idle

    # Names.

    def outer(self, key: str) -> str:
        """The host's name of a key of the guest's."""
        return f"{self.name}:{key}"

    def _inner(self, key: str) -> str | None:
        """The guest's name of one of its keys; None for others."""
        name, _, inner = key.partition(":")
        return inner if name == self.name else None

    # What happens.

    def begin(self) -> None:
        """Tell a new guest that its pool begins, with all claims there are."""
        self._allocated = self._allocator.initial_state()
        self._known_claims = tuple(self.claims)
        self.tell(Began())

    def hear(self, what: What) -> None:
        """Tell the guest of an event of the host's, as far as it is its own."""
        match what:
            case Began():
                self.begin()
            case Restarted() | Reconfigured():
                self.tell(what)
            case Answer(app) if any(key[0] == app for key in self.claims):
                self.tell(what)
            case Due(key) if (inner := self._inner(key)) is not None:
                self.tell(Due(inner))
            case Solved(key) if (inner := self._inner(key)) is not None:
                self.tell(replace(what, key=inner))
            case Started(keys) | Expiring(keys):
                own = self._own(keys)
                for key in own if isinstance(what, Started) else ():
                    self._binder.start_lent(self.outer(key), self._gpus[key].values())
                if own:
                    self.tell(replace(what, keys=own))
            case Vacated(freed) | Unplaced(freed) | Broken(freed):
                mine = tuple([self._freed(one, key) for one in freed for key in self._own([one.key])])
                if mine:
                    self.tell(replace(what, freed=mine))

    def hear_of_changes(self, claims: Iterable[ClaimKey], broken: frozenset[str], are_cells_new: bool = False) -> None:
        """Tell the guest which of its claims, and which of its cells, are others or no longer there."""
        leaves = self._book.leases
        gone = [key for key, entry in leaves.items() if entry.leased.claim not in self.claims and not self._gpus[key]]
        if gone:
            # They waited to be bound: the host's ledger does not know them.
            freed = tuple([Freed(key, leaves[key].leased.claim, leaves[key].leased.cells) for key in gone])
            self._book.apply(Changes(dict.fromkeys(gone)))
            for key in gone:
                del self._gpus[key]
            self.tell(Vacated(freed))
        known = set(self._known_claims)
        changed = [key for key in claims if key in known or key in self.claims]
        changed += [key for key in self.claims if key not in known and key not in changed]
        changed += [key for key in self._known_claims if key not in self.claims and key not in changed]
        nodes = {node.id for node in self._cells.at(NODE)} if are_cells_new else set()
        cells = tuple(sorted(nodes | (broken ^ self.broken)))
        self.broken = broken
        if changed or cells:
            self.tell(Changed(tuple(changed), cells))

    def _own(self, keys: Iterable[str]) -> tuple[str, ...]:
        """The guest's names of its leases among these."""
        return tuple([key for each in keys if (key := self._inner(each)) is not None and key in self._gpus])

    def _freed(self, freed: Freed, key: str) -> Freed:
        """What a lease of the guest lost, in its terms."""
        names = {gpu: virtual for virtual, gpu in self._gpus[key].items()}
        self._binder.unbind(freed.key, freed.cells)
        self._gpus[key] = {names[gpu]: gpu for gpu in names if gpu not in freed.cells}
        if freed.is_over:
            self._over.pop(key, None)
            del self._gpus[key]
        return replace(freed, key=key, cells=tuple([names[gpu] for gpu in freed.cells]))

    def tell(self, what: What) -> None:
        """Tell the guest of an event, and carry out its plan."""
        seen = Seen(
            self._seen.at,
            self._seen.seed,
            self._cells,
            self.claims,
            self._book.seen(),
            self._book.occupancy,
            self._seen.steering,
            self._seen.rules,
            self._seen.grace_s,
        )
        self._allocated, plan = self._allocator.propose(self._allocated, seen, what)
        self._carry_out(replace(plan, place=tuple(map(self._by_gpu, plan.place))))

    def _by_gpu(self, place: Place) -> Place:
        """A lease of larger cells as one of their GPUs."""
        if any(holding.amounts for holding in place.holdings):
            raise PlanError(
                f"place {place.key!r} in {self.name}: virtual clusters lease whole GPUs, not parts of cells"
            )
        unknown = next((one.cell for one in place.holdings if one.cell not in self._cells), None)
        if unknown is not None:
            raise PlanError(f"place {place.key!r}: {unknown}: it is no cell of virtual cluster {self.name}")
        gpus = [gpu for holding in place.holdings for gpu in self._cells.gpus_in(holding.cell)]
        return replace(place, holdings=tuple(map(Holding, gpus)))

    # What it wants done.

    def _carry_out(self, plan: Plan) -> None:
        before = self._book.leases
        causes: dict[str, Cause] = {drop.key: drop.cause for drop in plan.drop}
        kept = {keep.key: keep for keep in plan.keep}
        execute(self._book, plan, self.claims, self._seen.at, 0.0, self._seen.rules)
        after = self._book.leases
        for key in [key for key in before if key not in after]:
            self._forget(key)
        for key, entry in list(after.items()):
            if key in before and entry is not before[key]:
                self._change(before[key].leased, entry.leased, kept.get(key), causes.get(key))
        for place in plan.place:
            if place.key in after:
                self._gpus[place.key] = {}
        self.bind_waiting()
        self.parts.announce += [replace(one, key=self.outer(one.key)) for one in plan.announce]
        self.parts.ask += plan.ask
        self.parts.solve += [replace(solve, key=self.outer(solve.key)) for solve in plan.solve]
        self.parts.wake += [replace(wake, key=self.outer(wake.key)) for wake in plan.wake]
        self.parts.hold += plan.hold
        self.parts.accept += plan.accept
        self.parts.record += [replace(record, inside=self.name) for record in plan.record]
        if plan.idle is not None:
            self._idle = next(iter(plan.idle.values()), None)

    def _forget(self, key: str) -> None:
        """A lease that has not started is over."""
        gpus = self._gpus.pop(key)
        if gpus:
            self._binder.unbind(self.outer(key), gpus.values())
            self.parts.take_back(self.outer(key))

    def _change(self, old: Leased, new: Leased, kept: Keep | None, cause: Cause | None) -> None:
        """A lease was kept, reclassed or dropped. `cause`: of the last."""
        key, gpus = self.outer(new.key), self._gpus[new.key]
        if not gpus:
            return
        if kept is not None and not kept.is_revoked_still:
            self._binder.spare(key, [gpus[gpu] for gpu in set(old.leaving) - set(new.leaving)])
        if kept is not None and (new.until != old.until or set(old.leaving) - set(new.leaving)):
            self.parts.keep.append(replace(kept, key=key))
        if new.kind != old.kind:
            self.parts.reclass.append(Reclass(key, new.kind))
        if new.leaving and new.leaving != old.leaving and cause is not None:
            self.parts.drop.append(Drop(key, cause, tuple([gpus[gpu] for gpu in new.leaving])))

    def bind_waiting(self) -> None:
        """Bind what waits, gangs as a whole, in the order in which it was placed."""
        gangs: dict[tuple[bool, str], list[Leased]] = {}
        for key, entry in self._book.leases.items():
            if not self._gpus[key] and entry.leased.claim in self._real_claims:
                lease = entry.leased
                gangs.setdefault((lease.gang is None, lease.gang or key), []).append(lease)
        for gang in gangs.values():
            pods = [Pod(self.outer(lease.key), self._real_claims[lease.claim], lease.cells) for lease in gang]
            bound = self._binder.bind(self.name, pods)
            for lease, gpus in zip(gang, bound or (), strict=bool(bound)):
                self._gpus[lease.key] = gpus
                self.parts.place.append(self._place(lease, gpus))

    def _place(self, lease: Leased, gpus: Mapping[str, str]) -> Place:
        return Place(
            self.outer(lease.key),
            lease.claim,
            tuple([Holding(gpus[gpu]) for gpu in lease.cells]),
            lease.member,
            lease.alternative,
            lease.kind,
            lease.until,
            None if lease.gang is None else self.outer(lease.gang),
            None if lease.replaces is None else self.outer(lease.replaces),
            lease.note,
            lease.job,
        )


def moved(
    state: GuestState, names: Callable[[str, str], str | None], cluster: str
) -> tuple[GuestState, tuple[Lent, ...]]:
    """A guest of a virtual cluster whose cells have other names in a new configuration. `names`: of a lease (the host's
    key) and one of its physical GPUs, the virtual one that it is now; None: none.

    A lease that lost a GPU, or has not started, is over: the second result.
    """
    lent: dict[str, Lent] = {}
    lost: list[Lent] = []
    for key, one in state.lent.items():
        now = {gpu: names(f"{cluster}:{key}", real) for gpu, real in one.gpus.items()}
        new = {gpu: name for gpu, name in now.items() if name is not None}
        if one.leased.started_at is None or len(new) < len(one.leased.holdings):
            lost.append(one)
            continue
        holdings = tuple([replace(holding, cell=new[holding.cell]) for holding in one.leased.holdings])
        lease = replace(one.leased, holdings=holdings, leaving=tuple([new[gpu] for gpu in one.leased.leaving]))
        lent[key] = Lent(lease, {new[gpu]: real for gpu, real in one.gpus.items()})
    return replace(state, lent=lent), tuple(lost)
