"""Toy allocators: one that serves claims in turn, and one whose state is a table that is changed in place.

The first has all that a plan can have: alternatives, amounts, gangs, preemption, `replaces`, questions, problems. It
decides anew after each event from what it sees; its state is what it was told.
"""

from dataclasses import dataclass, field, replace

from tests.toys.auction import Provoke
from yarn_plugin.decide.allocators import AllocatorKind
from yarn_plugin.decide.allocators.happenings import Answer, Began, Due, Expiring, Solved, Started
from yarn_plugin.decide.allocators.plan import NOTHING, Ask, Drop, Holding, Idle, Keep, Place, Plan, Solve, Wake
from yarn_plugin.model.causes import LeaseDropped
from yarn_plugin.model.resources import GPU, Resources

ONE_GPU = Resources.of({GPU: 1})


@dataclass(frozen=True, slots=True)
class InTurnSettings:
    """`lease_s`: of a lease, None: no end. `asks`: every claim is asked how many GPUs it wants, and `answer_s` waited.
    `solves`: the order of claims comes from the worker process."""

    lease_s: float | None = None
    asks: bool = False
    answer_s: float = 1.0
    solves: bool = False


@dataclass(frozen=True, slots=True)
class HowMany:
    """How many GPUs do you want?"""

    round: int


@dataclass(frozen=True, slots=True)
class Wants:
    """So many GPUs."""

    gpus: int


@dataclass(frozen=True, slots=True)
class Names:
    """Applications to be put in order."""

    apps: tuple[str, ...]


def by_name(names):
    """The names in order of the alphabet."""
    return Names(tuple(sorted(names.apps)))


@dataclass(frozen=True, slots=True)
class InTurnState:
    """`counter`: of keys. `wants`, `asked`: by application. `order`: of applications, from the worker. `turns`: how
    often each has been served: who has had the fewest is next."""

    counter: int = 0
    wants: dict[str, int] = field(default_factory=dict)
    asked: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    turns: dict[str, int] = field(default_factory=dict)
    heard: int = 0


class InTurn:
    """See the module. A claim of larger weight may take what those of smaller weight hold."""

    def __init__(self, settings):
        self._settings = settings or InTurnSettings()

    def initial_state(self):
        return InTurnState()

    def report(self, state):
        return None

    def propose(self, state, seen, what):
        state, asks, keep = replace(state, heard=state.heard + 1), [], []
        match what:
            case Answer(_, Provoke()):
                raise RuntimeError("provoked")
            case Answer(app, Wants(gpus)):
                state = replace(state, wants={**state.wants, app: gpus})
            case Solved(_, "done", result):
                state = replace(state, order=result.apps)
            case Expiring(keys):
                if not self._waiting(state, seen):
                    keep = [Keep(key, seen.at + self._settings.lease_s) for key in keys]
        apps = [app for app, _ in seen.claims]
        for app in apps if self._settings.asks else ():
            if app not in state.asked:
                asks.append(Ask(app, HowMany(len(state.asked) + 1), seen.at + self._settings.answer_s))
                state = replace(state, asked=(*state.asked, app))
        solve = ()
        if self._settings.solves and (isinstance(what, Began) or {*apps} - {*state.order}):
            solve = (Solve(f"order {state.heard}", Names(tuple(apps))),)
        wake = (Wake("again", seen.at + self._settings.answer_s),) if asks else ()
        if isinstance(what, Due | Started):
            assert not isinstance(what, Started) or all(seen.leases[key].started_at == seen.at for key in what.keys)
        state, drops, places = self._serve(state, seen)
        waits = self._waiting(state, seen, places)
        reason = Idle.TOO_FEW if waits else Idle.NOT_WANTED
        idle = dict.fromkeys(seen.cells.inside.get(None, ()), reason)
        return state, Plan(
            drop=drops, keep=tuple(keep), place=places, ask=tuple(asks), solve=solve, wake=wake, idle=idle
        )

    def _waiting(self, state, seen, places=()):
        """Claims without a lease."""
        served = {lease.claim for lease in seen.leases.values() if lease.phase != "leaving"}
        return [claim for claim in self._order(state, seen) if claim not in served | {one.claim for one in places}]

    def _order(self, state, seen):
        rank = {app: place for place, app in enumerate(state.order)}
        turns = state.turns
        return sorted(
            seen.claims,
            key=lambda key: (-seen.claims[key].weight, turns.get(key[0], 0), rank.get(key[0], len(rank))),
        )

    def _serve(self, state, seen):
        taken, drops, places = _Taken(seen), [], []
        for key in self._order(state, seen):
            claim = seen.claims[key]
            if self._settings.asks and key[0] not in state.wants:
                continue
            held = [lease for lease in seen.leases.values() if lease.claim == key and lease.phase != "leaving"]
            before = min((lease.alternative for lease in held), default=None)
            wanted = [ONE_GPU] if claim.demand is None else list(claim.demand.alternatives)
            if key[0] in state.wants:
                wanted = [Resources.of({GPU: state.wants[key[0]]})]
            replaces = held[0].key if len(held) == 1 and held[0].started_at is not None else None
            if held and (before == 0 or replaces is None):
                continue
            for number, resources in enumerate(wanted[:before] if held else wanted):
                pods = 1 if claim.gang is None else sum(one.number for one in claim.gang.pods)
                found = taken.pods(resources, pods)
                if found is None and not held:
                    found, victims = self._preempt(seen, taken, claim, resources, pods)
                    drops += victims
                if found is None:
                    continue
                state = replace(state, turns={**state.turns, key[0]: state.turns.get(key[0], 0) + 1})
                until = None if self._settings.lease_s is None else seen.at + self._settings.lease_s
                for member, holdings in enumerate(found):
                    state = replace(state, counter=state.counter + 1)
                    gang = f"g{state.counter - member}" if pods > 1 else None
                    places.append(Place(f"k{state.counter}", key, holdings, member, number, until=until, gang=gang,
                                        replaces=replaces, note="in turn"))  # fmt: skip
                break
        return state, tuple(drops), tuple(places)

    def _preempt(self, seen, taken, claim, wanted, pods):
        """The GPUs of leases of smaller weight, each whole."""
        weaker = [
            lease
            for lease in seen.leases.values()
            if lease.phase == "held" and not lease.leaving and seen.claims[lease.claim].weight < claim.weight
        ]
        if pods > 1 or not wanted[GPU] or not weaker:
            return None, []
        for node in seen.cells.at("node"):
            mine = [lease for lease in weaker if all(seen.cells.node_of(cell) == node.id for cell in lease.cells)]
            gpus = [cell for lease in mine for cell in lease.cells if cell in seen.cells.gpus]
            free = [gpu for gpu in seen.room.free_in(node.id) if gpu not in taken.gpus]
            if len(free) + len(gpus) < wanted[GPU] or not gpus:
                continue
            chosen = [*free, *gpus][: wanted[GPU]]
            victims = [lease.key for lease in mine if set(lease.cells) & set(chosen)]
            if any(lease.replaces in victims for lease in seen.leases.values()):
                continue
            taken.gpus.update(chosen)
            drops = [Drop(key, LeaseDropped(f"{claim.app} goes before")) for key in victims]
            return [tuple(Holding(gpu) for gpu in chosen)], drops
        return None, []


