"""The thread that speaks with YARN: carries out what the agent commands, and says what became of it, as events."""

import logging
import queue
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from py4j.protocol import Py4JJavaError

from themis_agent.agent.cell_names import gpu_of, job_of
from themis_agent.agent.commands import KillTrial, StartTrial, StopTrial
from themis_agent.agent.events import Event, LauncherEnded
from themis_agent.agent.state import State
from themis_agent.errors import SHORTAGE_S, is_shortage
from themis_agent.trial.wire import HOST, LAUNCHER, HostAnswer, HostReport
from themis_agent.yarn.application_master import ApplicationMaster, Container, command_line
from themis_agent.yarn.containers import (
    Cancel,
    Containers,
    Gone,
    Instruction,
    Launcher,
    Release,
    Request,
    Start,
    Stop,
)
from themis_agent.yarn.hosting import Hosting
from themis_agent.yarn.launches import Launches
from themis_agent.yarn.submission import Submission
from yarn_plugin.errors import os_reason

log = logging.getLogger("themis_agent")

BEAT_S, IDLE_BEAT_S = 0.25, 1.0
"""Between heartbeats to the ResourceManager: while there are launchers, and otherwise."""


@dataclass(frozen=True, slots=True)
class HostSaid:
    """The launchers of the host in a container that have ended, by their launch files, with their exit codes."""

    container: str
    codes: Mapping[str, int]


Command = StartTrial | StopTrial | KillTrial | HostSaid


