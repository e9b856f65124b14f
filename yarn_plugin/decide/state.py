"""The arbiter's state between two events. Immutable: every change makes a new value."""

from collections import ChainMap
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from yarn_plugin.decide.pools.share import Member, ShareState
from yarn_plugin.decide.pools.view import View
from yarn_plugin.model.causes import Ending
from yarn_plugin.model.cluster import Capabilities, ClusterView
from yarn_plugin.model.journaled import Tagged
from yarn_plugin.model.share import Job, Pool, Registration
from yarn_plugin.model.topology import Topology, TopologyDescription


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed controller: its `error` in one line, the number of `tries` in a row, and when it is retried.

    `tried`: how often the first pending input was tried.
    """

    error: str
    tries: int
    retry_at: float
    tried: int = 0


@dataclass(frozen=True, slots=True)
class PoolState:
    """A pool's controller (the name of its kind) and its state.

    `timers`: due times by key. `weights`: the wanted weights of leaf queues; None until it has set them. `seen`: the
    parts of the view that it read at its last call. `failure`: why it is not called now. `owed`: the inputs that wait
    until it is called again, without views and timers. `report`: the readable copy of a state that is changed in place.
    """

    controller: str
    state: Annotated[Any, Tagged()]
    timers: dict[str, float] = field(default_factory=dict)
    weights: tuple[tuple[str, float], ...] | None = None
    seen: View | None = None
    failure: Failure | None = None
    owed: tuple[Annotated[Any, Tagged()], ...] = ()
    report: Annotated[object, Tagged()] = None


@dataclass(frozen=True, slots=True)
class Enforcement:
    """Queue weights in YARN: `written` as known; `asked`: a write is in flight; `retry_at`: the next write after a
    failure.

    `unsure`: YARN may have lost the weights, so all are written again. `static`: the queues directly below the pools'
    that the configuration defines, which are never written; None until they were read, and until then nothing is
    written. `reading`: a read is in flight; `read_at`: the next read. `refused`: rejected queues, with the time of the
    next try. `superseded`: the address of another arbiter that owns the pools' queues; this one then writes nothing.
    """

    written: dict[str, float] = field(default_factory=dict)
    unsure: bool = False
    asked: bool = False
    retry_at: float | None = None
    error: str | None = None
    static: tuple[str, ...] | None = None
    reading: bool = False
    read_at: float | None = None
    refused: dict[str, float] = field(default_factory=dict)
    superseded: str | None = None


@dataclass(frozen=True, slots=True)
class Dismissed:
    """A registration that ended at `at`. `yarn_app`: its YARN id, if it was ever submitted.

    `final`: ended by the application or the configuration. Otherwise YARN did not list it, and it is restored if YARN
    lists it again, with its `jobs`.
    """

    registration: Registration
    yarn_app: str | None
    cause: Ending
    at: float
    final: bool
    jobs: tuple[Job, ...] = ()


@dataclass(frozen=True, slots=True)
class State:
    """The whole state. `registered`: by the arbiter's id. `pool_states`: by the pool's name.

    `quiet_since`: when each unregistered application became idle. `looked`: YARN's applications were polled since the
    start, or since the ResourceManager was lost. `dismissed`: the registrations that ended recently. `epoch`: part of
    every new id, unless it is 0. `reconcile`: seconds between comparisons of the weights. `topology`: the configured
    description of the cluster. `cells`: the topology built from it and YARN's nodes, if a controller reads that.
    `jobs`: those that a registered application has declared, by the arbiter's id; not in it where there are none.
    `listed`: in pools that lease nodes, the number of containers of each application when they were last listed.
    """

    pools: tuple[Pool, ...] = ()
    manager_url: str | None = None
    manager_error: str | None = "not polled yet"
    capabilities: Capabilities | None = None
    cluster: ClusterView = field(default_factory=ClusterView)
    registered: dict[str, Registration] = field(default_factory=dict)
    yarn_apps: dict[str, str] = field(default_factory=dict)
    quiet_since: dict[str, float] = field(default_factory=dict)
    enforcement: Enforcement = field(default_factory=Enforcement)
    pool_states: dict[str, PoolState] = field(default_factory=dict)
    timer: float | None = None
    looked: bool = False
    dismissed: dict[str, Dismissed] = field(default_factory=dict)
    epoch: int = 0
    reconcile: float = 60.0
    topology: TopologyDescription = field(default_factory=TopologyDescription)
    cells: Topology | None = None
    listed: dict[str, int] = field(default_factory=dict)
    jobs: dict[str, tuple[Job, ...]] = field(default_factory=dict)

    @property
    def members(self) -> Mapping[str, Member]:
        """The members of all share pools, by the arbiter's id, or YARN's if unregistered."""
        shared = [kept.state.members for kept in self.pool_states.values() if isinstance(kept.state, ShareState)]
        return shared[0] if len(shared) == 1 else ChainMap(*shared)
