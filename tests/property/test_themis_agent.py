"""The agent under any order of events: its GPUs are never shared, never used beyond their lease, and it ends."""

import json

from hypothesis import given
from hypothesis import strategies as some

from themis_agent.agent import events
from themis_agent.agent.commands import Finish, KillTrial, ReleaseGpus, SampleTrial, StartTrial, StopTrial
from themis_agent.agent.settings import Settings
from themis_agent.agent.step import next_due, step
from themis_agent.agent.tags import TAGS
from yarn_plugin.journal.codec import Codec

CODEC = Codec(TAGS)
MACHINES = ("m1", "m2", "m3")

SETTINGS = some.builds(
    Settings,
    algorithm=some.sampled_from(["successive_halving", "curve_stopping", "plain"]),
    trials=some.integers(1, 12),
    max_steps=some.integers(1, 9),
    eta=some.integers(2, 3),
    target=some.none() | some.just(0.2),
    retries=some.integers(0, 1),
    min_gpus=some.integers(1, 2),
    max_gpus=some.integers(2, 4),
    step_s=some.just(60.0),
    maximize=some.booleans(),
)


class World:
    """Launchers and an arbiter that do what the agent says, and now and then something else."""

    def __init__(self, settings, choose):
        self.choose, self.state, self.at, self.seq = choose, None, 0.0, 0
        self.leased, self.revoked, self.leases = {}, set(), 0
        self.running, self.stopping, self.epochs, self.finished = {}, set(), {}, None
        self.steps, self.inbox = {}, []
        self.take(events.Begun(settings))

    def take(self, event):
        due = next_due(self.state)
        if due is not None and due <= self.at:
            self._step(events.TimerFired(), due)
        self._step(event, self.at)
        while self.inbox:
            self._step(self.inbox.pop(0), self.at)

    def _step(self, event, at):
        self.seq += 1
        self.state, commands = step(self.state, self.seq, at, event)
        due = next_due(self.state)
        assert due is None or due > at
        for command in commands:
            self._obey(command)

    def _obey(self, command):
        match command:
            case SampleTrial():
                self.inbox.append(events.Sampled(command.trial, "{}"))
            case StartTrial():
                cells = [cell for place in command.places for cell in place.cells]
                used = {cell for _, others in self.running.values() for cell in others}
                assert not used & set(cells), "a GPU is shared"
                assert all(cell in self.leased and cell not in self.revoked for cell in cells), "no lease"
                assert command.epoch > self.epochs.get(command.trial, 0)
                assert command.trial not in {name for name, _ in self.running}
                self.epochs[command.trial] = command.epoch
                self.running[command.trial, command.epoch] = (len(command.places), cells)
            case StopTrial():
                assert (command.trial, command.epoch) in self.running
                self.stopping.add((command.trial, command.epoch))
            case KillTrial():
                self.end((command.trial, command.epoch), None)
            case ReleaseGpus():
                used = {cell for _, others in self.running.values() for cell in others}
                assert not used & set(command.cells), "given back while in use"
                for cell in command.cells:
                    del self.leased[cell]
                    self.revoked.discard(cell)
            case Finish():
                assert not self.running
                self.finished = command

    def end(self, attempt, code):
        launchers, _ = self.running.pop(attempt)
        self.stopping.discard(attempt)
        self.inbox += [events.LauncherEnded(*attempt, code, (), number) for number in range(launchers)]

    def grant(self):
        machine = self.choose(some.sampled_from(MACHINES))
        cells = [f"{machine}/{number}" for number in range(4) if f"{machine}/{number}" not in self.leased]
        if not cells:
            return
        self.leases += 1
        granted = cells[: self.choose(some.integers(1, 4))]
        self.leased.update(dict.fromkeys(granted, f"l{self.leases}"))
        gpus = tuple(events.Gpu(cell, machine, machine, "r") for cell in granted)
        self.take(events.Granted(f"l{self.leases}", gpus))

    def revoke(self):
        held = sorted(cell for cell in self.leased if cell not in self.revoked)
        if held:
            cell = self.choose(some.sampled_from(held))
            self.revoked.add(cell)
            self.take(events.Revoked(self.leased[cell], self.at + 10.0, (cell,)))

    def report(self):
        if self.running:
            name, epoch = self.choose(some.sampled_from(sorted(self.running)))
            self.steps[name] = self.steps.get(name, 0) + self.choose(some.integers(1, 4))
            metric = self.choose(some.sampled_from([0.1, 0.3, 0.5, 0.9, None]))
            self.take(events.Reported(name, epoch, self.steps[name], metric))

    def stop(self):
        for attempt in sorted(self.stopping):
            self.end(attempt, self.choose(some.sampled_from([None, 0, 1])))
        self.settle()

    def crash(self):
        if self.running:
            self.end(self.choose(some.sampled_from(sorted(self.running))), self.choose(some.sampled_from([None, 0, 1])))
            self.settle()

    def restart(self):
        lost = [one for one in sorted(self.running) if self.choose(some.booleans())]
        for attempt in lost:
            self.running.pop(attempt)
            self.stopping.discard(attempt)
        kept = [
            events.Running(*attempt, number)
            for attempt, (launchers, _) in sorted(self.running.items())
            for number in range(launchers)
        ]
        # What a restart reads from the journal is what was there before.
        assert CODEC.read(json.loads(CODEC.dump(self.state))) == self.state
        self.take(events.Restarted(tuple(kept)))

    def settle(self):
        self.take(events.Profiled("none", 1, 1.0))

    def wait(self):
        self.at += self.choose(some.floats(1.0, 40.0))
        self.settle()


ACTIONS = ["grant", "grant", "revoke", "report", "report", "report", "stop", "stop", "crash", "restart", "wait"]


@given(SETTINGS, some.lists(some.sampled_from(ACTIONS), max_size=60), some.data())
def test_gpus_are_never_shared_and_every_search_ends(settings, actions, data):
    world = World(settings, data.draw)
    for action in actions:
        world.at += 0.5
        getattr(world, action)()
    for machine in MACHINES:
        free = [f"{machine}/{number}" for number in range(4) if f"{machine}/{number}" not in world.leased]
        if free:
            world.leased.update(dict.fromkeys(free, f"last-{machine}"))
            gpus = tuple(events.Gpu(cell, machine, machine, "r") for cell in free)
            world.take(events.Granted(f"last-{machine}", gpus))
    # From now on all goes well: the search ends after at most so many reports.
    for _ in range(40 * settings.trials):
        if world.finished is not None:
            break
        world.at += 1.0
        for attempt in sorted(world.stopping):
            world.end(attempt, None)
        for name, epoch in sorted(set(world.running) - world.stopping):
            world.steps[name] = world.steps.get(name, 0) + 1
            world.inbox.append(events.Reported(name, epoch, world.steps[name], 0.5))
        world.settle()
    assert world.finished is not None
    best = world.state.best
    assert world.finished.best == (best.id if best is not None else None)
