"""The routes. Each checks who asks, translates, and hands events to the arbiter; nothing is decided here."""

import time
from typing import Annotated, Any, Protocol

from fastapi import Depends, FastAPI, Header, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse, StreamingResponse
from starlette.exceptions import HTTPException

from yarn_plugin.api import metrics, translate, wire
from yarn_plugin.api.streams import Streams
from yarn_plugin.api.tokens import Principal, Tokens
from yarn_plugin.decide import events
from yarn_plugin.decide.commands import Command
from yarn_plugin.decide.membership import pool_of
from yarn_plugin.decide.state import State
from yarn_plugin.journal.intake import Decided
from yarn_plugin.model.resources import Resources
from yarn_plugin.model.share import Demand


class Arbiter(Protocol):
    """What the routes need of the arbiter."""

    state: State

    def history(self) -> list[Decided[events.Event, Command]]:
        """The last decided inputs, oldest first."""
        ...

    def take(self, event: events.Event) -> Decided[events.Event, Command]:
        """Decide on an event, and wait for that."""
        ...

    def look(self) -> None:
        """Look at the ResourceManager now."""
        ...

    def why_waiting(self, yarn_app: str) -> list[str]:
        """What the ResourceManager says of an application that waits for containers."""
        ...


class Refused(HTTPException):
    """A request that is answered with problems: the field, the value, what would be right."""

    def __init__(self, status: int, field: str, value: Any, expected: str) -> None:
        super().__init__(status)
        self.problems = [wire.Problem(field=field, value=value, expected=expected)]


