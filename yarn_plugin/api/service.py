"""The routes. Each checks who asks, translates, and hands events to the arbiter; nothing is decided here.

Nothing that may wait (for the journal, for the ResourceManager) is waited for on the event loop, or on the threads that
make long answers: so health, readiness and streams answer whatever else goes on. Long answers are made in those
threads to the last byte, one at a time for each user, so that nobody takes all of them.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Annotated, Any, Protocol, TypeVar

from fastapi import Depends, FastAPI, Header, Path, Query, Request, Response, Security
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import PlainTextResponse, StreamingResponse
from fastapi.security import HTTPBearer
from pydantic import TypeAdapter
from starlette.types import Receive, Scope, Send

from yarn_plugin.api import metrics, registration, translate, wire
from yarn_plugin.api import queueing as turning
from yarn_plugin.api.authentication import Gate
from yarn_plugin.api.bodies import Messages, StrictRoute
from yarn_plugin.api.queueing import Looks
from yarn_plugin.api.refusals import Limits, Refusals, Refused, answer_problems
from yarn_plugin.api.registration import Users
from yarn_plugin.api.streams import EVENT_ID, CrowdedError, Seat, Seen, Streams
from yarn_plugin.api.tokens import ADMIN, SCRAPE, Principal, Tokens
from yarn_plugin.decide import events
from yarn_plugin.decide.commands import Command
from yarn_plugin.decide.membership import home_of
from yarn_plugin.decide.pools.controller import Registry
from yarn_plugin.decide.pools.registry import STANDARD
from yarn_plugin.decide.state import State
from yarn_plugin.journal.intake import Decided, SetAsideError
from yarn_plugin.journal.records import JournalUnavailableError
from yarn_plugin.model.cluster import YarnApp
from yarn_plugin.model.share import Registration

LONGEST_ID = 200
"""Characters of an application's id in a path, at most."""

PATIENCE = 10.0
"""Seconds for which /why waits for the ResourceManager's answer; its clients wait 15 s for ours."""
NOT_YET = "the ResourceManager has not answered yet; try again"

READS_AT_ONCE = 1
"""Long answers that are made for one user at a time; a thread makes each."""
QUESTIONS_AT_ONCE = 4
"""Questions about one user's applications that the ResourceManager is asked at a time, on behalf of /why."""
MOST_DECISIONS = 10_000
"""Decisions in one answer, at most."""

_CLUSTER, _APPS, _DECISIONS = TypeAdapter(wire.Cluster), TypeAdapter(list[wire.App]), TypeAdapter(list[wire.Decision])

Taken = Decided[events.Event, Command]
Made = TypeVar("Made")


class Health(Protocol):
    """How the arbiter is.

    `alive`: its loop decides. `ready`: it decides, its journal takes records, and it has seen the ResourceManager
    lately. `last_look_age`: seconds; None before the first look. `journal_error`: why nothing can be recorded now.
    """

    @property
    def alive(self) -> bool: ...
    @property
    def ready(self) -> bool: ...
    @property
    def problems(self) -> tuple[str, ...]: ...
    @property
    def last_look_age(self) -> float | None: ...
    @property
    def journal_error(self) -> str | None: ...
    @property
    def id(self) -> str: ...


class Arbiter(Protocol):
    """What the routes need of the arbiter. Only `look` may wait."""

    @property
    def state(self) -> State:
        """What is known now."""
        ...

    def history(self) -> Sequence[Taken]:
        """The last decided inputs, oldest first."""
        ...

    def post(self, event: events.Event) -> Future[Taken]:
        """Decide on an event."""
        ...

    def look(self) -> None:
        """Look at the ResourceManager now, and wait for that."""
        ...

    def health(self) -> Health:
        """How the arbiter is."""
        ...

    def counters(self) -> Mapping[str, float]:
        """What the arbiter counts of itself."""
        ...

    def now(self) -> float:
        """The arbiter's own time, in seconds."""
        ...

    def wall_offset(self) -> float:
        """Seconds from the arbiter's own time to that on the wall."""
        ...


