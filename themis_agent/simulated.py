"""Training applications in virtual time: searches, bids and the division of GPUs, as in a live agent.

Registered under `yarn_plugin.simulated_training`; the simulator runs the jobs, and asks.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from themis_agent.bids import bid_table, estimate
from themis_agent.division import divide
from themis_agent.search.work import Bracket, Phase, Work
from yarn_plugin.model.auction import EstimateRequest, GpuOffer
from yarn_plugin.model.gpus import Gpus, Job, Machine, Slowdown
from yarn_plugin.simulation.leasing.application import Beliefs, Goal, JobProgress, TrainingApplication
from yarn_plugin.simulation.leasing.job import Profile
from yarn_plugin.simulation.training.apps import TrainingApp, TrainingJob

MIN_LEFT = 0.01
"""The part of its iterations that a job is believed to have left while it runs beyond its estimate."""

LOSSES = 5
"""How many losses of a job are reported, the latest ones."""

CURVE_STEP = 0.1
"""The part of a job's iterations within which its loss must fall, if its search stops jobs by their curves."""


class ThemisKind:
    """The kind of applications that bid for GPUs."""

    def application(
        self, app: TrainingApp, machines: tuple[Machine, ...], arrived_at: float, beliefs: Beliefs, seed: str
    ) -> TrainingApplication:
        """An application that arrives now. `seed`: of the errors of its estimates."""
        return _Application(app, arrived_at, _believed(app, beliefs, random.Random(seed)))


@dataclass(frozen=True, slots=True)
class _Belief:
    """What an application takes for the truth about its jobs: a factor on all iterations, and their slowdowns."""

    iterations: float
    slowdowns: dict[str, Slowdown]


def _believed(app: TrainingApp, beliefs: Beliefs, draws: random.Random) -> _Belief:
    iterations = 1 + beliefs.error * draws.uniform(-1, 1)
    slowdown = 1 + beliefs.error * draws.uniform(-1, 1)
    return _Belief(
        iterations, {job.id: _exaggerated(job.slowdown, slowdown, 1 + beliefs.lie) for job in app.jobs}
    )


def _exaggerated(true: Slowdown, error: float, lie: float) -> Slowdown:
    """Slowdowns with an error, and with a lie about GPUs on several machines; never below 1."""
    return Slowdown(max(true.slot * error, 1.0), max(true.machine * error * lie, 1.0), max(true.rack * error * lie, 1.0))


