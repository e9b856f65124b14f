"""What one event costs the arbiter's pure step, in processor time.

1,000 registered applications in 4 pools of shares: an event that changes nothing; one application uses a container
more, which changes no share; an application arrives or ends, which changes the shares of all in its pool
(`over_budget`: its milliseconds, of 1 ms and 10 us per application that is told). 400 applications in a pool of leased
GPUs: one of their answers in a round; of an auction, one estimate or bid. A poll of 1,000 applications of
which none has changed but for its running time, without its JSON's parsing.
"""

from statistics import mean
from time import thread_time
from typing import Any

from pydantic_core import from_json

from tests.bench.arbiter_steps import Arbiter, Untimed, beginning, known_state, percentiles, ready, registered, running
from tests.bench.simulated_manager import World
from yarn_plugin.decide.allocators.auction import AuctionSettings
from yarn_plugin.decide.arbiter import BUILT_IN
from yarn_plugin.decide.commands import Command, SendToApp, SolveInWorker, TellShare, WriteWeights
from yarn_plugin.decide.events import (
    AppSaid,
    AppsChanged,
    Configured,
    Event,
    Looked,
    QueuesChanged,
    Solved,
    TimerFired,
    WeightsWritten,
)
from yarn_plugin.decide.leases.settings import RULES, LedgerSettings
from yarn_plugin.decide.observations import learn
from yarn_plugin.decide.pools.commands import Ask, Offer
from yarn_plugin.decide.pools.lease.baselines import PolicyProblem, solve
from yarn_plugin.decide.pools.lease.settings import THEMIS
from yarn_plugin.decide.state import State
from yarn_plugin.model.auction import Bid, Estimate, Row
from yarn_plugin.model.cluster import ClusterView, Node, Queue
from yarn_plugin.model.gpus import Job, Piece
from yarn_plugin.model.resources import GPU, MEMORY, VCORES, Resources
from yarn_plugin.model.share import Pool
from yarn_plugin.observe.poller import Poller, PollIntervals

APPS, POOLS, LAPS = 1000, 4, 100
SEARCHES, ROUNDS = 400, 3


def measure() -> dict[str, Any]:
    """Milliseconds of processor time: percentiles by event."""
    return {**_shares(), **_answers(), **_auction_answers(), **_poll()}


# Shares.


def _shares() -> dict[str, Any]:
    arbiter = _with_shares()
    spent: dict[str, list[float]] = {"nothing": [], "use": [], "arrival": [], "end": []}
    over: list[float] = []
    told: list[int] = []
    queue = f"{_pools()[0].queue}.guest"
    some = list(arbiter.state.cluster.apps)
    with Untimed():
        for lap in range(LAPS):
            spent["nothing"].append(arbiter.take(Looked())[0])
            app = arbiter.state.cluster.apps[some[lap % APPS]]
            more = running(int(app.id[-5:]), app.queue, 4 + (app.containers == 4), app.user)
            spent["use"].append(arbiter.take(AppsChanged((more,), ()))[0])
            guest = running(APPS + lap, queue)
            for name, event in (("arrival", AppsChanged((guest,), ())), ("end", AppsChanged((), (guest.id,)))):
                ms, commands = arbiter.take(event)
                notified = sum(isinstance(command, TellShare) for command in commands)
                assert notified >= APPS / POOLS
                spent[name].append(ms)
                told.append(notified)
                over.append(ms / (1 + 0.01 * notified))
                _write(arbiter, commands)
            # Shares that shrank are enforced by now.
            for command in arbiter.take(TimerFired(), 30.0)[1]:
                _write(arbiter, (command,))
    results = {key: value for name, times in spent.items() for key, value in percentiles(f"{name}_ms", times).items()}
    return {**results, **percentiles("arrival_over_budget", over), "told": mean(told)}


def _write(arbiter: Arbiter, commands: Any) -> None:
    """YARN writes the weights."""
    for command in commands:
        if isinstance(command, WriteWeights):
            arbiter.take(WeightsWritten(command.weights, command.forget))


def _pools() -> list[Pool]:
    return [Pool(f"p{number}", f"root.p{number}", (MEMORY, VCORES)) for number in range(POOLS)]


def _with_shares() -> Arbiter:
    pools = _pools()
    nodes = [Node(f"n{number}:8041", "/r1", Resources.of({MEMORY: 65536, VCORES: 32})) for number in range(200)]
    queues = tuple(Queue(pool.queue, 1 / POOLS, 1.0) for pool in pools)
    events = [Configured(tuple(pools)), *beginning(nodes), QueuesChanged(queues, ())]
    for place, pool in enumerate(pools):
        apps = [running(number, f"{pool.queue}.q{number}") for number in range(place, APPS, POOLS)]
        events += registered(pool, apps)
    arbiter = Arbiter(known_state([*events, *ready()]))
    _write(arbiter, arbiter.take(Configured(tuple(pools)))[1])
    _write(arbiter, arbiter.take(Looked())[1])
    for event in (Looked(), TimerFired(), Looked()):
        _write(arbiter, arbiter.take(event, 60.0)[1])
    return arbiter


