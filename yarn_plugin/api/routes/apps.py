"""Routes of applications: list, register, revise, deregister, declare jobs, and what an application reports."""

from fastapi import APIRouter, Response
from pydantic import TypeAdapter

from yarn_plugin.api import declaration, job_translation, recovery, registration, translate, wire
from yarn_plugin.api.access import Allowed, AppId, Recoverer
from yarn_plugin.api.backend import Backend, Shared
from yarn_plugin.api.jobs import DeclaredJobs, Jobs
from yarn_plugin.api.records import Recover, Recovered
from yarn_plugin.api.refusals import Refused
from yarn_plugin.api.strict_route import StrictRoute
from yarn_plugin.api.tokens import ADMIN, Principal
from yarn_plugin.decide import events
from yarn_plugin.decide.commands import Command
from yarn_plugin.decide.membership import home_of
from yarn_plugin.decide.state import State
from yarn_plugin.journal.intake import Decided
from yarn_plugin.model.cluster import YarnApp
from yarn_plugin.model.share import Job, Registration

router = APIRouter(prefix="/v1/apps", route_class=StrictRoute)

_APPS = TypeAdapter(list[wire.App])


@router.get("", response_model=list[wire.App])
async def apps(access: Allowed, backend: Shared) -> Response:
    """The applications that the caller may see."""

    def render() -> bytes:
        state, now, offset = backend.arbiter.state, backend.arbiter.now(), backend.arbiter.wall_offset()
        visible = (known for known in translate.known_apps(state) if access.can_see(known))
        return _APPS.dump_json([translate.app(state, known, now, offset) for known in visible])

    return await backend.respond(access.caller, render)


@router.post("", status_code=201)
async def register(request: wire.Register, access: Allowed, backend: Shared) -> wire.Registered:
    """Register an application. It is given a queue, a token of its own, and a share."""
    caller = access.caller
    if caller.kind == "app":
        raise Refused(403, "Authorization", None, "must be a user's token, not an application's")
    event = await registration.check(backend.arbiter, backend.poll.run, request, caller, backend.users)
    return (await _register(event, caller, backend))[0]


@router.post("/recovered", status_code=201)
async def recover(request: Recover, recoverer: Recoverer, backend: Shared) -> Recovered:
    """Register a running application again, with its records of jobs and leases. Needs its user's token, or the
    `recovery_token` that it was given."""
    if recoverer.kind == "app":
        raise Refused(403, "Authorization", None, "must be the application's recovery token, or its user's token")
    caller = recovery.caller_for(backend.arbiter.state, recoverer, request.yarn_app)
    event = await registration.check(backend.arbiter, backend.poll.run, request, caller, backend.users)
    pool = next(pool for pool in backend.arbiter.state.pools if pool.name == event.pool)
    tenants = None if caller == ADMIN else backend.tenants
    jobs = declaration.check(request.jobs, event.user, tenants, lambda job: backend.check_job(pool, job))
    event = recovery.with_records(event, request, jobs, pool, backend.arbiter.state, backend.arbiter.wall_offset())
    registered, decided = await _register(event, caller, backend)
    return Recovered(**dict(registered), refused=recovery.refused(decided.commands))


@router.get("/{app}")
async def one_app(app: AppId, access: Allowed, backend: Shared) -> wire.App:
    """One application, by the arbiter's id or YARN's."""
    state = backend.arbiter.state
    return _shown(backend, state, access.find_app(state, app))


@router.patch("/{app}")
async def revise(app: AppId, request: wire.Revise, access: Allowed, backend: Shared) -> wire.App:
    """Change an application's weight or demand."""
    state = backend.arbiter.state
    known = access.find_registration(state, app)
    pool = next((pool for pool in state.pools if pool.name == known.pool), None)
    if request.weight is not None and pool is not None:
        registration.check_weight(pool, request.weight, access.caller)
    demand = registration.to_demand(request.demand) if "demand" in request.model_fields_set else known.demand
    await backend.decide(events.Revised(known.id, request.weight or known.weight, demand), known.user)
    state = backend.arbiter.state
    return _shown(backend, state, access.find_app(state, known.id))


@router.delete("/{app}", status_code=204)
async def deregister(app: AppId, access: Allowed, backend: Shared) -> None:
    """Deregister an application."""
    known = access.find_registration(backend.arbiter.state, app)
    await backend.decide(events.Deregistered(known.id), known.user)