def create(arbiter: Arbiter, tokens: Tokens, streams: Streams, open_metrics: bool) -> FastAPI:
    """The service. `open_metrics`: /metrics needs no token."""
    service = FastAPI(title="YARN share arbiter", version="1", docs_url=None, redoc_url=None)
    _answer_problems(service)

    def principal(authorization: Annotated[str, Header()] = "") -> Principal:
        found = tokens.check(authorization.removeprefix("Bearer ").strip())
        if found is None:
            raise Refused(401, "Authorization", None, "send 'Authorization: Bearer TOKEN' with a token of this arbiter")
        return found

    who = Annotated[Principal, Depends(principal)]

    def own(app: str, asking: Principal) -> wire.App:
        """The application, if it exists and the asker may see it."""
        found = translate.find_app(arbiter.state, app)
        if found is None:
            raise Refused(404, "app", app, "no such application (it may have ended); see GET /v1/apps")
        if not _may_see(asking, found):
            raise Refused(403, "app", app, "this token may read and change its own application only")
        return found

    def registered(app: str, asking: Principal) -> wire.App:
        found = own(app, asking)
        if not found.registered:
            raise Refused(404, "app", app, "this application is not registered; POST /v1/apps with its yarn_app first")
        return found

    @service.get("/v1/health")
    def health() -> dict[str, str]:
        """Whether the arbiter runs, and whether it sees a ResourceManager."""
        return {"arbiter": "running", "manager": arbiter.state.manager_error or "reached"}

    @service.post("/v1/tokens", status_code=201)
    def issue(request: wire.IssueToken, asking: who) -> wire.Token:
        """A token for a user. The administrator's token is needed."""
        if asking.kind != "admin":
            raise Refused(403, "Authorization", None, "only the administrator's token issues tokens")
        return wire.Token(user=request.user, token=tokens.issue(Principal("user", request.user)))

    @service.get("/v1/cluster")
    def cluster(asking: who) -> wire.Cluster:
        """Nodes, pools, and how shares are made to hold."""
        return translate.cluster(arbiter.state, time.time())

    @service.get("/v1/apps")
    def apps(asking: who) -> list[wire.App]:
        """The applications that the asker may see."""
        return [app for app in translate.apps(arbiter.state) if _may_see(asking, app)]

    @service.post("/v1/apps", status_code=201)
    def register(request: wire.Register, asking: who) -> wire.Registered:
        """Register an application: it gets a queue, a token of its own, and its share."""
        if asking.kind == "app":
            raise Refused(403, "Authorization", None, "registering needs a user's token")
        event = _registration(arbiter, request, asking)
        arbiter.take(event)
        state = arbiter.state
        made = next((r for r in state.registered.values() if r.request_id == request.request_id), None)
        if made is None:
            raise Refused(409, "request_id", request.request_id, "this registration has ended; use a new request_id")
        member = state.members.get(made.id)
        return wire.Registered(
            app=made.id,
            pool=made.pool,
            queue=made.queue,
            token=tokens.issue(Principal("app", made.id)),
            grace_s=made.grace,
            share=translate.share(made.id, member.share) if member else None,
        )

    @service.get("/v1/apps/{app}")
    def one_app(app: str, asking: who) -> wire.App:
        """One application, by the arbiter's id or YARN's."""
        return own(app, asking)

    @service.patch("/v1/apps/{app}")
    def revise(app: str, request: wire.Revise, asking: who) -> wire.App:
        """Change what an application weighs or can use."""
        found = registered(app, asking)
        known = arbiter.state.registered[found.app]
        demand = _demand(request.demand) if "demand" in request.model_fields_set else known.demand
        arbiter.take(events.Revised(found.app, request.weight or known.weight, demand))
        return own(app, asking)

    @service.delete("/v1/apps/{app}", status_code=204)
    def deregister(app: str, asking: who) -> None:
        """The application is done."""
        arbiter.take(events.Deregistered(registered(app, asking).app))

    @service.post("/v1/apps/{app}/vacated", status_code=204)
    def vacated(app: str, request: wire.Vacated, asking: who) -> None:
        """The application holds no more than it was told: nobody needs to wait for its grace to end."""
        arbiter.take(events.Vacated(registered(app, asking).app, request.seq))

    @service.get("/v1/apps/{app}/events", response_class=StreamingResponse)
    def follow(app: str, asking: who, last_event_id: Annotated[int | None, Header(ge=0)] = None) -> StreamingResponse:
        """The application's shares, now and at every change, as server-sent events."""
        if asking != Principal(
            "app", app
        ):  # its own stream stays readable when it has ended: the end is its last event
            app = own(app, asking).app
        stream = streams.follow(app, last_event_id)
        return StreamingResponse(stream, media_type="text/event-stream", headers={"Cache-Control": "no-store"})

    @service.get("/v1/apps/{app}/why")
    def why(app: str, asking: who, limit: Annotated[int, Query(ge=1, le=1000)] = 20) -> wire.Why:
        """Why an application has what it has."""
        found = translate.find_app(arbiter.state, app)
        decisions = translate.decisions(arbiter.history(), found.app if found else app)[-limit:]
        if found is None and (asking.kind == "user" or not decisions):
            raise Refused(404, "app", app, "no such application, and no decision about it is remembered")
        if not (_may_see(asking, found) if found else asking in (_ADMIN, Principal("app", app))):
            raise Refused(403, "app", app, "this token may read and change its own application only")
        waits = found is not None and found.yarn_app is not None and bool(found.pending or found.state == "waiting")
        says = arbiter.why_waiting(found.yarn_app) if found and found.yarn_app and waits else []
        return wire.Why(app=found, decisions=decisions, manager_says=says)

    @service.get("/v1/decisions")
    def decisions(
        asking: who, app: str | None = None, limit: Annotated[int, Query(ge=1, le=100_000)] = 100
    ) -> list[wire.Decision]:
        """The last decisions, oldest first; those about other users' applications are the administrator's to see."""
        found = translate.decisions(arbiter.history(), app)
        visible = {known.app for known in translate.apps(arbiter.state) if _may_see(asking, known)}
        return [one for one in found if asking == _ADMIN or one.app in visible][-limit:]

    @service.get("/metrics", response_class=PlainTextResponse)
    def measure(authorization: Annotated[str, Header()] = "") -> PlainTextResponse:
        """Figures for Prometheus."""
        if not open_metrics:
            principal(authorization)
        return PlainTextResponse(
            metrics.render(arbiter.state, arbiter.history(), streams.open), media_type=metrics.TYPE
        )

    return service


