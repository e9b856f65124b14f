"""Routes for operating the arbiter: health, readiness, users' tokens, the cluster, metrics."""

from fastapi import APIRouter, Request, Response
from fastapi.responses import PlainTextResponse
from pydantic import TypeAdapter

from yarn_plugin.api import metrics, translate, wire
from yarn_plugin.api.access import Caller, Documented
from yarn_plugin.api.backend import Backend, Health, Shared
from yarn_plugin.api.refusals import Refused
from yarn_plugin.api.strict_route import StrictRoute
from yarn_plugin.api.tokens import ADMIN, SCRAPE, Principal
from yarn_plugin.decide.state import State

router = APIRouter(route_class=StrictRoute)
scraping = APIRouter(route_class=StrictRoute)

_CLUSTER = TypeAdapter(wire.Cluster)


@router.get("/v1/health", responses={503: {"model": wire.Health}})
async def health(backend: Shared, response: Response) -> wire.Health:
    """Whether the arbiter is alive, and all its problems. Needs no token."""
    found = backend.arbiter.health()
    response.status_code = 200 if found.alive else 503
    return _wire_health(found, backend.arbiter.state)


@router.get("/v1/ready", responses={503: {"model": wire.Health}})
async def ready(backend: Shared, response: Response) -> wire.Health:
    """Whether the arbiter is alive, its journal writable, and the ResourceManager polled recently. Needs no token."""
    found = backend.arbiter.health()
    response.status_code = 200 if found.alive and found.ready else 503
    return _wire_health(found, backend.arbiter.state)


@router.post("/v1/tokens", status_code=201)
async def issue(request: wire.IssueToken, caller: Caller, backend: Shared) -> wire.Token:
    """A token for a user. Needs the administrator's token."""
    if caller != ADMIN:
        expected = "must be the administrator's token (admin.token in the arbiter's --state directory)"
        raise Refused(403, "Authorization", None, expected)
    if request.user == ADMIN.name:
        raise Refused(422, "user", request.user, "reserved for the administrator; choose another name")
    return wire.Token(user=request.user, token=backend.tokens.issue(Principal("user", request.user)))


@router.get("/v1/cluster", response_model=wire.Cluster)
async def cluster(caller: Caller, backend: Shared) -> Response:
    """Nodes, pools, and how shares are enforced."""
    arbiter = backend.arbiter
    return await backend.respond(caller, lambda: _CLUSTER.dump_json(translate.cluster(arbiter.state, arbiter.now())))


@scraping.get("/metrics", response_class=PlainTextResponse)
async def measure(request: Request, documented: Documented, backend: Shared) -> Response:
    """Metrics for Prometheus. Needs the token in the file scrape.token, or the administrator's."""
    caller = request.state.principal
    if caller not in (ADMIN, SCRAPE):
        expected = "must be the token for metrics (scrape.token in the arbiter's --state directory)"
        raise Refused(403, "Authorization", None, expected)
    figures = _figures(backend)
    return await backend.respond(caller, lambda: metrics.render(figures).encode(), metrics.TYPE)


def _wire_health(health: Health, state: State) -> wire.Health:
    return wire.Health(
        arbiter="running" if health.alive else "stopped",
        manager=state.manager_error or "reached",
        journal=health.journal_error or "writable",
        last_look_age_s=health.last_poll_age,
        problems=list(health.problems),
        id=health.id,
    )


def _figures(backend: Backend) -> metrics.Figures:
    arbiter, streams = backend.arbiter, backend.streams
    health = arbiter.health()
    return metrics.Figures(
        state=arbiter.state,
        now=arbiter.now(),
        inputs=streams.last,
        connections=backend.connections(),
        streams=streams.open,
        streams_cut_off=streams.cut_off,
        counters=arbiter.counters(),
        refused=backend.refusals.counts(),
        journal_writable=health.journal_error is None,
        last_poll_age=health.last_poll_age,
        apps=backend.limits.metrics_apps,
    )
