"""Simulations behind the claims of a paper's specification."""

from collections.abc import Callable

from yarn_plugin.decide.pools.controller import Registry
from yarn_plugin.drive.job_runs import PRIVATE, simulate_cells, simulate_sides
from yarn_plugin.drive.registry import installed
from yarn_plugin.model.cluster import Node
from yarn_plugin.model.resources import GPU, MEMORY, VCORES, Resources
from yarn_plugin.simulation.jobs.outcome import JobsOutcome, figures
from yarn_plugin.simulation.jobs.virtual_clusters import by_gpu_time
from yarn_plugin.simulation.paper_figures.specification import (
    CORES,
    MEMORY_MB,
    ClaimSection,
    Paper,
    Parameters,
    gangs,
    sides,
)


def measure(paper: Paper, seeds: int, on_done: Callable[[int], None] = lambda count: None) -> list[tuple[float, ...]]:
    """The effect of each claim, by seed. `on_done`: called with the number of seeds so far.

    Raises:
        ReportedError: a simulation cannot go on.
    """
    registry, effects = installed(), list[list[float]]([] for _ in paper.claims)
    for seed in range(seeds):
        outcomes = (_gangs if paper.workload == "gangs" else _sides)(paper, registry, seed)
        for found, claim in zip(effects, paper.claims, strict=True):
            found.append(_effect(claim, outcomes))
        on_done(seed + 1)
    return [tuple(found) for found in effects]


def _gangs(paper: Paper, registry: Registry, seed: int) -> dict[str, JobsOutcome]:
    jobs = gangs(paper.parameters, seed)
    spec = by_gpu_time(jobs, paper.parameters.load)
    return {name: simulate_cells(name, registry, spec, jobs, "fifo") for name in (PRIVATE, *paper.policies)}


def _sides(paper: Paper, registry: Registry, seed: int) -> dict[str, JobsOutcome]:
    jobs, nodes = sides(paper.parameters, seed), _nodes(paper.parameters)
    return {
        name: simulate_sides("allox", registry, nodes, jobs, float(name.removeprefix("alpha ")))
        for name in paper.policies
    }


def _nodes(parameters: Parameters) -> list[Node]:
    with_gpu = Resources.of({GPU: 1, VCORES: 1, MEMORY: MEMORY_MB})
    with_cores = Resources.of({VCORES: CORES, MEMORY: MEMORY_MB})
    return [Node(f"{name}{number}:8041", "/r", capacity) for name, capacity in (("g", with_gpu), ("c", with_cores))
            for number in range(parameters.nodes)]  # fmt: skip


def _effect(claim: ClaimSection, outcomes: dict[str, JobsOutcome]) -> float:
    private = {job.number: job for job in outcomes[PRIVATE].jobs} if PRIVATE in outcomes else None

    def value(policy: str) -> float:
        outcome = outcomes[policy]
        if claim.measure == "progress_spread":
            return outcome.progress_spread
        return float(getattr(figures(outcome.jobs, private), claim.measure))

    return value(claim.policy) / value(claim.over) if claim.over else value(claim.policy)
