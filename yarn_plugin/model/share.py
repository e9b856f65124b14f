"""Pools, what applications claim in them, and what they are given: shares and leases."""

import math
from dataclasses import dataclass, field
from typing import Annotated, Literal

from yarn_plugin.errors import BadInputError
from yarn_plugin.model.causes import LegacyText, ShareCause
from yarn_plugin.model.gpus import GpuPlace
from yarn_plugin.model.journaled import Tagged
from yarn_plugin.model.resources import Resources


@dataclass(frozen=True, slots=True)
class Pool:
    """A parent queue, and the resources that one controller divides among the applications in its leaf queues.

    `grace`: seconds from notifying an application of a smaller share to enforcing it.
    `preempt_after`: seconds that an application may stay over its enforced share while others wait; then its newest
    containers are preempted.
    `idle_timeout`: seconds for which an idle unregistered application still counts.
    `submit_timeout`: seconds from registration until YARN must know the application.

    Limits, None for unlimited: `max_weight` and `max_grace` (seconds) per application, `max_apps_per_user` registered
    and `max_streams_per_user` open at a time. `max_apps_per_user` is checked by the arbiter, the others by the service.

    `controller`: the kind of its controller; `parameters`: that kind's own settings, or None.
    """

    name: str
    queue: str
    resources: tuple[str, ...]
    policy: str = "max_min"
    grace: float = 10.0
    preempt_after: float = 15.0
    idle_timeout: float = 5.0
    submit_timeout: float = 120.0
    max_weight: float | None = None
    max_grace: float | None = None
    max_apps_per_user: int | None = None
    max_streams_per_user: int | None = None
    controller: str = "share"
    parameters: Annotated[object, Tagged()] = None

    def contains(self, queue: str) -> bool:
        """Whether a queue (its full path) lies in this pool's subtree."""
        return queue == self.queue or queue.startswith(self.queue + ".")


@dataclass(frozen=True, slots=True)
class Demand:
    """The maximum that an application or a job can use: one of the alternatives ("1 GPU or 8 cores"), best first."""

    alternatives: tuple[Resources, ...]


@dataclass(frozen=True, slots=True)
class Pods:
    """So many pods of a gang, each with `cells_each` leaf cells (GPUs)."""

    number: int
    cells_each: int


@dataclass(frozen=True, slots=True)
class Gang:
    """Pods, of one or several sizes, that are placed together or not at all."""

    pods: tuple[Pods, ...]

    @property
    def cells(self) -> int:
        """The leaf cells of all pods."""
        return sum(pods.number * pods.cells_each for pods in self.pods)


@dataclass(frozen=True, slots=True)
class GpuPart:
    """What a pod needs of a GPU that it may share, as fractions of that GPU.

    `memory`: what it needs at all times; `peak_memory`: at times, with `peak_probability`, and independently of others.
    `kind`: of its training, by which interference is known; empty: of none that is known.
    Source: OJPP section 3.2, where the peak is the base plus the opportunistic memory.
    """

    computing: float
    memory: float
    peak_memory: float
    peak_probability: float
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Job:
    """A job of an application, as it was declared; `Claim` says what its fields mean. `name`: unique in the
    application. `declared_at`: when this name was first declared."""

    name: str
    tenant: str
    virtual_cluster: str = ""
    demand: Demand | None = None
    speeds: tuple[float | None, ...] = ()
    priority: int = 0
    gang: Gang | None = None
    leaf_type: str = ""
    pinned: str | None = None
    suggested: tuple[str, ...] = ()
    ignore_suggested: bool = True
    lazy_preemption: bool = False
    sharing: GpuPart | None = None
    declared_at: float = 0.0
    work: float | None = None


