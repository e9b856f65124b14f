"""Between the claims of jobs and those of whole applications."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from yarn_plugin.model.resources import Resources, total_of
from yarn_plugin.model.share import Claim, Demand, Job


def claims_of(claim: Claim, jobs: Iterable[Job]) -> Iterator[Claim]:
    """The claims of an application's jobs, given the claim of the application without them.

    A job that says nothing of what it needs can use what its application registered.
    """
    for job in jobs:
        yield replace(
            claim,
            job=job.name,
            tenant=job.tenant,
            virtual_cluster=job.virtual_cluster,
            demand=job.demand or claim.demand,
            speeds=job.speeds,
            priority=job.priority,
            gang=job.gang,
            leaf_type=job.leaf_type,
            pinned=job.pinned,
            suggested=job.suggested,
            ignore_suggested=job.ignore_suggested,
            lazy_preemption=job.lazy_preemption,
            sharing=job.sharing,
            declared_at=job.declared_at,
            work=job.work,
        )


def by_application(claims: tuple[Claim, ...], resources: Collection[str]) -> tuple[Claim, ...]:
    """One claim for each application, for controllers that divide among applications. `resources`: of the pool.

    The jobs' demands together are the application's. Everything else that a job asks for is left out. The claims of an
    application must be next to each other; without jobs, the same value is returned.
    """
    if not any(claim.job for claim in claims):
        return claims
    together = groupby(claims, key=lambda claim: claim.app)
    return tuple(_of_application(tuple(mine), resources) for _, mine in together)


def _of_application(mine: Sequence[Claim], resources: Collection[str]) -> Claim:
    first = mine[0]
    if not first.job:
        return first
    return Claim(
        first.app,
        first.weight,
        demand_together([claim.demand for claim in mine], resources),
        first.used,
        tenant=first.tenant,
        arrived_at=first.arrived_at,
        profile=first.profile,
        grace=first.grace,
        yarn_app=first.yarn_app,
        queue=first.queue,
        held=first.held,
        is_submitted=first.is_submitted,
    )


def demand_together(demands: Sequence[Demand | None], resources: Collection[str]) -> Demand | None:
    """What several jobs can use at the same time; None (unlimited) if one of them is unlimited.

    Of each the best alternative that uses some of these resources: another one is not the pool's to give.
    """
    wanted = [None if demand is None else _usable(demand, resources) for demand in demands]
    limited = [amounts for amounts in wanted if amounts is not None]
    return Demand((total_of(limited),)) if len(limited) == len(wanted) else None


def _usable(demand: Demand, resources: Collection[str]) -> Resources:
    usable = (amounts for amounts in demand.alternatives if any(amounts[name] for name in resources))
    return next(usable, demand.alternatives[0])
