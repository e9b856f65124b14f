"""The route of an application's event stream."""

import contextlib
from collections.abc import AsyncGenerator
from typing import Annotated

from fastapi import APIRouter, Header
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from yarn_plugin.api import translate
from yarn_plugin.api.access import Access, Allowed, AppId
from yarn_plugin.api.backend import Shared
from yarn_plugin.api.refusals import Refused
from yarn_plugin.api.streams import EVENT_ID, Position, StreamLimitError, Streams, StreamSlot
from yarn_plugin.api.strict_route import StrictRoute
from yarn_plugin.decide.membership import home_of
from yarn_plugin.decide.state import State
from yarn_plugin.model.cluster import YarnApp
from yarn_plugin.model.share import Registration

router = APIRouter(prefix="/v1/apps", route_class=StrictRoute)


class EventStream(StreamingResponse):
    """A stream of events that releases its slot however it ends."""

    def __init__(self, events: AsyncGenerator[bytes, None], slot: StreamSlot) -> None:
        super().__init__(events, media_type="text/event-stream", headers={"Cache-Control": "no-store"})
        self._events, self._slot = events, slot

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream until it ends or its client disconnects."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._slot.release()
            with contextlib.suppress(RuntimeError):
                await self._events.aclose()


@router.get("/{app}/events", response_class=StreamingResponse)
async def follow(
    app: AppId,
    access: Allowed,
    backend: Shared,
    last_event_id: Annotated[str | None, Header(pattern=EVENT_ID)] = None,
) -> StreamingResponse:
    """The application's present share and every change of it, as server-sent events."""
    state, streams = backend.arbiter.state, backend.streams
    known = translate.find_known(state, app)
    if known is not None or not access.can_see_ended(state, app):
        app = access.find_app(state, app).id
    elif streams.end_of(app) is None:
        raise Refused(410, "app", app, "has ended; the reason is no longer stored")
    slot = _open_slot(streams, state, known, access)
    position = None if last_event_id is None else Position.parse(last_event_id)
    return EventStream(streams.follow(app, position), slot)


def _open_slot(streams: Streams, state: State, known: Registration | YarnApp | None, access: Access) -> StreamSlot:
    """A slot for a stream, among those of the application's user in its pool."""
    pool = home_of(state, known.id) if known else None
    if access.is_admin:
        owner, limit = "admin/admin", None
    else:
        owner = f"user/{known.user}" if known else f"{access.caller.kind}/{access.caller.name}"
        limit = pool.max_streams_per_user if pool else None
    try:
        return streams.open_slot(f"{pool.name if pool else ''}/{owner}", limit)
    except StreamLimitError as problem:
        raise Refused(429, "app", known.id if known else None, str(problem)) from None
