"""What all routes share: the arbiter, the event streams, and queues that are fair among users.

Neither the event loop nor the threads that render long answers ever wait for the journal or the ResourceManager, so
health, readiness and streams always answer. Long answers are rendered to the last byte in those threads, one at a time
for each user, so that no user takes all of them.
"""

import asyncio
import contextlib
import math
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Annotated, Protocol, TypeVar, cast

from fastapi import Depends, Request, Response
from fastapi.concurrency import run_in_threadpool
from pydantic import BaseModel
from starlette.types import Scope

from yarn_plugin.api import wire
from yarn_plugin.api.bodies import Messages
from yarn_plugin.api.cells import CellsFiles
from yarn_plugin.api.declaration import Tenants
from yarn_plugin.api.queueing import FairQueue, QueueFullError, SharedPoll
from yarn_plugin.api.rates import TokenBuckets
from yarn_plugin.api.refusals import Limits, Refused
from yarn_plugin.api.registration import Users
from yarn_plugin.api.streams import Streams
from yarn_plugin.api.tokens import ADMIN, Principal, Tokens
from yarn_plugin.decide import events
from yarn_plugin.decide.commands import Command
from yarn_plugin.decide.state import State
from yarn_plugin.journal.intake import Decided, SkippedInputError
from yarn_plugin.journal.records import JournalUnavailableError
from yarn_plugin.model.share import Job, Pool
from yarn_plugin.serving.bodies import NoTurnError, Refusal
from yarn_plugin.serving.refusals import RETRY_AFTER, Refusals

MANAGER_TIMEOUT = 10.0
"""Seconds for which /why waits for the ResourceManager's answer; its clients wait 15 s for ours."""
NOT_YET = "the ResourceManager has not answered yet; try again"

MAX_CONCURRENT_READS = 1
"""Long answers that are rendered at a time for one user; each takes a thread."""
MAX_CONCURRENT_UPLOADS = 2
"""Bodies of one user that are read at a time."""
MAX_CONCURRENT_QUESTIONS = 4
"""Questions that the ResourceManager is asked at a time about one user's applications, for /why."""

Result = TypeVar("Result")


class Health(Protocol):
    """The arbiter's health.

    `alive`: its loop decides. `ready`: it decides, its journal is writable, and it has polled the ResourceManager
    recently. `last_poll_age`: seconds; None before the first poll. `journal_error`: why the journal is not writable.
    """

    @property
    def alive(self) -> bool: ...
    @property
    def ready(self) -> bool: ...
    @property
    def problems(self) -> tuple[str, ...]: ...
    @property
    def last_poll_age(self) -> float | None: ...
    @property
    def journal_error(self) -> str | None: ...
    @property
    def id(self) -> str: ...


class Arbiter(Protocol):
    """What the routes need of the arbiter. Only `poll` may block."""

    @property
    def state(self) -> State:
        """The present state."""
        ...

    def history(self) -> Sequence[Decided[events.Event, Command]]:
        """The last decided inputs, oldest first."""
        ...

    def post(self, event: events.Event) -> "Future[Decided[events.Event, Command]]":
        """Queue an event for a decision."""
        ...

    def poll(self) -> None:
        """Poll the ResourceManager now, and wait for that."""
        ...

    def health(self) -> Health:
        """The arbiter's health."""
        ...

    def counters(self) -> Mapping[str, float]:
        """The arbiter's own counters, by name."""
        ...

    def now(self) -> float:
        """The arbiter's own time, in seconds."""
        ...

    def wall_offset(self) -> float:
        """Seconds to add to the arbiter's own time for the wall clock's."""
        ...


class Ended(Exception):  # noqa: N818 - stands for the exceptions of an arbiter that decides nothing more
    """The arbiter is shutting down."""


