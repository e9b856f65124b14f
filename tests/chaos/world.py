"""One world of one seed: who is in it, what time it is, and its trace."""

import random

from tests.chaos import arbiter
from tests.chaos.arbiter import POOL, RECONCILE_S, ArbiterProcess
from tests.chaos.checks import require
from tests.chaos.cluster import QUEUE, Yarn
from tests.chaos.disk import Disk
from tests.chaos.faults import MIN_FAULTS, MIN_KINDS, Faults, LostLists, MissedBid
from tests.chaos.network import Network
from tests.chaos.process import Process
from tests.chaos.search import Search
from themis_agent.agent import settings as agent_settings
from themis_agent.agent.tags import TAGS
from yarn_plugin.decide.leases.settings import RULES
from yarn_plugin.decide.policies.lease import LEASE_POLICIES
from yarn_plugin.decide.pools.lease.settings import LeaseSettings
from yarn_plugin.drive.virtual_time import Agenda
from yarn_plugin.journal.codec import Codec
from yarn_plugin.model.cluster import Node
from yarn_plugin.model.resources import GPU, MEMORY, VCORES, Resources
from yarn_plugin.model.share import Pool

FAULTS_S = 80.0
"""How long faults begin."""

QUIET_S = 900.0
"""By when everybody has finished after the last fault."""

MIN_STEPS = 400

RARE = (
    "revoke during hand-over",
    "restart while asking",
    "restart while offering",
    "restart while solving",
    "restart while granting",
    "superseded while granting",
    "superseded while handing over",
    "gang half vacated",
    "unplaced during a restart",
    "lost node in an offer",
    "late answer after a restart",
    "journal cut back",
    "clock back during grace",
    "two arbiters with equal epochs",
)
"""States that some seed of many must reach."""

AGENT_CODEC = Codec(TAGS)


class Users(Process):
    """Those who submit searches: never away, and they repeat what fails."""

    def call(self, server, request, values, on_answer, on_failure):
        self.world.network.call(self, server, lambda reply: server.serve(request, values, reply), on_answer, on_failure)


