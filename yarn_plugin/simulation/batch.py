"""`batch`: an application with so many core seconds of work, in short tasks on whatever containers it holds."""

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, Field

from yarn_plugin.simulation.application import (
    Application,
    Container,
    ContainersChanged,
    Finished,
    Hold,
    Request,
    Sent,
    ShareTold,
    Started,
    Told,
    Vacated,
    Wake,
    Woken,
)


class BatchParameters(BaseModel):
    """`core_seconds`: the work. `max_cores`: the most cores it can use. `task_s`: seconds of one task: how long a
    container takes to drain, and twice what a killed one loses on average. `obeys`: it keeps to its share."""

    model_config = ConfigDict(extra="forbid")

    core_seconds: float = Field(gt=0, le=1e12)
    max_cores: int = Field(ge=1, le=1_000_000)
    task_s: float = Field(default=10.0, ge=0, le=3600)
    obeys: bool = True


class BatchKind:
    """Makes `batch` applications."""

    parameters = BatchParameters

    def application(self, parameters: BatchParameters, container: Container, seed: str) -> Application:
        """An application with these parameters; it draws nothing at random."""
        return Batch(parameters, container)


class Batch:
    """A batch application on its way. A share that shrinks is left as tasks end, within the grace; then it says so."""

    def __init__(self, parameters: BatchParameters, container: Container) -> None:
        self._parameters = parameters
        self._cores = max(container.vcores, 1)
        self._left = parameters.core_seconds
        self._held, self._since = 0, 0.0
        self._share: ShareTold | None = None
        self._started = False
        self._drained_at: float | None = None
        self._confirmed = -1
        self._killed = 0
        self._done = False

    @property
    def most(self) -> int:
        """The most containers that it can use."""
        return -(-self._parameters.max_cores // self._cores)

    def alone(self, containers: int) -> float:
        """Seconds with so many containers."""
        return self._parameters.core_seconds / self._rate(containers)

    def take(self, at: float, told: Told) -> Sequence[Request]:
        """Learn what happened, and ask for what follows."""
        self._work_until(at)
        match told:
            case Started():
                self._started = True
            case ShareTold():
                self._share = told
                self._drained_at = None
            case ContainersChanged(held, lost):
                self._held = held
                self._killed += lost
                self._left += lost * self._cores * self._parameters.task_s / 2
            case Woken() | Sent():
                pass
        if not self._started or self._done:
            return ()
        if self._left <= 1e-6:
            self._done = True
            return (Finished({"containers_lost": float(self._killed)}),)
        return self._requests(at)

    def _requests(self, at: float) -> list[Request]:
        wanted, requests = self._wanted(), list[Request]()
        if self._held > wanted:
            self._drained_at = self._drained_at or self._drain_by(at)
            if at >= self._drained_at - 1e-9:
                requests.append(Hold(wanted))
                self._held = wanted
        else:
            requests.append(Hold(wanted))
        if self._held <= wanted:
            requests += self._confirm()
        if wake := [due for due in (self._ends_at(at), self._drained_at) if due is not None and due > at]:
            requests.append(Wake(min(wake)))
        return requests

    def _wanted(self) -> int:
        if self._share is None or not self._parameters.obeys:
            return self.most
        return min(self.most, self._share.entitled)

    def _drain_by(self, at: float) -> float:
        """When the surplus containers have ended their tasks: in time for the end of the grace."""
        assert self._share is not None
        return at + min(self._parameters.task_s, max(self._share.effective_at - at, 0.0))

    def _confirm(self) -> list[Request]:
        share = self._share
        # A share that binds at once takes nothing away, so there is nothing to say of it.
        if share is None or not self._parameters.obeys or self._confirmed == share.seq or not share.shrinks:
            return []
        self._confirmed = share.seq
        self._drained_at = None
        return [Vacated(share.seq)]

    def _rate(self, containers: int) -> float:
        """Cores at work."""
        return max(min(containers * self._cores, self._parameters.max_cores), 1e-9)

    def _work_until(self, at: float) -> None:
        if self._held and not self._done:
            self._left = max(self._left - (at - self._since) * self._rate(self._held), 0.0)
        self._since = at

    def _ends_at(self, at: float) -> float | None:
        return at + self._left / self._rate(self._held) if self._held else None


KIND = BatchKind()
