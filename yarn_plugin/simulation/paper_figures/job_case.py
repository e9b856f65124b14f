"""A simulation of jobs behind a figure: a plain value, from which its jobs and its nodes follow."""

from dataclasses import dataclass
from random import Random
from typing import Literal

from yarn_plugin.model.cluster import Node
from yarn_plugin.model.resources import GPU, MEMORY, VCORES, Resources
from yarn_plugin.model.share import Demand
from yarn_plugin.quantities import count
from yarn_plugin.simulation.jobs.job import Job, gang_of
from yarn_plugin.toml_files import Section

CORES, MEMORY_MB = 32, 8192
"""What a job on cores needs."""


class JobSize(Section):
    """How large the simulations are. `load`: of virtual clusters. `nodes`: with a GPU, and as many with cores."""

    tenants: int
    jobs: int
    load: float = 1.0
    nodes: int = 0

    @property
    def shown(self) -> str:
        """As a person reads it."""
        return f"{count(self.jobs, 'job')} of {count(self.tenants, 'user')}"


@dataclass(frozen=True, slots=True)
class JobCase:
    """A simulation. `scenario`: gangs in virtual clusters, or jobs that run on a GPU or on cores. `alpha`: of AlloX."""

    seed: int
    size: JobSize
    policy: str
    scenario: Literal["gangs", "sides"]
    alpha: float = 0.3

    def jobs(self) -> tuple[Job, ...]:
        """Its jobs."""
        return _gangs(self.size, self.seed) if self.scenario == "gangs" else _sides(self.size, self.seed)

    def nodes(self) -> tuple[Node, ...]:
        """Its nodes, where jobs have two sides."""
        with_gpu = Resources.of({GPU: 1, VCORES: 1, MEMORY: MEMORY_MB})
        with_cores = Resources.of({VCORES: CORES, MEMORY: MEMORY_MB})
        return tuple(
            Node(f"{name}{number}:8041", "/r", capacity)
            for name, capacity in (("g", with_gpu), ("c", with_cores))
            for number in range(self.size.nodes)
        )


def _gangs(size: JobSize, seed: int) -> tuple[Job, ...]:
    """Gangs of 1 to 16 GPUs of several tenants within a day; most are small and short, as in Philly's trace."""
    draw, jobs = Random(f"{seed}/gangs"), []
    arrivals = sorted(draw.randrange(86_400) for _ in range(size.jobs))
    for number, at in enumerate(arrivals):
        gang = gang_of(draw.choices((1, 2, 3, 4, 5, 8, 16), (40, 15, 5, 15, 5, 15, 5))[0], 8)
        seconds = float(max(round(draw.lognormvariate(8.0, 1.2)), 60))
        demand = Demand((Resources.of({GPU: gang.cells}),))
        tenant = f"tenant{draw.randrange(size.tenants)}"
        jobs.append(Job(number, tenant, float(at), demand, (seconds,), (seconds,), gang, gang.cells))
    return tuple(jobs)


def _sides(size: JobSize, seed: int) -> tuple[Job, ...]:
    """Jobs that take 41 to 398 s on cores, and on a GPU a median of 4.4 times less, as in the authors' Google file; one
    arrives about as often as two nodes end one."""
    draw, jobs, at = Random(f"{seed}/sides"), list[Job](), 0.0
    demand = Demand((Resources.of({GPU: 1}), Resources.of({VCORES: CORES, MEMORY: MEMORY_MB})))
    for number in range(size.jobs):
        at += draw.expovariate(size.nodes / 45.0)
        on_cores = draw.uniform(41, 398)
        seconds = max(6.0, on_cores / draw.lognormvariate(1.48, 0.6)), on_cores
        jobs.append(Job(number, f"user{number % size.tenants}", at, demand, seconds, seconds))
    return tuple(jobs)
