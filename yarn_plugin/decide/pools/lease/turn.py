"""One call of the lease controller: its state as it changes, and the commands so far."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from yarn_plugin.decide.pools.commands import Ask, Command, Offer, Revoke, Solve
from yarn_plugin.decide.pools.lease.inventory import Inventory, inventory
from yarn_plugin.decide.pools.lease.settings import LeaseSettings
from yarn_plugin.decide.pools.lease.state import Held, LeaseState
from yarn_plugin.decide.pools.view import View
from yarn_plugin.model.share import Claim

Repeatable = Ask | Offer | Solve | Revoke
"""Commands that are issued again after a restart, until they are closed."""


class Turn:
    """`state`: as changed so far; `commands`: given so far; `claims`: by application. `decided_at`: the time that
    counts for the allocation decided in this call, if any."""

    def __init__(self, pool: str, settings: LeaseSettings, state: LeaseState, view: View, at: float) -> None:
        self.pool, self.settings, self.state, self.view, self.at = pool, settings, state, view, at
        self.commands: list[Command] = []
        self._indexed: object = None
        self._by_app: dict[str, list[Held]] = {}
        self.decided_at: float | None = None
        self.inventory: Inventory = inventory(view.topology, settings)
        self.claims: dict[str, Claim] = {claim.app: claim for claim in view.claims}

    # Commands.

    def new_id(self) -> str:
        """A new id of a command or a lease."""
        self.change(counter=self.state.counter + 1)
        return f"{self.pool}#{self.state.counter}"

    def give(self, command: Repeatable) -> None:
        """Issue a command, and again after a restart until it is closed."""
        self.change(open={**self.state.open, command.id: command})
        self.commands.append(command)

    def close(self, *ids: str) -> None:
        """Do not issue these commands again."""
        self.change(open={name: command for name, command in self.state.open.items() if name not in ids})

    # State.

    def change(self, **fields: Any) -> None:
        """Change fields of the state."""
        self.state = replace(self.state, **fields)

    def set_lease(self, held: Held) -> None:
        """Add or change a lease."""
        self.change(leases={**self.state.leases, held.lease.id: held})

    def trigger(self, why: str, wait: float = 0.0) -> None:
        """Open a round for this reason, at most `wait` seconds from now."""
        state = self.state
        due = self.at + wait if state.open_at is None else min(state.open_at, self.at + wait)
        triggers = state.triggers if why in state.triggers else (*state.triggers, why)
        self.change(triggers=triggers, open_at=due)

    def freed(self, gpus: Iterable[str], why: str) -> None:
        """Open a round if any of these GPUs is free now; not for those that the last round left idle."""
        if not self.free().isdisjoint(set(gpus) - set(self.state.idle)):
            self.trigger(why, self.settings.round_window_s)

    @property
    def effective_at(self) -> float:
        """When the leases that change in this call do so."""
        return self.at if self.decided_at is None else self.decided_at

    # What is leased and what is free.

    def active(self) -> list[str]:
        """The applications that take part, in order of arrival."""
        return [app for app, member in self.state.members.items() if not member.waits]

    def leases_of(self, app: str) -> Iterator[Held]:
        """The leases of an application, those not started included."""
        if self._indexed is not self.state.leases:
            # Every change makes another mapping.
            self._indexed, self._by_app = self.state.leases, {}
            for held in self.state.leases.values():
                self._by_app.setdefault(held.lease.app, []).append(held)
        return iter(self._by_app.get(app, ()))

    def ending(self) -> list[Held]:
        """The leases that have reached their end and are not revoked as a whole."""
        return [
            held
            for held in self.state.leases.values()
            if held.lease.until is not None
            and held.lease.until <= self.at
            and held.staying
            and held.started_at is not None
        ]

    def free(self) -> set[str]:
        """The usable GPUs in no lease."""
        taken = {gpu for held in self.state.leases.values() for gpu in held.gpus}
        return {gpu for gpu in self.inventory.places if gpu not in taken}
