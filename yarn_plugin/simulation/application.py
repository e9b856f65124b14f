"""The interface of applications in virtual time: a package's own pure core, driven by notifications.

A package offers its kinds of applications under the entry-point group `yarn_plugin.simulated_applications`: a name,
and an object that satisfies `ApplicationKind`. An application keeps this contract:

1. Time comes from notifications and randomness from the seed: no clock, no threads, no other state.
2. The same notifications in the same order give the same requests.
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
    """The application master runs; from now on the application may request containers."""


@dataclass(frozen=True, slots=True)
class ShareUpdated:
    """The share sent by the arbiter, in containers of the application's size in addition to its master.

    `guaranteed`: containers that are its own whatever others demand. `entitled`: containers it may hold from
    `effective_at` on. `seq`: the number of this share, for `Vacated`. `shrinks`: there is a grace period in which to
    release containers, and queue weights are written earlier if the application confirms with `Vacated`.
    """

    seq: int
    guaranteed: int
    entitled: int
    effective_at: float
    shrinks: bool = False


@dataclass(frozen=True, slots=True)
class ContainersChanged:
    """The application now holds `held` containers; `lost` were taken from it (signalled, or with a lost node)."""

    held: int
    lost: int = 0


@dataclass(frozen=True, slots=True)
class WokenUp:
    """The time requested with `WakeUpAt` has come."""


@dataclass(frozen=True, slots=True)
class MessageReceived:
    """The controller of the application's pool has sent it a message (see `yarn_plugin.decide.pools.commands`)."""

    message: object


Notification = Started | ShareUpdated | ContainersChanged | WokenUp | MessageReceived


@dataclass(frozen=True, slots=True)
class SetContainers:
    """Set the number of containers to hold besides the master: request missing ones from YARN, release surplus ones."""

    containers: int


@dataclass(frozen=True, slots=True)
class WakeUpAt:
    """Send `WokenUp` at this time; replaces any earlier request."""

    at: float


@dataclass(frozen=True, slots=True)
class Vacated:
    """Confirm to the arbiter that the application holds no more than share number `seq` allows."""

    seq: int


@dataclass(frozen=True, slots=True)
class SendMessage:
    """Send a message to the controller of the application's pool."""

    message: object


@dataclass(frozen=True, slots=True)
class Finished:
    """The application has ended. `figures`: its own metrics, by name."""

    figures: Mapping[str, float] = field(default_factory=dict)


Request = SetContainers | WakeUpAt | Vacated | SendMessage | Finished


@dataclass(frozen=True, slots=True)
class Container:
    """The size of an application's containers: MiB of memory, vcores, GPUs."""

    memory_mb: int
    vcores: int
    gpus: int = 0


class Application(Protocol):
    """One application in virtual time."""

    @property
    def max_containers(self) -> int | None:
        """The most containers that the application can use; None if unlimited."""
        ...

    def isolated_runtime(self, containers: int) -> float:
        """Seconds from start to end with `containers` containers throughout; slowdowns are relative to it."""
        ...

    def handle(self, at: float, notification: Notification) -> Sequence[Request]:
        """The requests that follow from a notification at a time (seconds)."""
        ...


class ApplicationKind(Protocol):
    """A kind of application. `parameters`: its own fields in a workload file, in addition to the common ones."""

    parameters: type[BaseModel]

    def application(self, parameters: Any, container: Container, seed: str) -> Application:
        """An application with these parameters; all its random draws follow from the seed."""
        ...


def installed_kinds() -> Mapping[str, ApplicationKind]:
    """All kinds offered by installed packages, by name."""
    return {entry.name: entry.load() for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name)}
