"""The settings of virtual clusters."""

import math
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields

from yarn_plugin.decide.allocators import AllocatorKind
from yarn_plugin.decide.mechanisms.buddy_cells.cells import OPPORTUNISTIC
from yarn_plugin.decide.mechanisms.buddy_cells.cluster import Cluster
from yarn_plugin.decide.mechanisms.buddy_cells.specification import ClusterSpec
from yarn_plugin.decide.policies.lease import LEASE_POLICIES
from yarn_plugin.errors import BadInputError
from yarn_plugin.model.share import Claim
from yarn_plugin.validation import one_of


@dataclass(frozen=True, slots=True)
class BuddyCellsSettings:
    """`cells`: the cluster and its virtual clusters. `default_cluster`: that of tenants without one; empty: they wait.

    `weights`: of tenants, for opportunistic work; 1 where absent. `promotes`: opportunistic work becomes guaranteed
    where its virtual cluster has room for it. `retry_s`, `notice_s`: see the package. `inside`: who decides within a
    virtual cluster: an allocator, or a lease policy, whose leases last `inside_lease_s` seconds; HiveD itself where
    absent.
    """

    cells: ClusterSpec
    default_cluster: str = ""
    weights: Mapping[str, float] = field(default_factory=dict)
    promotes: bool = True
    retry_s: float = 60.0
    notice_s: float = 30.0
    inside: Mapping[str, str] = field(default_factory=dict)
    inside_lease_s: float = 600.0

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            BadInputError: the cells are contradictory, the quotas cannot be served, or a value is out of range.
        """
        known = Cluster(self.cells).virtual
        if self.default_cluster and self.default_cluster not in known:
            raise BadInputError("default_cluster", self.default_cluster, one_of(known, self.default_cluster))
        for tenant, weight in self.weights.items():
            if not 0 < weight < math.inf:
                raise BadInputError(f"weights.{tenant}", weight, "must be a number above 0")
        for name in ("retry_s", "inside_lease_s"):
            if not 0 < getattr(self, name) < math.inf:
                raise BadInputError(name, getattr(self, name), "must be a number of seconds above 0")
        if not 0 <= self.notice_s < math.inf:
            raise BadInputError("notice_s", self.notice_s, "must be a number of seconds, at least 0")
        for name in self.inside:
            if name not in known or ":" in name:
                choices = [each for each in known if ":" not in each]
                raise BadInputError(
                    "inside", name, f"no virtual cluster that can have a scheduler; {one_of(choices, name)}"
                )

    def scheduler_of(self, claim: Claim, cluster: str) -> str | None:
        """Who decides inside a virtual cluster on a claim: not on pinned and opportunistic ones; None: HiveD itself."""
        is_its = claim.priority > OPPORTUNISTIC and claim.pinned is None
        return self.inside.get(cluster) if is_its else None

    def check_inside(self, kinds: Mapping[str, AllocatorKind]) -> None:
        """Check that the schedulers inside virtual clusters exist.

        Raises:
            BadInputError: one does not.
        """
        choices = sorted({*LEASE_POLICIES, *(name for name, kind in kinds.items() if has_defaults(kind))})
        for name, scheduler in self.inside.items():
            if scheduler not in choices:
                raise BadInputError(f"inside.{name}", scheduler, one_of(choices, scheduler))


def has_defaults(kind: AllocatorKind) -> bool:
    """Whether an allocator needs no parameters."""
    parameters = fields(kind.parameters) if kind.parameters is not None else ()
    return all(one.default is not MISSING or one.default_factory is not MISSING for one in parameters)