@dataclass(frozen=True, slots=True)
class Registration:
    """A registered application. `demand` None: unlimited; of jobs that it declared, each has its own or this one.

    `yarn_users`: the YARN users whose application in `queue` is taken for this one; None: any user.
    """

    id: str
    name: str
    user: str
    pool: str
    queue: str
    weight: float
    demand: Demand | None
    grace: float
    request_id: str
    registered_at: float
    yarn_users: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim to a part of a pool, by an application or one of its jobs (key: `app` and `job`).

    What it asks for. `demand` None: unlimited; share policies read its first alternative only. `speeds`: its work
    per second with each alternative, None where that is not known, empty where none is; in a unit of its own, such
    as iterations. `work`: how much there is to do, in that unit; None: not known. `tenant`: whose share it is part
    of; who that is says `decide.membership`. `virtual_cluster`: a path that begins with the tenant; empty: the
    tenant's own. `priority`: 0 to 1000 in its virtual cluster, larger is sooner; -1: opportunistic. `leaf_type`:
    the model of its GPUs, empty for any. `pinned`: the cell that it must be placed in. `suggested`: preferred
    nodes; others may be used only if `ignore_suggested`. `lazy_preemption`: where a higher priority takes its place
    in its virtual cluster, it goes on as opportunistic work. `sharing`: the part of a GPU that each pod needs;
    None: whole GPUs. `profile`: its declared speed. `declared_at`: when its job was declared; None for an
    application without jobs.

    What is known of its application; the same in the claims of all its jobs. `used`: current use of the pool's
    resources; `held`: of all resources. `arrived_at`: when it registered. `grace`: seconds that it needs to vacate.
    `together`: the applications, with their grace periods, that count as this one claim; empty for a single
    application. `yarn_app`: its YARN id. `queue`: its leaf queue directly below the pool's, or None. `is_submitted`:
    YARN knows it and has not started its application master.
    """

    app: str
    weight: float
    demand: Demand | None
    used: Resources
    job: str = ""
    tenant: str = ""
    priority: int = 0
    gang: Gang | None = None
    pinned: str | None = None
    suggested: tuple[str, ...] = ()
    arrived_at: float = 0.0
    profile: Annotated[object, Tagged()] = None
    grace: float = 0.0
    together: tuple[tuple[str, float], ...] = ()
    yarn_app: str | None = None
    queue: str | None = None
    held: Resources = field(default_factory=Resources)
    is_submitted: bool = False
    speeds: tuple[float | None, ...] = ()
    virtual_cluster: str = ""
    leaf_type: str = ""
    ignore_suggested: bool = True
    lazy_preemption: bool = False
    sharing: GpuPart | None = None
    declared_at: float | None = None
    work: float | None = None

    @property
    def is_registered(self) -> bool:
        """Whether it is registered, so that it can be notified."""
        return self.app != self.yarn_app


@dataclass(frozen=True, slots=True)
class Grant:
    """The policy's result for one application, as fractions of the pool's capacity and as amounts.

    `current`: its dominant share of the pool now. `guarantee`: its share whatever the others want; a planner may rely
    on it. `entitlement`: what it may hold now, including what others leave unused.
    """

    current: float
    guarantee_fraction: float
    guarantee: Resources
    entitlement_fraction: float
    entitlement: Resources

    def same_share(self, other: "Grant") -> bool:
        """Whether guarantee and entitlement are the same; `current` is ignored."""
        return (self.guarantee, self.entitlement) == (other.guarantee, other.entitlement)


@dataclass(frozen=True, slots=True)
class Share:
    """The share that an application is notified of. `seq`: its number. `effective_at` (epoch seconds): when it is
    enforced."""

    seq: int
    told_at: float
    effective_at: float
    grant: Grant
    apps: int
    capacity: Resources
    cause: ShareCause | LegacyText


@dataclass(frozen=True, slots=True)
class CompletionEstimate:
    """An application in a share pool says when it expects to finish, in seconds, all at least 0.

    `elapsed_s`: since it began to work. `remaining_s`: with its present share. `guaranteed_s`: what it estimated for
    all of its work when it began, with its guarantee of that time; above 0.
    """

    elapsed_s: float
    remaining_s: float
    guaranteed_s: float

    def __post_init__(self) -> None:
        for name in ("elapsed_s", "remaining_s"):
            if not 0 <= getattr(self, name) < math.inf:
                raise BadInputError(name, getattr(self, name), "must be a finite number of seconds, at least 0")
        if not 0 < self.guaranteed_s < math.inf:
            raise BadInputError("guaranteed_s", self.guaranteed_s, "must be a finite number of seconds above 0")

    def rho(self, since: float) -> float:
        """Finish-time fairness `since` seconds later: the completion time over that at the guarantee, as Themis has it
        for training (thesis, section 3.4.3): 1 or less if sharing costs the application nothing."""
        return (self.elapsed_s + max(self.remaining_s, since)) / self.guaranteed_s


LeaseClass = Literal["guaranteed", "opportunistic", "sample"]
"""`guaranteed`: revoked only as agreed. `opportunistic`: revoked whenever a guaranteed claim needs it. `sample`: short,
for measuring."""


@dataclass(frozen=True, slots=True)
class Holding:
    """A `fraction` (0 to 1) of one resource of a cell.

    `container`: the container that hosts the sharers of a shared cell; None for an exclusive one. `place`: where a GPU
    is, as its holder is told; None in the arbiter's own state, which knows it from the topology.
    """

    cell: str
    resource: str
    fraction: float = 1.0
    container: str | None = None
    place: GpuPlace | None = None


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """A lease as its application knows it, after the arbiter has lost its journal: its id, and its GPUs in use.

    `job`: "" if it was for none. `until`: the arbiter's time. It has no class: that follows from its job and its quota.
    """

    lease: str
    gpus: tuple[str, ...]
    job: str = ""
    until: float | None = None


@dataclass(frozen=True, slots=True)
class Lease:
    """Cells granted to one pod of a gang, until a time. `id` is unique in its pool.

    `job`: the application's job, if it has several. `member`: the index of the pod. `alternative`: the index of the
    demand's alternative. `until`: the arbiter's time in seconds; None: until revoked.
    """

    id: str
    app: str
    job: str
    member: int
    holdings: tuple[Holding, ...]
    alternative: int = 0
    until: float | None = None
    kind: LeaseClass = "guaranteed"
