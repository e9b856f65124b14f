"""A call of the auction whose leases are a ledger's: what happened to them comes in, what it wants of them goes out."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

from yarn_plugin.decide.allocators.happenings import ClaimKey
from yarn_plugin.decide.allocators.plan import Ask, Drop, Hold, Holding, Keep, Place, Plan, Record, Solve, Wake
from yarn_plugin.decide.allocators.seen import Leased
from yarn_plugin.decide.commands import RecordRound
from yarn_plugin.decide.leases.book import LeasesSeen
from yarn_plugin.decide.pools import commands
from yarn_plugin.decide.pools.lease.derived import Derived
from yarn_plugin.decide.pools.lease.index import LeaseIndex
from yarn_plugin.decide.pools.lease.inventory import Inventory
from yarn_plugin.decide.pools.lease.leases import revoke
from yarn_plugin.decide.pools.lease.settings import THEMIS, LeaseSettings
from yarn_plugin.decide.pools.lease.state import Held, LeaseState
from yarn_plugin.decide.pools.lease.turn import Repeatable, Turn
from yarn_plugin.decide.pools.view import View
from yarn_plugin.model import share
from yarn_plugin.model.causes import LeaseWon, NodeLost
from yarn_plugin.model.resources import GPU


def key_of(pool: str, number: int) -> str:
    """The key of a lease. Keys are in the order of their text, as the ledger takes leases."""
    return f"{pool}#{number:07}"


class LedgerTurn(Turn):
    """A turn that decides only: the ledger starts leases, ends them, and knows what is vacated.

    `learnt`: in earlier calls, of the leases of this state; it is changed with them.
    """

    def __init__(
        self,
        settings: LeaseSettings,
        state: LeaseState,
        view: View,
        at: float,
        index: LeaseIndex | None,
        derived: Derived,
        inventory: Inventory,
        learnt: "Learnt",
    ) -> None:
        super().__init__(THEMIS, settings, state, view, at, index, derived, inventory)
        self.learnt = learnt
        self._added: list[str] = []

    def set_lease(self, held: Held) -> None:
        """Add or change a lease."""
        if held.lease.id not in self.state.leases:
            self._added.append(held.lease.id)
        self.learnt.outdated.add(held.lease.id)
        super().set_lease(held)

    def new_id(self) -> str:
        """A new key."""
        self.state.counter += 1
        return key_of(self.pool, self.state.counter)

    def give(self, command: Repeatable) -> None:
        """Issue a command. Revocations are the ledger's to repeat."""
        if isinstance(command, commands.Revoke):
            self.commands.append(command)
        else:
            super().give(command)

    def start_vacated(self) -> None:
        """The ledger does it."""

    def take_leases(self, leases: Mapping[str, Leased]) -> None:
        """Learn what became of the leases since the last call.

        The ledger has ended those of broken cells. Inside a virtual cluster one may go on, where not all of a node is
        broken: it is revoked, since nothing new can be leased there.
        """
        for key in sorted(self.learnt.to_compare(leases, self.state.leases)):
            held, leased = self.state.leases.get(key), leases.get(key)
            if held is None:
                continue
            if leased is None:
                self.remove_lease(held)
            elif _is_other(held, leased):
                self.set_lease(_as_leased(held, leased))
        self.learnt = Learnt(leases)
        for held in [] if self.index.is_checked else list(self.state.leases.values()):
            gone = [gpu for gpu in held.staying if gpu not in self.inventory.places]
            if gone:
                revoke(self, held.lease.id, gone, NodeLost(gone[0].partition("/")[0]))
        self.index.is_checked = True

    def is_starting(self) -> bool:
        """Whether the ledger will start a lease that this call adds at once."""
        return any(not any(map(self.index.is_in_use, self.state.leases[key].gpus)) for key in self._added)

    def plan(self, leases: Mapping[str, Leased], claims: Mapping[str, ClaimKey], wake: Wake) -> Plan:
        """What this call decided.

        Args:
            leases: those that the ledger has.
            claims: of each application, the one that its leases are of.
            wake: when to go on.
        """
        renewed = [one for one in self.commands if isinstance(one, commands.Renew)]
        revoked = [one for one in self.commands if isinstance(one, commands.Revoke)]
        return Plan(
            keep=tuple(
                Keep(one.lease, one.until, one.cause, is_revoked_still=bool(leases[one.lease].leaving))
                for one in renewed
                if one.lease in leases
            ),
            drop=tuple(Drop(one.lease, one.cause, one.cells) for one in revoked),
            place=tuple(
                _placed(held, claims[held.lease.app], says_how=self.settings.rules > 3)
                for held in (self.state.leases[key] for key in self._added)
            ),
            ask=tuple(self._asks()),
            solve=tuple(Solve(one.id, one.problem) for one in self.commands if isinstance(one, commands.Solve)),
            wake=(wake,),
            hold=tuple(Hold(one.app, one.cause) for one in self.commands if isinstance(one, commands.Hold)),
            accept=tuple(one.app for one in self.commands if isinstance(one, commands.Accept)),
            record=tuple(Record(one.cause) for one in self.commands if isinstance(one, RecordRound)),
        )

    def _asks(self) -> Iterator[Ask]:
        for command in self.commands:
            match command:
                case commands.Ask(_, app, question, by):
                    yield Ask(app, question, by)
                case commands.Offer(_, app, offer, by):
                    yield Ask(app, offer, by, is_offer=True)


@dataclass(slots=True)
class Learnt:
    """What the auction knows of the ledger's leases. `leases`: all, as they were given last (None: not yet);
    `outdated`: the keys of those that the auction has changed since."""

    leases: Mapping[str, Leased] | None = None
    outdated: set[str] = field(default_factory=set)

    def to_compare(self, leases: Mapping[str, Leased], mine: Mapping[str, Held]) -> Collection[str]:
        """The keys of the leases that may now be other ones in the ledger. `mine`: the auction's."""
        if self.leases is None:
            return mine
        if leases is self.leases:
            return self.outdated
        changed = leases.changed_since(self.leases) if isinstance(leases, LeasesSeen) else None
        return mine if changed is None else self.outdated | changed


def _is_other(held: Held, leased: Leased) -> bool:
    """Whether a lease has started, ended in part, or is being vacated since it was last seen."""
    return (
        held.started_at != leased.started_at
        or held.leaving != leased.leaving
        or held.by != leased.by
        or held.lease.until != leased.until
        or len(held.lease.holdings) != len(leased.holdings)
    )


def _as_leased(held: Held, leased: Leased) -> Held:
    cells = leased.cells
    holdings = tuple([holding for holding in held.lease.holdings if holding.cell in cells])
    return replace(
        held,
        lease=replace(held.lease, holdings=holdings, until=leased.until),
        started_at=leased.started_at,
        leaving=leased.leaving,
        by=leased.by,
        revoke=None,
    )


def _placed(held: Held, claim: ClaimKey, says_how: bool) -> Place:
    lease: share.Lease = held.lease
    assert all(holding.resource == GPU for holding in lease.holdings)
    holdings = tuple([Holding(gpu) for gpu in held.gpus])
    note = f"round {held.round}: {held.how}"
    won = LeaseWon(held.round, len(holdings), held.how) if says_how else None
    return Place(lease.id, claim, holdings, until=lease.until, note=note, job=lease.job, won=won)
