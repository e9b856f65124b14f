"""An allocator whose calls are recorded, with what it saw."""

from dataclasses import dataclass, field

from yarn_plugin.decide.allocators.plan import Plan


@dataclass(frozen=True)
class Call:
    """One call of `propose`. `free`: the free GPUs, `leases`: the leases by key, `claims`, as it saw them."""

    at: float
    what: object
    plan: Plan
    free: tuple
    leases: dict
    claims: tuple
    cells: object


@dataclass
class Recorded:
    """An allocator whose calls are recorded."""

    inner: object
    calls: list = field(default_factory=list)

    def initial_state(self):
        return self.inner.initial_state()

    def report(self, state):
        return self.inner.report(state)

    def propose(self, state, seen, what):
        state, plan = self.inner.propose(state, seen, what)
        free, leases = tuple(seen.room.free_in()), dict(seen.leases)
        self.calls.append(Call(seen.at, what, plan, free, leases, tuple(seen.claims), seen.cells))
        return state, plan
