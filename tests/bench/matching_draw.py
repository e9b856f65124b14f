"""Twelve jobs of a workload in the format of AlloX's authors, and what the simulator says of them.

The jobs are drawn by seed, arrive at once, and take a part of their times; `start_s` more on a machine, in which a
container starts and ends. Schedulers expect the file's estimates, and nothing for the start.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from statistics import fmean

from yarn_plugin.drive.job_runs import simulate_sides
from yarn_plugin.drive.registry import installed
from yarn_plugin.drive.side_simulator import mean_speedup
from yarn_plugin.model.cluster import Node
from yarn_plugin.model.resources import GPU, MEMORY, VCORES, Resources
from yarn_plugin.model.share import Demand
from yarn_plugin.simulation.jobs import allox_file
from yarn_plugin.simulation.jobs.job import Job

JOBS, GPUS, SLOTS = 12, 2, 2
ALPHA = 0.3
BELOW = 0.15
"""How much less than under DRFA the average JCT must be, so that a draw is taken."""

SLOT = Resources.of({VCORES: 6, MEMORY: 2048})
NODE = Resources.of({GPU: GPUS, VCORES: GPUS + SLOTS * SLOT[VCORES] + 2, MEMORY: 12288})
"""Of which two vcores are left for application masters."""


@dataclass(frozen=True)
class Draw:
    """`seed`: of the draw. `jobs`: with their true times on a GPU and on a slot, without the start."""

    seed: int
    jobs: tuple[Job, ...]

    @property
    def slots_per_gpu(self) -> float:
        """As how many slots DRFA counts a GPU."""
        return mean_speedup(self.jobs)


def read(path: Path) -> tuple[Job, ...]:
    """The jobs of a file."""
    return allox_file.read(f"--jobs {str(path)!r}", path).jobs


def draw(jobs: Sequence[Job], seed: int, part: float) -> Draw:
    """The jobs of a seed, at the beginning, with so large a part of their times."""
    demand = Demand((Resources.of({GPU: 1}), SLOT))
    drawn = [
        replace(
            job,
            arrives_at=0.0,
            demand=demand,
            seconds=tuple(part * (seconds or 0.0) for seconds in job.seconds),
            estimated_s=tuple(part * (seconds or 0.0) for seconds in job.estimated_s),
        )
        for job in random.Random(seed).sample(list(jobs), JOBS)
    ]
    return Draw(seed, tuple(drawn))


def first_draw(jobs: Sequence[Job], part: float, start_s: float) -> Draw:
    """The first one on which AlloX is so far below DRFA in the simulator."""
    draws = (draw(jobs, seed, part) for seed in count())
    return next(
        one for one in draws if simulated(one, "allox", start_s) <= (1 - BELOW) * simulated(one, "drfa", start_s)
    )


def simulated(drawn: Draw, policy: str, start_s: float) -> float:
    """The average JCT in seconds."""
    return fmean(completion_times(drawn, policy, start_s).values())


def completion_times(drawn: Draw, policy: str, start_s: float) -> dict[str, float]:
    """The JCT of each job in seconds, by name."""
    jobs = [replace(job, seconds=tuple((seconds or 0.0) + start_s for seconds in job.seconds)) for job in drawn.jobs]
    node = Node("n0:8041", "n0", NODE)
    outcome = simulate_sides(policy, installed(), [node], jobs, ALPHA)
    return {f"job{one.number}": one.ended_at or 0.0 for one in outcome.jobs}
