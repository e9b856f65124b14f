"""A world whose GPUs are virtual clusters of cells: guaranteed and opportunistic gangs, whose masters obey.

Each virtual cluster has at most one guaranteed gang at a time, no larger than its quota: it must start whenever the
arbiter, YARN and the nodes have been well for a while, whatever opportunistic work runs and whatever has failed before.
"""

import json
from collections import Counter
from dataclasses import dataclass
from functools import partial

from tests.chaos import arbiter, checks
from tests.chaos.checks import SLACK_S, messages, require
from tests.chaos.cluster import QUEUE
from tests.chaos.disk import Disk
from tests.chaos.faults import KINDS, Armed, Faults
from tests.chaos.process import Process
from tests.chaos.world import World
from tests.small_cells import HOSTS, spec
from yarn_plugin.api import recovery
from yarn_plugin.api.records import Record, Recover
from yarn_plugin.api.refusals import Refused
from yarn_plugin.decide.allocators.buddy_cells import BuddyCellsSettings
from yarn_plugin.decide.commands import Admit
from yarn_plugin.decide.events import AppSaid, Configured, JobsDeclared, Registered
from yarn_plugin.decide.leases.settings import RULES, LedgerSettings
from yarn_plugin.decide.mechanisms.buddy_cells.invariants import validate
from yarn_plugin.decide.pools.commands import Grant, Refuse, Revoke
from yarn_plugin.model.auction import Release
from yarn_plugin.model.causes import Evicted
from yarn_plugin.model.cluster import Node
from yarn_plugin.model.resources import GPU, MEMORY, VCORES, Resources
from yarn_plugin.model.share import Gang, Job, Pods, Pool

POOL = "cells"
BEAT_S, DECLARE_S = 0.5, 4.0
RECORDS_S, LISTED_S = 15.0, 4.0
GUARANTEED, OPPORTUNISTIC = 5, -1
QUOTAS = {"prod": {"rack": 1}, "research": {"node": 2}}

RARE = (
    "guaranteed gang waits for its victims",
    "restart while evicting",
    "victim evicted",
    "gang starts on two nodes",
    "lease goes on after the journal was lost",
    "record refused after the journal was lost",
)


def ledger_of(state):
    """The pool's state; None before it is configured."""
    kept = state.pool_states.get(POOL)
    return None if kept is None else kept.state


def entries_of(state):
    held = ledger_of(state)
    return list(held.ledger.leases.values()) if held is not None else []


# The arbiter.


