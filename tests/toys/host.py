"""A toy host: each tenant has a controller of its own inside, over virtual cells.

Two tenants may have the same cell in their parts: a lease of it waits while the other's has not ended. What a tenant
leases is the host's to know: it begins and ends as the tenant's controller says.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated

from tests.toys import auction, cells
from yarn_plugin.decide.pools import hosting
from yarn_plugin.decide.pools.commands import Grant, LeaseEnded
from yarn_plugin.decide.pools.controller import Controllers, Kind
from yarn_plugin.decide.pools.inputs import FromApp, Outcome, Restarted
from yarn_plugin.decide.state import PoolState
from yarn_plugin.model.journaled import Tagged, parts_of
from yarn_plugin.model.resources import Resources
from yarn_plugin.model.topology import Cell, Topology


@dataclass(frozen=True, slots=True)
class Tenant:
    """A tenant by its user's name, its part and its controller's kind."""

    name: str
    user: str
    part: hosting.Part
    controller: str = "toy-auction"
    parameters: Annotated[object, Tagged()] = None


@dataclass(frozen=True, slots=True)
class Settings:
    """`cells`: the cluster; where there are none, what the view shows."""

    tenants: tuple[Tenant, ...] = ()
    cells: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HostState:
    """`children` by their tenants' names. `taken`: the leases of the host's cells, by cell. `delayed`: leases that wait
    for theirs."""

    children: Mapping[str, PoolState] = field(default_factory=dict)
    taken: Mapping[str, str] = field(default_factory=dict)
    delayed: tuple[Grant, ...] = ()

    def parts(self):
        return [part for kept in self.children.values() for part in parts_of(kept.state)]


class Host:
    """See the module."""

    reads = frozenset({"claims", "topology"})

    def __init__(self, pool, registry):
        self._pool, self._children = pool, Controllers(registry)
        self._tenants = {tenant.name: tenant for tenant in pool.parameters.tenants}

    def initial_state(self):
        return HostState()

    def report(self, state):
        return None

    def advance(self, state, view, at, what):
        turn = _Turn(self._pool, self._children, self._tenants, state, view, at)
        turn.pass_on(what)
        return turn.state, tuple(turn.commands)


class _Turn:
    """One call of the host."""

    def __init__(self, pool, controllers, tenants, state, view, at):
        self.pool, self.controllers, self.tenants, self.state, self.at = pool, controllers, tenants, state, at
        known = pool.parameters.cells
        self.view = replace(view, topology=flat(known)) if known else view
        self.commands = []

    def pass_on(self, what):
        """Give an input to the children that it is for; all see the new view."""
        addressed = self.addressed(what)
        for name in self.tenants:
            self.call(name, *((what,) if name in addressed else ()))

    def addressed(self, what):
        match what:
            case FromApp(app, _):
                return {name for name in self.tenants if any(self.is_of(name, one) for one in self.claims(app))}
            case Outcome(id):
                return {hosting.child_of(self.pool.name, id)}
            case Restarted():
                return set(self.tenants)
        return set()  # what a timer is for follows from the time

    def claims(self, app):
        return [claim for claim in self.view.claims if claim.app == app]

    def is_of(self, name, claim):
        return claim.tenant == self.tenants[name].user

    def call(self, name, *inputs):
        tenant, kept = self.tenants[name], self.state.children.get(name)
        child = hosting.child_pool(self.pool, name, tenant.controller, tenant.parameters)
        seen = hosting.part_of_view(self.view, tenant.part, lambda claim: self.is_of(name, claim))
        kept, given = hosting.advance_child(child, self.controllers, kept, seen, self.at, inputs)
        self.state = replace(self.state, children={**self.state.children, name: kept})
        self.commands.append(hosting.child_timer(child, kept))
        for command in given:
            self.give(name, command)

    def give(self, name, command):
        """Translate, delay or refuse what a child wants."""
        try:
            command = hosting.outward(command, self.tenants[name].part)
        except hosting.NotItsCellError as problem:
            self.call(name, Outcome(command.id, "failed", error=str(problem)))
            return
        match command:
            case Grant():
                self.grant(command)
            case LeaseEnded(_, _, lease):
                if not any(lease == grant.leases[0].id for grant in self.state.delayed):
                    self.commands.append(command)
                self.end(lease)
            case _:
                self.commands.append(command)

    def grant(self, grant):
        """Grant leases one by one, each as soon as its cells are free."""
        for lease in grant.leases:
            alone, wanted = replace(grant, leases=(lease,)), [holding.cell for holding in lease.holdings]
            if any(cell in self.state.taken for cell in wanted):
                self.state = replace(self.state, delayed=(*self.state.delayed, alone))
            else:
                taken = {**self.state.taken, **dict.fromkeys(wanted, lease.id)}
                self.state = replace(self.state, taken=taken)
                self.commands.append(alone)

    def end(self, lease):
        """Free the cells of a lease, and grant what waited for them."""
        waiting = [grant for grant in self.state.delayed if grant.leases[0].id != lease]
        taken = {cell: one for cell, one in self.state.taken.items() if one != lease}
        self.state = replace(self.state, taken=taken, delayed=())
        for grant in waiting:
            self.grant(grant)


def flat(names):
    """A cluster of cells that lie in nothing."""
    return Topology(("gpu",), {name: Cell(name, "gpu", None, Resources.of({"yarn.io/gpu": 1})) for name in names})


KIND = Kind(
    "toy-host",
    lambda pool, registry: Host(pool, registry),
    {"toy-host/1": HostState, "toy-host.settings/1": Settings},
    parameters=Settings,
    messages=auction.KIND.messages | cells.KIND.messages,
)
