"""Faults: what breaks, when, and for how long. A seed draws them; some wait for a rare state."""

from dataclasses import dataclass
from itertools import cycle

from tests.chaos.checks import lease_state, messages
from tests.chaos.process import Killed
from yarn_plugin.decide.pools.commands import Grant, Revoke

MIN_FAULTS, MIN_KINDS = 8, 4

PATIENCE_S = 60.0
"""How long a fault waits for its state; then it happens anyway."""


def _phase(name):
    def is_there(process, what):
        held = lease_state(process.intake.state)
        return held is not None and held.round is not None and held.round.phase == name

    return is_there


def _handing_over(process, what):
    held = lease_state(process.intake.state)
    return held is not None and any(one.leaving for one in held.leases.values())


def _half_vacated(process, what):
    held = lease_state(process.intake.state)
    if held is None:
        return False
    used = {gpu for one in held.leases.values() if one.started_at is not None for gpu in one.gpus}
    return any(0 < len(used & set(one.gpus)) < len(one.gpus) for one in held.leases.values() if one.started_at is None)


def _unplaced(process, what):
    held = lease_state(process.intake.state)
    found = held.leases.values() if held is not None else ()
    return any(one.started_at is not None and not one.is_placed for one in found)


def _granting(process, what):
    return hasattr(what, "commands") and bool(messages(what, Grant))


def _revoking(process, what):
    return hasattr(what, "commands") and bool(messages(what, Revoke))


def _any(process, what):
    return True


STATES = {
    "asking": _phase("estimating"),
    "offering": _phase("offered"),
    "solving": _phase("solving"),
    "granting": _granting,
    "revoking": _revoking,
    "handing over": _handing_over,
    "half vacated": _half_vacated,
    "unplaced": _unplaced,
    "any": _any,
}
LINES = ("before journal", "after journal", "before commands", "between commands")


@dataclass
class Armed:
    """What happens to a process at a line, once it is in a state. `is_impatient`: in whatever state."""

    where: str
    state: str
    does: object
    is_impatient: bool = False

    def is_due(self, process, where, what):
        return where == self.where and (self.is_impatient or STATES[self.state](process, what))

    def kill(self, process):
        process.crashed_granting = self.state == "granting" and not self.is_impatient
        process.world.note(process, "killed", f"{self.where}, {self.state}")
        raise Killed


class Faults:
    """`count`, `kinds`: of the faults that have happened."""

    def __init__(self, world):
        self.world, self.draws = world, world.draws("faults")
        self.count, self.kinds = 0, set()
        self.heals = []

    def plan(self, until):
        """Draw the faults of a run."""
        draws = self.draws
        names = list(KINDS)
        often = [*names, *["kill_arbiter", "take_over", "lose_node", "kill_arbiter"]]
        chosen = draws.sample(names, 5) + [draws.choice(often) for _ in range(draws.randint(5, 9))]
        for name in chosen:
            self.world.at(draws.uniform(8.0, until), lambda at, name=name: self._begin(name))
        self.world.at(until, self.make_up)

    def make_up(self, at, names=()):
        """Begin others for faults that found nobody whom they could happen to."""
        names = cycle(names or ALWAYS)
        while self.count < MIN_FAULTS or len(self.kinds) < MIN_KINDS:
            self._begin(next(names))

    def _begin(self, name):
        if self.world.is_quiet:
            return
        heal = KINDS[name](self)
        if heal is None:
            return
        self.heals.append(heal)

    def happened(self, name, who, detail=""):
        self.count += 1
        self.kinds.add(name)
        self.world.note(who, name, detail)

    def heal_all(self):
        for heal in self.heals:
            heal()
        for process in (*self.world.arbiters, *self.world.searches):
            process.armed.clear()

    def later(self, seconds, heal):
        done = []

        def once(at=0.0):
            if not done:
                done.append(True)
                heal()

        self.world.at(self.world.now + seconds, once)
        return once

    def stop(self, process, name, seconds):
        """Stop a process for so long."""
        incarnation = process.incarnation
        process.pause()
        self.happened(name, process, f"{seconds:.1f} s")

        def go_on():
            if process.alive and process.incarnation == incarnation and process.paused:
                self.world.note(process, "continues", "")
                process.resume()

        return self.later(seconds, go_on)

    # Who.

    def arbiter(self):
        found = [one for one in self.world.arbiters if one.alive]
        return self.draws.choice(found) if found else None

    def search(self):
        found = [one for one in self.world.searches if one.alive]
        return self.draws.choice(found) if found else None

    def arm(self, process, where, state, does=None):
        """It happens without its state when that does not come."""
        armed = Armed(where, state, does)
        armed.does = does or armed.kill
        process.armed.append(armed)
        self.world.at(self.world.now + PATIENCE_S, lambda at: setattr(armed, "is_impatient", True))