class CellsChecks:
    """What must hold of cells after every decision, and of what runs, every second."""

    def __init__(self, process):
        self.process, self.foreign_s, self.owed_s, self.began_at = process, 0.0, Counter(), 0.0

    def process_began(self, state, at):
        self.foreign_s, self.owed_s = 0.0, Counter()
        self.process.world.sometimes(any(one.leased.leaving for one in entries_of(state)), "restart while evicting")

    def take(self, before, decided):
        state, world = self.process.intake.state, self.process.world
        if ledger_of(state) is None:
            return
        started, promised, leaving = Counter(), Counter(), set()
        for one in entries_of(state):
            (started if one.is_started else promised).update(one.gpus)
            leaving.update(one.leased.leaving)
            world.sometimes(not one.is_started and one.leased.kind == "guaranteed", RARE[0])
        for counts, what in ((started, "leased"), (promised, "promised")):
            require(max(counts.values(), default=0) <= 1, f"a GPU is {what} twice")
        both = started.keys() & promised.keys()
        require(both <= leaving, f"{both - leaving} are promised while their leases go on")
        if world.is_sampled():
            validate(ledger_of(state).allocated.cells.cluster)
        if getattr(decided.event, "leases", None) and any(isinstance(one, Admit) for one in decided.commands):
            self._check_recorded(state, decided)
        self._check_granted(state, decided)
        was = {one.id: one for one in entries_of(before)}
        for message in messages(decided, Revoke):
            if isinstance(message.cause, Evicted) and message.lease in was:
                world.sometimes(True, "victim evicted")
                self._check_evicted(was[message.lease], message.cause, state)

    def _check_recorded(self, state, decided):
        """Of what an application has records of, all is leased or refused."""
        recorded = {gpu for one in decided.event.leases for gpu in one.gpus}
        app = next(app for app, name in state.yarn_apps.items() if name == decided.event.yarn_app)
        leased = {gpu for one in entries_of(state) if one.app == app for gpu in one.gpus} & recorded
        refused = {gpu for one in messages(decided, Refuse) for gpu in one.cause.gpus}
        require(leased | refused == recorded, f"{recorded} are recorded, {leased | refused} are told")
        self.process.world.sometimes(leased, "lease goes on after the journal was lost")
        self.process.world.sometimes(refused, "record refused after the journal was lost")

    def _check_granted(self, state, decided):
        """While applications are expected to register again, nobody else is leased what they run on. What was promised
        before this process began is not looked at."""
        if isinstance(decided.event, Configured):
            self.began_at = decided.at
        if not ledger_of(state).ledger.records_due:
            return
        world, names = self.process.world, set(state.yarn_apps.values())
        granted = {lease.id for grant in messages(decided, Grant) for lease in grant.leases}
        new = [one for one in entries_of(state) if one.id in granted and one.leased.placed_at >= self.began_at]
        granted = {gpu for one in new for gpu in one.gpus}
        for one in world.yarn.running():
            is_unknown = one.app not in names and one.since <= world.now - LISTED_S
            require(not (is_unknown and granted & set(one.cells)), f"{one.id} runs on what is leased")

    def _check_evicted(self, entry, cause, state):
        """Guaranteed work makes room only for higher priorities of its own virtual cluster."""
        claims = {(one.app, one.job): one for one in ledger_of(state).ledger.claims}
        victim = claims.get(entry.leased.claim)
        if entry.leased.kind != "guaranteed" or victim is None:
            return
        is_own = victim.tenant == cause.virtual_cluster and max(victim.priority, 0) < cause.priority
        require(is_own, f"{entry.leased.claim} of {victim.tenant} is evicted by {cause.virtual_cluster}")

    def tick(self, passed):
        process, world = self.process, self.process.world
        if not process.is_healthy():
            self.foreign_s, self.owed_s = 0.0, Counter()
            return
        state = process.intake.state
        if world.owner() is not process:
            self.foreign_s += passed
            started = [one for one in entries_of(state) if one.is_started]
            require(self.foreign_s < checks.OWNER_KNOWN_S or not started, "a superseded arbiter still leases GPUs")
            return
        self.foreign_s = 0.0
        settings = world.settings
        allowed_s = 2 * settings.grace_s + settings.place_within_s + process.reconcile_s + RECORDS_S + SLACK_S
        self._check_use(state, passed, allowed_s)
        self._check_guarantee(state, passed, allowed_s)

    def _check_use(self, state, passed, allowed_s):
        """Nobody works beyond its leases for long. Applications that are not registered here are not looked at: those
        of an arbiter that was superseded go on until they end."""
        names = {yarn_app: app for app, yarn_app in state.yarn_apps.items()}
        cells = {}
        for one in entries_of(state):
            if one.is_started:
                cells.setdefault(one.app, set()).update(one.gpus)
        for one in self.process.world.yarn.running():
            mine = cells.get(names.get(one.app), set()) if one.arbiter == self.process.name else set()
            is_within = one.app not in names or set(one.cells) <= mine
            one.beyond_s = 0.0 if is_within else one.beyond_s + passed
            require(one.beyond_s <= allowed_s, f"{one.id} works beyond its lease for {one.beyond_s:.0f} s")

    def _check_guarantee(self, state, passed, allowed_s):
        """A guaranteed gang within the quota starts, while all nodes are healthy."""
        world = self.process.world
        are_all_up = world.yarn.up == set(world.yarn.nodes)
        holding = {one.leased.claim for one in entries_of(state) if one.is_started}
        claimed = {(one.app, one.job) for one in ledger_of(state).ledger.claims if one.priority == GUARANTEED}
        owed = Counter()
        for claim in claimed - holding if are_all_up else ():
            owed[claim] = self.owed_s[claim] + passed
            require(owed[claim] <= allowed_s, f"{claim} is guaranteed, and waits for {owed[claim]:.0f} s")
        self.owed_s = owed


class CellsArbiter(arbiter.ArbiterProcess):
    checks = CellsChecks

    def _declare(self, app, jobs, reply):
        self._said(app, JobsDeclared(app, jobs), reply)

    def _recover(self, request, user, jobs, reply):
        state, yarn_app = self.intake.state, request.yarn_app
        event = Registered(request.request_id, yarn_app, user, POOL, 1.0, None, None, yarn_app, (user,))
        try:
            recovery.caller_for(state, recovery.token_of(user, yarn_app), yarn_app)
            event = recovery.with_records(event, request, jobs, self.pools[0], state, self.wall_offset())
        except Refused:
            reply(None)
            return
        self._register_as(event, reply)

    def _say(self, app, message, reply):
        self._said(app, AppSaid(app, message), reply)


