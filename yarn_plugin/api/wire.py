"""The wire types of version 1: JSON over HTTP. Times are seconds since the epoch.

Answers are parsed leniently: unknown fields are ignored, so that a later arbiter may add some. Requests are parsed
strictly: unknown fields are refused, so that a misspelt one is noticed, and every field has a limit.
"""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from yarn_plugin.control_characters import is_control

Amounts = dict[str, Annotated[int, Field(ge=0)]]
"""Resources by YARN's names: `memory-mb` in MiB, `vcores`, `yarn.io/gpu`, ..."""

MAX_AMOUNT = 10**15
"""The largest amount of a resource in a demand."""


def _check_printable(text: str) -> str:
    if any(map(is_control, text)):
        raise ValueError("must have no control characters or line breaks")
    return text


YARN_APP = r"^application_[0-9]{1,20}_[0-9]{1,20}$"
"""The pattern of an application's id in YARN."""

Name = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_check_printable)]
RequestId = Annotated[str, Field(min_length=8, max_length=200), AfterValidator(_check_printable)]
PoolName = Annotated[str, Field(max_length=100), AfterValidator(_check_printable)]
LeasedFor = Annotated[str, Field(max_length=100), AfterValidator(_check_printable)]
"""The job that a lease is for; empty: for none."""
DemandedAmounts = Annotated[
    dict[
        Annotated[str, Field(pattern=r"^[A-Za-z0-9._/-]{1,100}$")],
        Annotated[int, Field(ge=0, le=MAX_AMOUNT)],
    ],
    Field(max_length=32),
]
"""A demand: at most 32 resources by YARN's names, each at most 10**15."""

Alternatives = Annotated[list[DemandedAmounts], Field(min_length=1, max_length=16)]


Cause = dict[str, Any]
"""A cause as a value: its `kind` ("share", "causes", "app-arrived", "node-lost", ...) and the fields of that kind, such
as `app` or `host`. A later arbiter may send other kinds; `reason` has them in words. None from an earlier arbiter."""


class Wire(BaseModel):
    """A wire type. As an answer, it may hold fields that the reader does not know."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class Request(Wire):
    """A request's body: unknown fields, NaN and infinity are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Register(Request):
    """Registers an application, which is then notified of its share.

    `pool`: optional where there is only one. `demand`: the most that it can use, as alternatives, best first; by
    default all it gets. `grace_s`: how long it needs to vacate; by default the pool's grace period. `yarn_app`: its
    YARN application id if it runs already; otherwise it is given a queue to be submitted to. `request_id`: chosen by
    the caller, so that a repeated request registers once. A pool may limit `weight` and `grace_s` further.
    """

    name: Name
    request_id: RequestId
    pool: PoolName | None = None
    weight: float = Field(default=1.0, gt=0, le=1000)
    demand: Alternatives | None = None
    grace_s: float | None = Field(default=None, ge=0, le=3600)
    yarn_app: str | None = Field(default=None, pattern=YARN_APP)


class Revise(Request):
    """Changes the weight or the demand of a registered application; fields that are left out do not change."""

    weight: float | None = Field(default=None, gt=0, le=1000)
    demand: Alternatives | None = None


class Vacated(Request):
    """Reports that an application holds no more than share number `seq` allows."""

    seq: int = Field(ge=0, le=10**15)


class Message(Wire):
    """A message to the controller of the application's pool: `type`, and the fields of that type."""

    model_config = ConfigDict(extra="allow", frozen=True, allow_inf_nan=False)

    type: Annotated[str, Field(min_length=1, max_length=100)]


class Portion(Wire):
    """A part of a pool: as fraction of its largest resource, and as amounts."""

    fraction: float
    resources: Amounts


