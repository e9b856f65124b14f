"""Who holds how much of each cell: now, and once every hand-over is done.

A holding counts in its cell and in all that contain it: so one look tells whether something fits. A whole cell counts
with its capacity, and excludes every other holding in it or around it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from yarn_plugin.decide.allocators.cells import Cells
from yarn_plugin.decide.allocators.plan import Holding
from yarn_plugin.decide.leases.state import Entry
from yarn_plugin.model.resources import GPU, GPU_MILLI, Resources


class Tally:
    """The holdings of some leases, counted. Changed in place."""

    def __init__(self) -> None:
        self.totals: dict[str, dict[str, int]] = {}
        self.counts: dict[str, int] = {}
        self.whole: dict[str, int] = {}

    def add(self, cells: Cells, holdings: Sequence[Holding], sign: int = 1) -> None:
        """Count holdings, or no longer (`sign` -1). Cells that several of them lie in are changed once."""
        inside: dict[str, tuple[int, dict[str, int]]] = {}
        for holding in holdings:
            cell = holding.cell
            path = cells.paths.get(cell)
            if path is None:
                # A cell that is gone: its lease is about to end.
                continue
            amounts = (holding.amounts or cells[cell].capacity).amounts
            self._change(cell, sign, amounts, sign)
            if not holding.amounts:
                left = self.whole.get(cell, 0) + sign
                if left:
                    self.whole[cell] = left
                else:
                    del self.whole[cell]
            if len(path) > 1:
                count, total = inside.get(path[1], (0, {}))
                for name, amount in amounts:
                    total[name] = total.get(name, 0) + amount
                inside[path[1]] = count + 1, total
        for parent, (count, total) in inside.items():
            for cell in cells.paths[parent]:
                self._change(cell, sign * count, total.items(), sign)

    def _change(self, cell: str, count: int, amounts: Iterable[tuple[str, int]], sign: int) -> None:
        count += self.counts.get(cell, 0)
        if not count:
            self.counts.pop(cell, None)
            self.totals.pop(cell, None)
            return
        self.counts[cell] = count
        totals = self.totals.setdefault(cell, {})
        for name, amount in amounts:
            total = totals.get(name, 0) + sign * amount
            if total:
                totals[name] = total
            else:
                totals.pop(name, None)

    def has_whole(self, cells: Cells, cell: str) -> bool:
        """Whether a cell, or one that contains it, is held as a whole."""
        return not self.whole.keys().isdisjoint(cells.paths[cell])

    def refusal(self, cells: Cells, holding: Holding, beside: "Tally | None" = None) -> str | None:
        """Why a holding does not fit beside those that are counted, and those counted in `beside`; None: it does."""
        cell = holding.cell
        if self.has_whole(cells, cell) or (beside is not None and beside.has_whole(cells, cell)):
            return "it, or a cell that contains it, is held as a whole"
        if not holding.amounts and (self.counts.get(cell) or (beside is not None and beside.counts.get(cell))):
            return "something in it is held"
        amounts = (holding.amounts or cells[cell].capacity).amounts
        for above in cells.paths[cell]:
            held, capacity = self.totals.get(above, {}), cells[above].capacity
            more = {} if beside is None else beside.totals.get(above, {})
            for name, amount in amounts:
                total = held.get(name, 0) + more.get(name, 0)
                if total + amount > capacity[name]:
                    return f"{above} has {capacity[name]} {name}, of which {total} are held"
        return None

    def refusal_of_all(self, cells: Cells, holdings: Sequence[Holding]) -> str | None:
        """Why holdings do not fit, all together; None: they do."""
        beside = Tally() if len(holdings) > 1 else None
        for holding in holdings:
            reason = self.refusal(cells, holding, beside)
            if reason is not None:
                return f"{holding.cell}: {reason}"
            if beside is not None:
                beside.add(cells, [holding])
        return None


class Occupancy:
    """Tallies of all leases, and what else is asked often. Follows from the leases and the cells, changed with both.

    `crowded`: free GPUs that cannot be leased (see `room`). `now`: what leases hold that have started, cells that are
    being vacated included. `later`: what they keep, and what others wait for; what a lease passes over to the one that
    replaces it counts for that one. `replaced`: by the key of such a lease, the other one.
    """

    def __init__(self, cells: Cells, leases: Mapping[str, Entry]) -> None:
        self.cells = cells
        self.crowded = frozenset[str]()
        self.now, self.later = Tally(), Tally()
        self.replaced: dict[str, Entry] = {}
        self.waiting: set[str] = set()
        self.leaving: set[str] = set()
        self.unplaced: set[str] = set()
        self.by_app: dict[str, set[str]] = {}
        self.by_id: dict[str, str] = {}
        self.on_cell: dict[str, set[str]] = {}
        self.ends: dict[float, set[str]] = {}
        self.untold: dict[float, set[str]] = {}
        self._gpus_on: dict[tuple[str, str], int] = {}
        self._gpus_of_all: dict[str, int] = {}
        self._parts: dict[tuple[str, str], int] = {}
        for entry in leases.values():
            self._note_replaced(entry, 1)
        for entry in leases.values():
            self._count(entry, _has_now(entry), self._keeps(entry), 1)
            self._note(entry, 1)

    # Changes.

    def change(self, before: Sequence[Entry], after: Sequence[Entry], leases: Mapping[str, Entry]) -> None:
        """Leases have changed. `before`, `after`: those that did. `leases`: all, as they are after it."""
        before, after = self._change_states(before, after)
        if not before and not after:
            return
        changed = {entry.key for entry in (*before, *after)}
        replaced = {entry.leased.replaces for entry in (*before, *after)} - changed
        # Whether they count later changes with the leases that replace them.
        others = [leases[key] for key in sorted(key for key in replaced if key is not None) if key in leases]
        old = {entry.key: (entry, _has_now(entry), self._keeps(entry)) for entry in (*before, *others)}
        for entry in before:
            self._note_replaced(entry, -1)
        for entry in after:
            self._note_replaced(entry, 1)
        new = {entry.key: (entry, _has_now(entry), self._keeps(entry)) for entry in (*after, *others)}
        for mine, theirs, sign in ((old, new, -1), (new, old, 1)):
            for key, (entry, has, keeps) in mine.items():
                _, has_too, keeps_too = theirs.get(key, (None, None, None))
                # What a change has left alone is the same object.
                self._count(entry, () if has is has_too else has, () if keeps is keeps_too else keeps, sign)

    def _change_states(self, before: Sequence[Entry], after: Sequence[Entry]) -> tuple[list[Entry], list[Entry]]:
        """Note the changes but for tallies; returns the leases of which these change too."""
        old, new = {entry.key: entry for entry in before}, []
        for entry in after:
            was = old.get(entry.key)
            if was is None:
                self._note(entry, 1)
                new.append(entry)
                continue
            is_same = was.leased.holdings is entry.leased.holdings
            if not is_same or _state(was) != _state(entry):
                self._note_state(was, -1)
                self._note_state(entry, 1)
            if not is_same:
                self._note_cells(was, -1)
                self._note_cells(entry, 1)
            if is_same and _is_counted_alike(was, entry):
                del old[entry.key]
            else:
                new.append(entry)
        for key in old.keys() - {entry.key for entry in after}:
            self._note(old[key], -1)
        return list(old.values()), new

    def moved(self, cells: Cells, leases: Mapping[str, Entry], changed: Iterable[str]) -> "Occupancy":
        """The occupancy of these leases with other cells, after leases of broken ones have ended. `changed`: the nodes
        that differ; leases of other nodes are not looked at."""
        around = {above for node in changed for above in cells.paths.get(node, ())}
        if self.cells is not cells and (
            not around.isdisjoint(self.on_cell) or any(self.in_or_around(node) for node in changed)
        ):
            return Occupancy(cells, leases)
        self.cells = cells
        return self

    def _count(self, entry: Entry, has: Sequence[Holding], keeps: Sequence[Holding], sign: int) -> None:
        self.now.add(self.cells, has, sign)
        self.later.add(self.cells, keeps, sign)
        for holding in has:
            gpus = self.cells.gpus_in(holding.cell)
            for gpu in gpus if not holding.amounts or self._is_first_part(entry.app, holding, sign) else ():
                self._on_node(entry.app, self.cells.gpus[gpu].machine, sign)

    def _is_first_part(self, app: str, holding: Holding, sign: int) -> bool:
        """Whether a part of a GPU is the first one there of an application, or no longer: its parts are in one
        container."""
        if not holding.amounts[GPU_MILLI]:
            return False
        key = app, holding.cell
        before = self._parts.get(key, 0)
        self._parts[key] = before + sign
        if not self._parts[key]:
            del self._parts[key]
        return 0 in (before, before + sign)

    def _keeps(self, entry: Entry) -> Sequence[Holding]:
        other = self.replaced.get(entry.key)
        staying = entry.leased.staying
        if other is None:
            return staying
        passed = passing(staying, other, self.cells)
        return [holding for holding in staying if holding not in passed]

    def _on_node(self, app: str, node: str, change: int) -> None:
        count = self._gpus_on.get((app, node), 0) + change
        if count:
            self._gpus_on[app, node] = count
        else:
            del self._gpus_on[app, node]
        self._gpus_of_all[node] = self._gpus_of_all.get(node, 0) + change

    def _note_replaced(self, entry: Entry, sign: int) -> None:
        replaces = entry.leased.replaces
        if replaces is None or entry.is_started:
            return
        if sign > 0:
            self.replaced[replaces] = entry
        else:
            self.replaced.pop(replaces, None)

    def _note(self, entry: Entry, sign: int) -> None:
        self._note_state(entry, sign)
        self._note_cells(entry, sign)
        if sign > 0:
            self.by_id[entry.id] = entry.key
        else:
            del self.by_id[entry.id]
        _group(self.by_app, entry.app, entry.key, sign)

    def _note_state(self, entry: Entry, sign: int) -> None:
        waits, is_to_be_seen, leaves, until, untold = _state(entry)
        for keys, is_in in ((self.waiting, waits), (self.unplaced, is_to_be_seen), (self.leaving, leaves)):
            if is_in:
                (keys.add if sign > 0 else keys.discard)(entry.key)
        for ends, end in ((self.ends, until), (self.untold, untold)):
            if end is not None:
                _group(ends, end, entry.key, sign)

    def _note_cells(self, entry: Entry, sign: int) -> None:
        for holding in entry.leased.holdings:
            _group(self.on_cell, holding.cell, entry.key, sign)

    # Questions.

    def gpus_on(self, app: str, node: str) -> int:
        """How many GPUs of a node an application leases as a whole, those that it is to vacate included."""
        return self._gpus_on.get((app, node), 0)

    def gpus_of_all(self, node: str) -> int:
        """The sum of `gpus_on` of all applications."""
        return self._gpus_of_all.get(node, 0)

    def in_or_around(self, node: str) -> list[str]:
        """The keys of the leases of cells in a node, or of cells that contain it, sorted."""
        found: set[str] = set()
        for cell in (*self.cells.paths.get(node, (node,)), *self._below(node)):
            found |= self.on_cell.get(cell, set())
        return sorted(found)

    def _below(self, cell: str) -> Iterator[str]:
        for part in self.cells.inside.get(cell, ()):
            yield part
            yield from self._below(part)

    # What allocators are shown (see `yarn_plugin.decide.allocators.seen.Room`).

    def is_free(self, gpu: str) -> bool:
        """Whether nothing is leased of a usable GPU, nor a cell that contains it."""
        return not (gpu in self.cells.broken or self.lacks_room(gpu) or self.is_kept(gpu))

    def is_kept(self, gpu: str) -> bool:
        """Whether a lease keeps something of a GPU, or waits for it."""
        return bool(self.later.counts.get(gpu)) or self.later.has_whole(self.cells, gpu)

    def is_held(self, gpu: str) -> bool:
        """Whether a lease that has started holds something of a GPU, or has yet to vacate it."""
        return bool(self.now.counts.get(gpu)) or self.now.has_whole(self.cells, gpu)

    def lacks_room(self, gpu: str) -> bool:
        """Whether nothing can be leased of a GPU that nobody leases, as other containers use its node."""
        return gpu in self.crowded

    def free_in(self, cell: str | None = None) -> Iterator[str]:
        """The free GPUs in a cell (None: in the pool), in the order of `Cells.gpus`."""
        if cell is not None and self.later.totals.get(cell, {}).get(GPU, 0) >= self.cells[cell].capacity[GPU]:
            return iter(())
        gpus = self.cells.gpus if cell is None else self.cells.gpus_in(cell)
        return (gpu for gpu in gpus if self.is_free(gpu))

    def left(self, cell: str) -> Resources:
        """What can still be leased of a cell."""
        if cell in self.cells.broken or self.later.has_whole(self.cells, cell):
            return Resources()
        left = self.cells[cell].capacity.as_dict()
        for above in self.cells.paths[cell]:
            held, capacity = self.later.totals.get(above, {}), self.cells[above].capacity
            for name in left:
                left[name] = min(left[name], max(capacity[name] - held.get(name, 0), 0))
        return Resources.of(left)

    def fits(self, *holdings: Holding) -> bool:
        """Whether these can be leased now, together and with nothing else."""
        return self.refusal_of(holdings) is None

    # Whether something fits. Both leave the tallies as they were.

    def refusal_of(
        self, holdings: Sequence[Holding], replaced: Entry | None = None, needs_room: bool = True
    ) -> str | None:
        """Why these cannot be leased now, together; None: they can. `replaced`: the lease that passes its cells
        over."""
        cells = self.cells
        for holding in holdings:
            if holding.cell not in cells:
                return f"{holding.cell}: it is no cell of this pool"
            if holding.cell in cells.broken:
                return f"{holding.cell}: it is broken"
            if needs_room and self.crowded and self._lacks_room(holding, holdings):
                return f"{holding.cell}: its node has no room for tasks"
        passed = [] if replaced is None else _passing(replaced.leased.staying, holdings, cells)
        if not passed:
            return self.later.refusal_of_all(cells, holdings)
        reason, steps = self._add(self.later, passed, holdings)
        self._undo(self.later, steps)
        return reason

    def _lacks_room(self, holding: Holding, together: Sequence[Holding]) -> bool:
        gpus = set(self.cells.gpus_in(holding.cell))
        if self.crowded.isdisjoint(gpus):
            return False
        # What else a node has for the task on a GPU: that GPU has room for it, whichever others lack it.
        return not holding.amounts or holding.cell in gpus or gpus.isdisjoint(one.cell for one in together)

    def which_can_start(self, gangs: Sequence[tuple[Sequence[Entry], Mapping[str, Sequence[Holding]]]]) -> list[bool]:
        """Which of these gangs can start now, beside those before them that can: the cells of their leases are vacated,
        but for those that are passed over to them."""
        found, done = [], list[tuple[Holding, int]]()
        for gang, passed in gangs:
            removed = [holding for holdings in passed.values() for holding in holdings]
            added = [holding for entry in gang for holding in entry.leased.holdings]
            reason, steps = self._add(self.now, removed, added)
            found.append(reason is None)
            if reason is None:
                done += steps
            else:
                self._undo(self.now, steps)
        self._undo(self.now, done)
        return found

    def _add(
        self, tally: Tally, removed: Sequence[Holding], added: Sequence[Holding]
    ) -> tuple[str | None, list[tuple[Holding, int]]]:
        """Why these do not fit instead of others, and what was counted to find that out."""
        done = [(holding, -1) for holding in removed]
        tally.add(self.cells, removed, -1)
        for holding in added:
            reason = tally.refusal(self.cells, holding)
            if reason is not None:
                return f"{holding.cell}: {reason}", done
            tally.add(self.cells, [holding])
            done.append((holding, 1))
        return None, done

    def _undo(self, tally: Tally, done: Sequence[tuple[Holding, int]]) -> None:
        tally.add(self.cells, [holding for holding, sign in done if sign > 0], -1)
        tally.add(self.cells, [holding for holding, sign in done if sign < 0])


def _group(groups: dict[Any, set[str]], name: object, key: str, sign: int) -> None:
    if sign > 0:
        groups.setdefault(name, set()).add(key)
        return
    group = groups[name]
    group.discard(key)
    if not group:
        del groups[name]


def _state(entry: Entry) -> tuple[bool, bool, bool, float | None, float | None]:
    """Whether a lease waits, is to be seen in use, and has revoked cells; when it ends if it is held, and the same if
    its allocator was not told so."""
    leased, is_started = entry.leased, entry.leased.started_at is not None
    until = leased.until if leased.until is not None and leased.phase == "held" else None
    untold = None if entry.told_end == until else until
    return not is_started, is_started and not entry.is_placed, bool(leased.leaving), until, untold


def _is_counted_alike(was: Entry, entry: Entry) -> bool:
    """Whether a lease of the same cells counts as before in all tallies."""
    old, new = was.leased, entry.leased
    return old.leaving == new.leaving and old.started_at == new.started_at and old.replaces is new.replaces is None


def _has_now(entry: Entry) -> tuple[Holding, ...]:
    return entry.leased.holdings if entry.is_started else ()


def passing(old: Sequence[Holding], new: Entry, cells: Cells) -> list[Holding]:
    """What of these holdings passes over to a lease that replaces theirs: the same cells, and those in its cells."""
    return _passing(old, new.leased.holdings, cells)


def _passing(old: Sequence[Holding], new: Sequence[Holding], cells: Cells) -> list[Holding]:
    mine = {holding.cell: not holding.amounts for holding in new}
    return [
        holding
        for holding in old
        if holding.cell in mine or any(mine.get(above, False) for above in cells.paths.get(holding.cell, ()))
    ]