# The applications.


@dataclass(eq=False)
class Work:
    """A gang. `sizes`: the GPUs of its pods. `left_s`: for how long all of them must still run."""

    name: str
    sizes: tuple
    priority: int
    left_s: float

    def job(self, tenant):
        pods = tuple(Pods(1, size) for size in self.sizes)
        return Job(self.name, tenant, priority=self.priority, gang=Gang(pods))


class GangMaster(Process):
    """An application of gangs: guaranteed ones are declared one after another, opportunistic ones at once.

    What is done outlives its master. `leases`: the job and the cells of each; `leaving`: cells to vacate, and when it
    does. `wanted`: the cell of each request.
    """

    def __init__(self, world, name, tenant, works):
        super().__init__(world, name)
        self.tenant, self.works, self.disk = tenant, works, Disk()
        self.is_guaranteed = works[0].priority == GUARANTEED
        self.armed, self.loses_power, self.is_over = [], False, False
        self.submissions, self.application, self.arbiter, self.registered_as = 0, "", None, ""
        self.leases, self.jobs, self.hosts, self.leaving = {}, {}, {}, {}
        self.has_recovered = False

    # The submission, by a user who repeats what fails.

    def submit(self, to):
        self.submissions += 1
        self.arbiter, self.registered_as, self.leases = to, "", {}
        self.application = f"application_{self.submissions}_{self.name.removeprefix('gangs-'):0>4}"
        self.world.yarn.submit(self.application, self.tenant)
        self.world.note(self, "submits", f"{self.application} to {to.name}")
        self._start_later(0.2, 3.0)
        self._register(self.application)

    def move_to(self, other):
        self.world.yarn.finish(self.application)
        if self.alive:
            self.kill()
        self.submit(other)

    def _register(self, application):
        def again(at=0.0):
            if self.application == application and not self.is_over:
                values = (f"request-{application}", self.tenant, application, None)
                retry = partial(self.world.at, self.world.now + 1.0, again)
                self.world.users.call(self.arbiter, "register", values, registered, retry)

        def registered(name):
            if self.application == application and name:
                self.registered_as = name
                self._start()
            elif self.application == application:
                self.world.at(self.world.now + 1.0, again)

        again()

    def _start_later(self, least, most):
        application = self.application

        def start(at):
            if application == self.application and application in self.world.yarn.apps and not self.is_over:
                self.world.yarn.start_master(application)
                self._start()

        self.world.at(self.world.now + self.world.draws("am").uniform(least, most), start)

    def ended(self):
        if self.application in self.world.yarn.apps and not self.is_over:
            self.world.yarn.lose_master(self.application)
            self._start_later(1.0, 6.0)

    # One attempt.

    def _start(self):
        app = self.world.yarn.apps.get(self.application)
        if app is None or app.is_waiting or not self.registered_as or self.alive:
            return
        self.begin()
        self.wanted, self.requests, self.position, self.is_known = {}, 0, None, False
        self.running = {one.cells[0]: one.id for one in app.containers.values() if one.cells}
        self.later(0.1, self._follow)
        self.later(0.1, self._declare)
        self.later(BEAT_S, self._beat)

    def _declare(self):
        """Said again and again: a request may be lost, and an earlier one may arrive after it."""
        self.later(DECLARE_S, self._declare)
        self._declare_now()

    def _call(self, request, values, on_answer=lambda answer: None, on_failure=lambda: None):
        serve = partial(self.arbiter.serve, request, values)
        self.world.network.call(self, self.arbiter, serve, on_answer, on_failure)

    def _follow(self):
        to, again = self.arbiter, partial(self.later, 1.0, self._follow)

        def arrive():
            if to is self.arbiter and self.world.network.reaches(self.name, to.name) and to.alive:
                channel = to.connect(self, self._hear, again)
                to.deliver(lambda: to.follow(channel, self.registered_as, self.position, self._recover))
            else:
                again()

        self.later(self.world.network.latency(), arrive)

    def _recover(self):
        """Register again, with records of the leases that it runs on: the arbiter has lost its journal."""
        yarn_app, in_use = self.application, self.running.keys() - self.leaving.keys()
        records = [
            Record(id=lease, gpus=sorted(cells & in_use), job=self.jobs[lease])
            for lease, cells in self.leases.items()
            if cells & in_use
        ]
        request = Recover(name=yarn_app, request_id=f"request-{yarn_app}", yarn_app=yarn_app, leases=records)
        again = partial(self.later, 1.0, self._follow)

        def recovered(name):
            if name:
                self.registered_as, self.position, self.is_known = name, None, False
                self.has_recovered = True
            again()

        self._call("recover", (request, self.tenant, self._declared()), recovered, again)

    def _hear(self, data):
        fields = dict(line.split(": ", 1) for line in data.decode().strip().splitlines())
        self.position = fields.get("id", self.position)
        if fields["event"] == "end":
            self.position = None
            self.later(1.0, self._follow)
            return
        said = json.loads(fields["data"])
        match fields["event"]:
            case "grant":
                for lease in said["leases"]:
                    self._hold(lease)
            case "leases":
                self.leases, self.leaving, self.is_known = {}, {}, True
                for lease in said["leases"]:
                    self._hold(lease)
                    self._vacate(lease["id"], lease.get("revoked", ()))
                if self.has_recovered:
                    self._begin_anew()
            case "revoke":
                self._vacate(said["lease"], said.get("cells") or self.leases.get(said["lease"], ()))
            case "cancel_revoke":
                for cell in self.leases.get(said["lease"], ()):
                    self.leaving.pop(cell, None)
            case "lease_ended":
                held = self.leases.get(said["lease"], set())
                for cell in set(said.get("cells") or held):
                    held.discard(cell)
                    self.leaving.pop(cell, None)

    def _begin_anew(self):
        """Give back the leases of gangs that have lost pods: those that did not run yet when the journal was lost."""
        for work in self.works:
            mine = [lease for lease in self.leases if self.jobs[lease] == work.name]
            if sum(len(self.leases[lease]) for lease in mine) < sum(work.sizes):
                for lease in mine:
                    self._vacate(lease, self.leases[lease])

    def _hold(self, lease):
        self.leases[lease["id"]] = {one["cell"] for one in lease["holdings"]}
        self.jobs[lease["id"]] = lease.get("job", "")
        for one in lease["holdings"]:
            self.hosts[one["cell"]] = one["place"]["host"]
            self.leaving.pop(one["cell"], None)

    def _vacate(self, lease, cells):
        """It takes a part of the grace period."""
        for cell in cells:
            took_s = self.world.draws("vacate").uniform(0.0, 0.5) * self.world.settings.grace_s
            self.leaving.setdefault(cell, self.world.now + took_s)

    # YARN.

    def _beat(self):
        self.later(BEAT_S, self._beat)
        yarn = self.world.yarn
        if yarn.away or self.application not in yarn.apps or not self.is_known:
            return
        held = {cell for cells in self.leases.values() for cell in cells}
        allocated, completed = yarn.heartbeat(self.application)
        gone = {container for container, _ in completed}
        self.running = {cell: one for cell, one in self.running.items() if one not in gone}
        for container, number in allocated:
            cell = self.wanted.pop(number)
            is_mine = cell in held and cell not in self.leaving
            if is_mine and yarn.begin(self.application, container, (cell,), self.arbiter.name, lambda: None):
                self.running[cell] = container
            else:
                yarn.end(self.application, container, -100)
        for cell in sorted(held - self.leaving.keys() - self.running.keys() - set(self.wanted.values())):
            self.requests += 1
            self.wanted[self.requests] = cell
            yarn.request(self.application, self.requests, self.hosts[cell], 1)
        self._stop(held)
        self._work(held)

    def _stop(self, held):
        yarn = self.world.yarn
        for number, cell in list(self.wanted.items()):
            if cell not in held or cell in self.leaving:
                yarn.cancel(self.application, number)
                if number not in [asked for _, asked in yarn.apps[self.application].allocated]:
                    del self.wanted[number]
        for cell, container in list(self.running.items()):
            if cell not in held or self.leaving.get(cell, self.world.now + 1.0) <= self.world.now:
                del self.running[cell]
                yarn.end(self.application, container, 143)
        for lease, cells in self.leases.items():
            over = tuple(sorted(cells & self.leaving.keys() - self.running.keys()))
            if over:
                self._call("say", (self.registered_as, Release(lease, over)))

    def _work(self, held):
        """A gang makes progress while all of its GPUs run."""
        for work in list(self.works):
            cells = {cell for lease, held in self.leases.items() if self.jobs[lease] == work.name for cell in held}
            if len(cells & self.running.keys()) >= sum(work.sizes):
                hosts = {self.hosts[cell] for cell in cells}
                self.world.sometimes(len(hosts) > 1, "gang starts on two nodes")
                work.left_s -= BEAT_S
                if work.left_s <= 0:
                    self.works.remove(work)
                    if not self.works:
                        self._leave()
                        return
                    self._declare_now()

    def _declare_now(self):
        self._call("declare", (self.registered_as, self._declared()))

    def _declared(self):
        now = self.works[:1] if self.is_guaranteed else self.works
        return tuple(one.job(self.tenant) for one in now)

    def _leave(self):
        self.is_over = True
        self.world.note(self, "finishes", "")
        self.world.users.call(self.arbiter, "deregister", (self.registered_as,), lambda answer: None, lambda: None)
        self.world.yarn.finish(self.application)
        self.kill()


