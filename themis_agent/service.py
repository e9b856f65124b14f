"""The HTTP service of an agent for the launchers of its trials: they post events, and the answers say when to stop."""

import hmac
import math
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import contextmanager

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.concurrency import run_in_threadpool
from pydantic import ValidationError
from starlette.types import Scope

from themis_agent.agent import events
from themis_agent.agent.state import TrialState
from themis_agent.live import InvalidEventError, LiveAgent
from themis_agent.trial import wire
from yarn_plugin.api.wire import Problem
from yarn_plugin.errors import ReportedError
from yarn_plugin.serving.bodies import BodyLimitMiddleware, Refusal
from yarn_plugin.serving.connections import Connections, CountingListener
from yarn_plugin.serving.limits import Limits, allowed_connections
from yarn_plugin.serving.refusals import Refusals
from yarn_plugin.serving.server import LimitedServer, limited_config

LIMITS = Limits(max_connections=1024, max_body=2**20)
"""A batch of 1,000 reports has some 100 KB; a launcher has one connection."""

ANSWER_S = 30.0
"""How long a launcher waits at most until its events are decided on; it sends them again."""


class AgentWaitsError(Exception):
    """Events cannot be taken now; they are to be sent again."""


class Launched:
    """The conversation with all launchers of an agent.

    `attempt`: of the agent. `tells_ends`: a launcher is gone when it says so; else someone else says when it is.
    `hosts`: takes the reports of the hosts of shared GPUs, by the names of their containers; for any thread.
    """

    def __init__(
        self,
        agent: LiveAgent,
        attempt: int,
        tells_ends: bool = True,
        hosts: Callable[[str, wire.HostReport], wire.HostAnswer] = lambda name, report: wire.HostAnswer(),
    ) -> None:
        self._agent, self._attempt, self._tells_ends = agent, attempt, tells_ends
        self.hosts = hosts
        self._acknowledged: dict[str, int] = {}
        self._locks: dict[str, threading.Lock] = {}

    def take(self, trial: str, batch: wire.Batch) -> wire.Answer:
        """Hand new events over to the agent and answer when it has decided on them; for any thread.

        Raises:
            InvalidEventError: an event cannot be journaled; nor are the others then.
            AgentWaitsError: the journal cannot be written now; nothing is taken.
        """
        if self._agent.journal_problem:
            raise AgentWaitsError(self._agent.journal_problem)
        with self._locks.setdefault(batch.launcher, threading.Lock()):
            known = self._acknowledged.get(batch.launcher, 0)
            new = [event for event in batch.events if event.sequence > known]
            launcher = self._number(trial, batch)
            told = [event for event in new if self._tells_ends or not isinstance(event, wire.Ended)]
            futures = self._agent.put_all([translated(trial, batch.epoch, launcher, event) for event in told])
            if futures:
                futures[-1].result(timeout=ANSWER_S)
            known = self._acknowledged[batch.launcher] = max((event.sequence for event in new), default=known)
        has_ended = any(isinstance(event, wire.Ended) for event in batch.events)
        return self._answer(trial, batch.epoch, known, has_ended)

    def stop(self) -> None:
        """End the search, as a user wishes; returns when the agent has decided on it."""
        self._agent.put(events.StopRequested()).result(timeout=ANSWER_S)

    def suspend(self) -> None:
        """Suspend the search, as a user wishes; returns when the agent has decided on it."""
        self._agent.put(events.Suspended()).result(timeout=ANSWER_S)

    def _number(self, name: str, batch: wire.Batch) -> int:
        """The number of a launcher within its gang."""
        trial = self._trial(name)
        places = trial.attempt.places if trial is not None and trial.attempt is not None else ()
        return next((number for number, place in enumerate(places) if place.first_rank == batch.first_rank), 0)

    def _trial(self, name: str) -> TrialState | None:
        state = self._agent.state
        return state.trials.get(name) if state is not None else None

    def _answer(self, name: str, epoch: int, acknowledged: int, has_ended: bool) -> wire.Answer:
        trial = self._trial(name)
        attempt = trial.attempt if trial is not None else None
        if trial is None or epoch < trial.epoch or (attempt is None and not has_ended):
            return wire.Answer(acknowledged=acknowledged, superseded=True, attempt=self._attempt)
        if attempt is None:
            return wire.Answer(acknowledged=acknowledged, attempt=self._attempt)
        return wire.Answer(
            acknowledged=acknowledged,
            stop_in_s=None if attempt.stop_by is None else max(attempt.stop_by - self._agent.now(), 0.0),
            final=trial.fate in ("pruned", "failed"),
            master=wire.Master(host=attempt.master[0], port=attempt.master[1]) if attempt.master else None,
            attempt=self._attempt,
        )


