"""The seam between the ledger of leases and the allocators: `propose(state, seen, what) -> (state, Plan)`.

The ledger (`yarn_plugin.decide.leases`) owns what a pool leases: it executes plans, runs hand-overs and says what
happened. An allocator decides who is to hold which cells, event by event, and is one file of this package, or of
another one (entry points of the group `yarn_plugin.allocators`). The contract, which tests/contract/test_allocator.py
checks for every allocator:

1. Pure: equal states, `Seen` and events give equal states and plans. A state is frozen, `Mutable`, or frozen with
   `Mutable` parts (`yarn_plugin.model.journaled`); then an exception in `propose` is rolled back.
2. A plan is about what is so now, which `seen` shows, plans of the same moment included. It may place a lease on free
   cells, or on cells that leases are leaving: it starts when they are vacated. Cells that a lease keeps, that another
   one waits for, that are broken or not the pool's, are refused (`PlanError`), and nothing of such a plan happens.
3. The parts of a plan are executed in this order: withdraw, keep, reclass, announce, drop, place, ask, solve, hold,
   accept, record, wake. A part that names a lease which has ended meanwhile does nothing.
4. An allocator names its leases itself: a key is never used again. Ids that applications see are the ledger's.
5. Every placed lease ends exactly once: it is withdrawn, or an event says so (`Freed.is_over`). `Started` comes when
   its cells are its own, never before. All leases of a gang are placed in one plan and start together.
6. `Expiring` comes `notice_s` before the end of a lease. One that is not kept by its end is revoked as if it had been
   dropped then, or `overtime_s` later. A lease without an end is told of nothing.
7. What happens because of a plan (a start, a lease that ends without a grace period) comes as further events at the
   same time, until a plan causes nothing more. An allocator that never comes to rest is stopped as one that raises.
8. Idle cells need a reason: when a claim could use free cells and none is placed on them, the last plan with `idle`
   says why of each, or of a cell that contains it.
9. Answers may be late, duplicated or lost: a question names its round. The result of a solve that is no longer wanted
   is passed over. After `Restarted`, questions and problems that are open are sent again; answers have the whole time.
10. An allocator may host others: it calls their `propose` with a `Seen` that it makes for them, and translates plans
    and events (`hosting`). A hosted one hears `Started` when it is true, and no eviction by the host as `Unplaced`.

Why events, and not one call for each problem: a round of an auction is a conversation, HiveD preempts and changes
classes in place, AlloX waits and samples, packing migrates. Where this differs from a call with everything that
changed: an event says once what changed, so `Seen` need not; and leases have one name, the allocator's key, before and
after they start, so that a host translates by a prefix.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from yarn_plugin.decide.allocators.happenings import What
from yarn_plugin.decide.allocators.plan import Plan
from yarn_plugin.decide.allocators.seen import Seen
from yarn_plugin.model.share import Job


class Allocator(Protocol):
    """Decides who holds which cells of a pool. Made from frozen parameters, once for a configuration."""

    def initial_state(self) -> Any:
        """The state of a new pool: frozen, `Mutable`, or frozen with `Mutable` parts."""
        ...

    def propose(self, state: Any, seen: Seen, what: What) -> tuple[Any, Plan]:
        """The state after an event, and what is to be done."""
        ...

    def report(self, state: Any) -> object:
        """An immutable view of a state for other threads; None if the state itself is immutable."""
        ...


@dataclass(frozen=True)
class AllocatorKind:
    """A kind of allocator.

    `make`: from its parameters, and all kinds by name (for hosts). `parameters`: their type, a frozen dataclass, or
    None. `tags`, `messages`, `solvers`, `check`: as of a kind of controller (see `decide.pools.controller.Kind`).
    `check_job`: raises BadInputError for a declared job that is wrong with these parameters. `overtime_s`: how long its
    leases are to go on after their end at least, while it decides. `policy`: the lease policy that it needs, if any.
    """

    name: str
    make: Callable[[Any, Mapping[str, "AllocatorKind"]], Allocator]
    tags: Mapping[str, type]
    parameters: type | None = None
    messages: frozenset[str] = frozenset()
    solvers: Mapping[str, Callable[[Any], object]] = field(default_factory=dict)
    check: Callable[[Any, str, object], None] = lambda state, app, message: None
    check_job: Callable[[Any, Job], None] = lambda parameters, job: None
    overtime_s: Callable[[Any, Mapping[str, "AllocatorKind"]], float] = lambda parameters, kinds: 0.0
    policy: Callable[[Any], str | None] = lambda parameters: None
