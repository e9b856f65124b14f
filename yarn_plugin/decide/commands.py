"""What the arbiter wants done. A command may fail or be lost: its outcome comes back as an event."""

from dataclasses import dataclass
from typing import Annotated

from yarn_plugin.model.causes import Causes, Ending, LegacyText, OverShare, Preempted, UseAsked
from yarn_plugin.model.journaled import Tagged
from yarn_plugin.model.share import Registration, Share


@dataclass(frozen=True, slots=True)
class Admit:
    """An application is registered: this is its identity and its queue."""

    registration: Registration


@dataclass(frozen=True, slots=True)
class Dismiss:
    """An application is no longer followed."""

    app: str
    cause: Ending


@dataclass(frozen=True, slots=True)
class TellShare:
    """Tell an application its share."""

    app: str
    share: Share


@dataclass(frozen=True, slots=True)
class WriteWeights:
    """Give queues these weights, and take back the weights of queues that are no longer used."""

    weights: tuple[tuple[str, float], ...]
    forget: tuple[str, ...]
    cause: Causes | LegacyText


@dataclass(frozen=True, slots=True)
class ReadLeaves:
    """Read what the scheduler's configuration has for the queues directly below these (answer: LeavesSeen)."""

    parents: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ListContainers:
    """Ask for the containers of an application: it overstays its share, or its pool's controller reads its use."""

    app: str
    yarn_app: str
    cause: OverShare | UseAsked | LegacyText


@dataclass(frozen=True, slots=True)
class SignalContainers:
    """End these containers."""

    app: str
    containers: tuple[str, ...]
    cause: Preempted | LegacyText


@dataclass(frozen=True, slots=True)
class SetTimer:
    """Fire at this time (epoch seconds); replaces any earlier timer."""

    at: float


@dataclass(frozen=True, slots=True)
class SolveInWorker:
    """Have a problem of a pool's controller solved (answer: Solved); the same `id` again is the same problem."""

    pool: str
    id: str
    problem: Annotated[object, Tagged()]


@dataclass(frozen=True, slots=True)
class SendToApp:
    """Tell an application, on its stream, what the controller of its pool has for it: one of `pools.commands.ToApp`."""

    pool: str
    app: str
    message: Annotated[object, Tagged()]


@dataclass(frozen=True, slots=True)
class PoolStopped:
    """A pool's controller has raised, and is called again at `retry_at`; its pool stays as it was until then."""

    pool: str
    error: str
    retry_at: float


@dataclass(frozen=True, slots=True)
class PoolResumed:
    """A pool's controller decides again."""

    pool: str


Command = (
    Admit
    | Dismiss
    | TellShare
    | WriteWeights
    | ReadLeaves
    | ListContainers
    | SignalContainers
    | SetTimer
    | SolveInWorker
    | SendToApp
    | PoolStopped
    | PoolResumed
)

TAGS: dict[str, type] = {
    "Admit": Admit,
    "Dismiss": Dismiss,
    "TellShare": TellShare,
    "WriteWeights": WriteWeights,
    "ReadLeaves": ReadLeaves,
    "ListContainers": ListContainers,
    "SignalContainers": SignalContainers,
    "SetTimer": SetTimer,
    "SolveInWorker": SolveInWorker,
    "SendToApp": SendToApp,
    "PoolStopped": PoolStopped,
    "PoolResumed": PoolResumed,
}
"""Their tags in journals, which stay what they are whatever a class is called."""
