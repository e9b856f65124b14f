"""The HTTP service: the routes on an arbiter, behind authentication and limits. Nothing is decided here."""

from collections.abc import Callable
from concurrent.futures import Future

from fastapi import FastAPI

from yarn_plugin.api.authentication import Authentication
from yarn_plugin.api.backend import Arbiter, Backend, Ended
from yarn_plugin.api.bodies import Messages
from yarn_plugin.api.cells import CellsFiles
from yarn_plugin.api.declaration import Tenants
from yarn_plugin.api.queueing import SharedPoll
from yarn_plugin.api.rates import TokenBuckets
from yarn_plugin.api.refusals import Limits, answer_problems
from yarn_plugin.api.registration import Users
from yarn_plugin.api.routes import apps, cells, decisions, operations, streams
from yarn_plugin.api.streams import Streams
from yarn_plugin.api.tokens import Tokens
from yarn_plugin.decide.arbiter import BUILT_IN
from yarn_plugin.decide.pools.controller import Registry
from yarn_plugin.serving.bodies import BodyLimitMiddleware
from yarn_plugin.serving.refusals import Refusals


def create(
    arbiter: Arbiter,
    tokens: Tokens,
    event_streams: Streams,
    ask_manager: Callable[[str], Future[list[str]]],
    limits: Limits | None = None,
    refusals: Refusals | None = None,
    users: Users | None = None,
    tenants: Tenants | None = None,
    connections: Callable[[], int] = lambda: 0,
    ended: type[Exception] = Ended,
    registry: Registry = BUILT_IN,
    cells_files: CellsFiles | None = None,
) -> FastAPI:
    """The service.

    Args:
        arbiter: decides.
        tokens: issues and checks tokens.
        event_streams: pass decisions on to the applications that listen.
        ask_manager: asks the ResourceManager why an application (by its YARN id) waits.
        limits: of the service.
        refusals: counts refused requests.
        users: see `Users`.
        tenants: see `Tenants`.
        connections: the number of open connections.
        ended: raised by the arbiter once it is shutting down.
        registry: the controllers that there are, and the messages that they take.
        cells_files: of the pools whose cells file may be replaced.
    """
    limits, refusals = limits or Limits(), refusals or Refusals()
    service = FastAPI(title="YARN share arbiter", version="1", docs_url=None, redoc_url=None, redirect_slashes=False)
    backend = service.state.backend = Backend(
        arbiter=arbiter,
        tokens=tokens,
        streams=event_streams,
        ask_manager=ask_manager,
        limits=limits,
        refusals=refusals,
        users=users or {},
        tenants=tenants or {},
        connections=connections,
        ended=ended,
        messages=Messages(registry),
        cells_files=cells_files or {},
        check_job=registry.check_job,
        poll=SharedPoll(arbiter.poll),
        rates=TokenBuckets(limits.changes_per_s, limits.changes_burst),
    )
    answer_problems(service, refusals)
    admit = Authentication(tokens, limits.max_body).admit
    service.add_middleware(BodyLimitMiddleware, admit=admit, limits=limits, refusals=refusals, turn=backend.upload)
    # In the order in which OpenAPI lists them.
    for router in (
        operations.router,
        apps.router,
        streams.router,
        decisions.router,
        cells.router,
        operations.scraping,
    ):
        service.include_router(router)
    return service
