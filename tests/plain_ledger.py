"""A small ledger for tests of allocators: it executes plans at once, and asserts what the contract demands."""

from dataclasses import replace

from yarn_plugin.decide.allocators.happenings import Due, Freed, Started
from yarn_plugin.decide.allocators.seen import Leased, Seen


class PlainLedger:
    """`tell` an event; `end` leases that were vacated, lost or not placed. Whole GPUs only."""

    def __init__(self, allocator, cells):
        self.allocator, self.cells, self.state = allocator, cells, allocator.initial_state()
        self.at, self.claims, self.leases, self.wakes, self._used = 0.0, {}, {}, {}, set()

    def is_free(self, gpu):
        kept = (lease for lease in self.leases.values() if gpu in lease.cells and gpu not in lease.leaving)
        return gpu not in self.cells.broken and next(kept, None) is None

    def lacks_room(self, gpu):
        return False

    def free_in(self, cell=None):
        gpus = self.cells.gpus if cell is None else self.cells.gpus_in(cell)
        return (gpu for gpu in gpus if self.is_free(gpu))

    def tell(self, what):
        waiting = [what]
        while waiting:
            seen = Seen(self.at, 1, self.cells, dict(self.claims), dict(self.leases), self)
            self.state, plan = self.allocator.propose(self.state, seen, waiting.pop(0))
            self._execute(plan)
            waiting += self._start()

    def end(self, keys, kind):
        freed = [Freed(key, self.leases[key].claim, self.leases.pop(key).cells) for key in keys]
        if freed:
            self.tell(kind(tuple(freed)))

    def wake(self):
        for key in [key for key, due in self.wakes.items() if due is not None and due <= self.at]:
            del self.wakes[key]
            self.tell(Due(key))

    def _execute(self, plan):
        for withdrawn in plan.withdraw:
            assert self.leases.pop(withdrawn.key).started_at is None
        for drop in plan.drop:
            lease = self.leases[drop.key]
            assert lease.started_at is not None
            self.leases[drop.key] = replace(lease, leaving=lease.cells, by=self.at + 10)
        for change in plan.reclass:
            self.leases[change.key] = replace(self.leases[change.key], kind=change.kind)
        for kept in plan.keep:
            self.leases[kept.key] = replace(self.leases[kept.key], leaving=(), by=None)
        self.wakes |= {wake.key: wake.at for wake in plan.wake}
        for place in plan.place:
            assert place.key not in self._used, "a key is never used again"
            assert place.claim in self.claims
            assert all(self.is_free(holding.cell) for holding in place.holdings), place
            self._used.add(place.key)
            self.leases[place.key] = Leased(
                place.key, place.claim, place.holdings, place.member, place.alternative, place.kind, place.until,
                place.gang, placed_at=self.at,
            )  # fmt: skip

    def _start(self):
        gangs = {}
        for lease in self.leases.values():
            if lease.started_at is None:
                gangs.setdefault(lease.gang or lease.key, []).append(lease)
        held = {cell for lease in self.leases.values() if lease.started_at is not None for cell in lease.cells}
        for gang in gangs.values():
            if held.isdisjoint(cell for lease in gang for cell in lease.cells):
                self.leases |= {lease.key: replace(lease, started_at=self.at) for lease in gang}
                return [Started(tuple(lease.key for lease in gang))]
        return []