_ADMIN = Principal("admin", "admin")


def _may_see(asking: Principal, app: wire.App) -> bool:
    match asking.kind:
        case "admin":
            return True
        case "user":
            return app.user == asking.name
        case "app":
            return app.app == asking.name


def _demand(alternatives: list[wire.Amounts] | None) -> Demand | None:
    return Demand(tuple(Resources.of(amounts) for amounts in alternatives)) if alternatives else None


def _registration(arbiter: Arbiter, request: wire.Register, asking: Principal) -> events.Registered:
    """The event for a request, checked against what is known.

    Raises:
        Refused: 422 naming the field, 403 where the application is somebody else's.
    """
    pools = {pool.name: pool for pool in arbiter.state.pools}
    user, pool = asking.name, request.pool or (next(iter(pools)) if len(pools) == 1 else None)
    if pool not in pools:
        raise Refused(422, "pool", request.pool, f"name one of the pools: {', '.join(pools)}")
    if request.yarn_app:
        running = _running(arbiter, request.yarn_app)
        home = pool_of(arbiter.state, running.queue)
        if home is None or home.name != pool:
            expected = f"it runs in queue {running.queue}, which is not in pool {pool} ({pools[pool].queue})"
            raise Refused(422, "yarn_app", request.yarn_app, expected)
        if asking != _ADMIN and running.user != asking.name:
            raise Refused(403, "yarn_app", request.yarn_app, f"it is {running.user}'s; a token of that user is needed")
        user = running.user
        taken = request.yarn_app in arbiter.state.yarn_apps.values()
        mine = any(known.request_id == request.request_id for known in arbiter.state.registered.values())
        if taken and not mine:
            raise Refused(409, "yarn_app", request.yarn_app, "it is registered already")
    return events.Registered(
        request_id=request.request_id,
        name=request.name,
        user=user,
        pool=pool,
        weight=request.weight,
        demand=_demand(request.demand),
        grace=request.grace_s,
        yarn_app=request.yarn_app,
    )


def _running(arbiter: Arbiter, yarn_app: str) -> Any:
    if yarn_app not in arbiter.state.cluster.apps:
        arbiter.look()
    running = arbiter.state.cluster.apps.get(yarn_app)
    if running is None:
        raise Refused(422, "yarn_app", yarn_app, "the ResourceManager has no unfinished application of this id")
    return running


def _answer_problems(service: FastAPI) -> None:
    """Every answer that is not 2xx names problems; none shows a traceback."""

    def answer(status: int, problems: list[wire.Problem]) -> JSONResponse:
        return JSONResponse(wire.Problems(problems=problems).model_dump(mode="json"), status)

    @service.exception_handler(Refused)
    def refused(request: Request, error: Refused) -> JSONResponse:
        return answer(error.status_code, error.problems)

    @service.exception_handler(HTTPException)
    def plain(request: Request, error: HTTPException) -> JSONResponse:
        expected = f"{error.detail}; the routes are in /openapi.json"
        return answer(error.status_code, [wire.Problem(field="path", value=request.url.path, expected=expected)])

    @service.exception_handler(RequestValidationError)
    def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        return answer(422, [_problem(dict(one)) for one in error.errors()])

    @service.exception_handler(Exception)
    def failed(request: Request, error: Exception) -> JSONResponse:
        expected = "the arbiter failed on this request; its log says why"
        return answer(500, [wire.Problem(field="path", value=request.url.path, expected=expected)])


def _problem(error: dict[str, Any]) -> wire.Problem:
    field = ".".join(str(part) for part in error["loc"] if part not in ("body", "query", "path", "header"))
    value = error.get("input")
    shown = value if isinstance(value, str | int | float | bool | None) else repr(value)[:200]
    return wire.Problem(field=field or "body", value=shown, expected=error["msg"])
