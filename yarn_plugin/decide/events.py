"""What the arbiter is told. Each is journaled, with its number and time, before it is decided on."""

from dataclasses import dataclass, field
from typing import Annotated, Literal

from yarn_plugin.model.cluster import Capabilities, Container, Node, Queue, YarnApp
from yarn_plugin.model.journaled import Tagged
from yarn_plugin.model.share import Demand, Pool
from yarn_plugin.model.topology import TopologyDescription


@dataclass(frozen=True, slots=True)
class Configured:
    """The arbiter started with these pools; what an earlier run had asked of YARN and not heard of is asked again.

    `reconcile`: seconds between two comparisons of what YARN is known to have with what it has. `topology`: what the
    configuration says of the cluster beyond racks and nodes.
    """

    pools: tuple[Pool, ...]
    reconcile: float = 60.0
    topology: TopologyDescription = field(default_factory=TopologyDescription)


@dataclass(frozen=True, slots=True)
class ManagerReached:
    """The ResourceManager answers (again), and this is what it allows.

    `looked`: its nodes and applications have been seen too. Today `Looked` says so; version 0 of the journal did not.
    """

    url: str
    capabilities: Capabilities
    looked: bool = False


@dataclass(frozen=True, slots=True)
class Looked:
    """Nodes and applications have been seen, for the first time since the arbiter started or lost the manager."""


@dataclass(frozen=True, slots=True)
class ManagerLost:
    """No ResourceManager answers; what is known stays as it is."""

    error: str


@dataclass(frozen=True, slots=True)
class NodesChanged:
    """Nodes that came or changed, and the ids of those that went.

    `broken`: those that are listed and take no containers now, as they came or changed; in `gone` too if they did.
    """

    present: tuple[Node, ...]
    gone: tuple[str, ...]
    broken: tuple[Node, ...] = ()


@dataclass(frozen=True, slots=True)
class AppsChanged:
    """YARN applications that came or changed, and the ids of those that ended."""

    present: tuple[YarnApp, ...]
    gone: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class QueuesChanged:
    """Queues that came or changed, and the paths of those that went."""

    present: tuple[Queue, ...]
    gone: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Registered:
    """An application wants to be told its share; `yarn_app` if YARN knows it already, else it gets a queue."""

    request_id: str
    name: str
    user: str
    pool: str
    weight: float
    demand: Demand | None
    grace: float | None
    yarn_app: str | None
    yarn_users: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Revised:
    """A registered application changed what it weighs or can use."""

    app: str
    weight: float
    demand: Demand | None


@dataclass(frozen=True, slots=True)
class Vacated:
    """A registered application holds no more than what it was told with number `seq`."""

    app: str
    seq: int


@dataclass(frozen=True, slots=True)
class Deregistered:
    """A registered application is done."""

    app: str


@dataclass(frozen=True, slots=True)
class WeightsWritten:
    """These weights of queues were written and read back; `forgotten` ones have no weight of their own any more.

    `refused`: queues of the same request that the ResourceManager would not take, each with what it said.
    """

    weights: tuple[tuple[str, float], ...]
    forgotten: tuple[str, ...]
    refused: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class WeightsRefused:
    """The ResourceManager did not take the weights, or did not keep them."""

    error: str


@dataclass(frozen=True, slots=True)
class LeavesSeen:
    """What the scheduler's configuration has for the queues directly below the pools'.

    `static`: those that the configuration itself defines. `weights`: the others that have a weight of their own, such
    as 33.3; one that has another kind of capacity is left out.
    """

    static: tuple[str, ...]
    weights: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class LeavesUnread:
    """The scheduler's configuration was not shown. `refused`: the manager says that it cannot be changed."""

    error: str
    refused: bool


@dataclass(frozen=True, slots=True)
class Superseded:
    """Another arbiter owns the pools' queues now (its address): this one must write nothing more."""

    by: str


@dataclass(frozen=True, slots=True)
class EpochBegan:
    """Part of the journal was given up: ids of applications carry this number from now on, so that none returns."""

    epoch: int


@dataclass(frozen=True, slots=True)
class ContainersListed:
    """The containers of an application that overstays its share."""

    app: str
    containers: tuple[Container, ...]


@dataclass(frozen=True, slots=True)
class ContainersSignalled:
    """These containers were told to end; `failed` names those that could not be, and why."""

    app: str
    containers: tuple[str, ...]
    failed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TimerFired:
    """The time asked for has come."""


@dataclass(frozen=True, slots=True)
class AppSaid:
    """A registered application says something to the controller of its pool."""

    app: str
    message: Annotated[object, Tagged()]


@dataclass(frozen=True, slots=True)
class Solved:
    """What became of a problem that a pool's controller wanted solved: see `pools.inputs.Outcome`."""

    pool: str
    id: str
    kind: Literal["done", "failed", "lost"]
    result: Annotated[object, Tagged()] = None
    error: str | None = None


Event = (
    Configured
    | ManagerReached
    | Looked
    | ManagerLost
    | NodesChanged
    | AppsChanged
    | QueuesChanged
    | Registered
    | Revised
    | Vacated
    | Deregistered
    | WeightsWritten
    | WeightsRefused
    | LeavesSeen
    | LeavesUnread
    | Superseded
    | EpochBegan
    | ContainersListed
    | ContainersSignalled
    | TimerFired
    | AppSaid
    | Solved
)

TAGS: dict[str, type] = {
    "Configured": Configured,
    "ManagerReached": ManagerReached,
    "Looked": Looked,
    "ManagerLost": ManagerLost,
    "NodesChanged": NodesChanged,
    "AppsChanged": AppsChanged,
    "QueuesChanged": QueuesChanged,
    "Registered": Registered,
    "Revised": Revised,
    "Vacated": Vacated,
    "Deregistered": Deregistered,
    "WeightsWritten": WeightsWritten,
    "WeightsRefused": WeightsRefused,
    "LeavesSeen": LeavesSeen,
    "LeavesUnread": LeavesUnread,
    "Superseded": Superseded,
    "EpochBegan": EpochBegan,
    "ContainersListed": ContainersListed,
    "ContainersSignalled": ContainersSignalled,
    "TimerFired": TimerFired,
    "AppSaid": AppSaid,
    "Solved": Solved,
}
"""Their tags in journals, which stay what they are whatever a class is called."""
