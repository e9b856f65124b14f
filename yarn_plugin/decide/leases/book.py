"""The ledger during one call: decided changes are applied here, and nowhere else."""

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from typing import Any

from yarn_plugin.decide.allocators.cells import Cells
from yarn_plugin.decide.allocators.happenings import What
from yarn_plugin.decide.allocators.seen import Leased
from yarn_plugin.decide.leases.occupancy import Occupancy
from yarn_plugin.decide.leases.state import Entry, Ledger
from yarn_plugin.decide.pools.commands import Command


@dataclass(frozen=True, slots=True)
class Changes:
    """What a function decided: leases by key as they are now (None: over), commands, and what the allocator hears."""

    leases: Mapping[str, Entry | None] = field(default_factory=dict)
    commands: tuple[Command, ...] = ()
    happened: tuple[What, ...] = ()

    def __add__(self, other: "Changes") -> "Changes":
        """Both; of a lease that both change, the later one counts."""
        return Changes({**self.leases, **other.leases}, self.commands + other.commands, self.happened + other.happened)


NO_CHANGES = Changes()


class LeasesSeen(Mapping[str, Leased]):
    """The leases as an allocator sees them; they change with the book. `outdated`: the keys of those that have changed
    since they were seen so."""

    def __init__(self, entries: Mapping[str, Entry], before: "LeasesSeen | None" = None) -> None:
        self._entries = entries
        self._id = object()
        self._before, self._changed = (None, set[str]()) if before is None else (before._id, before.outdated)
        self.outdated: set[str] = set()

    def changed_since(self, before: Mapping[str, Leased]) -> Set[str] | None:
        """The keys of the leases that are not as in `before`, or are in one of both; None: that is not known."""
        is_next = isinstance(before, LeasesSeen) and before._id is self._before
        return self._changed if is_next else None

    def __getitem__(self, key: str) -> Leased:
        return self._entries[key].leased

    def get(self, key: str, default: Any = None) -> Any:
        """A lease; faster than by an exception."""
        entry = self._entries.get(key)
        return default if entry is None else entry.leased

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: object) -> bool:
        return key in self._entries


class Book:
    """The leases as they are now, with their occupancy, the commands so far, and what the allocator has yet to hear.

    `occupancy`: that of the ledger's leases and these cells, if it is known; it is changed with them. `last_seen`: the
    leases as an allocator saw them last.
    """

    def __init__(
        self,
        pool: str,
        ledger: Ledger,
        cells: Cells,
        occupancy: Occupancy | None = None,
        last_seen: LeasesSeen | None = None,
    ) -> None:
        self.pool, self._counter = pool, ledger.counter
        self._is_copied = False
        self.leases: Mapping[str, Entry] = ledger.leases
        self.occupancy = Occupancy(cells, ledger.leases) if occupancy is None else occupancy
        self.last_seen = LeasesSeen(ledger.leases) if last_seen is None else last_seen
        self.commands: list[Command] = []
        self.happened: list[What] = []

    def seen(self) -> LeasesSeen:
        """The leases as an allocator sees them: the same object until they change."""
        if self.last_seen.outdated:
            self.last_seen = LeasesSeen(self.leases, self.last_seen)
        return self.last_seen

    def new_id(self) -> str:
        """A new id of a lease or a command."""
        self._counter += 1
        return f"{self.pool}#{self._counter}"

    def apply(self, changes: Changes) -> None:
        """Make the leases so, and note the commands and what happened."""
        self.commands += changes.commands
        self.happened += changes.happened
        if not changes.leases:
            return
        if not self._is_copied:
            self.leases, self._is_copied = dict(self.leases), True
        assert isinstance(self.leases, dict)
        before = [self.leases[key] for key in changes.leases if key in self.leases]
        for key, entry in changes.leases.items():
            if entry is None:
                self.leases.pop(key, None)
            else:
                self.leases[key] = entry
        self.last_seen.outdated.update(changes.leases)
        self.occupancy.change(before, [one for one in changes.leases.values() if one is not None], self.leases)

    def ledger(self, known: Ledger) -> Ledger:
        """The ledger with the leases as they are now."""
        if self.leases is known.leases and self._counter == known.counter:
            return known
        return replace(known, counter=self._counter, leases=self.leases)
