"""What the arbiter knows between two events. Immutable: every change makes a new value."""

from collections import ChainMap
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from yarn_plugin.decide.pools.share import Member, ShareState
from yarn_plugin.decide.pools.view import View
from yarn_plugin.model.causes import Ending
from yarn_plugin.model.cluster import Capabilities, ClusterView
from yarn_plugin.model.journaled import Tagged
from yarn_plugin.model.share import Pool, Registration
from yarn_plugin.model.topology import Topology, TopologyDescription


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


@dataclass(frozen=True, slots=True)
class Enforcement:
    """The queue weights: what YARN is known to have, what was asked and not answered yet, when to try again.

    `unsure`: it may have lost them, so they are to be written again. `static`: the queues directly below the pools'
    that the configuration defines itself, which are never written; None until they have been seen, and until then
    nothing is. `reading`: that was asked and not answered yet; `read_at`: when to ask next. `refused`: queues whose
    weight was not taken, and when to try each again. `superseded`: the address of another arbiter that owns the pools'
    queues, so this one writes nothing.
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
    """A registration that is no longer followed, since `at`. `yarn_app`: what it ran as, if it ever ran.

    `final`: the application itself, or the configuration, ended it. Otherwise YARN did not show it: should YARN show
    it again, it is followed again.
    """

    registration: Registration
    yarn_app: str | None
    cause: Ending
    at: float
    final: bool


@dataclass(frozen=True, slots=True)
class State:
    """Everything. `registered` by the arbiter's id; `pool_states` by the pool's name.

    `quiet_since`: when each unregistered application last stopped wanting anything. `looked`: YARN's applications have
    been seen since the arbiter started or lost the manager. `dismissed`: the registrations that were let go of last.
    `epoch`: part of every new id, when it is not 0. `reconcile`: seconds between comparisons of the weights.
    `topology`: what the configuration says of the cluster. `cells`: what it and YARN's nodes come to, where a
    controller reads that. `listed`: for applications in pools that lease nodes, how many containers each had when they
    were last asked for.
    """

    pools: tuple[Pool, ...] = ()
    manager_url: str | None = None
    manager_error: str | None = "not asked yet"
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

    @property
    def members(self) -> Mapping[str, Member]:
        """Who counts in the pools that are divided by shares, by the arbiter's id, or YARN's where unregistered."""
        shared = [kept.state.members for kept in self.pool_states.values() if isinstance(kept.state, ShareState)]
        return shared[0] if len(shared) == 1 else ChainMap(*shared)
