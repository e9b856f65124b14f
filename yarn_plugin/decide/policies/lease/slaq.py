"""SLAQ: the largest decrease in loss first (thesis, section 3.6.1).

Each job reports by how much its loss will fall during the lease with its next step of GPUs beyond what it falls
without; the job with the most gets the step, then the rest report again. A job with fewer than two losses cannot say:
its first step comes before all others, as a new job's loss falls fastest, and further ones come last. Ties: the fewest
GPUs, then the earlier arrival, then the name. No regard for placement:
GPUs are given as listed, and predictions assume no slowdown. Losses are compared as they are, without the normalisation
of SLAQ itself, as in the thesis.
"""

import math
from dataclasses import dataclass
from math import inf

from yarn_plugin.decide.mechanisms.gang_placement import ListedGpus
from yarn_plugin.decide.policies.lease.allocation import Allocation
from yarn_plugin.decide.policies.lease.gangs import next_size
from yarn_plugin.decide.policies.lease.order import Rank, serve_best_first
from yarn_plugin.decide.policies.leasing import AppStatus, Assignment, LeaseProblem
from yarn_plugin.model.gpus import Job


@dataclass(frozen=True, slots=True)
class PowerLaw:
    """loss = e^level (k + 1)^-exponent after k iterations: what SLAQ's 1 / (a k^2 + b k + c) tends to."""

    level: float
    exponent: float

    def at(self, iterations: float) -> float:
        """The loss after so many iterations."""
        return math.exp(min(self.level - self.exponent * math.log(iterations + 1.0), MAX_LOG))


NO_DECREASE = PowerLaw(0.0, 0.0)

MAX_LOG = 700.0
"""Nearly the largest number whose exponential is finite."""


def fitted(losses: tuple[tuple[float, float], ...]) -> PowerLaw | None:
    """The power law through the logarithms of (iteration, loss), by least squares; None from fewer than two.

    A loss that does not fall, or is not positive, has exponent 0: no decrease is expected.
    """
    if len(losses) < 2:
        return None
    if any(loss <= 0 for _, loss in losses):
        return NO_DECREASE
    points = [(math.log(iteration + 1.0), math.log(loss)) for iteration, loss in losses]
    x_mean = sum(x for x, _ in points) / len(points)
    y_mean = sum(y for _, y in points) / len(points)
    spread = sum((x - x_mean) ** 2 for x, _ in points)
    slope = sum((x - x_mean) * (y - y_mean) for x, y in points) / spread if spread else 0.0
    exponent = max(-slope, 0.0)
    return PowerLaw(y_mean + exponent * x_mean, exponent)


def allocate(problem: LeaseProblem) -> tuple[Assignment, ...]:
    """Give free GPUs by decrease in loss."""
    allocation = Allocation(ListedGpus(problem.machines))
    curves = {(app.app, job.id): fitted(job.losses) for app in problem.apps for job in app.jobs}

    def rank(candidate: tuple[AppStatus, Job]) -> Rank | None:
        app, job = candidate
        now = allocation.size(app.app, job)
        larger = next_size(job, now)
        if larger is None or larger - now > allocation.free:
            return None
        curve = curves[app.app, job.id]
        if curve is None:
            gain = 0.0 if now else inf
        else:
            gain = _loss(curve, job, now, problem.lease_s) - _loss(curve, job, larger, problem.lease_s)
        return (-gain, now, app.arrived_at, app.app, job.id)

    def serve(candidate: tuple[AppStatus, Job]) -> bool:
        app, job = candidate
        return allocation.step(app.app, job) > 0

    serve_best_first([(app, job) for app in problem.apps for job in app.jobs], rank, serve)
    return allocation.assignments()


def _loss(curve: PowerLaw, job: Job, gpus: int, lease_s: float) -> float:
    """At the end of the lease with so many GPUs."""
    return curve.at(job.iterations_done + min(gpus * lease_s / job.iteration_s, job.iterations_left))
