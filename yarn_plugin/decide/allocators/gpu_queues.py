"""GPUs by queue, as YARN's own schedulers give them out: the baselines that pools of cells are compared with.

- `fifo`: jobs start in the order of their arrival; one that does not fit blocks those behind it.
- `capacity`: as the CapacityScheduler divides. Each queue is assured of its GPUs, and may use up to its maximum while
  others do not; the queue that uses the least of what it is assured of comes first, and in a queue the first job. With
  `preempts`, a job within its queue's GPUs takes them back from queues that are beyond theirs. This is also the
  quota-based YARN-CS of HiveD (OSDI '20, section 5): quotas are numbers of GPUs, whatever nodes they lie on.
- `fair`: as the FairScheduler divides: the queue that holds the fewest GPUs for its weight comes first.

A job's queue is its virtual cluster, or its tenant. Its pods start together, each on one node, the fullest that has
room, and keep what they hold. Nothing is known of cells: that is what these policies are compared for.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from yarn_plugin.decide.allocators import AllocatorKind
from yarn_plugin.decide.allocators.happenings import Began, Broken, ClaimKey, Unplaced, Vacated, What, name_of
from yarn_plugin.decide.allocators.plan import Drop, Holding, Idle, Place, Plan
from yarn_plugin.decide.allocators.seen import Leased, Seen
from yarn_plugin.errors import BadInputError
from yarn_plugin.model.causes import Evicted
from yarn_plugin.model.resources import GPU
from yarn_plugin.model.share import Claim
from yarn_plugin.model.topology import NODE

DivisionOrder = Literal["fifo", "capacity", "fair"]


@dataclass(frozen=True, slots=True)
class GpuQueuesSettings:
    """`order`: see the module. `assured`: the GPUs of each queue, with `capacity`; a queue without has none. `max_gpus`:
    that it may hold at most; without, as many as there are. `weights`: of queues, with `fair`; 1 where absent.
    """

    order: DivisionOrder = "capacity"
    assured: Mapping[str, int] = field(default_factory=dict)
    max_gpus: Mapping[str, int] = field(default_factory=dict)
    weights: Mapping[str, float] = field(default_factory=dict)
    preempts: bool = True

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            BadInputError: one is out of range.
        """
        for name in ("assured", "max_gpus"):
            for queue, gpus in getattr(self, name).items():
                if gpus < 0:
                    raise BadInputError(f"{name}.{queue}", gpus, "must be a number of GPUs, not negative")
        for queue, weight in self.weights.items():
            if not 0 < weight < math.inf:
                raise BadInputError(f"weights.{queue}", weight, "must be a number above 0")


@dataclass(frozen=True, slots=True)
class GpuQueuesState:
    """`counter`: of jobs that were started. `done`: claims that gave back what they held, and want nothing more."""

    counter: int = 0
    done: frozenset[str] = frozenset()


class GpuQueues:
    """See the module."""

    def __init__(self, settings: GpuQueuesSettings | None) -> None:
        self._settings = settings or GpuQueuesSettings("fifo")

    def initial_state(self) -> GpuQueuesState:
        """Nothing was started."""
        return GpuQueuesState()

    def report(self, state: GpuQueuesState) -> None:
        """None: the state itself is immutable."""

    def propose(self, state: GpuQueuesState, seen: Seen, what: What) -> tuple[GpuQueuesState, Plan]:
        """Start the jobs whose turn it is."""
        match what:
            case Began():
                state = GpuQueuesState(state.counter)
            case Vacated(freed):
                given_back = {name_of(each.claim) for each in freed if each.is_over and each.cause is None}
                state = replace(state, done=state.done | given_back)
            case _:
                pass
        known = {name_of(claim) for claim in seen.claims}
        state = replace(state, done=state.done & known)
        turn = _Turn(self._settings, state, seen)
        turn.serve()
        return turn.state(), turn.plan()