def translated(trial: str, epoch: int, launcher: int, event: wire.AnyEvent) -> events.Event:
    """An event of a launcher as the agent takes it."""
    match event:
        case wire.Started():
            return events.LauncherStarted(trial, epoch, event.host, event.port, launcher)
        case wire.Reported():
            others = tuple(sorted(event.metrics.items()))
            metric = event.loss if math.isfinite(event.loss) else None
            return events.Reported(trial, epoch, float(event.step), metric, others)
        case wire.LogRead():
            return events.LogRead(trial, epoch, event.name, event.steps)
        case wire.Profiled():
            return events.Profiled(trial, epoch, event.iteration_s)
        case wire.Checkpointed():
            return events.Checkpointed(trial, epoch, float(event.step))
        case wire.CheckpointFailed():
            return events.CheckpointFailed(trial, epoch, event.problem)
        case wire.Ended():
            return events.LauncherEnded(
                trial,
                epoch,
                _code(event),
                tuple(event.last_lines),
                launcher,
                event.cause == "killed",
                event.no_report,
                event.cause == "silent",
            )


def _code(event: wire.Ended) -> int | None:
    """How the command ended by itself; None if it did not."""
    if event.cause == "refused":
        return event.code or 1
    if event.cause != "exited":
        return None
    return -event.signal if event.signal is not None else event.code or 0


def service(launched: Launched, token: str) -> FastAPI:
    """The service; everything but reading needs the token."""
    app = FastAPI(openapi_url=None)
    expected = f"Bearer {token}".encode()

    def admit(scope: Scope) -> int | Refusal:
        if scope["method"] in ("GET", "HEAD"):
            return 0
        given = next((value for name, value in scope["headers"] if name.lower() == b"authorization"), b"")
        if hmac.compare_digest(given, expected):
            return LIMITS.max_body
        return Refusal(401, Problem(field="Authorization", expected="must be the token of this search"))

    app.add_middleware(BodyLimitMiddleware, admit=admit, limits=LIMITS, refusals=Refusals())

    @app.post("/v1/stop")
    async def stop() -> Response:
        await run_in_threadpool(launched.stop)
        return Response(status_code=204)

    @app.post("/v1/suspend")
    async def suspend() -> Response:
        await run_in_threadpool(launched.suspend)
        return Response(status_code=204)

    @app.post("/v1/trials/{trial}/events")
    async def post_events(trial: str, request: Request) -> Response:
        batch = await run_in_threadpool(_batch, await request.body())
        try:
            answer = await run_in_threadpool(launched.take, trial, batch)
        except InvalidEventError as problem:
            raise HTTPException(400, str(problem)) from None
        except (AgentWaitsError, FutureTimeoutError, ReportedError) as problem:
            # Of a superseded attempt too: the next one takes the events.
            raise HTTPException(503, str(problem) or "the agent is busy", {"Retry-After": "1"}) from None
        return Response(answer.model_dump_json(), media_type="application/json")

    @app.post("/v1/hosts/{name}")
    async def post_host(name: str, request: Request) -> Response:
        try:
            report = wire.HostReport.model_validate_json(await request.body())
        except ValidationError as problem:
            raise HTTPException(400, " ".join(str(problem).split())[:1000]) from None
        return Response(launched.hosts(name, report).model_dump_json(), media_type="application/json")

    return app


def _batch(body: bytes) -> wire.Batch:
    """The batch in a body.

    Raises:
        HTTPException: 400, with the first problem.
    """
    try:
        return wire.Batch.model_validate_json(body)
    except ValidationError as problem:
        first = problem.errors(include_url=False)[0]
        raise HTTPException(400, f"{'.'.join(map(str, first['loc']))}: {first['msg']}"[:1000]) from None


def listening(host: str) -> socket.socket:
    """A socket at a free port."""
    return socket.create_server((host, 0))


@contextmanager
def serving(app: FastAPI, listener: socket.socket) -> Iterator[None]:
    """Serve in a thread of its own until the block ends."""
    refusals = Refusals()
    connections = Connections(allowed_connections(LIMITS.max_connections), refusals)
    server = LimitedServer(limited_config(app, LIMITS, refusals, lifespan="off"), LIMITS.header_timeout)
    counting = CountingListener(listener, connections, secure=False)
    thread = threading.Thread(target=server.run, args=([counting],), name="service", daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.should_exit = True
        thread.join(5.0)
