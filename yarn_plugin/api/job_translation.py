"""Jobs between the wire and the model."""

from dataclasses import asdict

from yarn_plugin.api import jobs as wire
from yarn_plugin.decide.state import State
from yarn_plugin.model.resources import GPU, Resources
from yarn_plugin.model.share import Demand, Gang, GpuPart, Job, Pods


def job_of(job: wire.Job, user: str) -> Job:
    """A job as the model's. `user`: of its application."""
    tenant, alternatives = wire.tenant_of(job) or user, job.alternatives or ()
    gang = Gang(tuple(Pods(pods.pods, pods.cells_each) for pods in job.gang)) if job.gang else None
    amounts = tuple(Resources.of(one.resources) for one in alternatives)
    if gang is not None and not amounts:
        amounts = (Resources.of({GPU: gang.cells}),)
    speeds = tuple(one.speed for one in alternatives)
    return Job(
        name=job.name,
        tenant=tenant,
        virtual_cluster="" if job.virtual_cluster in (None, tenant) else job.virtual_cluster,
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
        work=job.work,
    )


def _part_of(part: wire.GpuPart) -> GpuPart:
    peak = part.memory if part.peak_memory is None else part.peak_memory
    return GpuPart(part.computing, part.memory, peak, part.peak_probability, part.kind or "")


def declared_jobs(state: State, app: str, offset: float) -> wire.DeclaredJobs:
    """The jobs of an application, as it declared them. `offset`: see `translate`."""
    return wire.DeclaredJobs(app=app, jobs=[_shown(job, offset) for job in state.jobs.get(app, ())])


def _shown(job: Job, offset: float) -> wire.DeclaredJob:
    part, amounts = job.sharing, job.demand.alternatives if job.demand else ()
    speeds = job.speeds or (None,) * len(amounts)
    alternatives = [wire.Alternative(resources=one.as_dict(), speed=speed)
                    for one, speed in zip(amounts, speeds, strict=True)]  # fmt: skip
    return wire.DeclaredJob(
        name=job.name,
        tenant=job.tenant,
        virtual_cluster=job.virtual_cluster or job.tenant,
        priority=job.priority,
        alternatives=alternatives or None,
        gang=[wire.Pods(pods=pods.number, cells_each=pods.cells_each) for pods in job.gang.pods] if job.gang else None,
        leaf_type=job.leaf_type or None,
        pinned_cell=job.pinned,
        suggested_nodes=list(job.suggested),
        ignore_suggested_nodes=job.ignore_suggested,
        lazy_preemption=job.lazy_preemption,
        sharing=None if part is None else wire.GpuPart(**{**asdict(part), "kind": part.kind or None}),
        work=job.work,
        declared_at=job.declared_at + offset,
    )
