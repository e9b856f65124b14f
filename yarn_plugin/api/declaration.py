"""From declared jobs to the model, checked against whose tenants a user may name."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from yarn_plugin.api import jobs as wire
from yarn_plugin.api.refusals import Refused
from yarn_plugin.decide.events import JobsDeclared
from yarn_plugin.decide.state import State
from yarn_plugin.model.resources import GPU, Resources
from yarn_plugin.model.share import Demand, Gang, GpuPart, Job, Pods, Registration
from yarn_plugin.validation import one_of

Tenants = Mapping[str, Sequence[str]]
"""For a tenant, the users who may name it. Every user may name their own name."""


def check(known: Registration, request: wire.Jobs, tenants: Tenants | None) -> JobsDeclared:
    """The event for the jobs of an application. `tenants`: None where every tenant may be named.

    Raises:
        Refused: 403 where its user may not name a tenant, 422 where jobs are of several tenants.
    """
    for (place, field), value, expected in wire.conflicts(request.jobs, known.user):
        raise Refused(422, f"jobs.{place}.{field}", value, expected)
    for place, job in enumerate(request.jobs):
        tenant = wire.tenant_of(job) or known.user
        if tenants is not None and tenant != known.user and known.user not in tenants.get(tenant, ()):
            field = "tenant" if job.tenant else "virtual_cluster"
            mine = [known.user, *(name for name, users in tenants.items() if known.user in users)]
            expected = f"{known.user} may not name tenant {tenant}; {one_of(mine)}, or have it added under [tenants]"
            raise Refused(403, f"jobs.{place}.{field}", getattr(job, field), expected)
    return JobsDeclared(known.id, tuple(job_of(job, known.user) for job in request.jobs))


def is_declared(state: State, event: JobsDeclared) -> bool:
    """Whether an application has declared these jobs already."""
    return tuple(replace(job, declared_at=0.0) for job in state.jobs.get(event.app, ())) == event.jobs


def job_of(job: wire.Job, user: str) -> Job:
    """A job as the model's. `user`: of its application."""
    alternatives = job.alternatives or ()
    gang = Gang(tuple(Pods(pods.pods, pods.cells_each) for pods in job.gang)) if job.gang else None
    amounts = tuple(Resources.of(one.resources) for one in alternatives)
    if gang is not None and not amounts:
        amounts = (Resources.of({GPU: gang.cells}),)
    speeds = tuple(one.speed for one in alternatives)
    return Job(
        name=job.name,
        tenant=wire.tenant_of(job) or user,
        virtual_cluster=job.virtual_cluster or "",
        demand=Demand(amounts) if amounts else None,
        speeds=speeds if any(speeds) else (),
        priority=job.priority,
        gang=gang,
        leaf_type=job.leaf_type or "",
        pinned=job.pinned_cell,
        suggested=tuple(job.suggested_nodes),
        ignore_suggested=job.ignore_suggested_nodes,
        lazy_preemption=job.lazy_preemption,
        sharing=None if job.sharing is None else _part_of(job.sharing),
    )


def _part_of(part: wire.GpuPart) -> GpuPart:
    peak = part.memory if part.peak_memory is None else part.peak_memory
    return GpuPart(part.computing, part.memory, peak, part.peak_probability)


def declared_jobs(state: State, app: str, offset: float) -> wire.DeclaredJobs:
    """The jobs of an application, as it declared them. `offset`: see `translate`."""
    return wire.DeclaredJobs(app=app, jobs=[_shown(job, offset) for job in state.jobs.get(app, ())])


def _shown(job: Job, offset: float) -> wire.DeclaredJob:
    part, amounts = job.sharing, job.demand.alternatives if job.demand else ()
    speeds = job.speeds or (None,) * len(amounts)
    return wire.DeclaredJob(
        name=job.name,
        tenant=job.tenant,
        virtual_cluster=job.virtual_cluster or job.tenant,
        priority=job.priority,
        alternatives=[
            wire.Alternative(resources=one.as_dict(), speed=speed) for one, speed in zip(amounts, speeds, strict=True)
        ]
        or None,
        gang=[wire.Pods(pods=pods.number, cells_each=pods.cells_each) for pods in job.gang.pods] if job.gang else None,
        leaf_type=job.leaf_type or None,
        pinned_cell=job.pinned,
        suggested_nodes=list(job.suggested),
        ignore_suggested_nodes=job.ignore_suggested,
        lazy_preemption=job.lazy_preemption,
        sharing=None
        if part is None
        else wire.GpuPart(
            computing=part.computing,
            memory=part.memory,
            peak_memory=part.peak_memory,
            peak_probability=part.peak_probability,
        ),
        declared_at=job.declared_at + offset,
    )
