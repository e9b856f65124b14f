"""One call of the lease controller: its state as it changes, and the commands so far."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

from yarn_plugin.decide.leases.handover import InUse
from yarn_plugin.decide.leases.state import Excess
from yarn_plugin.decide.pools.commands import Ask, Command, Grant, Offer, Revoke, Solve
from yarn_plugin.decide.pools.lease.derived import Derived
from yarn_plugin.decide.pools.lease.index import LeaseIndex
from yarn_plugin.decide.pools.lease.inventory import BySlot, Inventory
from yarn_plugin.decide.pools.lease.settings import LeaseSettings
from yarn_plugin.decide.pools.lease.state import Held, LeaseState, Member, Round
from yarn_plugin.decide.pools.view import View
from yarn_plugin.model.causes import How, LeaseRound, LeaseWon
from yarn_plugin.model.gpus import Gpus
from yarn_plugin.model.share import Claim, Lease

Repeatable = Ask | Offer | Solve | Revoke
"""Commands that are issued again after a restart, until they are closed."""


@dataclass(slots=True)
class Draft:
    """A `LeaseState` while it changes; the fields are its. Mappings are still those of the state until they change."""

    counter: int
    round_number: int
    area: float
    counted_at: float | None
    members: dict[str, Member]
    machines: tuple[tuple[str, int], ...]
    leases: dict[str, Held]
    round: Round | None
    triggers: tuple[str, ...]
    open_at: float | None
    idle: BySlot | tuple[str, ...]
    open: dict[str, object]
    excess: dict[str, Excess]
    last: LeaseRound | None
    crowded: tuple[str, ...]
    parts_gpu_s: float


FIELDS = tuple(one.name for one in fields(LeaseState))
assert tuple(one.name for one in fields(Draft)) == FIELDS


class Turn:
    """`state`: as changed so far; `commands`: given so far; `claims`: by application; `index`: of the leases.
    `decided_at`: the time that counts for the allocation decided in this call, if any. `held_before`: what
    applications whose leases have changed held before this call: by slot, and how many GPUs in all.

    `index`: that of the state's leases, if it is known; it is changed with them. `derived`: in earlier calls.
    `inventory`: the pool's GPUs; None: those of the view's topology.
    """

    def __init__(
        self,
        pool: str,
        settings: LeaseSettings,
        state: LeaseState,
        view: View,
        at: float,
        index: LeaseIndex | None = None,
        derived: Derived | None = None,
        inventory: Inventory | None = None,
    ) -> None:
        self.pool, self.settings, self.view, self.at = pool, settings, view, at
        self.state = Draft(*[getattr(state, name) for name in FIELDS])
        self._copied: set[str] = set()
        self.commands: list[Command] = []
        self.decided_at: float | None = None
        self._derived = Derived() if derived is None else derived
        self.descriptions, self.offers = self._derived.descriptions, self._derived.offers
        self.inventory = self._derived.inventories.of(view.topology, settings) if inventory is None else inventory
        is_known = index is not None and index.leases is state.leases and index.inventory is self.inventory
        self.index = index if is_known and index is not None else LeaseIndex(state.leases, self.inventory)
        self.held_before: dict[str, tuple[Gpus, int]] = {}
        self._active: list[str] | None = None
        self._users: Counter[str] | None = None

    @property
    def claims(self) -> dict[str, Claim]:
        """The claims by application; those of its jobs as one."""
        return self._derived.claims(self.view)

    def end(self) -> LeaseState:
        """The state as it is now; the turn is over."""
        self.index.leases = self.state.leases
        return LeaseState(*[getattr(self.state, name) for name in FIELDS])

    # Commands.

    def new_id(self) -> str:
        """A new id of a command or a lease."""
        self.state.counter += 1
        return f"{self.pool}#{self.state.counter}"

    def give(self, command: Repeatable) -> None:
        """Issue a command, and again after a restart until it is closed."""
        self._own("open")[command.id] = command
        self.commands.append(command)

    def close(self, *ids: str) -> None:
        """Do not issue these commands again."""
        for id in ids:
            if id in self.state.open:
                del self._own("open")[id]

    # State.

    def change(self, **fields: Any) -> None:
        """Change fields of the state, but leases. A mapping must be a new one."""
        for name, value in fields.items():
            setattr(self.state, name, value)
            self._copied.add(name)
        self._active = self._users = None

    def set_lease(self, held: Held) -> None:
        """Add or change a lease."""
        self._note_holder(held)
        before = self.state.leases.get(held.lease.id)
        self._own("leases")[held.lease.id] = held
        if before is None:
            self.index.add(held)
        else:
            self.index.change(before, held)

    def remove_lease(self, held: Held) -> None:
        """Remove a lease."""
        self._note_holder(held)
        del self._own("leases")[held.lease.id]
        self.index.remove(held)

    def _note_holder(self, held: Held) -> None:
        app = held.lease.app
        if app not in self.held_before:
            self.held_before[app] = self.index.holds(app), self.index.gpus_of(app)

    def start_vacated(self) -> None:
        """Grant the leases whose GPUs all former holders have vacated."""
        starting: dict[tuple[str, How, int, float], list[Lease]] = {}
        waiting = [self.state.leases[lease] for lease in self.index.ordered(self.index.unstarted)]
        for held in [held for held in waiting if not any(map(self.index.is_in_use, held.gpus))]:
            when = self.effective_at
            waited = round(when - held.won_at, 6)
            lease = self.inventory.located(held.lease)
            starting.setdefault((held.lease.app, held.how, held.round, waited), []).append(lease)
            self.set_lease(replace(held, started_at=when))
        for (app, how, number, waited), leases in starting.items():
            gpus = sum(len(lease.holdings) for lease in leases)
            self.commands.append(Grant(self.new_id(), app, tuple(leases), LeaseWon(number, gpus, how, waited)))

    def set_member(self, app: str, member: Member) -> None:
        """Change what is known of an application."""
        if self.state.members[app].waits != member.waits:
            self._active = self._users = None
        self._own("members")[app] = member

    def _own(self, name: str) -> dict[str, Any]:
        """A mapping of the state, to be changed in place: it was copied first, in this call."""
        if name not in self._copied:
            self._copied.add(name)
            setattr(self.state, name, dict(getattr(self.state, name)))
        found: dict[str, Any] = getattr(self.state, name)
        return found

    def trigger(self, why: str, wait: float = 0.0) -> None:
        """Open a round for this reason, at most `wait` seconds from now."""
        state = self.state
        due = self.at + wait if state.open_at is None else min(state.open_at, self.at + wait)
        triggers = state.triggers if why in state.triggers else (*state.triggers, why)
        self.change(triggers=triggers, open_at=due)

    def freed(self, gpus: Iterable[str], why: str) -> None:
        """Open a round if any of these GPUs is free now; not for those that the last round left idle."""
        free = self.offerable()
        found = [gpu for gpu in gpus if gpu in free]
        if found:
            idle, places = self.by_slot(self.state.idle), self.inventory.places
            if not all(gpu in idle.get(places[gpu].slot, ()) for gpu in found):
                self.trigger(why, self.settings.round_window_s)

    @property
    def effective_at(self) -> float:
        """When the leases that change in this call do so."""
        return self.at if self.decided_at is None else self.decided_at

    # What is leased and what is free.

    def active(self) -> list[str]:
        """The applications that take part, in order of arrival."""
        if self._active is None:
            self._active = [app for app, member in self.state.members.items() if not member.waits]
        return self._active

    def attained_gpu_s(self, app: str) -> float:
        """The GPU seconds that an application has leased so far, those of jobs that have ended included."""
        gpus = self.index.gpus_of(app)
        if self.settings.rules > 2 and app in self.held_before:
            # What it lost or got in this call.
            _, gpus = self.held_before[app]
        return self.state.members[app].attained_gpu_s + gpus * (self.at - self.counted_until(app))

    def counted_until(self, app: str) -> float:
        """Until when the GPU seconds of an application are counted in its member."""
        counted = self.state.members[app].attained_at
        if counted is not None:
            return counted
        # Leases of an earlier version's journal.
        return min((held.started_at for held in self.leases_of(app) if held.started_at is not None), default=self.at)

    def users(self) -> Counter[str]:
        """How many applications of each user take part."""
        if self._users is None:
            self._users = Counter(map(self.user_of, self.active()))
        return self._users

    def equal_part(self) -> int:
        """A user's equal part of the pool's GPUs."""
        return len(self.inventory.places) // max(len(self.users()), 1)

    def user_of(self, app: str) -> str:
        """Whose an application is, also one that has just left; without a user it is its own."""
        return (self.claims[app].tenant if app in self.claims else self.state.members[app].user) or app

    def leases_of(self, app: str) -> Iterator[Held]:
        """The leases of an application, those not started included."""
        return self.index.of(app)

    def staying(self, app: str) -> Gpus:
        """How many GPUs of each slot an application has in leases that have started, without revoked ones."""
        if not self.index.leaving:
            return self.index.holds(app)
        gpus = [gpu for one in self.leases_of(app) if one.started_at is not None for gpu in one.staying]
        return self.inventory.count(gpus)

    def ending(self) -> list[Held]:
        """The leases that have reached their end and are not revoked as a whole."""
        ended = (self.state.leases[lease] for lease in self.index.ended_by(self.at))
        return [held for held in ended if held.stays]

    def in_use(self) -> InUse:
        """The GPUs in use by application and machine; an application is missing if no container of it is listed."""
        return self._derived.in_use(self.view)

    def by_slot(self, gpus: BySlot | tuple[str, ...]) -> BySlot:
        """GPUs of the state by slot; earlier versions listed them."""
        return self.inventory.by_slot(gpus) if isinstance(gpus, tuple) else gpus

    def free(self) -> set[str]:
        """The usable GPUs in no lease; they change with the leases."""
        return self.index.free

    def offerable(self) -> set[str]:
        """The free GPUs whose tasks have room (see `room`)."""
        return self.index.free.difference(self.state.crowded) if self.state.crowded else self.index.free
