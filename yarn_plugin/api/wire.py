"""The wire types of version 1: what goes over HTTP, in JSON. Times are seconds since the epoch."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Amounts = dict[str, Annotated[int, Field(ge=0)]]
"""Resources by YARN's names: `memory-mb` in MiB, `vcores`, `yarn.io/gpu`, ..."""


class Wire(BaseModel):
    """A wire type: unknown fields are refused, so a misspelt one is noticed."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Register(Wire):
    """An application asks to be told its share.

    `pool`: may be left out where there is one pool. `demand`: the most it can use, as alternatives, best first; left
    out, it can use whatever it gets. `grace_s`: how long it needs to vacate; left out, the pool's. `yarn_app`: its
    YARN application id when it runs already; left out, it is given a queue to be submitted to. `request_id`: chosen by
    the caller, so that a repeated request registers once.
    """

    name: str = Field(min_length=1, max_length=200)
    request_id: str = Field(min_length=8, max_length=200)
    pool: str | None = None
    weight: float = Field(default=1.0, gt=0, le=1000)
    demand: list[Amounts] | None = Field(default=None, min_length=1)
    grace_s: float | None = Field(default=None, ge=0, le=3600)
    yarn_app: str | None = Field(default=None, pattern=r"^application_\d+_\d+$")


class Revise(Wire):
    """A registered application changes what it weighs or can use; what is left out stays."""

    weight: float | None = Field(default=None, gt=0, le=1000)
    demand: list[Amounts] | None = Field(default=None, min_length=1)


class Vacated(Wire):
    """An application holds no more than share number `seq` gives it."""

    seq: int


class Portion(Wire):
    """A part of a pool: as fraction of its largest resource, and as amounts."""

    fraction: float
    resources: Amounts


class Share(Wire):
    """What an application is told.

    `guarantee`: its own whatever the others want; plan with this. `entitlement`: what it may hold from `effective_at`
    on; more than that is taken back. `current`: the largest fraction of any resource that it uses now. `apps`: how many
    share the pool. `seq` grows, and is the id of the server-sent event.
    """

    app: str
    seq: int
    told_at: float
    effective_at: float
    current: float
    guarantee: Portion
    entitlement: Portion
    capacity: Amounts
    apps: int
    reason: str


class End(Wire):
    """The last event of a stream: the application is no longer followed, and why."""

    reason: str


class Registered(Wire):
    """The answer to a registration. `token` lets its holder read and change this application, and nothing else."""

    app: str
    pool: str
    queue: str
    token: str
    grace_s: float
    share: Share | None


class App(Wire):
    """An application of a pool. `app` is the arbiter's id, or YARN's where it is not registered."""

    app: str
    yarn_app: str | None
    name: str
    user: str
    pool: str
    queue: str
    registered: bool
    weight: float
    state: Literal["expected", "waiting", "running"]
    used: Amounts
    pending: Amounts
    containers: int
    share: Share | None


class Node(Wire):
    """A node that takes containers."""

    id: str
    rack: str
    capacity: Amounts


class Pool(Wire):
    """A pool: a subtree of queues whose resources one policy divides."""

    name: str
    queue: str
    policy: str
    resources: list[str]
    capacity: Amounts
    apps: int
    grace_s: float


class Cluster(Wire):
    """The cluster as the arbiter knows it. `enforcement`: how shares are made to hold, in words.

    `least_allocation`: the smallest container, which is also the step in which memory is given.
    """

    manager: str | None
    manager_error: str | None
    manager_version: str | None
    enforcement: str
    enforcement_error: str | None
    capacity: Amounts
    least_allocation: Amounts
    nodes: list[Node]
    pools: list[Pool]
    apps: int


class Decision(Wire):
    """One decision: on which input (`seq`, `cause`) what was commanded, and why."""

    seq: int
    at: float
    cause: str
    kind: str
    app: str | None
    reason: str
    detail: dict[str, Any]


class Why(Wire):
    """Why an application has what it has: the last decisions, and what the ResourceManager says of a waiting one."""

    app: App | None
    decisions: list[Decision]
    manager_says: list[str]


class IssueToken(Wire):
    """The administrator asks for a token for a user."""

    user: str = Field(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9._@-]+$")


class Token(Wire):
    """A user's token."""

    user: str
    token: str


class Problem(Wire):
    """One thing that is wrong with a request: the field, the value, and what would be right."""

    field: str
    value: Any = None
    expected: str


class Problems(Wire):
    """The body of every answer that is not 2xx."""

    problems: list[Problem]
