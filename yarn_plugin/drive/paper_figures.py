"""Simulations behind the claims of a paper's specification."""

from collections.abc import Callable
from random import Random

from yarn_plugin.decide.mechanisms.packing import Limits, PackingProblem, pack, place_easygoing_first, place_greedily
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
    Paper,
    Parameters,
    gangs,
    sides,
)
from yarn_plugin.simulation.shared_queues import KINDS, drawn_jobs, drawn_slowdowns, outcome, sociable


def measure(paper: Paper, seeds: int, on_done: Callable[[int], None] = lambda count: None) -> list[tuple[float, ...]]:
    """The effect of each claim, by seed. `on_done`: called with the number of seeds so far.

    Raises:
        ReportedError: a simulation cannot go on.
    """
    registry, effects = installed(), list[list[float]]([] for _ in paper.claims)
    for seed in range(seeds):
        match paper.workload:
            case "workers":
                value = _of_workers(paper, seed)
            case "gangs":
                value = _of_jobs(_gangs(paper, registry, seed))
            case "sides":
                value = _of_jobs(_sides(paper, registry, seed))
        for found, claim in zip(effects, paper.claims, strict=True):
            effect = value(claim.policy, claim.measure)
            found.append(effect / value(claim.over, claim.measure) if claim.over else effect)
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


def _of_jobs(outcomes: dict[str, JobsOutcome]) -> Callable[[str, str], float]:
    """By policy and measure."""
    private = {job.number: job for job in outcomes[PRIVATE].jobs} if PRIVATE in outcomes else None

    def value(policy: str, measure: str) -> float:
        if measure == "progress_spread":
            return outcomes[policy].progress_spread
        return float(getattr(figures(outcomes[policy].jobs, private), measure))

    return value


def _of_workers(paper: Paper, seed: int) -> Callable[[str, str], float]:
    """By policy and measure."""
    draw = Random(f"{seed}/workers")
    slowdowns = drawn_slowdowns(draw, paper.parameters.load)
    jobs = drawn_jobs(draw, paper.parameters.jobs, sociable(slowdowns, KINDS // 2))
    outcomes = {}
    for policy in paper.policies:
        algorithm, *limits = policy.split()
        problem = PackingProblem(jobs, slowdowns, Limits(*map(float, limits)))
        outcomes[policy] = outcome(problem, _PACK[algorithm](problem))
    return lambda policy, measure: float(getattr(outcomes[policy], measure))


_PACK: dict[str, Callable[[PackingProblem], tuple[tuple[int, ...], ...]]] = {
    "greedy": place_greedily,
    "heuristic": place_easygoing_first,
    "best": lambda problem: pack(problem).gpus,
}
"""By the first word of a policy, which its limits follow."""
