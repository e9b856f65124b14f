"""`batch`: an application with a number of core seconds of work, in short tasks on the containers it holds."""

from collections.abc import Sequence
from typing import ClassVar

from pydantic import Field

from yarn_plugin.simulation.application import (
    Application,
    Container,
    ContainersChanged,
    Finished,
    MessageReceived,
    Notification,
    Request,
    SetContainers,
    ShareUpdated,
    Started,
    Vacated,
    WakeUpAt,
    WokenUp,
)
from yarn_plugin.toml_files import Section


class BatchParameters(Section):
    """`core_seconds`: the work. `max_cores`: the most cores it can use. `task_s`: seconds of a task, which is how long
    a container takes to drain; a killed container loses half of it on average. `respects_share`: it releases what
    exceeds its share."""

    RENAMED: ClassVar = {"obeys": "respects_share"}

    core_seconds: float = Field(gt=0, le=1e12)
    max_cores: int = Field(ge=1, le=1_000_000)
    task_s: float = Field(default=10.0, ge=0, le=3600)
    respects_share: bool = True


class BatchKind:
    """The kind of `batch` applications."""

    parameters = BatchParameters

    def application(self, parameters: BatchParameters, container: Container, seed: str) -> Application:
        """An application with these parameters; nothing in it is random."""
        return Batch(parameters, container)


class Batch:
    """A running batch application. When its share shrinks, it releases containers as their tasks end, within the grace
    period, and then confirms."""

    def __init__(self, parameters: BatchParameters, container: Container) -> None:
        self._parameters = parameters
        self._cores = max(container.vcores, 1)
        self._work_left = parameters.core_seconds
        self._held, self._since = 0, 0.0
        self._share: ShareUpdated | None = None
        self._started = False
        self._drained_at: float | None = None
        self._confirmed = -1
        self._killed = 0
        self._done = False

    @property
    def max_containers(self) -> int:
        """The most containers that the application can use."""
        return -(-self._parameters.max_cores // self._cores)

    def isolated_runtime(self, containers: int) -> float:
        """Seconds from start to end with `containers` containers throughout."""
        return self._parameters.core_seconds / self._rate(containers)

    def handle(self, at: float, notification: Notification) -> Sequence[Request]:
        """The requests that follow from a notification."""
        self._work_until(at)
        match notification:
            case Started():
                self._started = True
            case ShareUpdated():
                self._share = notification
                self._drained_at = None
            case ContainersChanged(held, lost):
                self._held = held
                self._killed += lost
                self._work_left += lost * self._cores * self._parameters.task_s / 2
            case WokenUp() | MessageReceived():
                pass
        if not self._started or self._done:
            return ()
        if self._work_left <= 1e-6:
            self._done = True
            return (Finished({"containers_lost": float(self._killed)}),)
        return self._requests(at)

    def _requests(self, at: float) -> list[Request]:
        target, requests = self._target(), list[Request]()
        if self._held > target:
            self._drained_at = self._drained_at or self._drain_by(at)
            if at >= self._drained_at - 1e-9:
                requests.append(SetContainers(target))
                self._held = target
        else:
            requests.append(SetContainers(target))
        if self._held <= target:
            requests += self._confirm()
        if wake := [due for due in (self._ends_at(at), self._drained_at) if due is not None and due > at]:
            requests.append(WakeUpAt(min(wake)))
        return requests

    def _target(self) -> int:
        if self._share is None or not self._parameters.respects_share:
            return self.max_containers
        return min(self.max_containers, self._share.entitled)

    def _drain_by(self, at: float) -> float:
        """When the tasks of the surplus containers have ended, at the latest when the grace period ends."""
        assert self._share is not None
        return at + min(self._parameters.task_s, max(self._share.effective_at - at, 0.0))

    def _confirm(self) -> list[Request]:
        share = self._share
        # A share that takes effect at once takes nothing away, so there is nothing to confirm.
        if share is None or not self._parameters.respects_share or self._confirmed == share.seq or not share.shrinks:
            return []
        self._confirmed = share.seq
        self._drained_at = None
        return [Vacated(share.seq)]

    def _rate(self, containers: int) -> float:
        """Cores in use."""
        return max(min(containers * self._cores, self._parameters.max_cores), 1e-9)

    def _work_until(self, at: float) -> None:
        if self._held and not self._done:
            self._work_left = max(self._work_left - (at - self._since) * self._rate(self._held), 0.0)
        self._since = at

    def _ends_at(self, at: float) -> float | None:
        return at + self._work_left / self._rate(self._held) if self._held else None


KIND = BatchKind()
