"""A small cluster of cells for tests: two racks of two nodes of two pairs of GPUs."""

from tests.lease_world import node
from tests.ledger_world import LedgerWorld
from yarn_plugin.decide.allocators.buddy_cells import BuddyCellsSettings
from yarn_plugin.decide.mechanisms.buddy_cells.specification import (
    CellType,
    ClusterSpec,
    PhysicalSpec,
    Quota,
    VirtualClusterSpec,
)

HOSTS = ("n0", "n1", "n2", "n3")


def spec(**clusters):
    """With these quotas of each virtual cluster: cells by type."""
    types = {"rack": CellType("node", 2), "node": CellType("pair", 2, is_node=True), "pair": CellType("gpu", 2)}
    racks = tuple(
        PhysicalSpec("rack", children=(PhysicalSpec("", first), PhysicalSpec("", second)))
        for first, second in (HOSTS[:2], HOSTS[2:])
    )
    quotas = {
        name: VirtualClusterSpec(tuple(Quota("rack", kind, number) for kind, number in cells.items()))
        for name, cells in clusters.items()
    }
    return ClusterSpec(types, racks, quotas, {"gpu": ("rack",)})


def in_prod():
    """The cluster in an arbiter's pool; the virtual cluster `prod`, where everybody is, auctions one rack."""
    settings = BuddyCellsSettings(spec(prod={"rack": 1}, other={"rack": 1}), inside={"prod": "themis"},
                                  inside_lease_s=60.0, default_cluster="prod")  # fmt: skip
    return LedgerWorld.of("cells", *(node(host, 4) for host in HOSTS), settings=settings)
