"""Liars in virtual time: how much more GPU time than an honest twin an application gets by legal, false statements.

Sixteen GPUs, four applications with work for longer than is simulated, all defaults of a pool that auctions: `f` 0.8,
hidden payments, bid tables that answer for four rounds. The liar runs the jobs of its honest twin and says other things
of them: a strategy is drawn from a seed. Compared is the GPU time that it leases within `HORIZON_S`.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from tests.adversary.checks import Result, check
from tests.adversary.lab import Lab
from themis_agent.simulated import KIND
from yarn_plugin.decide.leases.settings import RULES
from yarn_plugin.decide.mechanisms.partial_allocation.validity import MAX_NUMBER, MIN_NUMBER
from yarn_plugin.decide.pools.lease.settings import LeaseSettings
from yarn_plugin.drive.lease_simulator import Arrival, LeaseSimulation
from yarn_plugin.drive.registry import installed
from yarn_plugin.model.auction import Bid, Estimate, EstimateRequest, GpuOffer, Row
from yarn_plugin.model.gpus import Job, Machine, Piece, Slot
from yarn_plugin.model.resources import GPU
from yarn_plugin.model.share import Pool
from yarn_plugin.simulation.leasing.application import Beliefs, JobProgress, TrainingApplication
from yarn_plugin.simulation.leasing.layout import Layout
from yarn_plugin.simulation.training.apps import TrainingApp, TrainingJob

LIMIT = 1.25
"""GPU time of the best liar over that of its honest twin."""

HORIZON_S = 2 * 3600.0
MACHINES = tuple(Machine(f"m{number}", f"r{number // 2}", (Slot(f"m{number}/0", 4),)) for number in range(4))
GPUS = 16
APPS = 4
LIAR = "app-0"


@dataclass(frozen=True, slots=True)
class Strategy:
    """What a liar says.

    `rho`: its finish-time fairness, with what it holds and with nothing of an offer: the true one times `factor`, the
    number `factor`, none (unbounded), or the true one. `rows`: those of its true table, the rho of each times `scale`
    and to the power of `power` of that of the best; or one row with all GPUs (`all`), all smaller numbers too
    (`every`), both with the rho `scale` (less for more GPUs); or none. `work`: factor on the work that it declares; 0:
    it declares none. `cluster_s`: the same of the bid's. `inflated`: its jobs can use all GPUs, as it says.
    `from_round`: it tells the truth before; `every_nth`: and in all but every so many rounds.
    """

    rho: str = "true"
    factor: float = 1.0
    rows: str = "true"
    scale: float = 1.0
    power: float = 1.0
    work: float = 1.0
    cluster_s: float = 1.0
    inflated: bool = False
    from_round: int = 0
    every_nth: int = 1


HONEST = Strategy()
THE_FIRST = (
    Strategy(rho="number", factor=1e15, rows="all", scale=9e14),
    Strategy(rho="number", factor=1e15, rows="all", scale=9e14, work=0.0, cluster_s=0.0),
    Strategy(rho="number", factor=1e15, rows="all", scale=1e-9, work=0.0, cluster_s=0.0),
    Strategy(rho="number", factor=1e15, rows="all", scale=9e14, work=1e-9, cluster_s=1e-9),
    Strategy(rho="none", rows="all", scale=9e14, work=1e-9, cluster_s=1e-9),
)
"""Those that have been seen to work."""


def strategies(count: int) -> Iterator[Strategy]:
    """The first so many strategies; each depends on its number only."""
    yield from THE_FIRST[:count]
    for seed in range(len(THE_FIRST), count):
        yield _drawn(random.Random(seed))


def _drawn(draw: random.Random) -> Strategy:
    def magnitude(least: float, most: float) -> float:
        return float(10.0 ** draw.uniform(least, most))

    work = draw.choice((0.0, 1.0, 1.0, magnitude(-9, 3), magnitude(-1, 0.5)))
    return Strategy(
        rho=draw.choice(("true", "factor", "factor", "number", "none")),
        factor=draw.choice((magnitude(-3, 3), magnitude(0, 1), magnitude(0, 15))),
        rows=draw.choice(("true", "true", "all", "every", "none")),
        scale=draw.choice((1.0, magnitude(-1, 1), magnitude(-9, 15))),
        power=draw.choice((0.0, 0.5, 1.0, 2.0, 5.0)),
        work=work,
        cluster_s=draw.choice((work, work, 0.0, magnitude(-2, 2))),
        inflated=draw.random() < 0.3,
        from_round=draw.choice((0, 0, 0, 5)),
        every_nth=draw.choice((1, 1, 1, 2, 3)),
    )


class Liar:
    """An application that runs as its honest twin does, and says what a strategy has it say."""

    def __init__(self, true: TrainingApplication, strategy: Strategy) -> None:
        self._true, self._strategy = true, strategy
        self.goals, self.reached, self.divide = true.goals, true.reached, true.divide

    def answer(self, at: float, question: object, jobs: Sequence[JobProgress]) -> object | None:
        """A false answer."""
        said, strategy = self._true.answer(at, question, jobs), self._strategy
        if not isinstance(question, EstimateRequest | GpuOffer):
            return said
        if question.round < strategy.from_round or question.round % strategy.every_nth:
            return said
        if isinstance(said, Estimate):
            described = tuple(self._job(job) for job in said.jobs) if strategy.work else ()
            return replace(said, rho=self._rho(said.rho), jobs=described)
        assert isinstance(said, Bid)
        assert isinstance(question, GpuOffer)
        cluster_s = None if not (strategy.cluster_s and said.cluster_s) else _legal(said.cluster_s * strategy.cluster_s)
        return Bid(said.round, self._rho(said.rho), tuple(self._rows(said, question)), cluster_s)

    def _rho(self, true: float | None) -> float | None:
        match self._strategy.rho:
            case "none":
                return None
            case "number":
                return _legal(self._strategy.factor)
            case "factor":
                return None if true is None else _legal(true * self._strategy.factor)
            case _:
                return true

    def _job(self, job: Job) -> Job:
        most = GPUS if self._strategy.inflated else job.max_gpus
        left, done = (amount * self._strategy.work for amount in (job.iterations_left, job.iterations_done))
        return replace(job, iterations_left=min(left, MAX_NUMBER), iterations_done=min(done, MAX_NUMBER), max_gpus=most)

    def _rows(self, said: Bid, offer: GpuOffer) -> Iterator[Row]:
        strategy = self._strategy
        offered = [(machine.id, machine.gpus) for machine in offer.machines if machine.gpus]
        if strategy.rows == "true" and said.rows:
            best = min(row.rho for row in said.rows)
            for row in said.rows:
                yield Row(row.pieces, _legal(best * (row.rho / best) ** strategy.power * strategy.scale))
        elif strategy.rows in ("all", "every"):
            pieces = [Piece(gpus, machine) for machine, gpus in offered]
            for count in range(1, len(pieces) + 1) if strategy.rows == "every" else (len(pieces),):
                if pieces[:count]:
                    worse = (len(pieces) / count) ** strategy.power
                    yield Row(tuple(pieces[:count]), _legal(strategy.scale * worse))


def _legal(number: float) -> float:
    return min(max(number, MIN_NUMBER), MAX_NUMBER)


def gpu_s(strategy: Strategy, rules: Literal[1, 2, 3] = RULES) -> float:
    """The GPU seconds that the application with this strategy leases within the horizon."""
    draw = random.Random("world 0")
    layout = Layout(MACHINES)
    arrivals = []
    for number in range(APPS):
        name = f"app-{number}"
        arrived_at = 0.0 if number == 0 else 60.0 * draw.randrange(5)
        # On an equal part of the GPUs it takes 1.3 to 2 times the horizon.
        work_s = HORIZON_S * draw.uniform(1.3, 2.0) * GPUS / APPS
        jobs = (TrainingJob("job", work_s / 10.0, 10.0, max_gpus=GPUS // 4),)
        app = TrainingApp(name, arrived_at, jobs)
        making = partial(KIND.application, app, MACHINES, arrived_at, Beliefs(0.0, 0.0), name)
        if name == LIAR and strategy != HONEST:
            arrivals.append(Arrival(name, name, arrived_at, partial(_lying, making, strategy)))
        else:
            arrivals.append(Arrival(name, name, arrived_at, making))
    settings = LeaseSettings(grace_s=0.0, round_window_s=0.0, decide_s=0.0, place_within_s=0.0, seed=1, rules=rules)
    pool = Pool("gpu", "root.gpu", (GPU,), controller="lease", parameters=settings)
    outcome = LeaseSimulation(pool, installed(), layout, arrivals, keeps_holdings=True).run()
    return sum(
        max(min(one.end, HORIZON_S) - one.start, 0.0)
        for one in outcome.holdings
        if one.app == LIAR and one.start < HORIZON_S
    )


def _lying(make: "partial[TrainingApplication]", strategy: Strategy) -> Liar:
    return Liar(make(), strategy)


@check
def liars_gain_little(lab: Lab) -> Result:
    """An application says false things of itself in a legal way; 16 GPUs, 4 applications, 2 hours of virtual time: the
    best of the strategies leases at most 1.25 times the GPU time of its honest twin (--strategies 200: all)."""
    honest = gpu_s(HONEST)
    gains = [(gpu_s(strategy) / honest, number) for number, strategy in enumerate(strategies(lab.strategies))]
    best, number = max(gains, key=lambda one: one[0])
    median = sorted(gain for gain, _ in gains)[len(gains) // 2]
    observed = (
        f"the best of {len(gains)} strategies, number {number}, leases {best:.3f} times the GPU time of its honest "
        f"twin, limit {LIMIT:g}; median {median:.3f}"
    )
    return best <= LIMIT, observed
