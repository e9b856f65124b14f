"""Simulations of jobs by the name of a policy: virtual clusters of cells and what they are compared with; jobs that may
run on GPUs or on cores."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from yarn_plugin.decide.allocators.allox.sampling import FRACTIONS
from yarn_plugin.decide.allocators.allox.settings import AlloxSettings
from yarn_plugin.decide.allocators.buddy_cells import BuddyCellsSettings
from yarn_plugin.decide.allocators.gpu_queues import GpuQueuesSettings
from yarn_plugin.decide.leases.settings import RULES, LedgerSettings
from yarn_plugin.decide.mechanisms.buddy_cells.specification import ClusterSpec
from yarn_plugin.decide.policies.sides import SIDE_POLICIES
from yarn_plugin.decide.pools.controller import Registry
from yarn_plugin.decide.topology import topology
from yarn_plugin.drive.job_simulator import JobSetup, JobSimulation, Order
from yarn_plugin.drive.side_simulator import SideSimulation
from yarn_plugin.errors import BadInputError
from yarn_plugin.model.cluster import Node
from yarn_plugin.model.resources import GPU, MEMORY, VCORES
from yarn_plugin.model.share import Pool
from yarn_plugin.model.topology import TopologyDescription
from yarn_plugin.simulation.jobs.job import Job
from yarn_plugin.simulation.jobs.virtual_clusters import gpus_of, private_clusters, topology_of
from yarn_plugin.simulation.outcome import Outcome

PRIVATE = "private"
CELL_POLICIES = ("cells", "quota", "capacity", "fair", "fifo", PRIVATE)
"""`quota`: GPUs of each virtual cluster as a limit, on shared nodes; `capacity`: as an assurance, beyond which it may
use what others do not; `private`: each has its cells alone."""

ALLOX = "allox"
"""The policy that the arbiter has for jobs that may run on GPUs or on cores; the others are its baselines."""

UNSAMPLED = frozenset({"drff"})
"""Policies that need no estimates, so that their jobs are not sampled (AlloX, section 5.1.1)."""


def simulate_cells(
    policy: str,
    registry: Registry,
    spec: ClusterSpec,
    jobs: Sequence[Job],
    order: Order,
    on_ended: Callable[[int], None] = lambda count: None,
    keeps_holdings: bool = False,
) -> Outcome:
    """Simulate jobs in virtual clusters. `order`: which jobs of each claim. `keeps_holdings`: see `JobSetup`."""
    assured = {name: gpus_of(spec, name) for name in spec.clusters}
    allocator: str
    settings: object
    match policy:
        case "private":
            parts = simulate_private(registry, spec, jobs, order, on_ended, keeps_holdings)
            return Outcome.together(list(parts.values()))
        case "cells":
            allocator, settings = "cells", BuddyCellsSettings(spec)
        case "quota":
            allocator, settings = "gpu_queues", GpuQueuesSettings("capacity", assured, assured, preempts=False)
        case "capacity":
            allocator, settings = "gpu_queues", GpuQueuesSettings("capacity", assured)
        case "fair":
            weights = {name: float(gpus) for name, gpus in assured.items() if gpus}
            allocator, settings = "gpu_queues", GpuQueuesSettings("fair", weights=weights)
        case _:
            allocator, settings, order = "fifo", None, "any"
    # Under other policies than cells there is no opportunistic work.
    order = "fifo" if order == "low_priority" and allocator != "cells" else order
    setup = JobSetup(topology_of(spec), (sum(assured.values()),), jobs, order, keeps_holdings=keeps_holdings)
    return _run(allocator, settings, registry, setup, on_ended)


def simulate_private(
    registry: Registry,
    spec: ClusterSpec,
    jobs: Sequence[Job],
    order: Order,
    on_ended: Callable[[int], None] = lambda count: None,
    keeps_holdings: bool = False,
) -> dict[str, Outcome]:
    """Simulate the jobs of each virtual cluster in a private cluster of its cells; see `simulate_cells`."""
    parts, done = dict[str, Outcome](), 0
    for name, own in private_clusters(spec):
        mine = [job for job in jobs if job.tenant == name]
        count = lambda ended, before=done: on_ended(before + ended)  # noqa: E731
        setup = JobSetup(topology_of(own), (gpus_of(spec, name),), mine, order, keeps_holdings=keeps_holdings)
        parts[name] = _run("cells", BuddyCellsSettings(own), registry, setup, count)
        done += len(mine)
    return parts


def simulate_sides(
    policy: str,
    registry: Registry,
    nodes: Sequence[Node],
    jobs: Sequence[Job],
    alpha: float,
    on_ended: Callable[[int], None] = lambda count: None,
    sample_share: float = 0.0,
    barrier: bool = False,
) -> Outcome:
    """Simulate jobs that may run on GPUs or on cores. A slot of cores has room for every job.

    AlloX is the arbiter's own allocator, other policies are simulated alone; with a `barrier`, AlloX too.
    `sample_share`: above 0, the times of jobs are not known, and jobs are sampled first: by the allocator on so large a
    part of the machines, under other policies on all. `barrier`: see `SideSimulation`.

    Raises:
        BadInputError: no node has a GPU, or room for a slot.
        SimulationError: the policy leaves jobs waiting.
    """
    sides = [job.demand.alternatives[1] for job in jobs]
    slot = {name: max(side[name] for side in sides) for name in (VCORES, MEMORY)}
    settings = AlloxSettings(cpu_slot=slot, alpha=alpha, sample_share=sample_share)
    cells = topology({node.id: node for node in nodes}, {}, TopologyDescription())
    slots = sum(min(node.capacity[name] // slot[name] for name in slot) for node in nodes if node.capacity)
    gpus = sum(node.capacity[GPU] for node in nodes)
    if not gpus + slots:
        room = f"a GPU, or room for a slot of {slot[VCORES]} vcores and {slot[MEMORY]} MB"
        raise BadInputError("--cluster", f"{len(nodes)} nodes", f"must have {room}")
    if not (gpus and slots):
        # A side without machines is none: no policy waits for it, and no progress is measured by it.
        jobs = [_only_on(job, 0 if gpus else 1) for job in jobs]
    if policy == ALLOX and not barrier:
        setup = JobSetup(cells, (gpus, slots), jobs, is_sampled=sample_share > 0)
        return _run("allox", settings, registry, setup, on_ended)
    samples = FRACTIONS if sample_share and policy not in UNSAMPLED else ()
    return SideSimulation(SIDE_POLICIES[policy], jobs, (gpus, slots), alpha, samples, barrier, on_ended).run()


def _only_on(job: Job, side: int) -> Job:
    seconds, estimated = (
        tuple(value if place == side else None for place, value in enumerate(values))
        for values in (job.seconds, job.estimated_s)
    )
    return replace(job, seconds=seconds, estimated_s=estimated)


def _run(
    allocator: str, settings: object, registry: Registry, setup: JobSetup, on_ended: Callable[[int], None]
) -> Outcome:
    parameters = LedgerSettings(allocator, settings, grace_s=0.0, place_within_s=0.0, rules=RULES)
    pool = Pool("gpu", "root.gpu", (GPU,), controller="ledger", parameters=parameters)
    return JobSimulation(pool, registry, setup, on_ended).run()