class Share(Wire):
    """The share of an application.

    `guarantee`: what it can have whatever the others demand; plan with this. `entitlement`: what it may hold from
    `effective_at` on; more than that is preempted. `current`: the largest fraction of any resource that it uses now.
    `apps`: the number of applications in the pool. `reason`: why the share changed, in words; `cause`: the same as a
    value, for programs. `seq` increases. The id of the server-sent event is `seq` or, where one decision has several
    messages for an application, `seq.index`.
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
    cause: Cause | None = None


class GpuPlace(Wire):
    """Where a GPU is; the fields are those of `yarn_plugin.model.gpus.GpuPlace`."""

    host: str
    rack: str
    machine: str
    slot: str
    ordinal: int
    model: str


class Holding(Wire):
    """A GPU of a lease; `cell`: its id. `place`: None in grants of an earlier arbiter."""

    cell: str
    place: GpuPlace | None = None


LeaseClass = Literal["guaranteed", "opportunistic", "sample"]


class Lease(Wire):
    """A lease that has begun. `until`: unless it is renewed. `revoked`: its GPUs that are to be vacated until
    `vacate_by`. `kind`: its class."""

    id: str
    job: str
    holdings: list[Holding]
    until: float | None
    revoked: list[str]
    vacate_by: float | None
    kind: LeaseClass = "guaranteed"


class Leases(Wire):
    """All leases of an application at one moment, also as the event `leases`.

    `seq`: they include all messages up to this one; a stream that is followed from it (`Last-Event-ID`) has the rest.
    One that was under way may be both in here and in the rest.
    """

    id: str
    app: str
    pool: str
    seq: int
    leases: list[Lease]


class End(Wire):
    """The last event of a stream: why the application is no longer followed (`cause`: as a value)."""

    reason: str
    cause: Cause | None = None


class Registered(Wire):
    """The answer to a registration. `token` lets its holder read and change this application, and nothing else.

    `recovery_token` lets its holder register the application again with an arbiter that has lost its journal; None
    unless it runs in YARN.
    """

    app: str
    pool: str
    queue: str
    token: str
    grace_s: float
    share: Share | None
    recovery_token: str | None = None


class Standing(Wire):
    """Where an application stands in its pool, as fractions of the pool: of its largest resource or, where GPUs are
    leased, of the GPUs.

    `guarantee`: what it can count on; of leased GPUs, an equal part. `entitlement`: what it may hold now; its leases.
    `used`: what it uses. `rho`: its finish-time fairness, the time that it takes over the time that it would take with
    its guarantee (or, with leased GPUs, alone on an equal part): as last estimated by itself or for it, None if it was
    not; "unbounded": without progress.
    """

    guarantee: float
    entitlement: float
    used: float
    rho: float | Literal["unbounded"] | None = None


class App(Wire):
    """An application of a pool. `app` is the arbiter's id, or YARN's where it is not registered.

    `share`: in pools that are shared, as it was last notified. `standing`: in all pools; None from an earlier arbiter.
    """

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
    standing: Standing | None = None


class Node(Wire):
    """A node that takes containers."""

    id: str
    rack: str
    capacity: Amounts


MAX_OUTSIDE = 20


class Outside(Wire):
    """What the `apps` applications of a queue use that is in no pool, or count in none; a pool does not divide it."""

    queue: str
    apps: int
    used: Amounts


class Pool(Wire):
    """A pool: a queue whose capacity is divided among the applications in it. `policy`: of shares. `controller`: what
    divides it: "share", "lease" (of GPUs), "ledger" (of cells) or another one that is installed; None from an earlier
    arbiter.

    `capacity`: what is divided now. `outside`: what others use of the same resources, by queue, the largest first; at
    most `MAX_OUTSIDE` of them.
    """

    name: str
    queue: str
    policy: str
    resources: list[str]
    capacity: Amounts
    apps: int
    grace_s: float
    controller: str | None = None
    outside: list[Outside] = []


class Cluster(Wire):
    """The cluster as the arbiter knows it. `enforcement`: how shares are enforced, in words; `mode`: in one word.

    `least_allocation`: the smallest container, which is also the increment of memory.
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
    mode: str = "unknown"


class RunningPod(Wire):
    """A pod of a gang: `leaves`, the addresses of its GPUs in the node, and the type of the cell of the quota that each
    came from; no types if it is opportunistic."""

    node: str
    leaves: list[str]
    quota_types: list[str]


class RunningGang(Wire):
    """A gang that runs on cells. `gang`: its application and job, as `app_3/train`.

    A GPU that the scheduler inside a virtual cluster leases is a gang as well, as `app_3/train on n1[0]`; `job` is then
    its application and job, all of whose GPUs end together.
    """

    gang: str
    virtual_cluster: str
    priority: int
    chain: str
    pods: list[RunningPod]
    leaf_type: str = ""
    pinned: str = ""
    lazy: bool = False
    job: str = ""


class Cells(Wire):
    """The virtual clusters of a pool: `file`, the name of the arbiter's cells file, and its `text`; None if the
    configuration of the arbiter names none. `gangs`: those that run; `bad_nodes`: their host names."""

    pool: str
    file: str | None
    text: str | None
    gangs: list[RunningGang]
    bad_nodes: list[str]


class NewCells(Request):
    """Replaces the cells file of a pool, in the format of the present one."""

    text: Annotated[str, Field(min_length=1)]


class CellsChange(Wire):
    """What a new cells file means for the gangs that run.

    `downgraded` become opportunistic in `in_s` seconds, as their applications have been told; `outside` run on GPUs
    that are not in it, which are revoked; `restarted`: jobs of schedulers inside virtual clusters that lose cells, and
    are revoked; `unchanged`: how many go on as they are.
    """

    downgraded: list[str]
    outside: list[str]
    unchanged: int
    in_s: float
    restarted: list[str] = []


class Decision(Wire):
    """One decision: the event (number `seq`, kind `cause`), the command, and why.

    `reason`: why, in words; `because`: the same as a value.
    """

    seq: int
    at: float
    cause: str
    kind: str
    app: str | None
    reason: str
    detail: dict[str, Any]
    because: Cause | None = None


class Why(Wire):
    """Why an application has what it has: the last decisions, and the ResourceManager's diagnostics if it waits.

    `cells`: in a pool with virtual clusters, why its jobs wait, or run without guarantee.
    """

    app: App | None
    decisions: list[Decision]
    manager_says: list[str]
    cells: list[str] = []


USER_NAME = "must be 1 to 100 letters, digits or characters of ._@-, such as alice"
"""What the name of a user must be."""


class IssueToken(Request):
    """Requests a token for a user; for the administrator only."""

    user: str = Field(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9._@-]+$")


class Health(Wire):
    """The arbiter's health. `arbiter`: running, or stopped when it no longer decides.

    `manager`: reached, or why the ResourceManager is not. `journal`: writable, or why not; while it is not, nothing is
    decided. `last_look_age_s`: seconds since the last complete poll of the ResourceManager; None before the first.
    `problems`: all problems, in words. `id`: the arbiter's id.
    """

    arbiter: Literal["running", "stopped"]
    manager: str
    journal: str
    last_look_age_s: float | None
    problems: list[str]
    id: str


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
