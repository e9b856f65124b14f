"""What must hold after every step, whatever has failed."""

import math
from collections import Counter

from yarn_plugin.decide.commands import PoolStopped, RecordRound, SendToApp, SignalContainers
from yarn_plugin.decide.events import AppSaid, Configured, ContainersListed, NodesChanged, Superseded
from yarn_plugin.decide.pools.commands import Ask, Grant, LeaseEnded, Offer, Renew, Revoke
from yarn_plugin.decide.pools.lease.inventory import inventory
from yarn_plugin.decide.pools.lease.service import AHEAD
from yarn_plugin.decide.pools.lease.settings import THEMIS
from yarn_plugin.model.auction import Bid, Estimate, GpuOffer
from yarn_plugin.model.causes import NodeLost, NotPlaced, PoolSuperseded
from yarn_plugin.model.resources import GPU
from yarn_plugin.model.topology import Topology

POOL = "gpu"
SLACK_S = 15.0
"""Polls, lists, signals and requests that are sent again."""

PROMPT_S = 4.0
"""By when a process that runs has done what is due."""

OWNER_KNOWN_S = 9.0
"""By when an arbiter that reaches the ResourceManager has noticed that another one owns the queues."""


class ViolationError(AssertionError):
    """Something that must hold does not."""


def require(holds, what):
    if not holds:
        raise ViolationError(what)


def messages(decided, *kinds):
    return [one.message for one in decided.commands if isinstance(one, SendToApp) and isinstance(one.message, kinds)]


def lease_state(state):
    kept = state.pool_states.get(POOL)
    return None if kept is None else kept.state


# The arbiter.


def after_restart(process):
    intake = process.intake
    require(intake.different == 0, "after a restart, decisions differ from those journaled")
    require(intake.skipped == 0, "an input was skipped")
    require(intake.seq >= max(process.acknowledged, process.published), "what was acknowledged is lost")
    seq, state = process.live
    if state is not None and intake.seq == seq:
        require(process.codec.dump(intake.state) == process.codec.dump(state), "a restart restores another state")


def after_decision(process, before, decided):
    state, world = process.intake.state, process.world
    process.live = decided.seq, state
    replay = process.disk.replay
    if replay is not None and replay.seq == decided.seq and replay.undecided is None:
        require(world.is_mutable or replay.state == state, "a replay has another state than the live process")
        if world.is_mutable or world.is_sampled():
            require(process.codec.dump(replay.state) == process.codec.dump(state), "a replayed state differs in a byte")
    stopped = [one.error for one in decided.commands if isinstance(one, PoolStopped)]
    require(not stopped, f"a controller fails: {stopped}")
    held, was = lease_state(state), lease_state(before)
    if held is not None and held is not was:
        _check_leases(state, held)
    if held is not None and was is not None:
        _note_rare_states(process, before, was, held, decided)
    if isinstance(decided.event, Configured) and was is not None:
        _check_issued_again(process, was, decided)


def _check_leases(state, held):
    settings = state.pools[0].parameters
    usable = inventory(state.cells or Topology(), settings).places
    started, promised = Counter(), Counter()
    for one in held.leases.values():
        (started if one.started_at is not None else promised).update(one.gpus)
        require(set(one.leaving) <= set(one.gpus), f"lease {one.lease.id} has to vacate what it does not have")
        require(bool(one.leaving) == (one.by is not None) == (one.revoke is not None), f"{one.lease.id}: half revoked")
        require(one.revoke is None or one.revoke in held.open, f"{one.lease.id}: its revocation would not be repeated")
        require(one.lease.app in held.members, f"{one.lease.id}: its application is gone")
    for counts, what in ((started, "leased"), (promised, "promised")):
        require(max(counts.values(), default=0) <= 1, f"a GPU is {what} twice")
        require(counts.keys() <= usable.keys(), f"a GPU is {what} that is not there")
    for gpu in started.keys() & promised.keys():
        holder = next(one for one in held.leases.values() if one.started_at is not None and gpu in one.gpus)
        require(gpu in holder.leaving, f"{gpu} is promised while its lease goes on")
    if settings.max_gpus_per_user is not None:
        of_user = Counter()
        for one in held.leases.values():
            of_user[held.members[one.lease.app].user] += len(one.staying)
        require(max(of_user.values(), default=0) <= settings.max_gpus_per_user, "a user leases more than it may")
    if settings.max_apps is not None:
        require(sum(not one.waits for one in held.members.values()) <= settings.max_apps, "too many take part")


