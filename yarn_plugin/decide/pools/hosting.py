"""Controllers inside a controller: a host gives each of its children a small cluster of virtual cells.

A child is a pool whose name is a path, such as `gpu/prod-a`; its state is part of the host's. It sees virtual cells
only: its `Part` maps them to cells of the host's view. A host

- calls a child with `advance_child`: on the inputs that `child_of` assigns to it, and when the host's own view changes;
- stores the returned state, and sets the timer that `child_timer` returns, under the child's path;
- translates the returned commands with `outward`, which maps virtual cells to the host's and raises for unknown ones;
or
  it delays or rejects them: `Outcome(id, "failed", ...)`;
- passes `Restarted` on to all children, and `Reconfigured` to those whose parameters it changed. To remove a child, it
  drops its state and its timer: `SetTimer(path, None)`.

A message of an application goes to the child that has its claim; so does its container list, an `Outcome` whose id is
the application's. A child that fails stops alone, as a pool does. Pure.
"""

import math
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from yarn_plugin.decide import commands as arbiter
from yarn_plugin.decide.pools.advance import advance, deadline
from yarn_plugin.decide.pools.commands import Command, Grant, LeaseEnded, Revoke, SetTimer, Solve
from yarn_plugin.decide.pools.controller import Controllers
from yarn_plugin.decide.pools.inputs import FromApp, Input
from yarn_plugin.decide.pools.view import View
from yarn_plugin.decide.state import PoolState
from yarn_plugin.decide.topology import cell_of_node
from yarn_plugin.model.cluster import Use
from yarn_plugin.model.resources import Resources
from yarn_plugin.model.share import Claim, Holding, Lease, Pool
from yarn_plugin.model.topology import Cell, Topology


class NotItsCellError(ValueError):
    """A child named a cell outside its part."""


@dataclass(frozen=True, slots=True)
class Part:
    """A child's part of a cluster: the host's cell for each virtual cell."""

    cells: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check that no cell of the host is mapped twice."""
        if len(set(self.cells.values())) < len(self.cells):
            raise ValueError(f"a part maps two virtual cells to one cell of the host: {dict(self.cells)}")

    def real(self, virtual: str) -> str:
        """The host's cell.

        Raises:
            NotItsCellError: the part has no such cell.
        """
        if virtual not in self.cells:
            raise NotItsCellError(f"cell {virtual!r}: not a cell of this child; choose one of {', '.join(self.cells)}")
        return self.cells[virtual]

    def names(self) -> dict[str, str]:
        """The virtual cell of each of the host's cells in the part."""
        return {real: virtual for virtual, real in self.cells.items()}


# Paths.


def child_pool(host: Pool, name: str, controller: str, parameters: object = None) -> Pool:
    """A child as a pool: its name is its path, its other settings are the host's."""
    return replace(host, name=f"{host.name}/{name}", controller=controller, parameters=parameters)


def child_of(host: str, path: str) -> str | None:
    """The name of the child that a path, a timer key or a command id belongs to; None for the host's own.

    For the host `gpu`, `gpu/prod-a#17` and `gpu/prod-a/inner#3` (of a child's child) belong to `prod-a`.
    """
    before, slash, rest = path.partition("#")[0].partition(f"{host}/")
    return rest.partition("/")[0] if slash and not before else None


def child_timer(child: Pool, kept: PoolState) -> SetTimer:
    """The host's timer for a child: when it must be called next."""
    due = deadline(kept)
    return SetTimer(child.name, due if math.isfinite(due) else None)


# A child's view.


def part_of_view(view: View, part: Part, is_its: Callable[[Claim], bool]) -> View:
    """A child's view: its cells, its claims, and their use of its cells.

    Ancestors of a cell are visible if the part contains them. Suggested nodes and pinned cells outside the part are
    omitted.
    """
    topology, names = part_of_topology(view.topology, part), part.names()
    claims = tuple(_inward(claim, names) for claim in view.claims if is_its(claim))
    members = {name for claim in claims for name in (claim.app, claim.yarn_app)}
    use = tuple(_uses_inward(view, names, members))
    return replace(view, capacity=topology.capacity(), topology=topology, claims=claims, use=use, node_used={},
                   waiting=(), weights={}, static=None)  # fmt: skip


