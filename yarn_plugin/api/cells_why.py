"""Why jobs wait in a pool of virtual clusters, or run without guarantee; and what is wrong with its nodes."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

from yarn_plugin.api.cells import CellsPool, find_pool
from yarn_plugin.api.refusals import Refused
from yarn_plugin.cells.answers import answer_lines
from yarn_plugin.cells.node_faults import find_faults, nodes_of_pool
from yarn_plugin.decide.allocators.buddy_cells import NO_CLUSTER, BuddyCellsState, request_of
from yarn_plugin.decide.allocators.cells import Cells
from yarn_plugin.decide.allocators.happenings import name_of
from yarn_plugin.decide.leases.settings import LedgerSettings
from yarn_plugin.decide.leases.state import Ledger
from yarn_plugin.decide.mechanisms.buddy_cells.allocator import Allocator, Call
from yarn_plugin.decide.mechanisms.buddy_cells.answers import Wait
from yarn_plugin.decide.mechanisms.buddy_cells.errors import RejectedError
from yarn_plugin.decide.mechanisms.buddy_cells.explanation import ask, explain
from yarn_plugin.decide.mechanisms.buddy_cells.gangs import Request
from yarn_plugin.decide.mechanisms.buddy_cells.health import bad_cells
from yarn_plugin.decide.mechanisms.buddy_cells.reconfiguration import reconfigure
from yarn_plugin.decide.mechanisms.buddy_cells.specification import ClusterSpec
from yarn_plugin.decide.membership import home_of
from yarn_plugin.decide.pools.ledger import LedgerState, cells_of_pool
from yarn_plugin.decide.state import State
from yarn_plugin.model.share import Claim
from yarn_plugin.model.topology import Topology
from yarn_plugin.quantities import count

MAX_FAULTS = 10
"""Bad nodes that are named."""


def explained(state: State, app: str) -> Callable[[], list[str]] | None:
    """What makes the explanation for an application, which may take long; None if its pool has no virtual clusters.

    Only immutable parts of the state are read: the arbiter goes on meanwhile.
    """
    home = home_of(state, app)
    kept = state.pool_states.get(home.name) if home is not None else None
    if home is None or kept is None or not isinstance(kept.state, LedgerState):
        return None
    allocated = kept.state.allocated
    if not isinstance(allocated, BuddyCellsState):
        return None
    try:
        found = find_pool(state, home.name)
    except Refused:
        return None
    about = _About(app, found, kept.state.ledger, allocated, allocated.cells.cluster.spec, state.cells or Topology())
    return lambda: list(about.lines())


@dataclass(frozen=True)
class _About:
    """One explanation. `spec`: the configuration that is in effect."""

    app: str
    found: CellsPool
    ledger: Ledger
    allocated: BuddyCellsState
    spec: ClusterSpec
    topology: Topology

    @cached_property
    def allocator(self) -> Allocator:
        """A copy of the cluster with what runs."""
        return reconfigure(self.spec, self.found.running, self.found.report.bad_nodes).allocator

    @cached_property
    def cells(self) -> Cells:
        """The cells of the pool."""
        assert isinstance(self.found.pool.parameters, LedgerSettings)
        return cells_of_pool(self.topology, self.found.pool.parameters)

    def lines(self) -> Iterator[str]:
        """The explanation."""
        waits = False
        lent = {one.leased.claim for guest in self.allocated.guests.values() for one in guest.lent.values()}
        for claim in self.ledger.claims:
            if claim.app != self.app:
                continue
            name, who = name_of((claim.app, claim.job)), f"job {claim.job}" if claim.job else claim.app
            if name in self.allocated.placed:
                yield from self._about_class(who, name, claim)
                continue
            if (claim.app, claim.job) in lent:
                continue
            for line in self._about_waiting(who, claim):
                waits = True
                yield line
        if waits:
            yield from self._about_nodes()

    def _about_class(self, who: str, name: str, claim: Claim) -> Iterator[str]:
        if name in self.allocated.announced:
            yield f"{who}: becomes opportunistic soon: the new configuration has no cells for it"
        elif self.allocated.placed[name].kind == "opportunistic" and claim.priority >= 0:
            yield (
                f"{who}: runs as opportunistic work although its priority is {claim.priority}: the quota of its "
                "virtual cluster has no free cells for it, since work of a higher priority came or the configuration "
                "changed; it becomes guaranteed again once there are some"
            )

    def _about_waiting(self, who: str, claim: Claim) -> Iterator[str]:
        request = request_of(claim, self.allocator.cluster, self.found.settings.default_cluster)
        if request is None:
            yield (
                f"{who}: uses no GPUs, so it needs no cells and waits for none; YARN places its containers beside GPU "
                "jobs, in the memory and vcores that these leave"
            )
        elif request == NO_CLUSTER:
            yield f"{who}: waits: {claim.tenant!r} has no virtual cluster, and the pool no default_cluster"
        elif isinstance(request, Request):
            inside = self.found.settings.scheduler_of(claim, request.cluster)
            if inside is not None:
                yield (
                    f"{who}: waits: the scheduler {inside} decides in virtual cluster {request.cluster}, and has not "
                    "placed it"
                )
                return
            yield from (f"{who}: {line.strip()}" for line in self._about_request(request))

    def _about_request(self, request: Request) -> Iterator[str]:
        call = Call(request.gang, request.sizes[0], request)
        try:
            answer = ask(self.allocator, call)
        except RejectedError as problem:
            yield f"never: {problem}"
            return
        if isinstance(answer, Wait):
            explanation = explain(self.allocator, call, answer, self.found.jobs)
            yield from answer_lines(answer, explanation, request, self.spec, self.found.jobs)
        elif request.gang in self.allocated.resting:
            yield "waits to be tried again: its last leases ended, or YARN did not place containers on them in time"
        else:
            yield "its virtual cluster has room, but only on GPUs that are not free yet, or whose nodes have no room"

    def _about_nodes(self) -> Iterator[str]:
        cluster = self.allocator.cluster
        faults = list(find_faults(cluster, nodes_of_pool(self.topology, self.cells)))
        yield from map(str, faults[:MAX_FAULTS])
        if faults[MAX_FAULTS:]:
            yield f"and {count(len(faults) - MAX_FAULTS, 'more node')}"
        for name, virtual in cluster.virtual.items():
            if number := bad_cells(cluster, virtual):
                yield f"virtual cluster {name}: only bad nodes are left for {count(number, 'cell')} of its quota"
        crowded = Counter(self.cells.gpus[gpu].host for gpu in self.ledger.crowded if gpu in self.cells.gpus)
        for host, number in crowded.items():
            yield (
                f"node {host}: {count(number, 'free GPU')} cannot be leased now: other containers, such as those of "
                "jobs without GPUs, use the memory or vcores that a task there needs, or those of applications that "
                "are not registered use GPUs"
            )
