"""Inputs of controllers."""

from dataclasses import dataclass
from typing import Annotated, Literal

from yarn_plugin.model.journaled import Tagged

Message = Annotated[object, Tagged()]
"""A message between a controller and its applications or solver, of a type that the controller declares."""


@dataclass(frozen=True, slots=True)
class Started:
    """The pool is new."""


@dataclass(frozen=True, slots=True)
class ViewChanged:
    """The parts of the view that the controller reads changed since its last call."""


@dataclass(frozen=True, slots=True)
class TimerDue:
    """The timer with this key is due."""

    key: str


@dataclass(frozen=True, slots=True)
class FromApp:
    """A message of an application in the pool: any type that the controller declares, at any time."""

    app: str
    message: Message


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a command. `lost`: unknown for good; the command may be issued again.

    `result`: if it is done. `error`: one line, if it failed.
    """

    id: str
    kind: Literal["done", "failed", "lost"]
    result: Message | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Reconfigured:
    """The pool's settings changed; the controller that is called has the new ones."""


@dataclass(frozen=True, slots=True)
class Restarted:
    """The arbiter restarted: commands without an outcome must be issued again under the same ids."""


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
