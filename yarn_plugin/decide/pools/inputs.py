"""What a controller is told."""

from dataclasses import dataclass
from typing import Annotated, Literal

from yarn_plugin.model.journaled import Tagged

Message = Annotated[object, Tagged()]
"""What a controller and its applications, or its solver, say to each other: a type that the controller declares."""


@dataclass(frozen=True, slots=True)
class Started:
    """The pool is new."""


@dataclass(frozen=True, slots=True)
class ViewChanged:
    """The parts of the view that the controller reads differ from those of its last call."""


@dataclass(frozen=True, slots=True)
class TimerDue:
    """The time has come that was set under this key."""

    key: str


@dataclass(frozen=True, slots=True)
class FromApp:
    """An application of the pool says something; it may be anything that the controller declares, at any time."""

    app: str
    message: Message


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a command. `lost`: nobody will ever know; it may be asked again.

    `result`: of one that is done. `error`: of one that failed, in one line.
    """

    id: str
    kind: Literal["done", "failed", "lost"]
    result: Message | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Reconfigured:
    """The pool's settings have changed; those of the controller that is asked are the new ones."""


@dataclass(frozen=True, slots=True)
class Restarted:
    """The arbiter was restarted: what was asked and not answered is to be asked again, under the same ids."""


Input = Started | ViewChanged | TimerDue | FromApp | Outcome | Reconfigured | Restarted

TAGS: dict[str, type] = {
    "started": Started,
    "view_changed": ViewChanged,
    "timer_due": TimerDue,
    "from_app": FromApp,
    "outcome": Outcome,
    "reconfigured": Reconfigured,
    "restarted": Restarted,
}
"""Their tags in journals."""