def _check_issued_again(process, was, decided):
    settings, given = process.world.settings, {one.id: one for one in messages(decided, Ask, Offer, Revoke)}
    for id, command in was.open.items():
        if not isinstance(command, Ask | Offer | Revoke) or command.app not in process.intake.state.registered:
            continue
        if command.app not in lease_state(process.intake.state).members:
            continue
        again = given.get(id)
        require(again is not None or process.superseded, f"{type(command).__name__} {id} is not issued again")
        match again:
            case Ask():
                require(again.answer_by == decided.at + settings.estimate_s, "not the whole time to estimate")
            case Offer():
                require(again.bid_by == decided.at + settings.bid_s, "not the whole time to bid")
            case Revoke():
                require(again.by == decided.at + settings.grace_s, "not the whole grace period after a restart")


def _note_rare_states(process, before, was, held, decided):
    world, event, now = process.world, decided.event, was.round
    phase = now.phase if now is not None else None
    leaving = [one for one in was.leases.values() if one.leaving]
    if isinstance(event, Configured):
        world.sometimes(phase == "estimating", "restart while asking")
        world.sometimes(phase == "offered", "restart while offering")
        world.sometimes(phase == "solving", "restart while solving")
        world.sometimes(process.crashed_granting, "restart while granting")
        process.crashed_granting = False
        process.round_at_restart = was.round_number
        within = world.settings.place_within_s
        started = [one for one in was.leases.values() if one.started_at is not None and not one.is_placed]
        world.sometimes(any(one.started_at + within <= decided.at for one in started), "unplaced during a restart")
    if isinstance(event, Superseded):
        claimed_at = decided.at - (world.now - world.yarn.claimed_at)
        granted = any((one.started_at or 0.0) >= claimed_at for one in was.leases.values())
        world.sometimes(granted, "superseded while granting")
        world.sometimes(bool(leaving), "superseded while handing over")
    if isinstance(event, NodesChanged) and phase in ("offered", "solving"):
        hosts = {name.rpartition(":")[0] for name in event.gone}
        gpus = [gpu for gpus in now.offer.values() for gpu in gpus]
        world.sometimes(any(gpu.partition("/")[0] in hosts for gpu in gpus), "lost node in an offer")
    if isinstance(event, AppSaid) and isinstance(event.message, Estimate | Bid):
        is_late = now is None or event.message.round != now.number or event.app not in now.asked
        asked_before = event.message.round <= process.round_at_restart
        world.sometimes(is_late and asked_before, "late answer after a restart")
    waiting = [one for one in held.leases.values() if one.started_at is None]
    world.sometimes(bool(waiting and leaving and messages(decided, Revoke)), "revoke during hand-over")
    used = {gpu for one in held.leases.values() if one.started_at is not None for gpu in one.gpus}
    half = any(0 < len(used & set(one.gpus)) < len(one.gpus) for one in waiting)
    world.sometimes(half, "gang half vacated")