@router.get("/{app}/jobs")
async def jobs(app: AppId, access: Allowed, backend: Shared) -> DeclaredJobs:
    """The jobs that the application has declared."""
    state = backend.arbiter.state
    return job_translation.declared_jobs(state, access.find_registration(state, app).id, backend.arbiter.wall_offset())


@router.put("/{app}/jobs")
async def declare(app: AppId, request: Jobs, access: Allowed, backend: Shared) -> DeclaredJobs:
    """Declare all jobs of the application: new ones begin to claim, known ones change, those left out end.

    Idempotent. With an empty list the application claims as a whole again.
    """
    state = backend.arbiter.state
    known = access.find_registration(state, app)
    pool = next((one for one in state.pools if one.name == known.pool), None)

    def check_job(job: Job) -> None:
        if pool is not None:
            backend.check_job(pool, job)

    tenants = None if access.is_admin else backend.tenants
    event = events.JobsDeclared(known.id, declaration.check(request.jobs, known.user, tenants, check_job))
    if not declaration.is_declared(state, event):
        await backend.decide(event, known.user)
    state = backend.arbiter.state
    return job_translation.declared_jobs(state, access.find_registration(state, app).id, backend.arbiter.wall_offset())


@router.post("/{app}/vacated", status_code=204)
async def vacated(app: AppId, request: wire.Vacated, access: Allowed, backend: Shared) -> None:
    """Report that the application holds no more than its share, so that the rest of its grace period is skipped."""
    known = access.find_registration(backend.arbiter.state, app)
    await backend.decide(events.Vacated(known.id, request.seq), known.user)


@router.post("/{app}/messages", status_code=204)
async def say(app: AppId, request: wire.Message, access: Allowed, backend: Shared) -> None:
    """Send a message to the controller of the application's pool, such as an answer or a bid.

    An answer that is wrong is decided on before it is refused: nothing waits for a better one.
    """
    state = backend.arbiter.state
    known = access.find_registration(state, app)
    home = home_of(state, known.id)
    kept = state.pool_states.get(home.name) if home is not None else None
    message = await backend.parse(access.caller, lambda: backend.messages.parse(home, request))
    try:
        if home is not None and kept is not None:
            held = kept.state
            await backend.parse(access.caller, lambda: backend.messages.check(home, held, known.id, message))
    finally:
        await backend.decide(events.AppSaid(known.id, message), known.user)


@router.get("/{app}/leases")
async def leases(app: AppId, access: Allowed, backend: Shared) -> wire.Leases:
    """What the application leases now, and the event after which its stream goes on."""
    known = access.find_registration(backend.arbiter.state, app)
    found = backend.streams.leases(known.id)
    if found is None:
        raise Refused(
            409, "app", known.id, f"is in pool {known.pool}; must be in one whose controller is 'lease' or 'ledger'"
        )
    return found


def _shown(backend: Backend, state: State, known: Registration | YarnApp) -> wire.App:
    return translate.app(state, known, backend.arbiter.now(), backend.arbiter.wall_offset())


async def _register(
    event: events.Registered, caller: Principal, backend: Backend
) -> tuple[wire.Registered, Decided[events.Event, Command]]:
    decided = await backend.decide(event, event.user)
    state = backend.arbiter.state
    registered = registration.find_request(state, event.user, event.request_id)
    if registered is None:
        raise _not_registered(state, event, caller)
    return _answer(backend, state, registered), decided


def _not_registered(state: State, event: events.Registered, caller: Principal) -> Refused:
    """Why there is no application after a registration; it passed the checks, but another was decided on first."""
    if event.yarn_app and event.yarn_app in state.yarn_apps.values():
        return registration.already_registered(state, event.yarn_app)
    pool = next((pool for pool in state.pools if pool.name == event.pool), None)
    if pool is not None and caller != ADMIN and registration.is_full(state, pool, event.user):
        return registration.too_many(pool, event.user)
    return Refused(409, "request_id", event.request_id, "this registration has ended; use a new request_id")


def _answer(backend: Backend, state: State, registered: Registration) -> wire.Registered:
    member = state.members.get(registered.id)
    offset, yarn_app = backend.arbiter.wall_offset(), state.yarn_apps.get(registered.id)
    again = recovery.token_of(registered.user, yarn_app) if yarn_app else None
    return wire.Registered(
        app=registered.id,
        pool=registered.pool,
        queue=registered.queue,
        token=backend.tokens.issue(Principal("app", registered.id)),
        grace_s=registered.grace,
        share=translate.share(registered.id, member.share, offset) if member else None,
        recovery_token=backend.tokens.issue(again) if again else None,
    )
