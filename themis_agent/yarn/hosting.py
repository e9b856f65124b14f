"""Which launchers run in which hosting container: a state machine without I/O.

Trials that share a GPU run in one container: YARN gives a GPU to one. A host in it (`themis_agent.trial.host`) starts
their launchers, and ends when it has had none for a while. To `Containers` a host is a launcher like others, of the
trial `gpu`; its number is its own.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from themis_agent.yarn.containers import Gone, Launcher

IDLE_S = 2.0
"""After which a host without launchers ends: a trial that has just ended may make room for another one."""

_TRIAL = "gpu"


@dataclass(slots=True)
class _Host:
    gpu: str
    container: str | None = None
    # Immutable: another thread reads it.
    launchers: tuple[Launcher, ...] = ()
    killed: set[Launcher] = field(default_factory=set)
    idle_since: float | None = None
    is_ending: bool = False


@dataclass(frozen=True, slots=True)
class Hosted:
    """What a host is to run, and whether it is to end."""

    launchers: tuple[Launcher, ...] = ()
    is_ending: bool = False


class Hosting:
    """See the module. `now`: seconds on one clock."""

    def __init__(self) -> None:
        self._number = 0
        self._hosts: dict[Launcher, _Host] = {}

    @staticmethod
    def is_host(launcher: Launcher) -> bool:
        """Whether a container was requested for a host."""
        return launcher.trial == _TRIAL

    def gpu(self, host: Launcher) -> str:
        """The GPU of a host."""
        return self._hosts[host].gpu

    def launchers(self, host: Launcher) -> tuple[Launcher, ...]:
        """The launchers of a host."""
        return self._hosts[host].launchers

    def want(self, launcher: Launcher, gpu: str) -> tuple[Launcher, str | None, bool]:
        """A launcher is to run on a part of a GPU. Returns its host, the container of that, if it has one yet, and
        whether the host is new: then it needs one."""
        for name, host in self._hosts.items():
            if host.gpu == gpu and not host.is_ending:
                host.launchers += (launcher,)
                host.idle_since = None
                return name, host.container, False
        return self._new(gpu, (launcher,)), None, True

    def adopt(self, launchers: Mapping[Launcher, tuple[str, str | None]]) -> dict[Launcher, str | None]:
        """Take over from an earlier attempt. `launchers`: their GPUs and containers. Returns those of the hosts."""
        found: dict[tuple[str, str | None], tuple[Launcher, ...]] = {}
        for launcher, place in launchers.items():
            found[place] = (*found.get(place, ()), launcher)
        hosts = {}
        for (gpu, container), some in found.items():
            hosts[self._new(gpu, some, container)] = container
        return hosts

    def launchers_in(self, container: str) -> tuple[Launcher, ...]:
        """The launchers of the host in a container."""
        host = self._in(container)
        return host.launchers if host is not None else ()

    def started(self, host: Launcher, container: str) -> None:
        """A host has its container."""
        self._hosts[host].container = container

    def give_up(self, trial: str, epoch: int) -> list[Gone]:
        """Launchers of this attempt whose hosts do not run yet are not to start."""
        gone: list[Gone] = []
        for host in self._hosts.values():
            if host.container is None:
                given_up = _of(host.launchers, trial, epoch)
                host.launchers = tuple(one for one in host.launchers if one not in given_up)
                gone += map(Gone, given_up)
        return gone

    def kill(self, trial: str, epoch: int) -> list[Gone]:
        """Launchers of this attempt are to run no more: their hosts end them."""
        for host in self._hosts.values():
            host.killed.update(_of(host.launchers, trial, epoch))
        return self.give_up(trial, epoch)

    def ended(self, container: str, codes: Mapping[Launcher, int]) -> list[Gone]:
        """What the host in a container says: its launchers that have ended, with their exit codes."""
        host = self._in(container)
        if host is None:
            return []
        gone = [one for one in host.launchers if one in codes]
        host.launchers = tuple(one for one in host.launchers if one not in codes)
        return [Gone(one, codes[one]) for one in gone]

    def gone(self, host: Gone) -> list[Gone]:
        """A host is gone, and its launchers with it."""
        return [Gone(one, host.exit_status, host.diagnostics) for one in self._hosts.pop(host.launcher).launchers]

    def due(self, now: float) -> None:
        """What follows from the time alone; call it regularly."""
        for host in self._hosts.values():
            if host.launchers:
                host.idle_since = None
            elif host.idle_since is None:
                host.idle_since = now
            elif now >= host.idle_since + IDLE_S:
                host.is_ending = True

    def hosted(self, container: str) -> Hosted | None:
        """What the host in a container is to run; None: it is not known here, or not yet."""
        host = self._in(container)
        if host is None:
            return None
        return Hosted(tuple(one for one in host.launchers if one not in host.killed), host.is_ending)

    def _new(self, gpu: str, launchers: tuple[Launcher, ...], container: str | None = None) -> Launcher:
        self._number += 1
        name = Launcher(_TRIAL, 1, self._number)
        self._hosts[name] = _Host(gpu, container, launchers)
        return name

    def _in(self, container: str) -> _Host | None:
        return next((host for host in list(self._hosts.values()) if host.container == container), None)


def _of(launchers: Iterable[Launcher], trial: str, epoch: int) -> list[Launcher]:
    return [one for one in launchers if (one.trial, one.epoch) == (trial, epoch)]