class Ended(Exception):  # noqa: N818 - stands for the exceptions of an arbiter that decides nothing more
    """The arbiter ends."""


def create(
    arbiter: Arbiter,
    tokens: Tokens,
    streams: Streams,
    why_waiting: Callable[[str], Future[list[str]]],
    limits: Limits | None = None,
    refusals: Refusals | None = None,
    users: Users | None = None,
    connections: Callable[[], int] = lambda: 0,
    ended: type[Exception] = Ended,
    registry: Registry = STANDARD,
) -> FastAPI:
    """The service.

    Args:
        arbiter: decides.
        tokens: who is who.
        streams: what is decided, for those who listen.
        why_waiting: what the ResourceManager says of a waiting application (its YARN id).
        limits: what is taken on at a time.
        refusals: where refused requests are counted.
        users: see `Users`.
        connections: how many connections are open.
        ended: raised by the arbiter when it decides nothing more.
        registry: the controllers that there are, and what may be said to them.
    """
    messages = Messages(registry)
    limits, refusals, users = limits or Limits(), refusals or Refusals(), users or {}
    service = FastAPI(title="YARN share arbiter", version="1", docs_url=None, redoc_url=None, redirect_slashes=False)
    service.router.route_class = StrictRoute
    answer_problems(service, refusals)
    service.add_middleware(Gate, tokens=tokens, limits=limits, refusals=refusals)
    looks, turns = Looks(arbiter.look), turning.Turns()
    reads, questions = turning.Turns(READS_AT_ONCE, "reads"), turning.Turns(QUESTIONS_AT_ONCE, "questions")

    async def principal(request: Request, documented: Annotated[Any, Security(_BEARER)]) -> Principal:
        asking: Principal = request.state.principal
        if asking == SCRAPE:
            raise Refused(403, "Authorization", None, "this token reads /metrics and nothing else")
        return asking

    who = Annotated[Principal, Depends(principal)]
    named = Annotated[str, Path(max_length=LONGEST_ID)]

    def may_see(asking: Principal, known: Registration | YarnApp) -> bool:
        match asking.kind:
            case "admin":
                return True
            case "user" if isinstance(known, Registration):
                return known.user == asking.name
            case "user":
                return known.user in registration.yarn_users(users, asking.name)
            case _:
                return known.id == asking.name

    def own(state: State, app: str, asking: Principal) -> Registration | YarnApp:
        """The application, if it exists and the asker may see it."""
        found = translate.find_known(state, app)
        if found is None:
            raise Refused(404, "app", app, "no such application (it may have ended); see GET /v1/apps")
        if not may_see(asking, found):
            raise Refused(403, "app", app, "this token may read and change its own application only")
        return found

    def registered(state: State, app: str, asking: Principal) -> Registration:
        found = own(state, app, asking)
        if not isinstance(found, Registration):
            raise Refused(404, "app", app, "this application is not registered; POST /v1/apps with its yarn_app first")
        return found

    async def decide(event: events.Event, owner: str) -> Taken:
        """Have an event of this owner's (a user, or the administrator) decided on, without holding up anybody else."""
        try:
            async with turns.turn(owner):
                # Not taken back when the asker goes: it is decided on all the same.
                return await asyncio.shield(asyncio.wrap_future(arbiter.post(event)))
        except turning.CrowdedError as crowded:
            raise Refused(429, "Authorization", None, str(crowded)) from None
        except ended:
            raise Refused(503, "arbiter", None, "it is shutting down; retry when it has restarted") from None
        except JournalUnavailableError as problem:
            expected = f"the journal cannot be written ({problem}), so nothing is decided; retry later"
            raise Refused(503, "journal", None, expected) from None
        except SetAsideError as problem:
            expected = (
                f"the arbiter could not decide on this request; it is recorded as input {problem.seq} and changed "
                "nothing"
            )
            raise Refused(422, "body", None, expected) from None

    async def make_in_turn(asking: Principal, make: Callable[[], Made]) -> Made:
        """What may take long to make: made in a thread, when it is the asker's turn."""
        try:
            async with reads.turn(_reader(arbiter.state, asking)):
                return await run_in_threadpool(make)
        except turning.CrowdedError as crowded:
            raise Refused(429, "Authorization", None, str(crowded)) from None

    async def read(asking: Principal, make: Callable[[], bytes], media_type: str = "application/json") -> Response:
        """An answer that may be long."""
        return Response(await make_in_turn(asking, make), media_type=media_type)

    async def manager_says(yarn_app: str, user: str) -> list[str]:
        """What the ResourceManager says of a waiting application of this user's; or why it does not, yet."""
        loop = asyncio.get_running_loop()
        due = loop.time() + PATIENCE

        async def ask() -> list[str]:
            async with questions.turn(user):
                # Whoever asked has been answered by then.
                return [NOT_YET] if loop.time() >= due else await asyncio.wrap_future(why_waiting(yarn_app))

        try:
            # The turn is had until the ResourceManager has answered, also when nobody waits for that any more.
            return await asyncio.wait_for(asyncio.shield(asyncio.ensure_future(ask())), PATIENCE)
        except TimeoutError:
            return [NOT_YET]
        except turning.CrowdedError as crowded:
            return [str(crowded)]

    def described(health: Health, state: State) -> wire.Health:
        return wire.Health(
            arbiter="running" if health.alive else "stopped",
            manager=state.manager_error or "reached",
            journal=health.journal_error or "writable",
            last_look_age_s=health.last_look_age,
            problems=list(health.problems),
            id=health.id,
        )

    @service.get("/v1/health", responses={503: {"model": wire.Health}})
    async def health(response: Response) -> wire.Health:
        """Whether the arbiter decides; what else is wrong is named. No token is needed."""
        found = arbiter.health()
        response.status_code = 200 if found.alive else 503
        return described(found, arbiter.state)

    @service.get("/v1/ready", responses={503: {"model": wire.Health}})
    async def ready(response: Response) -> wire.Health:
        """Whether the arbiter can serve: it decides, records, and sees the ResourceManager. No token is needed."""
        found = arbiter.health()
        response.status_code = 200 if found.alive and found.ready else 503
        return described(found, arbiter.state)

    @service.post("/v1/tokens", status_code=201)
    async def issue(request: wire.IssueToken, asking: who) -> wire.Token:
        """A token for a user. The administrator's token is needed."""
        if asking != ADMIN:
            raise Refused(403, "Authorization", None, "only the administrator's token issues tokens")
        if request.user == ADMIN.name:
            raise Refused(422, "user", request.user, "this name is the administrator's; choose another")
        return wire.Token(user=request.user, token=tokens.issue(Principal("user", request.user)))

    @service.get("/v1/cluster", response_model=wire.Cluster)
    async def cluster(asking: who) -> Response:
        """Nodes, pools, and how shares are enforced."""
        return await read(asking, lambda: _CLUSTER.dump_json(translate.cluster(arbiter.state, arbiter.now())))

    @service.get("/v1/apps", response_model=list[wire.App])
    async def apps(asking: who) -> Response:
        """The applications that the asker may see."""

        def make() -> bytes:
            state, offset = arbiter.state, arbiter.wall_offset()
            visible = (one for one in translate.known_apps(state) if may_see(asking, one))
            return _APPS.dump_json([translate.app(state, one, offset) for one in visible])

        return await read(asking, make)

    @service.post("/v1/apps", status_code=201)
    async def register(request: wire.Register, asking: who) -> wire.Registered:
        """Register an application: it gets a queue, a token of its own, and its share."""
        if asking.kind == "app":
            raise Refused(403, "Authorization", None, "registering needs a user's token")
        event = await registration.check(arbiter, looks.look, request, asking, users)
        await decide(event, event.user)
        state = arbiter.state
        made = registration.find_request(state, event.user, event.request_id)
        if made is None:
            # Checked before too; but another registration of it may have been decided on first.
            if event.yarn_app and event.yarn_app in state.yarn_apps.values():
                raise Refused(409, "yarn_app", event.yarn_app, "it is registered already")
            pool = next((pool for pool in state.pools if pool.name == event.pool), None)
            if pool is not None and asking != ADMIN and registration.is_full(state, pool, event.user):
                raise registration.too_many(pool, event.user)
            raise Refused(409, "request_id", request.request_id, "this registration has ended; use a new request_id")
        member = state.members.get(made.id)
        return wire.Registered(
            app=made.id,
            pool=made.pool,
            queue=made.queue,
            token=tokens.issue(Principal("app", made.id)),
            grace_s=made.grace,
            share=translate.share(made.id, member.share, arbiter.wall_offset()) if member else None,
        )

    @service.get("/v1/apps/{app}")
    async def one_app(app: named, asking: who) -> wire.App:
        """One application, by the arbiter's id or YARN's."""
        state = arbiter.state
        return translate.app(state, own(state, app, asking), arbiter.wall_offset())

    @service.patch("/v1/apps/{app}")
    async def revise(app: named, request: wire.Revise, asking: who) -> wire.App:
        """Change what an application weighs or can use."""
        state = arbiter.state
        known = registered(state, app, asking)
        pool = next((pool for pool in state.pools if pool.name == known.pool), None)
        if request.weight is not None and pool is not None:
            registration.check_weight(pool, request.weight, asking)
        demand = registration.demanded(request.demand) if "demand" in request.model_fields_set else known.demand
        await decide(events.Revised(known.id, request.weight or known.weight, demand), known.user)
        state = arbiter.state
        return translate.app(state, own(state, known.id, asking), arbiter.wall_offset())

    @service.delete("/v1/apps/{app}", status_code=204)
    async def deregister(app: named, asking: who) -> None:
        """The application is done."""
        known = registered(arbiter.state, app, asking)
        await decide(events.Deregistered(known.id), known.user)

    @service.post("/v1/apps/{app}/vacated", status_code=204)
    async def vacated(app: named, request: wire.Vacated, asking: who) -> None:
        """The application holds no more than it was told: nobody needs to wait for its grace to end."""
        known = registered(arbiter.state, app, asking)
        await decide(events.Vacated(known.id, request.seq), known.user)

    @service.post("/v1/apps/{app}/messages", status_code=204)
    async def say(app: named, request: wire.Message, asking: who) -> None:
        """The application says something to the controller of its pool: an answer, a bid."""
        state = arbiter.state
        known = registered(state, app, asking)
        await decide(events.AppSaid(known.id, messages.read(home_of(state, known.id), request)), known.user)

    def was_own(state: State, app: str, asking: Principal) -> bool:
        """Whether the asker may be told of an application that is no longer known."""
        gone = state.dismissed.get(app)
        return asking == Principal("app", app) or (gone is not None and may_see(asking, gone.registration))

    @service.get("/v1/apps/{app}/events", response_class=StreamingResponse)
    async def follow(
        app: named, asking: who, last_event_id: Annotated[str | None, Header(pattern=EVENT_ID)] = None
    ) -> StreamingResponse:
        """The application's shares, now and at every change, as server-sent events."""
        state = arbiter.state
        known = translate.find_known(state, app)
        if known is not None or not was_own(state, app, asking):
            app = own(state, app, asking).id
        elif streams.end_of(app) is None:
            raise Refused(410, "app", app, "it has ended, too long ago to say why")
        seat = _seat(streams, state, known, asking)
        seen = None if last_event_id is None else Seen.parse(last_event_id)
        return EventStream(streams.follow(app, seen), seat)

    @service.get("/v1/apps/{app}/why")
    async def why(app: named, asking: who, limit: Annotated[int, Query(ge=1, le=1000)] = 20) -> wire.Why:
        """Why an application has what it has."""
        state = arbiter.state
        found = translate.find_known(state, app)
        if found is not None:
            own(state, app, asking)
        elif asking != ADMIN and not was_own(state, app, asking):
            raise Refused(404, "app", app, "no such application, and no decision about it is remembered")
        key = found.id if found else app
        decisions = await make_in_turn(
            asking, lambda: translate.last_decisions(arbiter.history(), lambda about: about == key, limit)
        )
        if found is None and not decisions:
            raise Refused(404, "app", app, "no such application, and no decision about it is remembered")
        shown = translate.app(state, found, arbiter.wall_offset()) if found else None
        waits = shown is not None and shown.yarn_app is not None and bool(shown.pending or shown.state == "waiting")
        says = await manager_says(shown.yarn_app, shown.user) if shown and shown.yarn_app and waits else []
        return wire.Why(app=shown, decisions=decisions, manager_says=says)

    @service.get("/v1/decisions", response_model=list[wire.Decision])
    async def decisions(
        asking: who,
        app: Annotated[str | None, Query(max_length=LONGEST_ID)] = None,
        limit: Annotated[int, Query(ge=1, le=MOST_DECISIONS)] = 100,
    ) -> Response:
        """The last decisions, oldest first; those about other users' applications are the administrator's to see."""

        def make() -> bytes:
            visible = {known.id for known in translate.known_apps(arbiter.state) if may_see(asking, known)}

            def shown(about: str | None) -> bool:
                return (asking == ADMIN or about in visible) and app in (None, about)

            return _DECISIONS.dump_json(translate.last_decisions(arbiter.history(), shown, limit))

        return await read(asking, make)

    @service.get("/metrics", response_class=PlainTextResponse)
    async def measure(request: Request, documented: Annotated[Any, Security(_BEARER)]) -> Response:
        """Figures for Prometheus. The token in the file scrape.token, or the administrator's, is needed."""
        if request.state.principal not in (ADMIN, SCRAPE):
            raise Refused(403, "Authorization", None, "send the token in scrape.token of the arbiter's state folder")
        found = arbiter.health()
        figures = metrics.Figures(
            state=arbiter.state,
            now=arbiter.now(),
            inputs=streams.last,
            connections=connections(),
            streams=streams.open,
            streams_cut_off=streams.cut_off,
            counters=arbiter.counters(),
            refused=refusals.counts(),
            journal_writable=found.journal_error is None,
            last_look_age=found.last_look_age,
            apps=limits.metrics_apps,
        )
        return await read(request.state.principal, lambda: metrics.render(figures).encode(), metrics.TYPE)

    return service