@dataclass(frozen=True, slots=True)
class Backend:
    """What the routes work with; see `service.create` for what is passed in."""

    arbiter: Arbiter
    tokens: Tokens
    streams: Streams
    ask_manager: Callable[[str], Future[list[str]]]
    limits: Limits
    refusals: Refusals
    users: Users
    tenants: Tenants
    connections: Callable[[], int]
    ended: type[Exception]
    messages: Messages
    cells_files: CellsFiles
    check_job: Callable[[Pool, Job], None]
    poll: SharedPoll
    rates: TokenBuckets
    changes: FairQueue = field(default_factory=FairQueue)
    uploads: FairQueue = field(default_factory=lambda: FairQueue(MAX_CONCURRENT_UPLOADS, "requests"))
    bodies: FairQueue = field(default_factory=lambda: FairQueue(MAX_CONCURRENT_READS, "requests"))
    reads: FairQueue = field(default_factory=lambda: FairQueue(MAX_CONCURRENT_READS, "reads"))
    questions: FairQueue = field(default_factory=lambda: FairQueue(MAX_CONCURRENT_QUESTIONS, "questions"))

    def admit(self, caller: Principal, app: str | None, kind: type[BaseModel] | None) -> None:
        """Count a change, before its body is parsed: for its user; or for its application if that answers the arbiter.

        Raises:
            Refused: 429 where there are too many; the administrator's are not limited.
        """
        if caller == ADMIN:
            return
        owner, known = _queue_of(self.arbiter.state, caller), self.arbiter.state.registered.get(app or "")
        # Of the caller's own applications only: nobody uses up what another's may answer.
        answers = kind in (wire.Message, wire.Vacated) and known is not None and owner == f"user/{known.user}"
        owner = f"answers/{app}" if answers else owner
        wait_s = self.rates.take(owner)
        if wait_s:
            who = "messages of this application" if answers else "changes of this user"
            expected = f"more than {self.limits.changes_per_s:g} {who} a second, which is the limit; retry later"
            raise Refused(429, "Authorization", None, expected, retry_after=math.ceil(wait_s))

    @contextlib.asynccontextmanager
    async def upload(self, scope: Scope) -> AsyncGenerator[None, None]:
        """A turn to read the body of a request, in the queue of the caller's user (see `BodyLimitMiddleware`).

        Raises:
            NoTurnError: 429 where too many of them wait.
        """
        caller: Principal = scope["state"]["principal"]
        try:
            async with self.uploads.slot(_queue_of(self.arbiter.state, caller)):
                yield
        except QueueFullError as full:
            problem, headers = (
                wire.Problem(field="Authorization", expected=str(full)),
                {"Retry-After": str(RETRY_AFTER)},
            )
            raise NoTurnError(Refusal(429, problem, headers)) from None

    async def parse(self, caller: Principal, compute: Callable[[], Result]) -> Result:
        """Read what a caller sent in a thread, in the queue of the caller's user.

        Raises:
            Refused: 429 where too many requests of the caller wait.
        """
        return await self._in_thread(self.bodies, caller, compute)

    async def decide(self, event: events.Event, owner: str) -> Decided[events.Event, Command]:
        """Have the arbiter decide on an event, in the queue of its owner: a user, or the administrator.

        Raises:
            Refused: 429 where too many changes of the owner wait; 503 where another arbiter controls the pools, or this
                one is shutting down or its journal is not writable; 422 where the arbiter failed on the event.
        """
        by = self.arbiter.state.enforcement.superseded
        if by is not None:
            expected = f"accepts no changes, since another one, {by}, controls the pools now; ask that one"
            raise Refused(503, "arbiter", None, expected)
        try:
            async with self.changes.slot(owner):
                # Shielded: the event is decided on even when the caller disconnects.
                return await asyncio.shield(asyncio.wrap_future(self.arbiter.post(event)))
        except QueueFullError as full:
            raise Refused(429, "Authorization", None, str(full), retry_after=RETRY_AFTER) from None
        except self.ended:
            raise Refused(503, "arbiter", None, "is shutting down; retry when it has restarted") from None
        except JournalUnavailableError as problem:
            expected = f"cannot be written, so the arbiter accepts no changes ({problem}); retry later"
            raise Refused(503, "journal", None, expected) from None
        except SkippedInputError as problem:
            expected = (
                f"the arbiter failed on this request, which changed nothing; report event {problem.seq} to its "
                "administrator"
            )
            raise Refused(422, "body", None, expected) from None

    async def read(self, caller: Principal, compute: Callable[[], Result]) -> Result:
        """Compute something long in a thread, in the caller's queue.

        Raises:
            Refused: 429 where too many reads of the caller wait.
        """
        return await self._in_thread(self.reads, caller, compute)

    async def _in_thread(self, queue: FairQueue, caller: Principal, compute: Callable[[], Result]) -> Result:
        try:
            async with queue.slot(_queue_of(self.arbiter.state, caller)):
                return await run_in_threadpool(compute)
        except QueueFullError as full:
            raise Refused(429, "Authorization", None, str(full), retry_after=RETRY_AFTER) from None

    async def respond(
        self, caller: Principal, render: Callable[[], bytes], media_type: str = "application/json"
    ) -> Response:
        """A response whose body may be long."""
        return Response(await self.read(caller, render), media_type=media_type)

    async def explain_waiting(self, yarn_app: str, user: str) -> list[str]:
        """What the ResourceManager says about a waiting application of this user; or why it has not answered."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + MANAGER_TIMEOUT

        async def ask() -> list[str]:
            async with self.questions.slot(user):
                # Past the deadline, whoever asked has been answered.
                expired = loop.time() >= deadline
                return [NOT_YET] if expired else await asyncio.wrap_future(self.ask_manager(yarn_app))

        try:
            # Shielded: the slot stays taken until the ResourceManager has answered, also when nobody waits any more.
            return await asyncio.wait_for(asyncio.shield(asyncio.ensure_future(ask())), MANAGER_TIMEOUT)
        except TimeoutError:
            return [NOT_YET]
        except QueueFullError as full:
            return [str(full)]


async def _backend(request: Request) -> Backend:
    return cast(Backend, request.app.state.backend)


Shared = Annotated[Backend, Depends(_backend)]
"""The service's backend, as a parameter of a route."""


def _queue_of(state: State, caller: Principal) -> str:
    """Whose queue a read waits in: an application's is its user's, who may have many of them."""
    if caller.kind != "app":
        return f"{caller.kind}/{caller.name}"
    known = state.registered.get(caller.name)
    return f"user/{known.user}" if known else "app"