class World:
    """`now`: true time in seconds. `trace`: a line a step. `reached`: the rare states. `is_mutable`: states are changed
    in place, and compared by their dumps. `is_for_one`: one search at a time.

    `replays`: the arbiters' journals are replayed as they are written, and compared after every step.
    """

    name = "world"
    is_mutable = False
    arbiter_kind, faults_kind, is_for_one = ArbiterProcess, Faults, False

    def __init__(self, seed, replays=True):
        self.seed, self.now, self.steps = seed, 0.0, 0
        self.trace, self.reached = [], set()
        self._replays = replays
        self._agenda, self._draws = Agenda(), {}
        self.is_quiet, self.solver, self.crashes = False, "quick", 0.0
        pool, nodes = self._pool_and_nodes(self.draws("world"))
        self.settings = pool.parameters
        self.yarn, self.network = Yarn(self, nodes), Network(self)
        self.users = Users(self, "users")
        self.users.begin()
        self.arbiters = [self._arbiter(name, (pool,)) for name in ("arbiter-a", "arbiter-b")]
        self.searches = []
        self.faults = self.faults_kind(self)

    def _pool_and_nodes(self, draws):
        pool = Pool(POOL, QUEUE, (GPU,), controller="lease", parameters=_lease_settings(draws))
        return pool, [_node(number, draws.choice((1, 2, 2, 4))) for number in range(draws.randint(2, 3))]

    def _arbiter(self, name, pools):
        process = self.arbiter_kind(self, name, Disk(arbiter.new_replay if self._replays else None), pools)
        process.codec, process.live, process.reconcile_s = arbiter.CODEC, (0, None), RECONCILE_S
        return process

    def _search(self, number, draws):
        process = Search(
            self, f"search-{number}", Disk(), f"user{draws.randint(0, 1)}", _search_settings(draws, self.settings)
        )
        process.codec, process.live = AGENT_CODEC, (0, None)
        return process

    # Time, chance and the trace.

    def draws(self, site):
        """The random source of a site: what one draws does not change what another one does."""
        if site not in self._draws:
            self._draws[site] = random.Random(f"{self.seed} {site}")
        return self._draws[site]

    def at(self, when, action):
        self._agenda.put(max(when, self.now), action)

    def step(self, process, decided):
        self.steps += 1
        event = decided.event
        about = getattr(event, "app", None) or getattr(event, "trial", None) or getattr(event, "lease", None) or ""
        message = getattr(event, "message", None)
        what = type(event if message is None else message).__name__
        names = " ".join(_name(command) for command in decided.commands)
        self.trace.append(
            f"{self.steps:6} {self.now:9.3f} {process.name:<10} {decided.seq:5} {what:<18} {about:<12} {names}"
        )

    def note(self, who, what, detail):
        self.trace.append(f"{'':6} {self.now:9.3f} {who.name:<10} {'':5} {what:<18} {detail}")

    def sometimes(self, holds, name):
        """Note that a rare state is reached."""
        if holds:
            self.reached.add(name)

    def is_sampled(self):
        """Whether a check that takes long is made now."""
        return self.steps % 16 == 0

    # Who controls the queues.

    def arbiter_at(self, url):
        return next((one for one in self.arbiters if one.url == url), None)

    def owner(self):
        found = self.yarn.owner()
        return None if found is None else self.arbiter_at(found.url)

    # The run.

    def run(self):
        """Play the world to its end.

        Raises:
            ViolationError: a check fails.
        """
        draws = self.draws("arrivals")
        self.arbiters[0].wanted = True
        self.arbiters[0].start()
        for number in range(1 if self.is_for_one else draws.randint(2, 3)):
            self.at(5.0 if not number else draws.uniform(5.0, 0.6 * FAULTS_S), self._arrive)
        self.faults.plan(FAULTS_S)
        self.at(FAULTS_S + 10.0, lambda at: self._calm())
        self.at(0.5, self._allocate)
        self.at(1.0, self._tick)
        while not self._is_over():
            self.now, action = self._agenda.pop()
            action(self.now)
            require(self.now < FAULTS_S + QUIET_S, f"{self._unfinished()} do not finish")
        require(self.faults.count >= MIN_FAULTS, f"only {self.faults.count} faults")
        require(len(self.faults.kinds) >= MIN_KINDS, f"faults of {len(self.faults.kinds)} kinds only")

    def _arrive(self, at):
        one = self._search(len(self.searches), self.draws("searches"))
        self.searches.append(one)
        one.submit(self.owner() or self.arbiters[0])

    def _allocate(self, at):
        self.at(at + 0.5, self._allocate)
        if not self.yarn.away:
            self.yarn.allocate()

    def _tick(self, at):
        self.at(at + 1.0, self._tick)
        for one in self.arbiters:
            one.ledger.tick(1.0)
        busy = sum(not one.is_over for one in self.searches)
        wanted = int(self.steps < MIN_STEPS) if self.is_quiet else 1 if self.is_for_one else 2
        if at > 10.0 and busy < wanted:
            self._arrive(at)

    def _is_over(self):
        return self.is_quiet and self.steps >= MIN_STEPS and all(one.is_over for one in self.searches)

    def _unfinished(self):
        return ", ".join(one.name for one in self.searches if not one.is_over)

    def _calm(self):
        """Everything is repaired: one arbiter goes on, and searches of the other one move to it."""
        self.is_quiet = True
        self.note(self, "calm", "")
        self.faults.heal_all()
        self.network.cut.clear()
        for one in (*self.arbiters, *self.searches):
            if one.paused:
                one.resume()
        chosen = self.owner() or self.arbiters[0]
        chosen.wanted = True
        for one in self.arbiters:
            if one is not chosen:
                one.wanted = False
                if one.alive:
                    one.kill()
        chosen.start()
        self.at(self.now + 5.0, lambda at: self._settle(chosen))

    def _settle(self, chosen):
        if not chosen.alive or not chosen.serving:
            self.at(self.now + 5.0, lambda at: self._settle(chosen))
            return
        if chosen.intake.state.enforcement.superseded is not None or chosen.superseded:
            chosen.kill()
            self.at(self.now + 5.0, lambda at: self._settle(chosen))
            return
        for one in self.searches:
            if one.application and not one.is_over and one.arbiter is not chosen:
                one.move_to(chosen)


class MissedBidWorld(World):
    faults_kind, is_for_one = MissedBid, True


class LostListsWorld(World):
    faults_kind = LostLists


def _name(command):
    message = getattr(command, "message", command)
    return type(message).__name__


def _node(number, gpus):
    return Node(f"n{number}:8041", "/r1" if number < 2 else "/r2", Resources.of({MEMORY: 65536, VCORES: 32, GPU: gpus}))


def _lease_settings(draws):
    return LeaseSettings(
        policy=draws.choice(("themis", "themis", "themis", "themis", draws.choice(sorted(LEASE_POLICIES)))),
        f=draws.choice((0.0, 0.5, 0.8)),
        lease_s=draws.choice((20.0, 40.0)),
        grid_s=draws.choice((None, 0.0)),
        grace_s=draws.choice((4.0, 8.0)),
        round_window_s=draws.choice((0.0, 1.0)),
        estimate_s=3.0,
        bid_s=4.0,
        decide_s=draws.choice((0.0, 0.5)),
        place_within_s=draws.choice((8.0, 12.0)),
        table_rounds=draws.choice((0, 4)),
        payments=draws.random() < 0.5,
        max_apps=draws.choice((None, None, None, 2)),
        max_gpus_per_user=draws.choice((None, None, None, 4)),
        entitlement=draws.choice(("application", "application", "user")),
        task_vcores=draws.choice((0, 0, 1)),
        rules=RULES,
    )


def _search_settings(draws, settings):
    least = draws.choice((1, 1, 1, 2))
    return agent_settings.Settings(
        algorithm=draws.choice(("plain", "successive_halving")),
        trials=draws.randint(2, 4),
        max_steps=draws.randint(6, 10),
        eta=2,
        retries=3,
        min_gpus=1,
        max_gpus=least,
        step_s=draws.choice((5.0, 10.0)),
        grace_s=settings.grace_s,
        rules=agent_settings.RULES,
    )
