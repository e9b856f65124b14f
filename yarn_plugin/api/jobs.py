"""Jobs as applications declare them, over HTTP and in files: each is a claim of its own to a part of its pool."""

from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    FailFast,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from yarn_plugin.api.wire import DemandedAmounts, Name, Request, Wire
from yarn_plugin.model.resources import GPU

MAX_JOBS = 200
"""The most jobs of an application."""

MAX_CELLS = 1_000_000
"""The most cells of a gang."""

MAX_ALTERNATIVES = 16
MAX_SUGGESTED = 1000
MAX_KEYS = 32

TENANT = r"[A-Za-z0-9._@-]{1,100}"
"""The pattern of a tenant, which is that of a user, and of each part of a virtual cluster."""


def _some(amounts: dict[str, int]) -> dict[str, int]:
    if not any(amounts.values()):
        raise ValueError("must have an amount above 0, such as {'yarn.io/gpu': 1}")
    return amounts


Fraction = Annotated[float, Field(gt=0, le=1)]
"""A fraction of a GPU."""


def _check_keys(given: Any) -> Any:
    if isinstance(given, dict) and len(given) > MAX_KEYS:
        raise ValueError(f"must have at most {MAX_KEYS} keys, not {len(given)}")
    return given


class _Part(Request):
    """A part of a request that has few keys, so that it takes little time to find and list the wrong ones."""

    _few_keys = model_validator(mode="before")(_check_keys)


class Alternative(_Part):
    """One way to run a job. `resources`: all that the job needs with it. `speed`: its work per second with them, if
    known, in a unit of the job's own, such as iterations."""

    resources: Annotated[DemandedAmounts, BeforeValidator(_check_keys), AfterValidator(_some)]
    speed: float | None = Field(default=None, gt=0, le=1e12)


class Pods(_Part):
    """So many `pods` of a gang, each on `cells_each` leaf cells (GPUs) of one node."""

    pods: int = Field(ge=1, le=100_000)
    cells_each: int = Field(ge=1, le=1000)


class GpuPart(_Part):
    """What each pod of a job needs of a GPU that it may share, as fractions of that GPU.

    `memory`: at all times; `peak_memory`: at times, with `peak_probability`; by default the same as `memory`. `kind`:
    of its training, by which the pool knows how much it disturbs others; by default it shares a GPU with none.
    """

    computing: Fraction
    memory: Fraction
    peak_memory: Fraction | None = None
    peak_probability: float = Field(default=0.0, ge=0, le=1)
    kind: Name | None = None

    @field_validator("peak_memory")
    @classmethod
    def _not_below_memory(cls, peak: float | None, info: ValidationInfo) -> float | None:
        memory = info.data.get("memory")
        if peak is not None and memory is not None and peak < memory:
            raise ValueError(f"must be at least memory, {memory:g}")
        return peak