class MissedBid(Faults):
    """Who is offered GPUs first does not bid."""

    def plan(self, until):
        self.world.at(until, self.make_up)
        self.world.arbiters[0].armed.append(Armed("before commands", "offering", self._miss))

    def _miss(self, process):
        for one in self.world.searches:
            self.stop(one, "misses a bid", self.world.settings.bid_s + 2.0)


class LostLists(Faults):
    """Who is granted GPUs first does not use them, and the lists of its containers are lost."""

    def plan(self, until):
        self.world.at(until, self.make_up)
        self.world.arbiters[0].armed.append(Armed("before commands", "granting", self._lose))

    def _lose(self, process):
        network, within = self.world.network, self.world.settings.place_within_s
        for one in self.world.searches:
            self.stop(one, "uses no GPUs", 3 * within)
        network.loss, before = 1.0, network.loss
        # Until just before the list is asked for again; once in a while all lists are, anyway.
        self.later(2 * within - 0.5, lambda: setattr(network, "loss", before))


def kill_arbiter(faults):
    process, draws = faults.arbiter(), faults.draws
    if process is None:
        return None
    state = draws.choice(list(STATES))
    where = draws.choice(LINES[2:] if state in ("granting", "revoking") else LINES)
    process.loses_power = draws.random() < 0.4
    faults.arm(process, where, state)
    faults.happened("kill arbiter", process, f"{where}, {state}")
    return lambda: None


def kill_agent(faults):
    process, draws = faults.search(), faults.draws
    if process is None:
        return None
    process.loses_power = draws.random() < 0.4
    faults.arm(process, draws.choice(LINES), "any")
    faults.happened("kill agent", process)
    return lambda: None


def pause_arbiter(faults):
    return _pause(faults, faults.arbiter(), "pause arbiter")


def pause_agent(faults):
    return _pause(faults, faults.search(), "pause agent")


def _pause(faults, process, name):
    if process is None or process.paused:
        return None
    return faults.stop(process, name, faults.draws.uniform(1.0, 25.0))


def full_disk(faults):
    process = faults.draws.choice([*faults.world.arbiters, *faults.world.searches])
    seconds = faults.draws.uniform(2.0, 15.0)
    process.disk.is_full = True
    faults.happened("full disk", process, f"{seconds:.1f} s")
    return faults.later(seconds, lambda: setattr(process.disk, "is_full", False))


def clock_jumps(faults):
    """The clock of a machine is set; back, mostly while GPUs are handed over."""
    draws, owner = faults.draws, faults.world.owner()
    seconds = draws.choice((-3000.0, -60.0, -10.0, 10.0, 60.0, 3000.0))
    process = draws.choice([*faults.world.arbiters, *faults.world.searches])

    def jump(process):
        faults.world.note(process, "clock is set", f"{seconds:+.0f} s")
        states = [
            lease_state(one.intake.state) for one in faults.world.arbiters if one.alive and one.intake is not None
        ]
        in_grace = any(one.leaving for held in states if held is not None for one in held.leases.values())
        faults.world.sometimes(seconds < 0 and in_grace, "clock back during grace")
        process.offset += seconds

    faults.happened("clock jumps", process, f"{seconds:+.0f} s")
    if seconds < 0 and owner is not None and owner.alive:
        faults.arm(owner, "before commands", "handing over", jump)
    else:
        jump(process)
    return lambda: None


def lose_node(faults):
    """A node is lost, mostly while it is offered, and returns."""
    world, draws = faults.world, faults.draws
    found = sorted(name for name in world.yarn.up if not name.startswith("masters"))
    if not found:
        return None
    name, owner = draws.choice(found), world.owner()

    def lose(process=None):
        if name in world.yarn.up:
            world.note(world, "node lost", name)
            world.yarn.lose_node(name)
            world.at(world.now + draws.uniform(0.5, 40.0), back)

    def lose_offered(process):
        # A bidder does not answer meanwhile.
        lose()
        _pause(faults, faults.search(), "pause agent")

    def back(at=0.0):
        if name not in world.yarn.up:
            world.note(world, "node is back", name)
            world.yarn.up.add(name)

    faults.happened("lose node", world, name)
    if owner is not None and owner.alive and draws.random() < 0.7:
        faults.arm(owner, "before commands", draws.choice(("offering", "offering", "handing over")), lose_offered)
    else:
        lose()
    return back


