"""A search: its application master's attempts in YARN, with the agent's own core, journal, containers and outbox."""

import json
from functools import partial

from tests.chaos import checks
from tests.chaos.disk import DiskRecords
from tests.chaos.launcher import LauncherProcess
from tests.chaos.process import Loop
from themis_agent.agent import events, messages
from themis_agent.agent.commands import (
    Finish,
    KillTrial,
    ReleaseGpus,
    SampleTrial,
    SendBid,
    SendEstimate,
    StartTrial,
    StopTrial,
)
from themis_agent.agent.tags import TAGS
from themis_agent.arbiter_messages import Translation
from themis_agent.live import MACHINE
from themis_agent.yarn.arbiter_link import AGAIN_S, FOLLOW_AGAIN_S, MIN_ANSWER_S
from themis_agent.yarn.containers import Cancel, Containers, Gone, Launcher, Release, Request, Start, Stop
from themis_agent.yarn.outbox import Outbox
from yarn_plugin.journal.durable import Durable
from yarn_plugin.journal.intake import Intake
from yarn_plugin.journal.records import JournalUnavailableError
from yarn_plugin.model.auction import Release as ReleaseMessage
from yarn_plugin.model.resources import GPU, Resources
from yarn_plugin.model.share import Demand

BEAT_S = 0.5
LEAVE_S = 30.0