class Job(_Part):
    """A job of an application.

    `tenant`: whose share it is part of; by default the user of the application. `virtual_cluster`: a path that begins
    with the tenant, such as vision/nightly; by default the tenant's own. `priority`: in its virtual cluster, larger is
    sooner; -1: opportunistic, on cells that nobody is guaranteed. `alternatives`: what it needs, best first; by default
    the GPUs of its gang or, without one, the demand of the application. `gang`: pods that are placed together or not at
    all. `leaf_type`: the model of its GPUs, by default any. `pinned_cell`: the cell of its virtual cluster that it must
    be placed in. `suggested_nodes`: nodes to prefer; others are used too, unless `ignore_suggested_nodes` is false.
    `lazy_preemption`: where a higher priority takes its place in its virtual cluster, it goes on as opportunistic work.
    `sharing`: the part of a GPU that each pod needs; by default whole GPUs. `work`: how much there is to do, in the
    unit of the alternatives' speeds: at a speed of 2 a second, a work of 600 takes 300 s.
    """

    name: str = Field(pattern=r"^[A-Za-z0-9._-]{1,100}$")
    tenant: str | None = Field(default=None, pattern=f"^{TENANT}$")
    virtual_cluster: str | None = Field(default=None, max_length=500, pattern=f"^{TENANT}(/{TENANT})*$")
    priority: int = Field(default=0, ge=-1, le=1000)
    alternatives: list[Alternative] | None = Field(default=None, min_length=1, max_length=MAX_ALTERNATIVES)
    gang: list[Pods] | None = Field(default=None, min_length=1, max_length=16)
    leaf_type: Name | None = None
    pinned_cell: Name | None = None
    suggested_nodes: Annotated[list[Name], FailFast()] = Field(default=[], max_length=MAX_SUGGESTED)
    ignore_suggested_nodes: bool = True
    lazy_preemption: bool = False
    sharing: GpuPart | None = None
    work: float | None = Field(default=None, gt=0, le=1e15)

    @field_validator("virtual_cluster")
    @classmethod
    def _of_the_tenant(cls, path: str | None, info: ValidationInfo) -> str | None:
        tenant = info.data.get("tenant")
        if path is not None and tenant is not None and path.partition("/")[0] != tenant:
            raise ValueError(f"must be {tenant} or begin with {tenant}/, its tenant")
        return path

    @field_validator("gang")
    @classmethod
    def _as_in_the_alternatives(cls, gang: list[Pods] | None, info: ValidationInfo) -> list[Pods] | None:
        if gang is None:
            return gang
        cells = sum(pods.pods * pods.cells_each for pods in gang)
        if cells > MAX_CELLS:
            raise ValueError(f"must have at most {MAX_CELLS} cells together, not {cells}")
        for one in info.data.get("alternatives") or ():
            gpus = one.resources.get(GPU, 0)
            if gpus not in (0, cells):
                raise ValueError(f"must have as many cells together as its alternative has GPUs, {gpus}, not {cells}")
        return gang

    @field_validator("pinned_cell")
    @classmethod
    def _not_opportunistic(cls, cell: str | None, info: ValidationInfo) -> str | None:
        if cell is not None and info.data.get("priority") == -1:
            raise ValueError("must be left out with priority -1: no cell is kept for opportunistic jobs")
        return cell

    @field_validator("sharing")
    @classmethod
    def _one_gpu_for_each_pod(cls, part: GpuPart | None, info: ValidationInfo) -> GpuPart | None:
        if part is None or not info.data.keys() >= {"gang", "alternatives"}:
            return part
        gang = info.data["gang"]
        if any(pods.cells_each > 1 for pods in gang or ()):
            raise ValueError("must be left out where a pod of the gang has several cells: those are not shared")
        if gang is None and any(one.resources.get(GPU, 0) > 1 for one in info.data["alternatives"] or ()):
            raise ValueError(
                "must be left out where an alternative has several GPUs and no gang divides them among pods"
            )
        return part


def tenant_of(job: Job) -> str | None:
    """The tenant that a job names, or whose virtual cluster it names; None: neither."""
    return job.tenant or (job.virtual_cluster.partition("/")[0] if job.virtual_cluster else None)


def conflicts(jobs: Sequence[Job], user: str | None = None) -> list[tuple[tuple[int, str], Any, str]]:
    """What is wrong between jobs: two have one name, or they are of several tenants.

    Of each problem: the place in the list and the field, its value, and what would be right. `user`: of the
    application, who is the tenant of jobs that name none; None: not known.
    """
    found: list[tuple[tuple[int, str], Any, str]] = []
    seen, first = Counter[str](), None
    for place, job in enumerate(jobs):
        seen[job.name] += 1
        if seen[job.name] == 2:
            found.append(((place, "name"), job.name, "another job has this name; each must have its own"))
        tenant = tenant_of(job) or user
        first = first or tenant
        if tenant not in (first, None):
            field = "virtual_cluster" if job.virtual_cluster and not job.tenant else "tenant"
            expected = f"must be of {first}, as the jobs before; register another application for another tenant"
            found.append(((place, field), getattr(job, field), expected))
    return found


def check_together(jobs: list[Job], user: str | None = None) -> list[Job]:
    """The jobs, if nothing is wrong between them (see `conflicts`).

    Raises:
        ValidationError: something is, at the place and field in the list.
    """
    problems = [InitErrorDetails(type=PydanticCustomError("conflict", expected), loc=where, input=value)
                for where, value, expected in conflicts(jobs, user)]  # fmt: skip
    if problems:
        raise ValidationError.from_exception_data("jobs", problems)
    return jobs


JobList = Annotated[
    list[Job], Field(max_length=MAX_JOBS), FailFast(), AfterValidator(lambda jobs: check_together(jobs))
]
"""All jobs of an application, which are all of one tenant. Of several wrong jobs, the first is reported."""


class Jobs(Request):
    """All jobs of an application: those that are left out have ended."""

    jobs: JobList


class DeclaredJob(Job):
    """A job as the arbiter knows it, with its tenant and virtual cluster. `declared_at`: when it was first declared."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    declared_at: float


class DeclaredJobs(Wire):
    """All jobs of an application."""

    app: str
    jobs: list[DeclaredJob]
