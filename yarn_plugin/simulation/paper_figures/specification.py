"""A paper's claims as its file has them, and the workloads that they are simulated on."""

from importlib.resources import files
from math import inf
from random import Random
from tomllib import loads
from typing import Literal

from pydantic import Field

from yarn_plugin.model.resources import GPU, MEMORY, VCORES, Resources
from yarn_plugin.model.share import Demand
from yarn_plugin.simulation.jobs.job import Job, gang_of
from yarn_plugin.toml_files import Section

PAPERS = ("hived", "allox", "sharing")

CORES, MEMORY_MB = 32, 8192
"""What a job on cores needs."""


class Parameters(Section):
    """Of the workload. `load`: of virtual clusters; or how much workers disturb each other. `nodes`: with a GPU, and as
    many with cores."""

    tenants: int
    jobs: int
    load: float = 1.0
    nodes: int = 0


class ClaimSection(Section):
    """A claim. `measure`: a figure of `policy`'s outcome, divided by that of `over` if it is given; as claimed between
    `low` and `high`."""

    section: str
    effect: str
    paper: str
    measure: Literal["later", "mean_completion_s", "progress_spread", "gpus_saved", "gpus_used", "performance"]
    policy: str
    over: str | None = None
    low: float = -inf
    high: float = inf


class ToldSection(Section):
    """What is told, not asserted."""

    effect: str
    why: str


class Paper(Section):
    """A paper. `workload`: gangs in virtual clusters, jobs with two sides, or workers that share GPUs."""

    title: str
    workload: Literal["gangs", "sides", "workers"]
    parameters: Parameters
    claims: tuple[ClaimSection, ...] = Field(min_length=1)
    told: tuple[ToldSection, ...] = ()

    @property
    def policies(self) -> tuple[str, ...]:
        """What is simulated for its claims."""
        return tuple(dict.fromkeys(name for one in self.claims for name in (one.policy, one.over) if name))


def read(name: str) -> Paper:
    """A paper of `PAPERS`."""
    return Paper.model_validate(loads(files(__package__).joinpath(f"{name}.toml").read_text()))


def gangs(parameters: Parameters, seed: int) -> tuple[Job, ...]:
    """Gangs of 1 to 16 GPUs of several tenants within a day; most are small and short, as in Philly's trace."""
    draw, jobs = Random(f"{seed}/gangs"), []
    arrivals = sorted(draw.randrange(86_400) for _ in range(parameters.jobs))
    for number, at in enumerate(arrivals):
        gang = gang_of(draw.choices((1, 2, 3, 4, 5, 8, 16), (40, 15, 5, 15, 5, 15, 5))[0], 8)
        seconds = float(max(round(draw.lognormvariate(8.0, 1.2)), 60))
        demand = Demand((Resources.of({GPU: gang.cells}),))
        tenant = f"tenant{draw.randrange(parameters.tenants)}"
        jobs.append(Job(number, tenant, float(at), demand, (seconds,), (seconds,), gang, gang.cells))
    return tuple(jobs)


def sides(parameters: Parameters, seed: int) -> tuple[Job, ...]:
    """Jobs that take 41 to 398 s on cores, and on a GPU a median of 4.4 times less, as in the authors' Google file; one
    arrives about as often as two nodes end one."""
    draw, jobs, at = Random(f"{seed}/sides"), list[Job](), 0.0
    demand = Demand((Resources.of({GPU: 1}), Resources.of({VCORES: CORES, MEMORY: MEMORY_MB})))
    for number in range(parameters.jobs):
        at += draw.expovariate(parameters.nodes / 45.0)
        on_cores = draw.uniform(41, 398)
        seconds = max(6.0, on_cores / draw.lognormvariate(1.48, 0.6)), on_cores
        jobs.append(Job(number, f"user{number % parameters.tenants}", at, demand, seconds, seconds))
    return tuple(jobs)