class Ledger:
    """What an arbiter has told others about its leases, and for how long anybody has not kept to it."""

    def __init__(self, process):
        self.process, self.by, self.revoked_at, self.listed_at = process, {}, {}, {}
        self.foreign_s, self.unused_s, self.unlisted_s, self.idle_s = 0.0, {}, {}, 0.0
        self.attained, self.counted_at = {}, None
        self.area, self.area_at, self.active, self.arrived, self.mastered = 0.0, None, 0, {}, set()
        self.parts, self.gpus = 0.0, 0

    def process_began(self, state, at):
        """Another process goes on from this state."""
        self.foreign_s, self.counted_at, held = 0.0, at, lease_state(state)
        self.attained, self.area_at = {}, None
        # What those have had that arrived before is not known here.
        self.arrived = dict.fromkeys(held.members) if held is not None else {}
        for app, member in held.members.items() if held is not None else ():
            mine = [one for one in held.leases.values() if one.lease.app == app and one.started_at is not None]
            since = at if member.attained_at is None else member.attained_at
            self.attained[app] = member.attained_gpu_s + sum(len(one.gpus) for one in mine) * (at - since)

    def take(self, before, decided):
        world, was = self.process.world, lease_state(before)
        if isinstance(decided.event, ContainersListed):
            self.listed_at[decided.event.app] = world.now
        state = self.process.intake.state
        if lease_state(state) is not None:
            self._count_members(lease_state(state), decided.at)
            for app, yarn_app in state.yarn_apps.items():
                if (running := state.cluster.apps.get(yarn_app)) is not None and not running.waiting:
                    self.mastered.add(app)
        for message in messages(decided, Grant, Renew, Revoke, LeaseEnded, Ask, Offer):
            match message:
                case Ask() if not isinstance(decided.event, Configured):
                    require(state.manager_error is None, "a round opens while the ResourceManager does not answer")
                    self._check_question(message, decided, state)
                case Offer() if not isinstance(decided.event, Configured):
                    self._check_offer(message, decided)
                case Grant(_, _, leases, cause):
                    require(cause.gpus == sum(len(one.holdings) for one in leases), "a grant has another cause")
                    for one in leases:
                        self._check_end(one.until, decided, cause.waited_s)
                case Renew(_, _, lease, until):
                    self._check_end(until, decided)
                case Revoke(_, _, lease, by, _, cells):
                    self._check_revoke(lease, by, decided)
                    for cell in cells or {**was.leases, **lease_state(state).leases}[lease].gpus:
                        self.by[lease, cell] = by
                        self.revoked_at.setdefault((lease, cell), world.now)
                case LeaseEnded():
                    self._check_ended(before, was, message, decided)
            if isinstance(getattr(message, "cause", None), NotPlaced) and not isinstance(decided.event, Configured):
                self._check_unplaced(message, was, lease_state(state), decided.event)
        for command in decided.commands:
            match command:
                case RecordRound(_, cause) if cause.error is None:
                    total = sum(n for part in (cause.won, cause.leftover) for _, n in part)
                    require(total <= cause.gpus, "a round gives more GPUs than it offers")
                case SignalContainers():
                    self._check_signal(command, decided, was)
        held = lease_state(state)
        if held is not None:
            self._check_attained(was, held, decided.at)
            if was is not None and held.round is not was.round:
                self._check_round(held, decided)

    def _check_question(self, message, decided, state):
        held, question, settings = lease_state(state), message.question, self.process.world.settings
        running = state.cluster.apps.get(state.yarn_apps.get(message.app, ""))
        require(running is not None, f"{message.app} is asked, and YARN does not know it")
        require(message.app in self.mastered, f"{message.app} is asked, whose master has not started")
        require(message.answer_by == decided.at + settings.estimate_s, "not the time to estimate")
        staying = [gpu for one in held.leases.values() if one.lease.app == message.app and one.started_at is not None
                   for gpu in one.staying]  # fmt: skip
        require(sum(count for _, count in question.held) == len(staying), "a question has another number of held GPUs")
        usable = inventory(state.cells or Topology(), settings).places
        require(question.cluster_gpus == len(usable), "a question has another size of the pool")
        if settings.entitlement == "application" and self.arrived.get(message.app) is not None:
            arrived_at, area, _ = self.arrived[message.app]
            lived = decided.at - arrived_at
            expected = max((self.area - area) / lived, 1.0) if lived > 1.0 else question.contention
            require(abs(question.contention - expected) <= 0.01 + 0.05 * expected,
                    f"contention is {expected:.3f}, not {question.contention:.3f}")  # fmt: skip

    def _count_members(self, held, at):
        """The integrals of the number of members that take part and of their equal parts, counted anew."""
        if self.area_at is not None:
            self.area += self.active * (at - self.area_at)
            self.parts += self.gpus / max(self.active, 1) * (at - self.area_at)
        self.area_at = at
        self.arrived = {app: since for app, since in self.arrived.items() if app in held.members}
        for app in held.members:
            self.arrived.setdefault(app, (at, self.area, self.parts))
        self.active = sum(not one.waits for one in held.members.values())
        self.gpus = sum(count for _, count in held.machines)

    def _is_ahead(self, app):
        """Whether a member has had more than its equal part; None: not known, or nearly as much."""
        if self.arrived.get(app) is None:
            return None
        limit = AHEAD * (self.parts - self.arrived[app][2])
        had = self.attained.get(app, 0.0)
        return None if abs(had - limit) <= 0.01 + 0.05 * limit else had > limit

    def _check_round(self, held, decided):
        """Who is offered GPUs: the worst, as many as `f` says."""
        now, settings = held.round, self.process.world.settings
        if now is None or now.phase != "offered" or settings.entitlement != "application":
            return
        ranked = [app for app, _ in now.rhos]
        count = max(1, math.ceil((1 - settings.f) * len(ranked) - 1e-9))
        require(list(now.bidders) == ranked[:count], "others are offered GPUs than the worst")
        known = [
            (is_ahead, rho is not None, -(rho or 0.0))
            for app, rho in now.rhos
            if app in held.members and held.members[app].estimated_in is not None
            if (is_ahead := self._is_ahead(app)) is not None
        ]
        require(known == sorted(known), "applications are not ranked by what they had and their rho")

    def _check_offer(self, message, decided):
        """What is offered is free, or of leases that end."""
        held = lease_state(self.process.intake.state)
        now = held.round
        if now is None or now.number != message.offer.round or not isinstance(message.offer, GpuOffer):
            return
        offered = {gpu for gpus in now.offer.values() for gpu in gpus}
        going_on = {
            gpu for one in held.leases.values() for gpu in (one.gpus if one.lease.id not in now.ending else one.leaving)
        }
        require(not offered & going_on, "a GPU is offered whose lease goes on")
        count = sum(slot.gpus for machine in message.offer.machines for slot in machine.slots)
        require(count == len(offered), "an offer has another number of GPUs than are offered")
        require(message.bid_by >= decided.at + self.process.world.settings.bid_s - 1e-6, "no time to bid")

    def _check_end(self, until, decided, waited_s=0.0):
        settings = self.process.world.settings
        grid = settings.lease_s / 10 if settings.grid_s is None else settings.grid_s
        late = settings.grace_s / 2
        least = settings.lease_s - late - waited_s
        require(least - 1e-6 <= until - decided.at <= settings.lease_s + grid + 1e-6, "a lease has another length")
        parts = until / grid if grid else 0.0
        require(abs(parts - round(parts)) < 1e-6, "a lease ends off the grid")

    def _check_revoke(self, lease, by, decided):
        settings = self.process.world.settings
        early = 0.0 if isinstance(decided.event, Configured) else settings.grace_s / 2
        require(by >= decided.at + settings.grace_s - early - 1e-6, f"{lease} is revoked without the grace period")
        require(by <= decided.at + settings.grace_s + 1e-6, f"{lease} is revoked with a longer grace period")

    def _check_ended(self, before, was, message, decided):
        """No lease ends below containers that still may run: they have their grace period."""
        world, cause = self.process.world, message.cause
        if isinstance(cause, PoolSuperseded | NodeLost) or world.owner() is not self.process:
            return
        cells = set(message.cells or was.leases[message.lease].gpus if message.lease in was.leases else message.cells)
        yarn_app = before.yarn_apps.get(message.app)
        for one in world.yarn.apps[yarn_app].containers.values() if yarn_app in world.yarn.apps else ():
            for cell in cells & set(one.cells):
                if one.arbiter != self.process.name:
                    continue
                told = self.revoked_at.get((message.lease, cell))
                is_over = self.by.get((message.lease, cell), float("inf")) <= decided.at
                is_new = one.since >= (told if told is not None else world.now - SLACK_S)
                if isinstance(cause, NotPlaced):
                    is_new = one.since >= self.listed_at.get(message.app, 0.0) - SLACK_S
                require(is_over or is_new, f"{cell} is taken from {one.id} before its time ({type(cause).__name__})")

    def _check_unplaced(self, message, was, held, event):
        """What YARN did not place is known from a list that was asked for, and no more than that is taken back."""
        is_listed = isinstance(event, ContainersListed) and event.app == message.app
        require(is_listed, f"{message.lease} is taken back as unplaced, and was not listed again")
        machine = message.cause.node
        on = sum(one.resources[GPU] for one in event.containers if one.node.partition(":")[0] == machine)
        require(isinstance(message, Revoke) or not on, f"{message.lease} is taken at once, and may be in use")
        before, after = (
            sum(
                gpu.partition("/")[0] == machine
                for one in state.leases.values()
                if one.lease.app == message.app and one.started_at is not None
                for gpu in one.staying
            )
            for state in (was, held)
        )
        require(after >= min(before, on), f"more of {message.lease} is taken back than is not in use")

    def _check_signal(self, command, decided, was):
        """Nobody's containers are ended within the leases that it had when they were listed."""
        if not isinstance(decided.event, ContainersListed):
            return
        leased = Counter()
        for one in was.leases.values():
            if one.lease.app == command.app and one.started_at is not None:
                overdue = one.leaving if one.by is not None and one.by <= decided.at else ()
                leased.update(gpu.partition("/")[0] for gpu in one.gpus if gpu not in overdue)
        used, left, largest = Counter(), Counter(), Counter()
        for one in decided.event.containers:
            host, gpus = one.node.rpartition(":")[0], one.resources[GPU]
            used[host] += gpus
            if one.id in command.containers:
                require(not one.master, "a master is signalled")
                largest[host] = max(largest[host], gpus)
            else:
                left[host] += gpus
        for host, gpus in largest.items():
            require(used[host] > leased[host], f"containers on {host} are ended within their leases")
            require(
                left[host] + gpus > leased[host], f"more containers on {host} are ended than are beyond their leases"
            )

    def _check_attained(self, was, held, at):
        """GPU seconds of each application, counted anew."""
        if was is None:
            return
        passed = 0.0 if self.counted_at is None else at - self.counted_at
        self.counted_at = at
        for one in was.leases.values():
            if one.started_at is not None:
                app = one.lease.app
                self.attained[app] = self.attained.get(app, 0.0) + passed * len(one.gpus)
        gpus = Counter()
        for one in held.leases.values():
            if one.started_at is not None:
                gpus[one.lease.app] += len(one.gpus)
        self.attained = {app: gpu_s for app, gpu_s in self.attained.items() if app in held.members}
        for app, member in held.members.items():
            since = at if member.attained_at is None else member.attained_at
            told, counted = member.attained_gpu_s + gpus[app] * (at - since), self.attained.get(app, 0.0)
            require(
                abs(told - counted) <= 1e-3 + 0.02 * counted, f"{app} has attained {counted:.3f} GPU s, not {told:.3f}"
            )

    def tick(self, passed):
        """Once a second: who works beyond a lease, and whether a superseded arbiter stands down."""
        process, world = self.process, self.process.world
        if not process.is_healthy():
            self.foreign_s, self.unused_s, self.unlisted_s, self.idle_s = 0.0, {}, {}, 0.0
            return
        held = lease_state(process.intake.state)
        if world.owner() is not process:
            self.foreign_s += passed
            started = [] if held is None else [one for one in held.leases.values() if one.started_at is not None]
            require(self.foreign_s < OWNER_KNOWN_S or not started, "a superseded arbiter still leases GPUs")
            return
        self.foreign_s = 0.0
        allowed_s = 2 * world.settings.grace_s + world.settings.place_within_s + process.reconcile_s + SLACK_S
        names = {yarn_app: app for app, yarn_app in process.intake.state.yarn_apps.items()}
        cells = {}
        for one in held.leases.values() if held is not None else ():
            if one.started_at is not None:
                cells.setdefault(one.lease.app, set()).update(one.gpus)
        for one in world.yarn.running():
            mine = cells.get(names.get(one.app), set()) if one.arbiter == process.name else set()
            one.beyond_s = 0.0 if set(one.cells) <= mine else one.beyond_s + passed
            require(one.beyond_s <= allowed_s, f"{one.id} works beyond its lease for {one.beyond_s:.0f} s")
        self._check_unused(held, passed)
        self._check_listed(held, passed)
        self._check_idle(held, passed)

    def _check_unused(self, held, passed):
        """GPUs that nothing runs on come back."""
        process, world = self.process, self.process.world
        used, unused = {cell for one in world.yarn.running() for cell in one.cells}, {}
        for one in held.leases.values() if held is not None else ():
            if one.started_at is not None and not one.leaving and not used & set(one.gpus):
                unused[one.lease.id] = self.unused_s.get(one.lease.id, 0.0) + passed
        self.unused_s = unused
        allowed_s = 3 * world.settings.place_within_s + process.reconcile_s + SLACK_S
        require(max(unused.values(), default=0.0) <= allowed_s, "GPUs stay leased that nothing runs on")

    def _check_listed(self, held, passed):
        """A list of containers that decides whether a grant comes back is asked for until there is an answer."""
        now, within = self.process.intake.now(), self.process.world.settings.place_within_s
        vacating = {one.lease.app for one in held.leases.values() if one.leaving} if held is not None else set()
        unlisted = {}
        for one in held.leases.values() if held is not None else ():
            is_asked = one.started_at is not None and not one.is_placed and one.listed_at is not None
            if is_asked and one.lease.app not in vacating and one.listed_at + within < now:
                unlisted[one.lease.id] = self.unlisted_s.get(one.lease.id, 0.0) + passed
        self.unlisted_s = unlisted
        require(max(unlisted.values(), default=0.0) <= PROMPT_S, "a list that was lost is not asked for again")

    def _check_idle(self, held, passed):
        """While somebody takes part and nobody leases anything, rounds open; each other policy knows who waits."""
        settings = self.process.world.settings
        takes_part = (
            held is not None and settings.policy == THEMIS and any(not one.waits for one in held.members.values())
        )
        is_idle = takes_part and held.round is None and not held.leases and bool(held.machines)
        self.idle_s = self.idle_s + passed if is_idle else 0.0
        require(self.idle_s <= settings.lease_s + SLACK_S, "GPUs are idle, and no round opens")


# The agent.


def after_agent_restart(search):
    require(search.intake.different == 0, "after a restart, an agent's decisions differ from those journaled")
    require(search.intake.seq >= search.acknowledged, "what an agent has acknowledged is lost")
    seq, state = search.live
    if search.intake.seq == seq and state is not None:
        require(search.codec.dump(search.intake.state) == search.codec.dump(state), "a restart restores another agent")


def after_agent_decision(search, decided):
    state = search.intake.state
    search.live = decided.seq, state
    used = Counter(cell for _, attempt in state.attempts for cell in attempt.cells) if state is not None else Counter()
    require(max(used.values(), default=0) <= 1, "two trials have one GPU")