def manager_away(faults):
    seconds = faults.draws.uniform(1.0, 20.0)
    faults.world.yarn.away = True
    faults.happened("manager away", faults.world, f"{seconds:.1f} s")
    return faults.later(seconds, lambda: setattr(faults.world.yarn, "away", False))


def partition(faults):
    network, draws = faults.world.network, faults.draws
    arbiter = draws.choice(faults.world.arbiters)
    others = [*faults.world.searches, *(one for one in faults.world.arbiters if one is not arbiter)]
    cut = {(arbiter.name, one.name) for one in draws.sample(others, draws.randint(1, len(others)))}
    seconds = draws.uniform(2.0, 25.0)
    network.cut |= cut
    faults.happened("partition", arbiter, f"{len(cut)} for {seconds:.1f} s")

    def heal():
        network.cut -= cut

    return faults.later(seconds, heal)


def bad_weather(faults):
    network, seconds = faults.world.network, faults.draws.uniform(10.0, 40.0)
    network.loss, network.twice, network.latency_s = 0.25, 0.3, 1.5
    faults.happened("bad weather", faults.world, f"{seconds:.1f} s")

    def heal():
        network.loss, network.twice, network.latency_s = 0.02, 0.03, 0.08

    return faults.later(seconds, heal)


def cut_streams(faults):
    process = faults.arbiter()
    if process is None or not process.serving:
        return None
    process.cut_streams()
    faults.happened("cut streams", process)
    return lambda: None


def bad_solver(faults):
    kind, seconds = faults.draws.choice(("slow", "lost")), faults.draws.uniform(10.0, 40.0)
    faults.world.solver = kind
    faults.happened("bad solver", faults.world, kind)
    return faults.later(seconds, lambda: setattr(faults.world, "solver", "quick"))


def crashing_trials(faults):
    faults.world.crashes = 0.15
    faults.happened("crashing trials", faults.world)
    return faults.later(faults.draws.uniform(5.0, 20.0), lambda: setattr(faults.world, "crashes", 0.0))


def take_over(faults):
    """The other arbiter is started: this one is stopped, killed, or cannot be reached."""
    world, draws = faults.world, faults.draws
    owner = world.owner()
    if owner is None or not owner.alive:
        return None
    (other,) = [one for one in world.arbiters if one is not owner]
    how, state = draws.choice(("pause", "cut", "kill")), draws.choice(("granting", "solving", "handing over", "any"))
    pair, seconds = (owner.name, other.name), draws.choice((2.5, 5.0, 20.0, 40.0))
    faults.happened("take over", owner, f"{how}, {state}")

    def begin(process):
        world.note(owner, "is taken over", how)
        if how == "cut":
            world.network.cut.add(pair)
        other.wanted = True
        world.at(world.now, lambda at: other.start())
        if how == "pause":
            owner.pause()
            incarnation = owner.incarnation
            world.at(world.now + seconds, lambda at: owner.resume() if owner.incarnation == incarnation else None)
        world.at(world.now + seconds, lambda at: world.network.cut.discard(pair))
        if how == "kill":
            owner.wanted = draws.random() < 0.5
            raise Killed

    faults.arm(owner, "before commands", state, begin)
    return lambda: world.network.cut.discard(pair)


def both_claim(faults):
    """Both arbiters are started at once."""
    world = faults.world
    faults.happened("both claim", world)

    def start(at):
        for one in world.arbiters:
            one.wanted = True
            one.start()

    for one in world.arbiters:
        one.wanted = False
        if one.alive:
            one.kill()
    world.at(world.now + 2.0, start)
    return lambda: None


def move_search(faults):
    """A user goes on with a search under the arbiter that controls the queues."""
    world = faults.world
    found = [one for one in world.searches if one.application and not one.is_over]
    if not found or world.owner() is None:
        return None
    search = faults.draws.choice(found)
    faults.happened("move search", search)
    search.move_to(world.owner())
    return lambda: None


KINDS = {
    one.__name__: one
    for one in (
        kill_arbiter,
        kill_agent,
        pause_arbiter,
        pause_agent,
        full_disk,
        clock_jumps,
        lose_node,
        manager_away,
        partition,
        bad_weather,
        cut_streams,
        bad_solver,
        crashing_trials,
        take_over,
        both_claim,
        move_search,
    )
}

ALWAYS = ("manager_away", "bad_weather", "bad_solver", "crashing_trials", "full_disk", "partition")
"""Faults that can happen at any time."""
