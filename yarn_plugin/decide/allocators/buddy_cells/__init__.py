"""HiveD as an allocator: virtual clusters with quotas of cells, gangs, and opportunistic work (HiveD, OSDI '20).

`mechanisms.buddy_cells` decides where a gang goes and whom it evicts; this room tells it what happened, and makes plans
of its answers. A claim is a gang; each of its pods is a lease without an end. What the papers leave open, and what
YARN's applications add:

- A claim belongs to the virtual cluster that its path names, or begins with; else to `default_cluster`; else it waits.
- A claim without a gang is one of as few pods as its GPUs fill: whole nodes, and one with the rest.
- Guaranteed claims are tried in the order of their priorities, then of their arrival; one that does not fit does not
  block others. Opportunistic ones then take turns by weighted max-min over tenants (`low_priority`).
- Leases that YARN does not place in time come back; their claim is tried again after `retry_s`, or when it is revised.
- A pod that gave its cells back does not return while its gang runs; one that lost its node returns with it.
- A gang whose eviction is no longer needed is spared, if all of its pods still have all their cells. A pod that gives
  its cells back within `retry_s` after that has vacated them for the eviction, and gets them again.
- A gang is revoked, and begins anew, if a pod loses some of its cells in this way, or since YARN does not place them.
- A new configuration that downgrades gangs takes effect `notice_s` after their applications have been told.
- Where another allocator decides inside a virtual cluster (`inside`), it is called with virtual cells (see `hosting`).
"""

from yarn_plugin.decide.allocators import AllocatorKind
from yarn_plugin.decide.allocators.buddy_cells.allocator import BuddyCells
from yarn_plugin.decide.allocators.buddy_cells.guests import lent_gang
from yarn_plugin.decide.allocators.buddy_cells.inside import check_answer, overtime_s
from yarn_plugin.decide.allocators.buddy_cells.requests import NO_CLUSTER, request_of
from yarn_plugin.decide.allocators.buddy_cells.settings import BuddyCellsSettings
from yarn_plugin.decide.allocators.buddy_cells.state import BuddyCellsState
from yarn_plugin.decide.allocators.cells_report import CellsReport
from yarn_plugin.decide.mechanisms.buddy_cells.state import CellsState

KIND = AllocatorKind(
    "cells",
    BuddyCells,
    {
        "cells.state/1": BuddyCellsState,
        "cells.cluster/1": CellsState,
        "cells.settings/1": BuddyCellsSettings,
        "cells.report/1": CellsReport,
    },
    parameters=BuddyCellsSettings,
    messages=frozenset({"lease.estimate", "lease.bid"}),
    check=check_answer,
    overtime_s=overtime_s,
)
"""HiveD."""

__all__ = [
    "KIND",
    "NO_CLUSTER",
    "BuddyCells",
    "BuddyCellsSettings",
    "BuddyCellsState",
    "lent_gang",
    "request_of",
]