# Faults.


def _is_evicting(process, what):
    return any(one.leased.leaving for one in entries_of(process.intake.state))


def _waits(process, what):
    return any(not one.is_started for one in entries_of(process.intake.state))


class ArmedForCells(Armed):
    """The states of the auction stand for those of an eviction."""

    def is_due(self, process, where, what):
        if self.state in ("granting", "revoking", "any"):
            return super().is_due(process, where, what)
        holds = _is_evicting if self.state in ("handing over", "half vacated", "unplaced") else _waits
        return where == self.where and (self.is_impatient or holds(process, what))


class CellsFaults(Faults):
    """Without those of trials and of the solver."""

    NAMES = (
        "kill_arbiter", "kill_arbiter", "kill_master", "kill_master", "pause_arbiter", "pause_agent", "clock_jumps",
        "lose_node", "manager_away", "partition", "bad_weather", "cut_streams", "take_over", "both_claim",
    )  # fmt: skip

    def plan(self, until):
        draws, names = self.draws, sorted(set(self.NAMES))
        for name in draws.sample(names, 6) + [draws.choice(self.NAMES) for _ in range(draws.randint(6, 10))]:
            self.world.at(draws.uniform(8.0, until), partial(self._strike, name))
        if draws.random() < 0.6:
            self.world.at(draws.uniform(8.0, until), partial(self._strike, "lose_journal"))
        self.world.at(until, partial(self.make_up, names=("manager_away", "bad_weather", "partition")))

    def _strike(self, name, at):
        if name in KINDS:
            self._begin(name)
        elif name == "lose_journal":
            owner = self.world.owner()
            if not self.world.is_quiet and owner is not None and owner.alive:
                self.happened("journal lost", owner)
                owner.lose_journal()
        elif not self.world.is_quiet and (process := self.search()) is not None:
            self.happened("kill master", process)
            process.kill()

    def arm(self, process, where, state, does=None):
        super().arm(process, where, state, does)
        armed = process.armed[-1]
        process.armed[-1] = again = ArmedForCells(armed.where, armed.state, armed.does)
        if does is None:
            again.does = again.kill
        self.world.at(self.world.now + 20.0, lambda at: setattr(again, "is_impatient", True))


