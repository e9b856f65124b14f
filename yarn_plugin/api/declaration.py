"""Checks of declared jobs: who may name which tenant."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from yarn_plugin.api import jobs as wire
from yarn_plugin.api.job_translation import job_of
from yarn_plugin.api.refusals import Refused
from yarn_plugin.decide.events import JobsDeclared
from yarn_plugin.decide.state import State
from yarn_plugin.errors import BadInputError
from yarn_plugin.model.share import Job
from yarn_plugin.validation import one_of

Tenants = Mapping[str, Sequence[str]]
"""For a tenant, the users who may name it. Every user may name their own name."""


def check(
    declared: Sequence[wire.Job], user: str, tenants: Tenants | None, check_job: Callable[[Job], None]
) -> tuple[Job, ...]:
    """The jobs of a user's application. `tenants`: None where every tenant may be named. `check_job`: raises
    BadInputError for a job that is wrong in its pool.

    Raises:
        Refused: 403 where its user may not name a tenant, 422 where jobs are of several tenants, or wrong in
            their pool.
    """
    for (place, field), value, expected in wire.conflicts(declared, user):
        raise Refused(422, f"jobs.{place}.{field}", value, expected)
    for place, job in enumerate(declared):
        tenant = wire.tenant_of(job) or user
        if tenants is not None and tenant != user and user not in tenants.get(tenant, ()):
            field = "tenant" if job.tenant else "virtual_cluster"
            mine = [user, *(name for name, users in tenants.items() if user in users)]
            expected = f"{user} may not name tenant {tenant}; {one_of(mine)}, or have it added under [tenants]"
            raise Refused(403, f"jobs.{place}.{field}", getattr(job, field), expected)
    jobs = tuple(job_of(job, user) for job in declared)
    for place, translated in enumerate(jobs):
        try:
            check_job(translated)
        except BadInputError as problem:
            raise Refused(422, f"jobs.{place}.{problem.field}", problem.value, problem.expected) from None
    return jobs


def is_declared(state: State, event: JobsDeclared) -> bool:
    """Whether an application has declared these jobs already."""
    return tuple(replace(job, declared_at=0.0) for job in state.jobs.get(event.app, ())) == event.jobs
