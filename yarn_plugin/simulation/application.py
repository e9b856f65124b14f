"""What an application in virtual time is: a package's own pure core, told what happens, asking for what it wants.

A package offers its kinds of applications under the entry-point group `yarn_plugin.simulated_applications`: a name,
and an object that satisfies `Kind`. An application keeps this contract:

1. It learns of time from what it is told, and of chance from its seed alone: no clock, no threads, no other state.
2. Told the same in the same order, it requests the same.
3. It requests `Finished` once, and nothing afterwards.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from typing import Any, Protocol

from pydantic import BaseModel

GROUP = "yarn_plugin.simulated_applications"


@dataclass(frozen=True, slots=True)
class Started:
    """YARN has given the application its master; from now on it may ask for containers."""


@dataclass(frozen=True, slots=True)
class ShareTold:
    """The arbiter's share, as containers of the application's size beside its master.

    `guaranteed`: what stays its own whatever others want. `entitled`: what it may hold from `effective_at` on.
    `seq`: the number of this telling, for `Vacated`. `shrinks`: there is a grace in which to let go, and YARN is
    steered earlier if the application says that it has.
    """

    seq: int
    guaranteed: int
    entitled: int
    effective_at: float
    shrinks: bool = False


@dataclass(frozen=True, slots=True)
class ContainersChanged:
    """It holds so many containers now. `lost`: so many of them went without its asking (signalled, or with a node)."""

    held: int
    lost: int = 0


@dataclass(frozen=True, slots=True)
class Woken:
    """The time asked for with `Wake` has come."""


@dataclass(frozen=True, slots=True)
class Sent:
    """The controller of its pool has sent it a message (see `yarn_plugin.decide.pools.commands`)."""

    message: object


Told = Started | ShareTold | ContainersChanged | Woken | Sent


@dataclass(frozen=True, slots=True)
class Hold:
    """Hold so many containers, beside the master: what is missing is asked of YARN, what is too much given back."""

    containers: int


@dataclass(frozen=True, slots=True)
class Wake:
    """Wake me at this time; replaces any earlier one."""

    at: float


@dataclass(frozen=True, slots=True)
class Vacated:
    """Tell the arbiter that no more is held than share number `seq` gives."""

    seq: int


@dataclass(frozen=True, slots=True)
class Say:
    """Say something to the controller of its pool."""

    message: object


@dataclass(frozen=True, slots=True)
class Finished:
    """The application has ended. `figures`: what it has to say of itself, by name."""

    figures: Mapping[str, float] = field(default_factory=dict)


Request = Hold | Wake | Vacated | Say | Finished


@dataclass(frozen=True, slots=True)
class Container:
    """The size of an application's containers: MiB of memory, vcores, GPUs."""

    memory_mb: int
    vcores: int
    gpus: int = 0


class Application(Protocol):
    """One application in virtual time."""

    @property
    def most(self) -> int | None:
        """The most containers that it can use; None: whatever it gets."""
        ...

    def alone(self, containers: int) -> float:
        """Seconds from its start to its end with so many containers all the time; slowdowns are relative to that."""
        ...

    def take(self, at: float, told: Told) -> Sequence[Request]:
        """Learn what happened at a time (seconds), and ask for what follows."""
        ...


class Kind(Protocol):
    """A kind of application. `parameters`: what a workload file may say of one, beside what all have."""

    parameters: type[BaseModel]

    def application(self, parameters: Any, container: Container, seed: str) -> Application:
        """An application with these parameters; whatever it draws at random follows from the seed."""
        ...


def kinds() -> Mapping[str, Kind]:
    """All kinds that installed packages offer, by name."""
    return {entry.name: entry.load() for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name)}
