"""What the arbiter keeps of each pool beside its settings."""

from dataclasses import dataclass, field
from typing import Annotated, Any

from yarn_plugin.decide.pools.view import View
from yarn_plugin.model.tagged import Tagged


@dataclass(frozen=True, slots=True)
class Failure:
    """A controller has raised: `error`, in a line; how often in a row, and when it is called again.

    `tried`: how often it was given the first of the inputs that it is owed.
    """

    error: str
    tries: int
    retry_at: float
    tried: int = 0


@dataclass(frozen=True, slots=True)
class PoolState:
    """A pool's controller (the name of its kind) and its state.

    `timers`: when it is to be woken, by its keys. `weights`: of leaf queues, as wanted; None as long as it has not
    said. `seen`: the parts of the view that it read at its last call. `failure`: why it is not called now. `owed`:
    inputs that it is to be given once it is called again; views and timers are not among them. `report`: what may be
    shown of a state that is changed in place.
    """

    controller: str
    state: Annotated[Any, Tagged()]
    timers: dict[str, float] = field(default_factory=dict)
    weights: tuple[tuple[str, float], ...] | None = None
    seen: View | None = None
    failure: Failure | None = None
    owed: tuple[Annotated[Any, Tagged()], ...] = ()
    report: Annotated[object, Tagged()] = None
