"""What the arbiter wants done. A command may fail or be lost: its outcome comes back as an event."""

from dataclasses import dataclass

from yarn_plugin.model.share import Registration, Share


@dataclass(frozen=True, slots=True)
class Admit:
    """An application is registered: this is its identity and its queue."""

    registration: Registration


@dataclass(frozen=True, slots=True)
class Dismiss:
    """An application is no longer followed."""

    app: str
    reason: str


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
    reason: str


@dataclass(frozen=True, slots=True)
class ReadLeaves:
    """Read what the scheduler's configuration has for the queues directly below these (answer: LeavesSeen)."""

    parents: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ListContainers:
    """Ask for the containers of an application that overstays its share."""

    app: str
    yarn_app: str
    reason: str


@dataclass(frozen=True, slots=True)
class SignalContainers:
    """End these containers."""

    app: str
    containers: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class SetTimer:
    """Fire at this time (epoch seconds); replaces any earlier timer."""

    at: float


Command = Admit | Dismiss | TellShare | WriteWeights | ReadLeaves | ListContainers | SignalContainers | SetTimer