class _Taken:
    """What is left while a plan is made."""

    def __init__(self, seen):
        self.seen, self.gpus, self.amounts = seen, set(), {}

    def pods(self, wanted, pods):
        before = set(self.gpus), dict(self.amounts)
        found = [self._pod(wanted) for _ in range(pods)]
        if None in found:
            self.gpus, self.amounts = before
            return None
        return found

    def _pod(self, wanted):
        """Whole GPUs of one node with what else of the node is wanted; or a share of one GPU; or slots of a node."""
        gpus, rest = wanted[GPU], Resources.of({name: amount for name, amount in wanted if name != GPU})
        shares = any(name.startswith("gpu-") for name in rest.names())
        places = list(self.seen.cells.gpus) if shares else [node.id for node in self.seen.cells.at("node")]
        for place in places:
            free = [gpu for gpu in self.seen.room.free_in(place) if gpu not in self.gpus] if gpus else []
            if len(free) < gpus or (shares and place in self.gpus):
                continue
            if rest and not (self.amounts.get(place, Resources()) + rest).fits(self.seen.room.left(place)):
                continue
            if rest:
                self.amounts[place] = self.amounts.get(place, Resources()) + rest
            if shares:
                self.gpus.add(place)
            self.gpus.update(free[:gpus])
            return (*(Holding(gpu) for gpu in free[:gpus]), *([Holding(place, rest)] if rest else []))
        return None


IN_TURN = AllocatorKind(
    "toy-in-turn",
    lambda settings, kinds: InTurn(settings),
    {
        "toy-in-turn/1": InTurnState,
        "toy-in-turn.settings/1": InTurnSettings,
        "toy-in-turn.how-many": HowMany,
        "toy-in-turn.wants": Wants,
        "toy-in-turn.names": Names,
    },
    parameters=InTurnSettings,
    messages=frozenset({"toy-in-turn.wants", "toy-auction.provoke"}),
    solvers={"toy-in-turn.names": by_name},
)


class Table:
    """The GPU of each application, changed in place: the smallest allocator with a `Mutable` state."""

    def __init__(self, owners=()):
        self.owners, self._undo = dict(owners), []

    def set(self, app, gpu):
        self._undo.append((app, self.owners.get(app)))
        if gpu is None:
            self.owners.pop(app, None)
        else:
            self.owners[app] = gpu

    def savepoint(self):
        return len(self._undo)

    def rollback(self, savepoint):
        while len(self._undo) > savepoint:
            app, gpu = self._undo.pop()
            self.owners.pop(app, None) if gpu is None else self.owners.update({app: gpu})

    def commit(self):
        self._undo.clear()

    def dump(self):
        return sorted([app, gpu] for app, gpu in self.owners.items())

    @classmethod
    def load(cls, dumped):
        return cls((app, gpu) for app, gpu in dumped)


@dataclass(frozen=True, slots=True)
class TableReport:
    """The table at one moment."""

    owners: tuple[tuple[str, str], ...]


class ByTable:
    """One GPU for each application, from a table that is changed in place."""

    def initial_state(self):
        return Table()

    def report(self, state):
        return TableReport(tuple(sorted(state.owners.items())))

    def propose(self, state, seen, what):
        here = {lease.claim[0] for lease in seen.leases.values()}
        for app in [app for app in state.owners if app not in here]:
            state.set(app, None)
        free = list(seen.room.free_in())
        places = []
        for claim in seen.claims:
            if claim[0] not in state.owners and free:
                gpu = free.pop(0)
                state.set(claim[0], gpu)
                places.append(Place(f"{claim[0]}/{seen.at!r}", claim, (Holding(gpu),)))
        if isinstance(what, Answer) and isinstance(what.message, Provoke):
            raise RuntimeError("provoked")
        if not places and not free:
            return state, NOTHING
        return state, Plan(place=tuple(places), idle=dict.fromkeys(free, Idle.NOT_WANTED))


TABLE = AllocatorKind(
    "toy-table",
    lambda settings, kinds: ByTable(),
    {"toy-table/1": Table, "toy-table.report/1": TableReport},
    messages=frozenset({"toy-auction.provoke"}),
)
