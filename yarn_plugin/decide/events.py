"""The arbiter's inputs. Each is journaled with its number and time before the decision on it."""

from dataclasses import dataclass, field
from typing import Annotated, Literal

from yarn_plugin.model.cluster import Capabilities, Container, Node, Queue, YarnApp
from yarn_plugin.model.journaled import Tagged
from yarn_plugin.model.resources import Resources
from yarn_plugin.model.share import Demand, Job, LeaseRecord, Pool
from yarn_plugin.model.topology import TopologyDescription


@dataclass(frozen=True, slots=True)
class Configured:
    """The arbiter started with these pools. Commands of an earlier run without an outcome are issued again.

    `reconcile`: seconds between comparisons of the queue weights with those in YARN. `topology`: the configured
    description of the cluster beyond racks and nodes.
    """

    pools: tuple[Pool, ...]
    reconcile: float = 60.0
    topology: TopologyDescription = field(default_factory=TopologyDescription)


@dataclass(frozen=True, slots=True)
class PoolReconfigured:
    """The administrator changed the parameters of a pool's controller while the arbiter runs."""

    pool: Pool


@dataclass(frozen=True, slots=True)
class ManagerReached:
    """The ResourceManager responds (again), with these capabilities.

    `looked`: nodes and applications were polled too. Only in upgraded journals of version 0; later ones have `Looked`.
    """

    url: str
    capabilities: Capabilities
    looked: bool = False


@dataclass(frozen=True, slots=True)
class Looked:
    """Nodes and applications were polled, for the first time since the start or since the ResourceManager was lost."""


@dataclass(frozen=True, slots=True)
class ManagerLost:
    """No ResourceManager responds; what is known stays unchanged."""

    error: str


@dataclass(frozen=True, slots=True)
class NodesChanged:
    """New and changed nodes, and the ids of removed ones.

    `broken`: new and changed nodes that accept no containers; also in `gone` if they accepted containers before.
    """

    present: tuple[Node, ...]
    gone: tuple[str, ...]
    broken: tuple[Node, ...] = ()


@dataclass(frozen=True, slots=True)
class PartitionsChanged:
    """The nodes that have a label (a partition in YARN), by id, and their labels; all others have none."""

    partitions: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class NodeUseChanged:
    """What all containers together use of these nodes, by id; of other nodes it is as before."""

    used: tuple[tuple[str, Resources], ...]


@dataclass(frozen=True, slots=True)
class AppsChanged:
    """New and changed YARN applications, and the ids of those that ended."""

    present: tuple[YarnApp, ...]
    gone: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class QueuesChanged:
    """New and changed queues, and the paths of removed ones."""

    present: tuple[Queue, ...]
    gone: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Registered:
    """An application registers. `yarn_app`: its id, if it already runs in YARN; otherwise it is assigned a queue.

    `jobs`: those that it declares. `leases`: those that it has records of; None in journals of earlier versions, by
    which a registration hides where its containers run until they are listed next.
    """

    request_id: str
    name: str
    user: str
    pool: str
    weight: float
    demand: Demand | None
    grace: float | None
    yarn_app: str | None
    yarn_users: tuple[str, ...] | None = None
    jobs: tuple[Job, ...] = ()
    leases: tuple[LeaseRecord, ...] | None = None


@dataclass(frozen=True, slots=True)
class Revised:
    """A registered application changed its weight or its demand."""

    app: str
    weight: float
    demand: Demand | None


@dataclass(frozen=True, slots=True)
class JobsDeclared:
    """A registered application declared all its jobs; earlier ones that are not among them have ended."""

    app: str
    jobs: tuple[Job, ...]


@dataclass(frozen=True, slots=True)
class Vacated:
    """A registered application confirmed that it is within the share number `seq`."""

    app: str
    seq: int


@dataclass(frozen=True, slots=True)
class Deregistered:
    """A registered application deregistered."""

    app: str


@dataclass(frozen=True, slots=True)
class WeightsWritten:
    """Queue weights were written and read back; those of `forgotten` queues were removed.

    `refused`: queues of the same request that the ResourceManager rejected, with its errors.
    """

    weights: tuple[tuple[str, float], ...]
    forgotten: tuple[str, ...]
    refused: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class WeightsRefused:
    """The ResourceManager rejected the weights, or did not retain them."""

    error: str


@dataclass(frozen=True, slots=True)
class LeavesSeen:
    """The scheduler's configuration of the queues directly below those of the pools.

    `static`: queues that the configuration defines. `weights`: the weights of the others, such as 33.3; queues with
    another kind of capacity are omitted.
    """

    static: tuple[str, ...]
    weights: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class LeavesUnread:
    """The scheduler's configuration could not be read. `refused`: the ResourceManager says that it is immutable."""

    error: str
    refused: bool


@dataclass(frozen=True, slots=True)
class Superseded:
    """Another arbiter (its address) now owns the pools' queues; this one must write nothing more."""

    by: str


@dataclass(frozen=True, slots=True)
class EpochBegan:
    """Part of the journal was lost. New application ids include this number from now on, so that none is reused."""

    epoch: int


@dataclass(frozen=True, slots=True)
class ContainersListed:
    """The containers of an application (outcome of ListContainers).

    `asked_at`: when it was decided to list them, the arbiter's time; they were read after that. None: not known.
    """

    app: str
    containers: tuple[Container, ...]
    asked_at: float | None = None


@dataclass(frozen=True, slots=True)
class ContainersSignalled:
    """These containers were signalled to stop; `failed`: those that could not be, with the reasons."""

    app: str
    containers: tuple[str, ...]
    failed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TimerFired:
    """The timer fired."""


@dataclass(frozen=True, slots=True)
class AppSaid:
    """A registered application sent a message to the controller of its pool."""

    app: str
    message: Annotated[object, Tagged()]


@dataclass(frozen=True, slots=True)
class Solved:
    """The outcome of a problem of a pool's controller (see `pools.inputs.Outcome`)."""

    pool: str
    id: str
    kind: Literal["done", "failed", "lost"]
    result: Annotated[object, Tagged()] = None
    error: str | None = None


Event = (
    Configured
    | PoolReconfigured
    | ManagerReached
    | Looked
    | ManagerLost
    | NodesChanged
    | PartitionsChanged
    | NodeUseChanged
    | AppsChanged
    | QueuesChanged
    | Registered
    | Revised
    | JobsDeclared
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
    "PoolReconfigured": PoolReconfigured,
    "ManagerReached": ManagerReached,
    "Looked": Looked,
    "ManagerLost": ManagerLost,
    "NodesChanged": NodesChanged,
    "PartitionsChanged": PartitionsChanged,
    "NodeUseChanged": NodeUseChanged,
    "AppsChanged": AppsChanged,
    "QueuesChanged": QueuesChanged,
    "Registered": Registered,
    "Revised": Revised,
    "JobsDeclared": JobsDeclared,
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
"""Their tags in journals, which never change, even if a class is renamed."""
