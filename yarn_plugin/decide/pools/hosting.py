"""Controllers inside a controller: a host gives each of its children a small cluster of virtual cells.

A child is a pool of its own whose name is a path, such as `gpu/prod-a`; its state lies in the host's. It sees virtual
cells only: its `Part` says which cells of the host's view these are. A host

- calls a child with `advance_child`, on inputs that `child_of` says are its, and whenever the host's own view differs;
- keeps what it gets back, and sets the one timer that `child_timer` says, under the child's path;
- takes the commands that come back through `outward`, which makes the host's cells of virtual ones and raises where a
  child names others; or it delays them, or refuses them: `Outcome(id, "failed", ...)`;
- passes `Restarted` on to all of them, and `Reconfigured` to those whose parameters it changed. A child that goes is
  left out, with its timer: `SetTimer(path, None)`.

What an application says is for the child that its claim went to; so is the list of its containers, an `Outcome` whose
id is the application's. A child that raises stops alone, as a pool does. Pure.
"""

import math
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from yarn_plugin.decide import commands as arbiter
from yarn_plugin.decide.pools.advance import advance, deadline
from yarn_plugin.decide.pools.commands import Command, Grant, SetTimer, Solve
from yarn_plugin.decide.pools.controller import Registry
from yarn_plugin.decide.pools.inputs import FromApp, Input
from yarn_plugin.decide.pools.view import View
from yarn_plugin.decide.state import PoolState
from yarn_plugin.decide.topology import cell_of_node
from yarn_plugin.model.cluster import Use
from yarn_plugin.model.resources import Resources
from yarn_plugin.model.share import Claim, Holding, Lease, Pool
from yarn_plugin.model.topology import Cell, Topology


class NotItsCellError(ValueError):
    """A child names a cell that is not in its part."""


@dataclass(frozen=True, slots=True)
class Part:
    """What a child has of a cluster: for the id of each virtual cell, the host's cell that it is."""

    cells: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse a part in which a cell of the host's is two virtual ones."""
        if len(set(self.cells.values())) < len(self.cells):
            raise ValueError("a part has the same cell twice; name each cell once")

    def real(self, virtual: str) -> str:
        """The host's cell.

        Raises:
            NotItsCellError: there is none of this id in the part.
        """
        if virtual not in self.cells:
            raise NotItsCellError(f"no cell {virtual!r}; its cells are {', '.join(self.cells)}")
        return self.cells[virtual]

    def names(self) -> dict[str, str]:
        """The virtual cell of each of the host's that is in the part."""
        return {real: virtual for virtual, real in self.cells.items()}


# Paths.


def child_pool(host: Pool, name: str, controller: str, parameters: object = None) -> Pool:
    """A child as a pool: its name is its path, whatever else is settled is the host's."""
    return replace(host, name=f"{host.name}/{name}", controller=controller, parameters=parameters)


def child_of(host: str, path: str) -> str | None:
    """The name of the child of a host that a path, the key of a timer or the id of a command leads to.

    `gpu`, `gpu/prod-a#17` -> `prod-a`; so does `gpu/prod-a/inner#3`, of a child's child. None where it is the host's.
    """
    before, slash, rest = path.partition("#")[0].partition(f"{host}/")
    return rest.partition("/")[0] if slash and not before else None


def child_timer(child: Pool, kept: PoolState) -> SetTimer:
    """The host's timer for a child: when it is to be called though nothing happens."""
    due = deadline(kept)
    return SetTimer(child.name, due if math.isfinite(due) else None)


# A child's view.


def part_of_view(view: View, part: Part, is_its: Callable[[Claim], bool]) -> View:
    """What a child sees of the host's view: its cells, its claims, and what those hold in its cells.

    Of the cells that a cell of the part lies in, it sees those that the part holds too. Nodes that a claim would rather
    have, and the cell that it is pinned to, are left out where they are not in the part.
    """
    topology, names = part_of_topology(view.topology, part), part.names()
    claims = tuple(_inward(claim, names) for claim in view.claims if is_its(claim))
    members = {name for claim in claims for name in (claim.app, claim.yarn_app)}
    use = tuple(_uses_inward(view, names, members))
    return replace(view, capacity=topology.capacity(), topology=topology, claims=claims, use=use, waiting=(),
                   weights={}, static=None)  # fmt: skip


def _uses_inward(view: View, names: Mapping[str, str], members: Container[str | None]) -> Iterator[Use]:
    """What members hold on nodes that are cells of the part, each node under its virtual name."""
    for one in view.use:
        cell = cell_of_node(view.topology, one.node)
        if one.app in members and cell is not None and cell in names:
            yield replace(one, node=names[cell])


def part_of_topology(known: Topology, part: Part) -> Topology:
    """The virtual cells of a part, in the host's order. A cell is broken where one is that it lies in; and where the
    host does not see it any more."""
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
    return replace(cell, id=names[cell.id], parent=next(above, None), broken=known.is_broken(cell.id))


def _inward(claim: Claim, names: Mapping[str, str]) -> Claim:
    pinned = None if claim.pinned is None else names.get(claim.pinned)
    suggested = tuple(names[node] for node in claim.suggested if node in names)
    return replace(claim, pinned=pinned, suggested=suggested, queue=None)


# Calling a child.


def advance_child(
    child: Pool, registry: Registry, kept: PoolState | None, view: View, at: float, inputs: Sequence[Input] = ()
) -> tuple[PoolState, list[Command]]:
    """One step of a child, as of any pool: `inputs`, then what follows from its view and its timers.

    `kept` None: it is new. A message of an application on which it raises is refused, by raising here; whatever else it
    raises on stops it for a while. The commands are the child's own, its cells virtual; the weights that it wants are
    in `PoolState.weights`, the timers in `child_timer`.
    """
    refusable = any(isinstance(one, FromApp) for one in inputs)
    kept, given = advance(child, registry, kept, view, at, inputs, refusable)
    return kept, [_as_given(command) for command in given]


def _as_given(command: arbiter.Command) -> Command:
    """The command of a controller that the arbiter made one of its own of."""
    match command:
        case arbiter.SolveInWorker(_, name, problem):
            return Solve(name, problem)
        case arbiter.SendToApp(_, _, message):
            return message  # type: ignore[return-value]
        case _:
            return command  # type: ignore[return-value]


def outward(command: Command, part: Part) -> Command:
    """A child's command with the host's cells. What a controller's own messages (questions, offers, problems) say of
    cells is the controller's: it stays as it is.

    Raises:
        NotItsCellError: it names a cell that is not in its part.
    """
    if not isinstance(command, Grant):
        return command
    return replace(command, leases=tuple(lease_outward(lease, part) for lease in command.leases))


def lease_outward(lease: Lease, part: Part) -> Lease:
    """A child's lease with the host's cells.

    Raises:
        NotItsCellError: it names a cell that is not in its part.
    """

    def real(holding: Holding) -> Holding:
        return replace(holding, cell=part.real(holding.cell))

    return replace(lease, holdings=tuple(map(real, lease.holdings)))


def wanted_weights(children: Iterable[PoolState]) -> tuple[tuple[str, float], ...]:
    """The weights that all children want, as one wish of the host's; of a queue that two name, the last one's."""
    weights: Mapping[str, float] = {queue: weight for kept in children for queue, weight in kept.weights or ()}
    return tuple(sorted(weights.items()))