def _uses_inward(view: View, names: Mapping[str, str], members: Container[str | None]) -> Iterator[Use]:
    """The members' use of the nodes in the part, under their virtual names."""
    for one in view.use:
        cell = cell_of_node(view.topology, one.node)
        if one.app in members and cell is not None and cell in names:
            yield replace(one, node=names[cell])


def part_of_topology(known: Topology, part: Part) -> Topology:
    """The virtual cells of a part, in the host's order. A cell is broken if one of its ancestors is, or if the host no
    longer sees it."""
    names = part.names()
    cells = [_virtual_cell(known, names, cell) for cell in known.cells.values() if cell.id in names]
    lowest = known.levels[-1] if known.levels else "cell"
    cells += [
        Cell(name, lowest, None, Resources(), broken=True)
        for name, real in part.cells.items()
        if real not in known.cells
    ]
    present = {cell.level for cell in cells}
    levels = tuple(level for level in known.levels or (lowest,) if level in present)
    return Topology(levels, {cell.id: cell for cell in cells})


def _virtual_cell(known: Topology, names: Mapping[str, str], cell: Cell) -> Cell:
    above = (names[one.id] for one in known.ancestors(cell.id) if one.id in names)
    return replace(cell, id=names[cell.id], parent=next(above, None), broken=known.is_broken(cell.id), host="")


def _inward(claim: Claim, names: Mapping[str, str]) -> Claim:
    pinned = None if claim.pinned is None else names.get(claim.pinned)
    suggested = tuple(names[node] for node in claim.suggested if node in names)
    return replace(claim, pinned=pinned, suggested=suggested, queue=None)


# Calling a child.


def advance_child(
    child: Pool, controllers: Controllers, kept: PoolState | None, view: View, at: float, inputs: Sequence[Input] = ()
) -> tuple[PoolState, list[Command]]:
    """Run one step of a child, as of any pool: `inputs`, then a changed view, then its due timers.

    `controllers`: of the host's children; the host keeps them. `kept` None: a new child. If it fails on an
    application's message, the exception is raised here and the message rejected; any other failure stops the child
    until its retry. The commands name virtual cells. Wanted weights are in `PoolState.weights`; for timers see
    `child_timer`.
    """
    refusable = any(isinstance(one, FromApp) for one in inputs)
    kept, given = advance(child, controllers, kept, view, at, inputs, refusable)
    return kept, [_as_given(command) for command in given]


def _as_given(command: arbiter.Command) -> Command:
    """The controller's command that an arbiter's command was made from."""
    match command:
        case arbiter.SolveInWorker(_, name, problem):
            return Solve(name, problem)
        case arbiter.SendToApp(_, _, message):
            return message  # type: ignore[return-value]
        case _:
            return command  # type: ignore[return-value]


def outward(command: Command, part: Part) -> Command:
    """A child's command with the host's cells. Cells inside its own messages (questions, offers, problems) are not
    translated.

    Raises:
        NotItsCellError: it names a cell outside its part.
    """
    if isinstance(command, Revoke | LeaseEnded):
        return replace(command, cells=tuple(map(part.real, command.cells)))
    if not isinstance(command, Grant):
        return command
    return replace(command, leases=tuple(lease_outward(lease, part) for lease in command.leases))


def lease_outward(lease: Lease, part: Part) -> Lease:
    """A child's lease with the host's cells, without their places, which the child knows by virtual names.

    Raises:
        NotItsCellError: it names a cell outside its part.
    """

    def real(holding: Holding) -> Holding:
        return replace(holding, cell=part.real(holding.cell), place=None)

    return replace(lease, holdings=tuple(map(real, lease.holdings)))


def wanted_weights(children: Iterable[PoolState]) -> tuple[tuple[str, float], ...]:
    """The weights that all children want; if two name a queue, the last one counts."""
    weights: Mapping[str, float] = {queue: weight for kept in children for queue, weight in kept.weights or ()}
    return tuple(sorted(weights.items()))