class Driver:
    """See the module. After `start`, only its thread uses `master`.

    Args:
        master: registered with the ResourceManager.
        previous: containers of earlier attempts.
        submission: of the search.
        launches: of the search.
        put: takes events.
        state: what the agent knows now.
        check: raises when a later attempt runs.
    """

    def __init__(
        self,
        master: ApplicationMaster,
        previous: Iterable[Container],
        submission: Submission,
        launches: Launches,
        put: Callable[[Event], object],
        state: Callable[[], State | None],
        check: Callable[[], None],
    ) -> None:
        self._master, self._submission, self._launches = master, submission, launches
        self._put, self._state, self._check = put, state, check
        self._containers, self._hosting = Containers(), Hosting()
        self._known = {one.id: one for one in previous}
        self._commands: queue.SimpleQueue[Command] = queue.SimpleQueue()
        self._over = threading.Event()
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="yarn", daemon=True)
        self.progress = 0.0

    def adopt(self, launchers: dict[Launcher, str | None], shared: Mapping[Launcher, str]) -> None:
        """Take over launchers, before `start`; those that are gone end with an event. `shared`: the GPUs of those that
        share them."""
        alone = {one: container for one, container in launchers.items() if one not in shared}
        hosted = {one: (shared[one], container) for one, container in launchers.items() if one in shared}
        self._follow(self._containers.adopt({**alone, **self._hosting.adopt(hosted)}, list(self._known)))

    def hosted(self, container: str, report: HostReport) -> HostAnswer:
        """Take what the host in a container says, and say what it is to run; for any thread."""
        if report.ended:
            self._commands.put(HostSaid(container, report.ended))
        found = self._hosting.hosted(container)
        if found is None:
            return HostAnswer()
        return HostAnswer(run=list(map(self._launches.place_of_spec, found.launchers)), end=found.is_ending)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def carry_out(self, command: Command) -> None:
        """Carry out a command soon; for any thread."""
        self._commands.put(command)

    def check(self) -> None:
        """Raise what has ended the thread, if something has."""
        if self._failure is not None:
            raise self._failure

    def finish(self, succeeded: bool | None, message: str) -> None:
        """End the application; `succeeded`: None if it was suspended."""
        self._over.set()
        self._thread.join()
        self.check()
        self._master.finish(succeeded, message)

    def _run(self) -> None:
        try:
            next_beat = 0.0
            while not self._over.is_set():
                self._take_commands(next_beat - time.monotonic())
                now = time.monotonic()
                self._follow(self._containers.due(now))
                self._hosting.due(now)
                if now >= next_beat:
                    next_beat = now + (IDLE_BEAT_S if self._containers.is_idle else BEAT_S)
                    self._beat()
        except Exception as problem:  # noqa: BLE001 - without this thread nothing runs: `check` ends the agent
            self._failure = problem

    def _take_commands(self, wait_s: float) -> None:
        try:
            command = self._commands.get(timeout=max(wait_s, 0.0))
        except queue.Empty:
            return
        self._check()
        match command:
            case StartTrial():
                self._begin(command)
            case StopTrial():
                self._follow(self._containers.give_up(command.trial, command.epoch))
                self._follow(self._hosting.give_up(command.trial, command.epoch))
            case KillTrial():
                self._follow(self._containers.kill(command.trial, command.epoch, time.monotonic()))
                self._follow(self._hosting.kill(command.trial, command.epoch))
            case HostSaid(container, codes):
                places = {self._launches.place_of_spec(one): one for one in self._hosting.launchers_in(container)}
                ended = {places[place]: code for place, code in codes.items() if place in places}
                self._follow(self._hosting.ended(container, ended))

    def _begin(self, command: StartTrial) -> None:
        try:
            prepared = self._launches.prepare(command)
        except OSError as problem:
            self._not_prepared(command, problem)
            return
        for (launcher, host, gpus), place in zip(prepared, command.places, strict=True):
            if any(map(job_of, place.cells)):
                self._begin_hosted(launcher, host, gpu_of(place.cells[0]))
            else:
                self._follow(self._containers.want(launcher, host, gpus, time.monotonic()))

    def _begin_hosted(self, launcher: Launcher, node: str, gpu: str) -> None:
        host, container, is_new = self._hosting.want(launcher, gpu)
        if is_new:
            self._follow(self._containers.want(host, node, 1, time.monotonic()))
        elif container is not None:
            try:
                self._launches.note(launcher, container)
            except OSError as problem:
                # A later attempt would start it again: its epoch ends this one.
                log.warning("%s epoch %d: not noted: %s", launcher.trial, launcher.epoch, os_reason(problem))

    def _not_prepared(self, command: StartTrial, problem: OSError) -> None:
        lines = (f"the launch file could not be written: {os_reason(problem)}",)
        log.warning("%s epoch %d: %s", command.trial, command.epoch, lines[0])
        # Without room the command has no part in it. It is started again, but not at once.
        code, wait_s = (None, SHORTAGE_S) if is_shortage(problem) else (1, 0.0)
        for number in range(len(command.places)):
            ended = LauncherEnded(command.trial, command.epoch, code, lines, number)
            timer = threading.Timer(wait_s, self._put, (ended,))
            timer.daemon = True
            timer.start()

    def _beat(self) -> None:
        beat = self._master.heartbeat(self.progress)
        for container in beat.allocated:
            self._known[container.id] = container
            self._follow(self._containers.allocated(container.id, container.request))
        for ended in beat.completed:
            self._known.pop(ended.id, None)
            self._follow(self._containers.completed(ended.id, ended.exit_status, ended.diagnostics))

    def _follow(self, instructions: Iterable[Instruction]) -> None:
        for instruction in instructions:
            match instruction:
                case Request(number, host, gpus):
                    self._master.request(number, self._launches.size(gpus), host)
                case Cancel(number):
                    self._master.cancel(number)
                case Start(container, launcher):
                    self._start(self._known[container], launcher)
                case Stop(container):
                    self._stop(self._known.get(container))
                case Release(container):
                    self._master.release(self._known.pop(container))
                case Gone():
                    self._end(instruction)

    def _start(self, container: Container, launcher: Launcher) -> None:
        submission = self._submission
        try:
            self._check()
            if self._hosting.is_host(launcher):
                file = self._launches.prepare_host(container.id, self._hosting.gpu(launcher))
                words = submission.words(HOST, file)
                for one in self._hosting.launchers(launcher):
                    self._launches.note(one, container.id)
                self._hosting.started(launcher, container.id)
            else:
                words = submission.words(LAUNCHER, self._launches.place_of_spec(launcher))
                self._launches.note(launcher, container.id)
            self._master.start(container, command_line(*words), self._environment(), submission.resources)
            log.info("%s epoch %d: %s on %s", launcher.trial, launcher.epoch, container.id, container.host)
        except (Py4JJavaError, OSError) as problem:
            reason = said_by_java(problem) if isinstance(problem, Py4JJavaError) else os_reason(problem)
            log.warning("%s on %s was not started: %s", container.id, container.host, reason)
            self._follow(self._containers.start_failed(container.id, reason, time.monotonic()))

    def _stop(self, container: Container | None) -> None:
        if container is None:
            return
        try:
            self._check()
            self._master.stop(container)
        except Py4JJavaError as problem:
            log.warning("%s on %s was not stopped: %s", container.id, container.host, said_by_java(problem))

    def _end(self, gone: Gone) -> None:
        if self._hosting.is_host(gone.launcher):
            self._follow(self._hosting.gone(gone))
            return
        launcher = gone.launcher
        how = f"exit status {gone.exit_status}" if gone.exit_status is not None else gone.diagnostics or "not found"
        number, said = launcher.number, on_one_line(how)
        log.info("%s epoch %d: launcher %d is gone: %s", launcher.trial, launcher.epoch, number, said)
        for event in self._launches.last_words(gone, self._state()):
            self._put(event)

    def _environment(self) -> dict[str, str]:
        image = self._submission.image
        docker = {"YARN_CONTAINER_RUNTIME_TYPE": "docker", "YARN_CONTAINER_RUNTIME_DOCKER_IMAGE": image or ""}
        return {**self._submission.environment, **(docker if image else {})}


def said_by_java(problem: Py4JJavaError) -> str:
    """The message of an exception in Java, on one line."""
    return on_one_line(str(problem.java_exception.getMessage() or problem.java_exception))


def on_one_line(text: str) -> str:
    """At most 500 characters of a text, on one line."""
    return " ".join(text.split())[:500]
