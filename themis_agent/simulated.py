"""Training applications in virtual time: searches, bids and the division of GPUs, as in a live agent.

Registered under `yarn_plugin.simulated_training`; the simulator runs the jobs, and asks.
"""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from themis_agent.bids import bid_table, estimate
from themis_agent.bids.finish_time import FinishTime
from themis_agent.division import divide
from themis_agent.search import Bracket, Report, Trial, Work, successive_halving
from yarn_plugin.model.auction import EstimateRequest, GpuOffer
from yarn_plugin.model.gpus import Gpus, Job, Machine, Slowdown
from yarn_plugin.simulation.leasing.application import Beliefs, Goal, JobProgress, TrainingApplication
from yarn_plugin.simulation.leasing.job import Profile
from yarn_plugin.simulation.training.apps import TrainingApp, TrainingJob

MIN_LEFT = 0.01
"""The part of its iterations that a job is believed to have left while it runs beyond its estimate."""

ENDING = 1e-9
"""The same of a job that is about to end at this moment."""

LATEST = (0.5, 0.625, 0.75, 0.875, 1.0)
"""At which parts of what a job has done its losses are reported."""

CURVE_STEP = 0.1
"""The part of a job's iterations within which its loss must fall, if its search stops jobs by their curves."""


class ThemisKind:
    """The kind of applications that bid for GPUs."""

    def application(
        self, app: TrainingApp, machines: tuple[Machine, ...], arrived_at: float, beliefs: Beliefs, seed: str
    ) -> TrainingApplication:
        """An application that arrives now. `seed`: of the errors of its estimates."""
        make = _HalvingApplication if app.search == "successive_halving" else _Application
        return make(app, arrived_at, _believed(app, beliefs, random.Random(seed)))


@dataclass(frozen=True, slots=True)
class _Belief:
    """What an application takes for the truth about its jobs: a factor on all iterations, and their slowdowns."""

    iterations: float
    slowdowns: dict[str, Slowdown]


def _believed(app: TrainingApp, beliefs: Beliefs, draws: random.Random) -> _Belief:
    iterations = 1 + beliefs.error * draws.uniform(-1, 1)
    slowdown = 1 + beliefs.error * draws.uniform(-1, 1)
    return _Belief(iterations, {job.id: _exaggerated(job.slowdown, slowdown, 1 + beliefs.lie) for job in app.jobs})


def _exaggerated(true: Slowdown, error: float, lie: float) -> Slowdown:
    """Slowdowns with an error, and with a lie about GPUs on several machines; never below 1."""
    return Slowdown(
        max(true.slot * error, 1.0), max(true.machine * error * lie, 1.0), max(true.rack * error * lie, 1.0)
    )


@dataclass(frozen=True)
class _Present:
    """The work that is left when its jobs have made this progress."""

    jobs: Sequence[JobProgress]
    work: Work

    @cached_property
    def finish(self) -> FinishTime:
        """How long it takes."""
        return FinishTime(self.work)


