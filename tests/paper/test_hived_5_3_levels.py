"""HiveD (OSDI '20), section 5.3: quotas of several levels of cells fragment a cluster less than quotas of nodes."""

import random
from statistics import fmean

from tests.unit.test_job_simulation import REGISTRY, job
from yarn_plugin.decide.mechanisms.buddy_cells.specification import (
    CellType,
    ClusterSpec,
    PhysicalSpec,
    Quota,
    VirtualClusterSpec,
)
from yarn_plugin.drive.job_runs import simulate_cells

TENANTS = "abcd"


def cluster(quotas):
    """Eight nodes of two sockets of two pairs of GPUs, and the same quotas for each of four tenants."""
    types = {
        "node": CellType("socket", 2, is_node=True),
        "socket": CellType("pair", 2),
        "pair": CellType("gpu", 2),
    }
    cells = tuple(PhysicalSpec("node", f"n{number}") for number in range(8))
    quota = VirtualClusterSpec(tuple(Quota("node", kind, number) for kind, number in quotas.items()))
    return ClusterSpec(types, cells, dict.fromkeys(TENANTS, quota), {"gpu": ("node",)})


def fragmentation(quotas, seed):
    draw = random.Random(seed)
    jobs = [
        job(number, draw.choice(TENANTS), 60 * number, draw.choice([1, 1, 2, 4, 8]), draw.randint(60, 1200))
        for number in range(200)
    ]
    return simulate_cells("cells", REGISTRY, cluster(quotas), jobs, "fifo").fragmentation


def test_several_levels_of_cells_fragment_less_than_one():
    nodes = fmean(fragmentation({"node": 2}, seed) for seed in range(5))
    levels = fmean(fragmentation({"node": 1, "socket": 1, "pair": 1, "gpu": 2}, seed) for seed in range(5))
    assert levels < 0.9 * nodes, (levels, nodes)
