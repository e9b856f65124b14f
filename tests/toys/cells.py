"""A toy with large state: 65,536 cells, handed out in eights, changed in place with an undo log."""

from dataclasses import dataclass

from tests.toys.auction import Provoke
from yarn_plugin.decide.pools.commands import SetTimer
from yarn_plugin.decide.pools.controller import Kind
from yarn_plugin.decide.pools.inputs import FromApp, TimerDue

CELLS, EACH = 65_536, 8


class CellTable:
    """The holder of each cell by number; "" if it is free.

    `free`: a stack. `of`: the cells of each owner. `provoked`: on which input the controller raises. Each change can be
    undone in the opposite order, one step for one cell; `operations` counts steps, for tests.
    """

    def __init__(self, size=CELLS):
        self.owners = [""] * size
        self.free = list(range(size - 1, -1, -1))
        self.of = {}
        self.provoked = ""
        self.operations = 0
        self._undo = []

    def take(self, app, count):
        for _ in range(count):
            cell = self.free[-1]
            self._undo.append(("", cell))
            self._set(cell, app)

    def release(self, app):
        for cell in reversed(self.of.get(app, ())[:]):
            self._undo.append((app, cell))
            self._set(cell, "")

    def provoke(self, when):
        self._undo.append((None, self.provoked))
        self.provoked = when

    def _set(self, cell, app):
        self.operations += 1
        before, self.owners[cell] = self.owners[cell], app
        cells = self.of.setdefault(before, []) if before else self.free
        assert cells.pop() == cell
        if before and not cells:
            del self.of[before]
        (self.of.setdefault(app, []) if app else self.free).append(cell)

    # What makes it a Mutable.

    def savepoint(self):
        return len(self._undo)

    def rollback(self, savepoint):
        while len(self._undo) > savepoint:
            owner, what = self._undo.pop()
            if owner is None:
                self.provoked = what
            else:
                self._set(what, owner)

    def commit(self):
        self._undo.clear()

    def dump(self):
        """Everything, in the order in which it will be used."""
        self.operations += len(self.owners)
        of = [[app, cells[:]] for app, cells in sorted(self.of.items())]
        return {"free": self.free[:], "of": of, "provoked": self.provoked}

    @classmethod
    def load(cls, dumped):
        made = cls(len(dumped["free"]) + sum(len(cells) for _, cells in dumped["of"]))
        made.free, made.provoked = list(dumped["free"]), dumped["provoked"]
        for app, cells in dumped["of"]:
            made.of[app] = list(cells)
            for cell in cells:
                made.owners[cell] = app
        return made


@dataclass(frozen=True, slots=True)
class CellReport:
    """How many cells are free, and who has which."""

    free: int
    of: tuple[tuple[str, tuple[int, ...]], ...]


@dataclass(frozen=True, slots=True)
class More:
    """An application wants so many cells more; asked for too many, the controller raises when it has them all."""

    cells: int


class Cells:
    """Gives each claim eight cells, and more to those that ask for more."""

    reads = frozenset({"claims"})

    def initial_state(self):
        return CellTable()

    def report(self, state):
        return CellReport(len(state.free), tuple((app, tuple(cells)) for app, cells in sorted(state.of.items())))

    def advance(self, state, view, at, what):
        claims = {claim.app for claim in view.claims}
        for app in sorted(app for app in state.of if app not in claims):
            state.release(app)
        for claim in view.claims:
            if claim.app not in state.of:
                state.take(claim.app, EACH)
        commands = ()
        match what:
            case FromApp(app, More(cells)):
                state.take(app, cells)
                if cells > EACH:
                    raise ValueError(f"{cells} cells at once; ask for {EACH} at most")
            case FromApp(_, Provoke(when)):
                state.provoke(when)
                commands = (SetTimer("provoked", at + 0.05),)
            case TimerDue():
                commands = (SetTimer("provoked", at + 0.05),)
        if state.provoked == type(what).__name__:
            raise RuntimeError(f"provoked by {state.provoked}")
        return state, commands


KIND = Kind(
    "toy-cells",
    lambda pool, registry: Cells(),
    {"toy-cells/1": CellTable, "toy-cells.report": CellReport, "toy-cells.more": More},
    messages=frozenset({"toy-cells.more", "toy-auction.provoke"}),
)