# Leases.


def _answers() -> dict[str, Any]:
    arbiter = _with_searches(AuctionSettings("tiresias", grid_s=0.0))
    spent: list[float] = []
    with Untimed():
        for _ in range(ROUNDS):
            spent += _round(arbiter)
    return percentiles("answer_ms", spent)


def _auction_answers() -> dict[str, Any]:
    # Everybody bids, and is asked in each round.
    arbiter = _with_searches(AuctionSettings(f=0.0, grid_s=0.0, table_rounds=0))
    spent: list[float] = []
    with Untimed():
        for _ in range(ROUNDS):
            spent += _auction(arbiter)
    return percentiles("auction_answer_ms", spent)


def _with_searches(rounds: AuctionSettings) -> Arbiter:
    parameters = LedgerSettings(THEMIS, rounds, rules=RULES)
    pool = Pool("gpu", "root.gpu", (GPU,), controller="ledger", parameters=parameters)
    amounts = Resources.of({MEMORY: 262144, VCORES: 64, GPU: 8})
    nodes = [Node(f"n{number}:8041", f"/r{number // 8}", amounts) for number in range(64)]
    apps = [running(number, f"{pool.queue}.q{number}", 1) for number in range(SEARCHES)]
    events = [Configured((pool,)), *beginning(nodes), *registered(pool, apps, demands=False), *ready()]
    arbiter = Arbiter(known_state(events))
    arbiter.take(Configured((pool,)))
    return arbiter


def _round(arbiter: Arbiter) -> list[float]:
    """The milliseconds of each answer in a round but the last one, which ends the question."""
    spent, commands = _estimates(arbiter)
    problems = [command for command in commands if isinstance(command, SolveInWorker)]
    for problem in problems:
        assert isinstance(problem.problem, PolicyProblem)
        arbiter.take(Solved(problem.pool, problem.id, "done", solve(BUILT_IN, problem.problem)))
    assert problems
    return spent


def _auction(arbiter: Arbiter) -> list[float]:
    """The same of a round with bids, which has no result."""
    spent, commands = _estimates(arbiter)
    offers = [one for one in commands if isinstance(one, SendToApp) and isinstance(one.message, Offer)]
    assert len(offers) == SEARCHES
    rows = (Row((Piece(1, "", "machine"),), 1.0), Row((Piece(2, "", "machine"),), 0.5))
    bids = []
    for one in offers:
        ms, commands = arbiter.take(AppSaid(one.app, Bid(one.message.offer.round, 2.0, rows)))
        bids.append(ms)
    (problem,) = [command for command in commands if isinstance(command, SolveInWorker)]
    arbiter.take(Solved(problem.pool, problem.id, "failed", error="not solved here"))
    return [*spent, *bids[:-1]]


def _estimates(arbiter: Arbiter) -> tuple[list[float], tuple[Command, ...]]:
    """The milliseconds of each estimate of the next round but the last one, and what that one leads to."""
    asked: list[SendToApp] = []
    while not asked:
        commands = arbiter.take(TimerFired(), arbiter.until_due())[1]
        asked = [one for one in commands if isinstance(one, SendToApp) and isinstance(one.message, Ask)]
    spent = []
    for one in asked:
        jobs = (Job("job", 1e6, 1.0, 100.0, 1, 4),)
        ms, commands = arbiter.take(AppSaid(one.app, Estimate(one.message.question.round, None, jobs)))
        spent.append(ms)
    return spent[:-1], commands


# The ResourceManager's answers.


class _Manager:
    """A ResourceManager whose applications run on, without a change. `seconds`: of processor time that it took."""

    url, is_pair, clock = "http://rm", False, None

    def __init__(self, world: World) -> None:
        self._world, self.seconds, self._polls = world, 0.0, 0

    def get(self, path: str, **_: str) -> Any:
        began = thread_time()
        content = from_json(self._world.answer(path) or b"")
        self._polls += 1
        for app in content["apps"]["app"] if path == "/apps" else ():
            app["elapsedTime"] = 1000 * self._polls
        self.seconds += thread_time() - began
        return content

    def configuration(self) -> dict[str, str]:
        return {}


class _Sink:
    """Notes what is observed."""

    def __init__(self) -> None:
        self._state = State()

    def known(self) -> ClusterView:
        return self._state.cluster

    def take(self, event: Event) -> None:
        self._state, _ = learn(self._state, 1, 1.0, event)


def _poll() -> dict[str, Any]:
    manager, spent = _Manager(World(APPS, 10)), []
    poller = Poller(manager, _Sink(), set(), PollIntervals(0.0, 0.0, 1e9, 1e9))  # type: ignore[arg-type]
    poller._poll_once()
    with Untimed():
        for _ in range(LAPS):
            began, manager.seconds = thread_time(), 0.0
            poller._poll_once()
            spent.append(1e3 * (thread_time() - began - manager.seconds))
    return percentiles("unchanged_poll_ms", spent)
