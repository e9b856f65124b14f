"""The parameters of a pool whose GPUs are leased."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from itertools import combinations
from typing import Literal

from yarn_plugin.decide.leases.pool_nodes import PoolNodes
from yarn_plugin.decide.leases.settings import LedgerSettings
from yarn_plugin.decide.mechanisms.partial_allocation.problem import Rounding
from yarn_plugin.decide.topology import is_pattern
from yarn_plugin.errors import BadInputError
from yarn_plugin.model.share import Pool

THEMIS = "themis"
"""The policy with auctions; all others are modules of the contract `decide.policies.leasing`."""


Entitlement = Literal["application", "user"]

_ABOVE_ZERO = ("lease_s", "max_bidders", "max_apps", "max_demand", "max_gpus_per_user", "gpus_per_task")

_WILDCARD = re.compile(r"[*?[]")


@dataclass(frozen=True, slots=True)
class LeaseSettings(PoolNodes):
    """`policy`: `themis`, or the name of a policy without auctions. `f`: the offer goes to the worst
    max(1, ceil((1 - f) N)) of N applications (thesis, section 3.4.2.2).

    Seconds: `lease_s`, the length of a lease; `grid_s`, leases end at multiples of it, so that one round auctions many
    GPUs (None: `lease_s` / 10; 0: leases end exactly `lease_s` after they were won); `grace_s`, to vacate GPUs that
    someone else won; `round_window_s`, arrivals within it share a round; `estimate_s` and `bid_s`, to answer;
    `decide_s`, from the last bid to the allocation, so that it does not depend on how long the solver takes;
    `place_within_s`, a grant that is not in use by then comes back (0: never).

    `table_rounds`: for so many rounds a bid table answers for its application (0: it is always asked). `seed`: of
    random choices. `payments`, `rounding`, `work_limit`: of the auction (see
    `partial_allocation.PartialAllocationProblem`). `max_bidders`: of a round, and
    `max_apps`: further applications wait (None: unlimited). `max_gpus_per_user`: the applications of one user hold no
    more together, GPUs that are being vacated left out (None: unlimited).
    `entitlement`: what an auction entitles to an equal part of the pool. With `user`, contention, the offer and
    leftovers count users, and several applications of one user win by bids no more than its equal part; they get more
    only of what no one else is given.
    `max_demand`: applications wait while all together ask for more than so many times the pool's GPUs (None: unlimited;
    thesis, footnote to section 3.3.2). `gpus_per_task`, `task_memory_mb`, `task_vcores`: of one task; GPUs that a
    machine cannot use for whole tasks are not offered. Nor are, if the memory or vcores of a task are given, those for
    whose tasks the machine has no room now, such as next to containers of other pools.

    `rules`: by which it decides, so that journals of earlier versions replay as they were written. 1, of earlier
    versions: the worst reported rho bids first; where users count, N_avg forgets the time before others came and went;
    unkept promises add up without a limit; a lost solver fails the round. 2: applications that are ahead come last (see
    `service`); what unkept promises add up to is bounded; bids on which the solver is lost are set aside. 3: unused
    GPUs of a machine where the application uses others are revoked with grace, not taken at once (see `handover`);
    the service of an application counts what it held until the call in which it lost it. 4: GPUs of a machine that
    containers beyond leases use are not offered.

    Which GPUs: those of nodes with the label `partition` (empty: with any, or none), and of `nodes`, their hosts or
    shell patterns (empty: all).
    """

    policy: str = THEMIS
    f: float = 0.8
    lease_s: float = 600.0
    grid_s: float | None = None
    grace_s: float = 30.0
    round_window_s: float = 2.0
    estimate_s: float = 5.0
    bid_s: float = 10.0
    decide_s: float = 0.5
    place_within_s: float = 30.0
    table_rounds: int = 4
    seed: int = 1
    payments: bool = True
    rounding: Rounding = "up"
    work_limit: int = 200_000
    max_bidders: int | None = None
    max_apps: int | None = None
    max_demand: float | None = None
    max_gpus_per_user: int | None = None
    entitlement: Entitlement = "application"
    gpus_per_task: int = 1
    task_memory_mb: int = 0
    task_vcores: int = 0
    partition: str = ""
    nodes: tuple[str, ...] = ()
    rules: Literal[1, 2, 3, 4, 5, 6] = 1

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            BadInputError: one is out of range.
        """
        for one in fields(self):
            self._check(one.name, getattr(self, one.name))

    def _check(self, name: str, value: object) -> None:
        if value is None or isinstance(value, str | tuple):
            return
        assert isinstance(value, int | float)
        if not math.isfinite(value) or value < 0:
            raise BadInputError(name, value, "must be a number that is not negative")
        if name == "f" and value > 1:
            raise BadInputError(name, value, "must be a number from 0 to 1")
        if value == 0 and name in _ABOVE_ZERO:
            raise BadInputError(name, value, "must be above 0")

    def end_of_lease(self, now: float) -> float:
        """When a lease ends that is won now: `lease_s` later, rounded up to the grid."""
        return on_grid(now + self.lease_s, self.lease_s / 10 if self.grid_s is None else self.grid_s)


def on_grid(end: float, grid_s: float) -> float:
    """A time, rounded up to a multiple of `grid_s`; 0: as it is."""
    # A little less than the exact quotient: an end on the grid stays there despite rounding errors.
    return end if grid_s == 0 else math.ceil(end / grid_s - 1e-9) * grid_s


def check_disjoint(pools: Sequence[Pool]) -> None:
    """Check that no GPU may be leased by two of these pools.

    Raises:
        BadInputError: two of them may have the same node.
    """
    for first, second in combinations(pools, 2):
        one, other = (pool.parameters or LeaseSettings() for pool in (first, second))
        assert isinstance(one, LeaseSettings | LedgerSettings)
        assert isinstance(other, LeaseSettings | LedgerSettings)
        if _may_share(one, other):
            expected = (
                f"pool {first.name} would lease the same GPUs; give each of them a partition (node label) of its own, "
                "or nodes (hosts or patterns) that no other one has"
            )
            field, value = ("nodes", list(other.nodes)) if one.nodes and other.nodes else ("partition", other.partition)
            raise BadInputError(f"pool {second.name}: parameters.{field}", value, expected)


def _may_share(one: LeaseSettings | LedgerSettings, other: LeaseSettings | LedgerSettings) -> bool:
    """Whether there may be a node that is in both pools."""
    if one.partition and other.partition and one.partition != other.partition:
        return False
    if not (one.nodes and other.nodes):
        return True
    return any(_may_overlap(first, second) for first in one.nodes for second in other.nodes)


def _may_overlap(first: str, second: str) -> bool:
    """Whether a host may match both of these names or patterns. Two patterns may, unless they begin differently."""
    if not (is_pattern(first) and is_pattern(second)):
        return fnmatchcase(first, second) or fnmatchcase(second, first)
    one, other = (_WILDCARD.split(pattern)[0] for pattern in (first, second))
    return one.startswith(other) or other.startswith(one)