_BEARER = HTTPBearer(auto_error=False, description="A token of this arbiter; the gate checks it before any route.")


class EventStream(StreamingResponse):
    """A stream of events that gives its seat back however it ends."""

    def __init__(self, told: AsyncGenerator[bytes, None], seat: Seat) -> None:
        super().__init__(told, media_type="text/event-stream", headers={"Cache-Control": "no-store"})
        self._told, self._seat = told, seat

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream until it ends or its client goes."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._seat.give_back()
            with contextlib.suppress(RuntimeError):
                await self._told.aclose()


def _seat(streams: Streams, state: State, known: Registration | YarnApp | None, asking: Principal) -> Seat:
    """A place for a stream: the application's user's, in its pool."""
    pool = home_of(state, known.id) if known else None
    owner = f"user/{known.user}" if known else f"{asking.kind}/{asking.name}"
    most = pool.max_streams_per_user if pool and asking != ADMIN else None
    if asking == ADMIN:
        owner = "admin/admin"
    try:
        return streams.take_seat(f"{pool.name if pool else ''}/{owner}", most)
    except CrowdedError as crowded:
        raise Refused(429, "app", known.id if known else None, str(crowded)) from None


def _reader(state: State, asking: Principal) -> str:
    """Whose turn a read takes: an application's is its user's, who may have many of them."""
    if asking.kind != "app":
        return f"{asking.kind}/{asking.name}"
    known = state.registered.get(asking.name)
    return f"user/{known.user}" if known else "app"
