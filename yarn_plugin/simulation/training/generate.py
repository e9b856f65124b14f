"""Generate workloads like the two of the thesis from a seed.

The parameters were fixed before any policy ran on what they generate. Figures 3.1 to 3.4 and 3.8 are known from the
text only; what it leaves open is an assumption, and said to be one.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp
from random import Random
from typing import Literal

from yarn_plugin.model.gpus import Slowdown
from yarn_plugin.simulation.training.apps import TrainingApp, TrainingJob, TrainingWorkload, ordered
from yarn_plugin.simulation.training.loss_curves import random_sublinear
from yarn_plugin.simulation.training.models import COMPUTE_INTENSIVE, NETWORK_INTENSIVE, TABLE_3_4

HOUR, DAY = 3600.0, 86_400.0

APPS = 85
"""Section 3.2.2: the trace contains 85 applications."""

PERIOD_S = 14 * DAY
"""Section 3.6.1: a snapshot of two weeks. With `APPS`, an application every 4 hours."""

BURST_SHAPE = 0.25
"""Figure 3.1: demand is bursty. Assumption: gaps between arrivals have a gamma distribution of this shape, that is, a
standard deviation of twice their mean."""

TASK_S = 3.75 * HOUR
"""Figure 3.4: the median task takes 3.75 GPU hours."""

SPREAD_OF_APPS = 1.5
"""Figures 3.3 and 3.4: a significant fraction is more than 10 times shorter, many are more than 10 times longer.
Assumption: lognormal with this standard deviation of the logarithm, which gives 6% each, cut at `CUT`. Nearly all of it
must lie between applications: 75 tasks of 3.75 hours are the 11.5 GPU days of figure 3.3."""

CUT = (0.01, 30.0)
"""Assumption: the least and the most, as multiples of the median."""

SPREAD_OF_JOBS = 0.3
"""Assumption: the same for the jobs of one application."""

SINGLE_JOB_SHARE = 0.1
"""Figure 3.2: about 10% of the applications have 1 job."""

JOBS_1 = (24, 100)
"""Figure 3.2: the others have a few tens to about 100 jobs, and the median of all is 75. Assumption: the density rises
linearly between these, which gives that median."""

MEDIAN_JOBS_1 = 75
"""Figure 3.2. An application of workload 2 has the work of so many tasks, so that figure 3.3 holds for it too."""

TASKS_1: Mapping[int, float] = {1: 0.8, 2: 0.2}
"""Section 3.6.2: in workload 1 all jobs have 1 or 2 GPUs. The shares are an assumption."""

JOBS_2 = (8, 16, 32)
"""Section 3.6.1: workload 2 has jobs in the pattern of successive halving. The numbers are an assumption: powers of 2
around the 13 to 29 jobs per application in the authors' online workloads."""

TASKS_2: Mapping[int, float] = {2: 0.3, 4: 0.7}
"""Section 3.6.1: workload 2 has more tasks per job than workload 1. Shares of the authors' online workloads."""

ITERATION_S: Mapping[bool, float] = {True: 1.2, False: 0.33}
"""Seconds of an iteration on one GPU of network-intensive and other models, as in the authors' workloads."""

ITERATION_SPREAD = (0.8, 1.2)
"""Hyperparameters change the time of an iteration by as much as in the example of section 3.4.3.3."""


