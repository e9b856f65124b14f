"""Pools, what applications claim in them, and what they are given: shares and leases."""

from dataclasses import dataclass, field
from typing import Annotated, Literal

from yarn_plugin.model.causes import LegacyText, ShareCause
from yarn_plugin.model.journaled import Tagged
from yarn_plugin.model.resources import Resources


@dataclass(frozen=True, slots=True)
class Pool:
    """A subtree of queues and the resources that one policy divides among the applications in it.

    `grace`: seconds from notifying an application of a smaller share to enforcing it.
    `preempt_after`: seconds that an application may stay over its enforced share while others wait; then its newest
    containers are preempted.
    `idle_timeout`: seconds for which an idle unregistered application still counts.
    `submit_timeout`: seconds from registration until YARN must know the application.

    Limits, each None where there is none: `max_weight` and `max_grace` (seconds) of one application,
    `max_apps_per_user` registered at a time, `max_streams_per_user` followed at a time. The service checks the first
    two and the last one; the number of applications is checked where it is decided.

    `controller`: the kind of what decides in it; `parameters`: that kind's own settings, None where it has none.
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
    """The most that an application can use: any one of the alternatives ("2 GPUs or 8 cores"), best first."""

    alternatives: tuple[Resources, ...]


@dataclass(frozen=True, slots=True)
class Registration:
    """What an application says of itself. `demand` None: it can use whatever it gets.

    `yarn_users`: the YARN users whose application in its queue is this one; None: any user's.
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
class Gang:
    """Pods that are of use only together, each with so many cells."""

    pods: int
    cells_each: int


@dataclass(frozen=True, slots=True)
class Claim:
    """One that is to be given a part of a pool: an application, or one of its jobs (key: `app` and `job`).

    `demand` None: it can use whatever it gets; a policy of shares reads the first alternative only. `used`: of the
    pool's resources, now; `held`: of all. `tenant`: whose it is. `priority`: the larger, the sooner. `pinned`: the cell
    that it must lie in; `suggested`: nodes that it would rather have. `profile`: what it declares of its own speed.
    `grace`: seconds that it needs to vacate. `together`: the applications that count as this one claim, each with its
    grace; none where it is this application alone. `yarn_app`: what it runs as. `queue`: the leaf queue directly below
    the pool's that it runs in; None where it runs in none.
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

    @property
    def is_registered(self) -> bool:
        """Whether it can be told and asked something: YARN's applications that never registered cannot."""
        return self.app != self.yarn_app


@dataclass(frozen=True, slots=True)
class Grant:
    """What the policy gives one application, as fractions of its pool's capacity and as amounts.

    `current`: the largest fraction of any resource in use now. `guarantee`: what stays its own whatever the others
    want, the number a planner may count on. `entitlement`: what it may hold now that some want less than theirs.
    """

    current: float
    guarantee_fraction: float
    guarantee: Resources
    entitlement_fraction: float
    entitlement: Resources

    def same_share(self, other: "Grant") -> bool:
        """Whether both give the same; what is in use now does not count."""
        return (self.guarantee, self.entitlement) == (other.guarantee, other.entitlement)


@dataclass(frozen=True, slots=True)
class Share:
    """What an application is told. `seq` numbers the tellings, `effective_at` (epoch seconds) is when it binds."""

    seq: int
    told_at: float
    effective_at: float
    grant: Grant
    apps: int
    capacity: Resources
    cause: ShareCause | LegacyText


LeaseClass = Literal["guaranteed", "opportunistic", "sample"]
"""`guaranteed` is ended only for what was agreed; `opportunistic` whenever somebody who is guaranteed it wants it;
`sample` is for measuring, and short."""


@dataclass(frozen=True, slots=True)
class Holding:
    """A part of a cell: `fraction` (0 to 1) of one of its resources.

    `container`: of a cell that several share, the container that hosts them; None where it is nobody else's.
    """

    cell: str
    resource: str
    fraction: float = 1.0
    container: str | None = None


@dataclass(frozen=True, slots=True)
class Lease:
    """What a member of a claim's gang may hold. `id` is unique in its pool.

    `job`: of the application, where it has several. `member`: which of the gang's pods it is for, from 0.
    `alternative`: which of the claim's alternatives it is, from 0. `until`: seconds in the arbiter's time; None: until
    it is revoked.
    """

    id: str
    app: str
    job: str
    member: int
    holdings: tuple[Holding, ...]
    alternative: int = 0
    until: float | None = None
    kind: LeaseClass = "guaranteed"