class Search(Loop):
    """One search, from its submission to its end; `notes`, `said`, `steps`: what is in its folder.

    `application`, `arbiter`, `registered_as`: of the present submission; a search that is resumed has others.
    """

    def __init__(self, world, name, disk, user, settings):
        super().__init__(world, name, disk)
        self.user, self.settings = user, settings
        self.notes, self.said, self.steps = {}, {}, {}
        self.submissions, self.application, self.arbiter, self.registered_as = 0, "", None, ""
        self.is_over, self.acknowledged = False, 0

    # The submission, by a user who repeats what fails.

    def submit(self, arbiter):
        self.submissions += 1
        self.arbiter, self.registered_as = arbiter, ""
        self.application = f"application_{self.submissions}_{self.name.removeprefix('search-'):0>4}"
        self.world.yarn.submit(self.application, self.user)
        self.world.note(self, "submits", f"{self.application} to {arbiter.name}")
        self.world.at(
            self.world.now + self.world.draws("am").uniform(0.2, 3.0), partial(self._start_master, self.application)
        )
        self._register(self.application)

    def move_to(self, arbiter):
        """Give up the application, and go on with the search under another arbiter."""
        self.world.yarn.finish(self.application)
        if self.alive:
            self.kill()
        self.submit(arbiter)

    def _register(self, application):
        demand = Demand((Resources.of({GPU: self.settings.trials * self.settings.max_gpus}),))
        values = (f"request-{application}", self.user, application, demand)

        def again(at=0.0):
            if self.application != application or self.is_over:
                return
            self.world.users.call(
                self.arbiter, "register", values, registered, lambda: self.world.at(self.world.now + 1.0, again)
            )

        def registered(name):
            if self.application == application and name:
                self.registered_as = name
                self._start_if_ready()
            elif self.application == application:
                self.world.at(self.world.now + 1.0, again)

        again()

    def _start_master(self, application, at):
        if application == self.application and application in self.world.yarn.apps:
            self.world.yarn.start_master(application)
            self._start_if_ready()

    def _start_if_ready(self):
        app = self.world.yarn.apps.get(self.application)
        if app is not None and not app.is_waiting and self.registered_as and not self.alive:
            self._begin()

    # One attempt.

    def _begin(self):
        self.begin()
        self.deliver(self._open)

    def _open(self):
        self.open_inbox()
        self.intake = None
        policy = Durable(TAGS, DiskRecords(self.disk))
        try:
            self.intake = Intake(MACHINE, policy, self.clock(), lambda event: isinstance(event, events.Restarted))
        except JournalUnavailableError:
            self.kill()
            return
        checks.after_agent_restart(self)
        self.containers, self.known = Containers(), {}
        self.outbox, self.is_sending, self.position = Outbox(), False, None
        self.translation = Translation(lambda wall: self.intake.now() + wall - self.intake.wall())
        self.acknowledged_of, self.refusal, self.is_leaving = {}, "", False
        app = self.world.yarn.apps[self.application]
        self.known = {one.id: one for one in app.containers.values() if not one.is_master}
        self._go_on()
        self.later(0.1, self._beat)
        self.later(0.1, self._follow)
        self.later(0.2, self._say_demand)

    def _go_on(self):
        state = self.intake.state
        if state is None:
            self.post(events.Begun(self.settings, self.registered_as))
            return
        launchers = {
            one: self.notes.get(one)
            for trial, attempt in state.attempts
            for number in range(len(attempt.places))
            if number not in attempt.ended
            for one in (Launcher(trial.id, attempt.epoch, number),)
        }
        running = tuple(events.Running(one.trial, one.epoch, one.number) for one in launchers)
        self.post(
            events.Restarted(
                running, registered_as=self.registered_as, reopens=self.registered_as != state.registered_as
            )
        )
        self._do(self.containers.adopt(launchers, list(self.known)))

    def ended(self):
        super().ended()
        if self.application in self.world.yarn.apps:
            self.world.yarn.lose_master(self.application)
        application = self.application
        if not self.is_over:
            wait = self.world.draws("am").uniform(1.0, 6.0)
            self.world.at(self.world.now + wait, partial(self._start_master, application))

    def refuse_all(self):
        """Nothing is refused: what has arrived waits until the journal can be written."""

    def unwritable(self, item):
        self.deferred.appendleft(item)

    def pass_on(self, decided):
        self.world.step(self, decided)
        checks.after_agent_decision(self, decided)
        self.crash_if_due("before commands", decided)
        half = len(decided.commands) // 2
        for number, command in enumerate(decided.commands):
            if number == half:
                self.crash_if_due("between commands", decided)
            self._carry_out(command)
        state = self.intake.state
        if state is not None and state.is_at_rest and not self.is_leaving:
            self.is_leaving = True
            self._leave(self.world.now + LEAVE_S)

    def _leave(self, until):
        def over(answer=None):
            if answer is None and self.world.now < until:
                self.later(1.0, partial(self._leave, until))
                return
            self.is_over = True
            self.world.note(self, "finishes", "")
            self.world.yarn.finish(self.application)
            self.kill()

        self._call("deregister", (self.registered_as,), over, over)

    def _call(self, request, values, on_answer, on_failure):
        arbiter = self.arbiter
        self.world.network.call(
            self, arbiter, lambda reply: arbiter.serve(request, values, reply), on_answer, on_failure
        )

    # Commands.

    def _carry_out(self, command):
        match command:
            case SampleTrial(trial, number):
                self.post(events.Sampled(trial, json.dumps({"lr": number})))
            case StartTrial() | StopTrial() | KillTrial():
                self.later(0.01, partial(self._drive, command))
            case Finish():
                pass
            case _:
                self.outbox.put(command)
                self._speak()

    def _drive(self, command):
        match command:
            case StartTrial():
                for number, place in enumerate(command.places):
                    launcher = Launcher(command.trial, command.epoch, number)
                    self.notes[launcher, "cells"] = place.cells
                    self._do(
                        self.containers.want(launcher, place.host or place.machine, len(place.cells), self.world.now)
                    )
            case StopTrial():
                self._do(self.containers.give_up(command.trial, command.epoch))
            case KillTrial():
                self._do(self.containers.kill(command.trial, command.epoch, self.world.now))

    def _do(self, instructions):
        yarn = self.world.yarn
        for one in instructions:
            match one:
                case Request(number, host, gpus):
                    yarn.request(self.application, number, host, gpus)
                case Cancel(number):
                    yarn.cancel(self.application, number)
                case Start(container, launcher):
                    self._start_container(container, launcher)
                case Stop(container):
                    yarn.end(self.application, container, 143)
                case Release(container):
                    self.known.pop(container, None)
                    yarn.end(self.application, container, -100)
                case Gone():
                    self._gone(one)

    def _start_container(self, container, launcher):
        if self.disk.is_full:
            self._do(self.containers.start_failed(container, "no space left on device", self.world.now))
            return
        self.notes[launcher] = container
        process = LauncherProcess(self, self.application, container, launcher)
        cells = self.notes[launcher, "cells"]
        if self.world.yarn.begin(self.application, container, cells, self.arbiter.name, process.kill):
            process.start()
        else:
            self._do(self.containers.start_failed(container, "it is gone", self.world.now))

    def _gone(self, gone):
        """As `launches.last_words`: what the agent has not heard yet, then the end."""
        launcher = gone.launcher
        trial = self.intake.state.trials.get(launcher.trial) if self.intake.state is not None else None
        attempt = trial.attempt if trial is not None else None
        known = attempt.last_step if attempt is not None and attempt.epoch == launcher.epoch else None
        said = self.said.get(launcher, [])
        for event in said:
            is_news = isinstance(event, events.Reported) and (known is None or event.step > known)
            if is_news or isinstance(event, events.Checkpointed):
                self.post(event)
        ends = [event for event in said if isinstance(event, events.LauncherEnded)]
        self.post(ends[-1] if ends else events.LauncherEnded(launcher.trial, launcher.epoch, None, (), launcher.number))

    def _beat(self):
        self.later(BEAT_S, self._beat)
        yarn = self.world.yarn
        self._do(self.containers.due(self.world.now))
        if yarn.away or self.application not in yarn.apps:
            return
        allocated, completed = yarn.heartbeat(self.application)
        for container, number in allocated:
            self.known[container] = container
            self._do(self.containers.allocated(container, number))
        for container, status in completed:
            self.known.pop(container, None)
            self._do(self.containers.completed(container, status, ""))

    # The launchers.

    def take(self, launcher, batch, reply):
        """Events of a launcher, by their numbers; the answer says when to stop, once they are decided on."""
        if self.is_unwritable:
            return
        known = self.acknowledged_of.get(launcher, 0)
        new = [(number, event) for number, event in batch if number > known]
        if not new:
            reply(self._answer(launcher, known))
            return
        last = new[-1][0]

        def decided(decision):
            self.acknowledged = max(self.acknowledged, decision.seq)
            self.acknowledged_of[launcher] = max(self.acknowledged_of.get(launcher, 0), last)
            reply(self._answer(launcher, last))

        for number, event in new:
            self.post(event, decided if number == last else None)

    def _answer(self, launcher, acknowledged):
        """What has arrived, and in how many seconds to stop: None: not; -1: superseded."""
        state = self.intake.state
        trial = state.trials.get(launcher.trial) if state is not None else None
        attempt = trial.attempt if trial is not None else None
        if attempt is None or launcher.epoch < trial.epoch:
            return acknowledged, -1.0
        return acknowledged, None if attempt.stop_by is None else max(attempt.stop_by - self.intake.now(), 0.0)

    # The arbiter.

    def _follow(self):
        arbiter, position = self.arbiter, self.position
        draws = self.world.draws("network")

        def arrive():
            if self.world.network.reaches(self.name, arbiter.name) and arbiter.alive:
                broken = partial(self.later, draws.uniform(0.1, 1.0), self._follow)
                channel = arbiter.connect(self, self._hear, broken)
                arbiter.deliver(lambda: arbiter.follow(channel, self.registered_as, position, self._refused))
            else:
                self.later(1.0, self._follow)

        self.later(self.world.network.latency(), arrive)

    def _refused(self, reason="unknown"):
        if not self.is_leaving and not self.refusal:
            self.refusal = reason
            self.post(events.ArbiterRefused(reason))
        self.later(FOLLOW_AGAIN_S, self._follow)

    def _hear(self, data):
        fields = dict(line.split(": ", 1) for line in data.decode().strip().splitlines())
        self.position = fields.get("id", self.position)
        if fields["event"] == "end":
            self.position = None
            self._refused(fields["data"])
            return
        if self.refusal:
            self.refusal = ""
            self.post(events.ArbiterListens())
        message = messages.read(fields["event"], json.loads(fields["data"]))
        if message is None or self.is_leaving:
            return
        until = getattr(message, "answer_by", getattr(message, "bid_by", None))
        if until is not None:
            self.outbox.expect(message.id, self.world.now + max(until - self.wall(), MIN_ANSWER_S))
        for event in self.translation.translated(message):
            self.post(event)

    def _say_demand(self):
        demand = Demand((Resources.of({GPU: self.settings.trials * self.settings.max_gpus}),))
        again = partial(self.later, 1.0, self._say_demand)
        self._call("revise", (self.registered_as, demand), lambda answer: again() if answer is None else None, again)

    def _speak(self, failures=0):
        if self.is_sending:
            return
        command = self.outbox.next(self.world.now)
        if command is None:
            return
        self.is_sending = True

        def again():
            self.is_sending = False
            self.later(AGAIN_S[min(failures, len(AGAIN_S) - 1)], partial(self._speak, failures + 1))

        def answered(answer):
            if answer is None:
                again()
                return
            self.is_sending = False
            self.outbox.done(command)
            self._speak()

        self._call("say", (self.registered_as, _message(command)), answered, again)


def _message(command):
    match command:
        case SendEstimate(_, estimate):
            return estimate
        case SendBid(_, bid):
            return bid
        case ReleaseGpus(lease, cells):
            return ReleaseMessage(lease, cells)