@dataclass(frozen=True, slots=True)
class Generator:
    """What to generate.

    `workload`: 1 (all jobs run to their ends) or 2 (successive halving) of section 3.6.1. `period_s`: within which the
    applications arrive, on average. `scale`: of all durations. `network_share`: of applications whose jobs are slowed
    down by placement as those of the authors' online_workload_100network.json, the others being as those of
    online_workload_0network.json (figure 3.15); None: by the networks of table 3.4. `gangs`: jobs need all their GPUs;
    otherwise they can use fewer. `cut`: the shortest and the longest application, as multiples of the median.
    """

    workload: Literal[1, 2] = 1
    apps: int = APPS
    period_s: float = PERIOD_S
    scale: float = 1.0
    network_share: float | None = None
    gangs: bool = False
    cut: tuple[float, float] = CUT

    def generate(self, seed: int) -> TrainingWorkload:
        """The workload of a seed.

        With another `network_share` the applications are the same but for their models: the slowdowns, and the time of
        an iteration and with it the number of them, but not the work.
        """
        times = enumerate(_arrivals(self.apps, self.period_s / self.apps, seed), 1)
        return TrainingWorkload(ordered([self._app(number, at, seed) for number, at in times]))

    def _app(self, number: int, arrival_s: float, seed: int) -> TrainingApp:
        draw, name = Random(f"{seed}/app/{number}"), f"app{number}"
        model, slowdown = self._model(Random(f"{seed}/model/{number}"))
        task_s = TASK_S * self.scale * _lognormal(draw, SPREAD_OF_APPS, self.cut)
        single = draw.random() < SINGLE_JOB_SHARE
        many = round(draw.triangular(*JOBS_1, JOBS_1[1])) if self.workload == 1 else draw.choice(JOBS_2)
        tasks = TASKS_1 if self.workload == 1 else TASKS_2
        jobs = [
            _job(str(place), task_s, tasks, ITERATION_S[slowdown == NETWORK_INTENSIVE], draw)
            for place in range(1, 2 if single else many + 1)
        ]
        phases: tuple[float, ...] = ()
        if self.workload == 2 and not single:
            phases = halving_phases([job.iteration_s for job in jobs], task_s * MEDIAN_JOBS_1)
            jobs = [replace(job, iterations=sum(phases)) for job in jobs]
        return TrainingApp(
            name,
            arrival_s,
            tuple(
                replace(
                    job,
                    min_gpus=job.max_gpus if self.gangs else 1,
                    slowdown=slowdown,
                    model=model,
                    loss=random_sublinear(max(round(job.iterations), 1), draw.randrange(2**31)),
                )
                for job in jobs
            ),
            "successive_halving" if phases else "plain",
            phases,
            doubling=bool(phases),
        )

    def _model(self, draw: Random) -> tuple[str, Slowdown]:
        """The application's network, and its slowdown."""
        if self.network_share is not None:
            intensive = draw.random() < self.network_share
            return ("network", NETWORK_INTENSIVE) if intensive else ("compute", COMPUTE_INTENSIVE)
        model = draw.choices(TABLE_3_4, [one.share for one in TABLE_3_4])[0]
        return model.name, model.slowdown


def halving_phases(iteration_s: Sequence[float], budget_s: float) -> tuple[float, ...]:
    """The iterations of each job in each phase of successive halving.

    A budget of GPU seconds is divided evenly among phases of n, n/2, ... 1 jobs (thesis, section 3.4.3.2). Which jobs
    survive is not known: each counts with the mean time of an iteration.
    """
    count, mean = len(iteration_s), sum(iteration_s) / len(iteration_s)
    phases = count.bit_length()
    return tuple(float(max(round(budget_s / phases / ((count >> phase) * mean)), 1)) for phase in range(phases))


def _arrivals(count: int, gap_s: float, seed: int) -> Iterator[float]:
    """The first at 0."""
    draw, at = Random(f"{seed}/arrivals"), 0.0
    for _ in range(count):
        yield at
        at += round(draw.gammavariate(BURST_SHAPE, gap_s / BURST_SHAPE), 3)


def _job(name: str, task_s: float, tasks: Mapping[int, float], iteration_s: float, draw: Random) -> TrainingJob:
    gpus = draw.choices(list(tasks), list(tasks.values()))[0]
    own_s = iteration_s * draw.uniform(*ITERATION_SPREAD)
    work_s = task_s * _lognormal(draw, SPREAD_OF_JOBS, CUT) * gpus
    return TrainingJob(name, float(max(round(work_s / own_s), 1)), own_s, max_gpus=gpus)


def _lognormal(draw: Random, spread: float, cut: tuple[float, float]) -> float:
    """With median 1; at least and at most `cut`."""
    return min(max(exp(draw.gauss(0.0, spread)), cut[0]), cut[1])
