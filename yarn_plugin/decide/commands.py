"""The arbiter's commands. A command may fail or be lost; its outcome comes back as an event."""

from dataclasses import dataclass
from typing import Annotated

from yarn_plugin.model.causes import (
    BeyondLease,
    Causes,
    Ending,
    LeaseRound,
    LegacyText,
    OverShare,
    Preempted,
    UseAsked,
)
from yarn_plugin.model.journaled import Tagged
from yarn_plugin.model.share import Registration, Share


@dataclass(frozen=True, slots=True)
class Admit:
    """Admit a registered application, with its id and its queue."""

    registration: Registration


@dataclass(frozen=True, slots=True)
class Dismiss:
    """Unregister an application."""

    app: str
    cause: Ending


@dataclass(frozen=True, slots=True)
class TellShare:
    """Notify an application of its share."""

    app: str
    share: Share


@dataclass(frozen=True, slots=True)
class WriteWeights:
    """Set queue weights, and remove those of queues that are no longer used."""

    weights: tuple[tuple[str, float], ...]
    forget: tuple[str, ...]
    cause: Causes | LegacyText


@dataclass(frozen=True, slots=True)
class ReadLeaves:
    """Read the scheduler's configuration of the queues directly below these (outcome: LeavesSeen)."""

    parents: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ListContainers:
    """List the containers of an application that is over its share, or whose use its pool's controller reads."""

    app: str
    yarn_app: str
    cause: OverShare | UseAsked | BeyondLease | LegacyText


@dataclass(frozen=True, slots=True)
class SignalContainers:
    """Preempt these containers."""

    app: str
    containers: tuple[str, ...]
    cause: Preempted | BeyondLease | LegacyText


@dataclass(frozen=True, slots=True)
class SetTimer:
    """Set the timer to this time (epoch seconds); replaces an earlier one."""

    at: float


@dataclass(frozen=True, slots=True)
class SolveInWorker:
    """Solve a problem of a pool's controller in the worker (outcome: Solved). Idempotent by `id`."""

    pool: str
    id: str
    problem: Annotated[object, Tagged()]


@dataclass(frozen=True, slots=True)
class SendToApp:
    """Send an application a message of its pool's controller, on its stream: one of `pools.commands.ToApp`."""

    pool: str
    app: str
    message: Annotated[object, Tagged()]


@dataclass(frozen=True, slots=True)
class PoolStopped:
    """A pool's controller failed. Its pool stays unchanged until the retry at `retry_at`."""

    pool: str
    error: str
    retry_at: float


@dataclass(frozen=True, slots=True)
class PoolResumed:
    """A pool's controller works again."""

    pool: str


@dataclass(frozen=True, slots=True)
class RecordRound:
    """Record how a pool's controller leased GPUs in a round. Nothing is to be carried out."""

    pool: str
    cause: LeaseRound


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
    | RecordRound
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
    "RecordRound": RecordRound,
}
"""Their tags in journals, which never change, even if a class is renamed."""