class CellsWorld(World):
    """See the module."""

    is_mutable = True
    arbiter_kind, faults_kind = CellsArbiter, CellsFaults

    def _pool_and_nodes(self, draws):
        cells = BuddyCellsSettings(spec(**QUOTAS), promotes=draws.random() < 0.5, retry_s=5.0)
        grace_s, place_within_s = draws.choice((4.0, 8.0)), draws.choice((8.0, 12.0))
        settings = LedgerSettings(
            "cells", cells, grace_s=grace_s, place_within_s=place_within_s, records_s=RECORDS_S, rules=RULES
        )
        amounts = Resources.of({MEMORY: 65536, VCORES: 32, GPU: 4})
        nodes = [Node(f"{host}:8041", f"/r{place // 2}", amounts) for place, host in enumerate(HOSTS)]
        return Pool(POOL, QUEUE, (GPU,), controller="ledger", parameters=settings), nodes

    def _search(self, number, draws):
        taken = {one.tenant for one in self.searches if one.is_guaranteed and not one.is_over}
        tenant = draws.choice(sorted(QUOTAS))
        sizes = draws.choice(((4, 4), (4,), (2, 2, 4), (1, 2)))
        is_low = number % 2 == 0 or tenant in taken
        priority = OPPORTUNISTIC if is_low else GUARANTEED
        works = [
            Work(f"job-{place}", draws.choice(((4,), (2, 2), (4, 4))) if is_low else sizes, priority,
                 draws.choice((10.0, 20.0, 40.0)))
            for place in range(draws.randint(2, 4))
        ]  # fmt: skip
        return GangMaster(self, f"gangs-{number}", tenant, works)
