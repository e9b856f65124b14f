"""Queues of jobs whose workers share GPUs (OJPP, section 5.1), and what became of a packed one."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median

from yarn_plugin.decide.mechanisms.packing import Job, PackingProblem, Slowdowns, slowdowns_on

KINDS = 26
"""As many as Gavel has on one GPU."""


@dataclass(frozen=True, slots=True)
class SharedOutcome:
    """`gpus_saved`: as a fraction of one GPU for each worker. `performance`: the mean over jobs of the time alone
    divided by that of the worst worker."""

    gpus_used: int
    gpus_saved: float
    performance: float


def outcome(problem: PackingProblem, gpus: Sequence[tuple[int, ...]]) -> SharedOutcome:
    """What a packing comes to."""
    worst = [0.0] * len(problem.jobs)
    for gpu in gpus:
        for job, slowdown in zip(gpu, slowdowns_on(problem, gpu), strict=True):
            worst[job] = max(worst[job], float("inf") if slowdown is None else slowdown)
    workers = sum(job.workers for job in problem.jobs)
    return SharedOutcome(len(gpus), 1 - len(gpus) / workers, fmean(1 / (1 + slowdown) for slowdown in worst))


def drawn_jobs(draw: random.Random, count: int, kinds: Sequence[str]) -> tuple[Job, ...]:
    """Jobs of 1 to 10 workers, as the paper's; it does not give what they need."""
    return tuple(
        Job(
            f"j{number}",
            draw.choice(kinds),
            draw.randint(1, 10),
            computing=draw.uniform(0.1, 0.5),
            memory=draw.uniform(0.05, 0.3),
            increment=draw.uniform(0.1, 0.62),
            probability=draw.uniform(0.03, 0.2),
        )
        for number in range(count)
    )


def drawn_slowdowns(draw: random.Random, scale: float) -> dict[tuple[str, str], float]:
    """Slowdowns of all pairs of kinds, spread about as those of Gavel's authors on a V100 are (10, 50 and 90%: 0, 0.47
    and 2.25), times `scale`. A kind disturbs others by its own greed, and suffers by its own sensitivity."""
    names = [f"kind-{number}" for number in range(KINDS)]
    greed, sensitivity = ({name: draw.lognormvariate(0, 0.7) for name in names} for _ in range(2))
    return {
        (a, b): scale * max(0.0, 0.57 * sensitivity[a] * greed[b] * draw.lognormvariate(0, 0.5) - 0.1)
        for a in names
        for b in names
    }


def least_disturbing(slowdowns: Slowdowns, count: int) -> list[str]:
    """The kinds that disturb others least."""
    beside: dict[str, list[float]] = {}
    for (_, kind), slowdown in slowdowns.items():
        beside.setdefault(kind, []).append(slowdown)
    return sorted(beside, key=lambda kind: (median(beside[kind]), kind))[:count]