class _Application:
    """See the module."""

    def __init__(self, app: TrainingApp, arrived_at: float, belief: _Belief) -> None:
        self._app, self._arrived_at, self._belief = app, arrived_at, belief
        self._jobs = {job.id: job for job in app.jobs}
        self._goals = {job.id: _first_goal(app, job) for job in app.jobs}
        self._phase = 0
        self._waiting: set[str] = set()
        self._ended: dict[str, float] = {}

    def goals(self) -> list[Goal]:
        """The jobs that run now."""
        return [
            Goal(name, iterations, _profile(self._jobs[name]))
            for name, iterations in self._goals.items()
            if name not in self._waiting
        ]

    def reached(self, at: float, job: str) -> None:
        """End the job, or let it wait for the end of its phase."""
        if self._app.search != "successive_halving":
            self._ended[job] = self._goals.pop(job)
            return
        self._waiting.add(job)
        if len(self._waiting) == len(self._goals):
            self._next_phase()

    def _next_phase(self) -> None:
        """Stop the worse half of the jobs; the others run on."""
        done = self._goals
        self._phase += 1
        ranked = sorted(done, key=lambda name: (_loss(self._jobs[name], done[name]), name))
        kept = set(ranked[: -(-len(ranked) // 2)] if self._phase < len(self._app.phases) else ())
        self._ended |= {name: iterations for name, iterations in done.items() if name not in kept}
        self._goals = {
            name: iterations + self._app.phases[self._phase] for name, iterations in done.items() if name in kept
        }
        self._waiting = set()

    def answer(
        self, at: float, question: object, jobs: Sequence[JobProgress]
    ) -> object | None:
        """Its finish-time fairness, or its bid."""
        match question:
            case EstimateRequest():
                return estimate(self._work(jobs), question, at - self._arrived_at)
            case GpuOffer():
                return bid_table(self._work(jobs), question, at - self._arrived_at)
            case _:
                return None

    def divide(self, at: float, held: tuple[Machine, ...], jobs: Sequence[JobProgress]) -> Sequence[tuple[str, Gpus]]:
        """The GPUs of each job."""
        return divide(held, [self._job(one) for one in jobs])

    def _work(self, jobs: Sequence[JobProgress]) -> Work:
        running = tuple(self._job(one) for one in jobs)
        phases = self._phases_to_come(len(self._goals))
        waiting = sum(self._goals[name] * self._jobs[name].iteration_s for name in self._waiting)
        ended = sum(done * self._jobs[name].iteration_s for name, done in self._ended.items())
        mean_s = sum(self._jobs[name].iteration_s for name in self._goals) / len(self._goals)
        budget = (
            sum((job.iterations_done + job.iterations_left) * job.iteration_s for job in running)
            + waiting
            + ended
            + sum(phase.jobs * phase.iterations * mean_s for phase in phases)
        )
        return Work((Bracket(running, phases),), budget, sum(job.max_gpus for job in self._app.jobs))

    def _phases_to_come(self, count: int) -> tuple[Phase, ...]:
        if self._app.search != "successive_halving":
            return ()
        phases = []
        widest = max(job.max_gpus for job in self._app.jobs)
        for iterations in self._app.phases[self._phase + 1 :]:
            count = -(-count // 2)
            phases.append(Phase(count, iterations * self._belief.iterations, widest))
        return tuple(phases)

    def _job(self, one: JobProgress) -> Job:
        """A job as its application takes it to be."""
        true, goal = self._jobs[one.job], self._goals[one.job]
        return Job(
            id=true.id,
            iterations_left=max(goal * self._belief.iterations - one.done, goal * MIN_LEFT)
            if self._belief.iterations != 1
            else goal - one.done,
            iteration_s=true.iteration_s,
            iterations_done=one.done,
            min_gpus=true.min_gpus,
            max_gpus=true.max_gpus,
            step_gpus=true.step_gpus,
            slowdown=self._belief.slowdowns[one.job],
            attained_gpu_s=one.attained_gpu_s,
            losses=_losses(true, one.done),
            held=one.held,
        )


def _profile(job: TrainingJob) -> Profile:
    return Profile(job.iteration_s, job.min_gpus, job.max_gpus, job.step_gpus, job.slowdown)


def _first_goal(app: TrainingApp, job: TrainingJob) -> float:
    match app.search:
        case "successive_halving":
            return app.phases[0]
        case "curve_stopping":
            return _stopped_at(job, app.min_gain)
        case _:
            return job.iterations


def _stopped_at(job: TrainingJob, min_gain: float) -> float:
    """After how many iterations the curve of a job is flat: its loss fell by less than `min_gain` of its first value
    within a tenth of its iterations."""
    if job.loss is None:
        return job.iterations
    step, first = CURVE_STEP * job.iterations, job.loss.at(0)
    for number in range(1, 10):
        if job.loss.at((number - 1) * step) - job.loss.at(number * step) < min_gain * first:
            return number * step
    return job.iterations


def _loss(job: TrainingJob, done: float) -> float:
    return 0.0 if job.loss is None else job.loss.at(done)


def _losses(job: TrainingJob, done: float) -> tuple[tuple[float, float], ...]:
    """Losses after the last whole iterations."""
    if job.loss is None:
        return ()
    last = int(done)
    return tuple((float(k), job.loss.at(k)) for k in range(max(last - LOSSES + 1, 0), last + 1))


KIND = ThemisKind()