class _Application:
    """See the module. Its jobs run to their ends, or as far as their curves tell."""

    def __init__(self, app: TrainingApp, arrived_at: float, belief: _Belief) -> None:
        self._app, self._arrived_at, self._belief = app, arrived_at, belief
        self._jobs = {job.id: job for job in app.jobs}
        self._goals = {job.id: _stopped_at(job, app) for job in app.jobs}
        self._budget_s = sum(goal * self._jobs[name].iteration_s for name, goal in self._goals.items())
        self._max_gpus = sum(job.max_gpus for job in app.jobs)
        self._described: dict[str, tuple[JobProgress, float, Job]] = {}
        self._present: _Present | None = None

    def goals(self) -> list[Goal]:
        """The jobs that run now."""
        return [Goal(name, iterations, _profile(self._in_phase(name))) for name, iterations in self._goals.items()]

    def reached(self, at: float, job: str) -> None:
        """A job has ended."""
        del self._goals[job]
        self._described.pop(job, None)
        self._present = None

    def answer(self, at: float, question: object, jobs: Sequence[JobProgress]) -> object | None:
        """Its finish-time fairness, or its bid."""
        match question:
            case EstimateRequest():
                now, needs_times = self._at_present(jobs), question.needs_rho and bool(question.held)
                return estimate(now.work, question, at - self._arrived_at, now.finish if needs_times else None)
            case GpuOffer():
                now = self._at_present(jobs)
                return bid_table(now.work, question, at - self._arrived_at, now.finish)
            case _:
                return None

    def divide(self, at: float, held: tuple[Machine, ...], jobs: Sequence[JobProgress]) -> Sequence[tuple[str, Gpus]]:
        """The GPUs of each job."""
        now = self._at_present(jobs)
        return divide(held, now.work.brackets[0].jobs, now.finish.running)

    def _in_phase(self, job: str) -> TrainingJob:
        """A job with the GPUs that it can use now."""
        return self._jobs[job]

    def _at_present(self, jobs: Sequence[JobProgress]) -> "_Present":
        """Its work; that of the last question if nothing has changed since."""
        if self._present is None or self._present.jobs is not jobs:
            self._present = _Present(jobs, self._work(jobs))
        return self._present

    def _work(self, jobs: Sequence[JobProgress]) -> Work:
        bracket = Bracket(tuple(self._job(one) for one in jobs))
        return Work((bracket,), self._budget_s * self._belief.iterations, self._max_gpus)

    def _job(self, one: JobProgress) -> Job:
        """A job as its application takes it to be; the same object while it makes no progress."""
        goal = self._goals[one.job]
        known = self._described.get(one.job)
        if known is None or known[0] is not one or known[1] != goal:
            known = self._described[one.job] = one, goal, self._describe(one, goal)
        return known[2]

    def _describe(self, progress: JobProgress, goal: float) -> Job:
        true = self._in_phase(progress.job)
        left = goal * self._belief.iterations - progress.done
        return Job(
            id=true.id,
            iterations_left=max(left, goal * (MIN_LEFT if self._belief.iterations != 1 else ENDING)),
            iteration_s=true.iteration_s,
            iterations_done=progress.done,
            min_gpus=true.min_gpus,
            max_gpus=true.max_gpus,
            step_gpus=true.step_gpus,
            slowdown=self._belief.slowdowns[progress.job],
            attained_gpu_s=progress.attained_gpu_s,
            losses=_losses(true, progress.done),
            held=progress.held,
            speeds=true.speeds,
        )


class _HalvingApplication(_Application):
    """An application that stops the worse half of its jobs after every phase."""

    def __init__(self, app: TrainingApp, arrived_at: float, belief: _Belief) -> None:
        super().__init__(app, arrived_at, belief)
        trials = [
            Trial(
                job.id, job.iteration_s, math.inf, job.min_gpus, job.max_gpus, job.step_gpus, job.slowdown, job.speeds
            )
            for job in app.jobs
        ]
        most = max(job.max_gpus for job in app.jobs)
        caps = [most * app.growth(phase) for phase in range(len(app.phases))]
        self._search = successive_halving(trials, app.phases, max_gpus=caps)
        self._budget_s, self._max_gpus = self._search.budget_gpu_s, self._search.work().max_gpus
        self._goals = dict.fromkeys(self._jobs, self._search.target)

    def _in_phase(self, job: str) -> TrainingJob:
        true = self._jobs[job]
        return replace(true, max_gpus=true.max_gpus * self._app.growth(self._search.phase))

    def reached(self, at: float, job: str) -> None:
        """A job has ended a phase. It waits for the others, or goes on, or is stopped."""
        self._present = None
        iteration = self._goals.pop(job)
        self._search, decisions = self._search.take(Report(job, iteration, _loss(self._jobs[job], iteration)))
        self._goals |= {one.trial: self._search.target for one in decisions if one.kind == "promote"}

    def _work(self, jobs: Sequence[JobProgress]) -> Work:
        bracket = replace(self._search.bracket(), jobs=tuple(self._job(one) for one in jobs))
        return Work((bracket,), self._budget_s * self._belief.iterations, self._max_gpus)


def _profile(job: TrainingJob) -> Profile:
    return Profile(job.iteration_s, job.min_gpus, job.max_gpus, job.step_gpus, job.slowdown, job.speeds)


def _stopped_at(job: TrainingJob, app: TrainingApp) -> float:
    """The iterations of a job. If its search looks at curves: until its loss falls by less than `min_gain` of its first
    value within a tenth of them."""
    if app.search != "curve_stopping":
        return job.iterations
    if job.loss is None:
        return job.iterations
    step, first = CURVE_STEP * job.iterations, job.loss.at(0)
    for number in range(1, 10):
        if job.loss.at((number - 1) * step) - job.loss.at(number * step) < app.min_gain * first:
            return number * step
    return job.iterations


def _loss(job: TrainingJob, done: float) -> float:
    return 0.0 if job.loss is None else job.loss.at(done)


def _losses(job: TrainingJob, done: float) -> tuple[tuple[float, float], ...]:
    """Losses over the second half of what a job has done."""
    if job.loss is None or done < 1:
        return ()
    loss_at = job.loss.at
    return tuple([(iteration, loss_at(iteration)) for iteration in [done * part for part in LATEST]])


KIND = ThemisKind()
