"""Which containers a search wants, and which it has: a state machine without I/O.

A launcher waits for its container, runs in it, and is gone when the container is:

    want --Request--> allocated --Start--> completed: Gone
      |                   |
      |  no container in time, or given up: Cancel, Gone; one that comes nevertheless: Release
      `  the node has refused a start lately: the request waits
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

CONTAINER_WITHIN_S = 60.0
"""How long YARN may take to allocate a container on a node whose GPUs are leased."""

STOP_AGAIN_S = 5.0
"""A node that was to stop a container is told again after so long."""

MAX_HOLD_OFF_S = 60.0
"""A node that refuses to start containers is not asked for new ones for 1, 2, 4, ... and at most so many seconds."""


@dataclass(frozen=True, slots=True)
class Launcher:
    """A launcher of a trial: `number` within its gang."""

    trial: str
    epoch: int
    number: int = 0


@dataclass(frozen=True, slots=True)
class Request:
    """Ask YARN for a container with so many GPUs (0: for a slot of cores), on this host alone."""

    number: int
    host: str
    gpus: int


@dataclass(frozen=True, slots=True)
class Cancel:
    """Withdraw a request."""

    number: int


@dataclass(frozen=True, slots=True)
class Start:
    """Start a launcher in a container."""

    container: str
    launcher: Launcher


@dataclass(frozen=True, slots=True)
class Stop:
    """Have its node end the processes of a container."""

    container: str


@dataclass(frozen=True, slots=True)
class Release:
    """Give a container back that was never started."""

    container: str


@dataclass(frozen=True, slots=True)
class Gone:
    """A launcher does not run, and will not. `exit_status`: of its container, by YARN; None: it had none."""

    launcher: Launcher
    exit_status: int | None = None
    diagnostics: str = ""


Instruction = Request | Cancel | Start | Stop | Release | Gone


@dataclass(frozen=True, slots=True)
class _Wanted:
    launcher: Launcher
    host: str
    gpus: int
    until: float


class Containers:
    """See the module. Each method says what is to be done; `now`: seconds on one clock."""

    def __init__(self) -> None:
        self._number = 0
        self._waiting: list[_Wanted] = []
        self._requested: dict[int, _Wanted] = {}
        self._running: dict[str, Launcher] = {}
        self._hosts: dict[str, str] = {}
        self._stopping: dict[str, float] = {}
        self._refusals: dict[str, int] = {}
        self._held_off: dict[str, float] = {}

    @property
    def is_idle(self) -> bool:
        """Whether nothing is wanted and nothing runs."""
        return not (self._waiting or self._requested or self._running)

    @property
    def running(self) -> Mapping[str, Launcher]:
        """The launchers that run, by container."""
        return self._running

    def adopt(self, launchers: Mapping[Launcher, str | None], alive: Iterable[str]) -> list[Instruction]:
        """Take over from an earlier attempt of the application master. `launchers`: that are not known to be gone, with
        their containers; `alive`: the containers that YARN handed over.
        """
        by_container = {container: launcher for launcher, container in launchers.items() if container is not None}
        done: list[Instruction] = []
        for container in alive:
            if container in by_container:
                self._running[container] = by_container[container]
            else:
                done.append(Stop(container))
        adopted = set(self._running.values())
        return [*done, *(Gone(launcher) for launcher in launchers if launcher not in adopted)]

    def want(self, launcher: Launcher, host: str, gpus: int, now: float) -> list[Instruction]:
        """A launcher is to run on this host."""
        self._waiting.append(_Wanted(launcher, host, gpus, now + CONTAINER_WITHIN_S))
        return self._requests(now)

    def give_up(self, trial: str, epoch: int) -> list[Instruction]:
        """Launchers of this attempt that do not run yet are not to start."""
        return self._withdrawn(lambda one: (one.launcher.trial, one.launcher.epoch) == (trial, epoch), "")

    def kill(self, trial: str, epoch: int, now: float) -> list[Instruction]:
        """No launcher of this attempt is to run any more."""
        stops = [container for container, one in self._running.items() if (one.trial, one.epoch) == (trial, epoch)]
        self._stopping |= dict.fromkeys(stops, now + STOP_AGAIN_S)
        return [*self.give_up(trial, epoch), *map(Stop, stops)]

    def allocated(self, container: str, request: int) -> list[Instruction]:
        """YARN has allocated a container for a request."""
        wanted = self._requested.pop(request, None)
        if wanted is None:
            return [Release(container)]
        self._running[container] = wanted.launcher
        self._hosts[container] = wanted.host
        return [Start(container, wanted.launcher)]

    def start_failed(self, container: str, problem: str, now: float) -> list[Instruction]:
        """A node did not start a container."""
        launcher = self._running.pop(container)
        host = self._hosts.pop(container)
        self._refusals[host] = self._refusals.get(host, 0) + 1
        self._held_off[host] = now + min(2.0 ** (self._refusals[host] - 1), MAX_HOLD_OFF_S)
        return [Release(container), Gone(launcher, None, problem)]

    def completed(self, container: str, exit_status: int, diagnostics: str) -> list[Instruction]:
        """The processes of a container are gone."""
        launcher = self._running.pop(container, None)
        self._stopping.pop(container, None)
        self._refusals.pop(self._hosts.pop(container, ""), None)
        return [Gone(launcher, exit_status, diagnostics)] if launcher is not None else []

    def due(self, now: float) -> list[Instruction]:
        """What follows from the time alone; call it regularly."""
        late = self._withdrawn(
            lambda one: one.until <= now, f"YARN allocated no container within {CONTAINER_WITHIN_S:g} s"
        )
        again = [container for container, at in self._stopping.items() if at <= now]
        self._stopping |= dict.fromkeys(again, now + STOP_AGAIN_S)
        return [*late, *map(Stop, again), *self._requests(now)]

    def _requests(self, now: float) -> list[Instruction]:
        ready = [one for one in self._waiting if self._held_off.get(one.host, now) <= now]
        self._waiting = [one for one in self._waiting if one not in ready]
        done: list[Instruction] = []
        for one in ready:
            self._number += 1
            self._requested[self._number] = one
            done.append(Request(self._number, one.host, one.gpus))
        return done

    def _withdrawn(self, is_over: Callable[[_Wanted], bool], why: str) -> list[Instruction]:
        cancelled = [number for number, one in self._requested.items() if is_over(one)]
        gone = [one for one in self._waiting if is_over(one)] + [self._requested.pop(number) for number in cancelled]
        self._waiting = [one for one in self._waiting if not is_over(one)]
        return [*map(Cancel, cancelled), *(Gone(one.launcher, None, why) for one in gone)]
