"""Routes whose changes are limited in rate, and whose bodies are strict JSON, parsed in the queue of their owner."""

from collections.abc import Callable, Coroutine
from typing import Any, cast

from fastapi import Request, Response
from fastapi.routing import APIRoute
from pydantic import BaseModel

from yarn_plugin.api.backend import Backend
from yarn_plugin.api.bodies import check_size, parse_as

MAX_INLINE_BYTES = 1024
"""A body up to this size is parsed on the event loop: that takes less time than handing it to a thread."""

READS = ("GET", "HEAD")


class StrictRoute(APIRoute):
    """A route whose body must be UTF-8 and strict JSON: no duplicate keys, no NaN, no excessive nesting."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The route's handler, on a request whose JSON is parsed strictly."""
        handle = super().get_route_handler()
        kind = cast("type[BaseModel] | None", self.body_field and self.body_field.field_info.annotation)

        async def strict(request: Request) -> Response:
            backend: Backend = request.app.state.backend
            if request.method not in READS:
                backend.admit(request.state.principal, request.path_params.get("app"), kind)
            return await handle(_StrictRequest(request, backend, kind))

        return strict


class _StrictRequest(Request):
    def __init__(self, request: Request, backend: Backend, kind: type[BaseModel] | None) -> None:
        super().__init__(request.scope, request.receive)
        self._backend, self._kind = backend, kind

    async def json(self) -> Any:
        body, kind = await self.body(), self._kind
        # FastAPI asks for the JSON of a route with a body alone.
        assert kind is not None
        check_size(body, kind, self._backend.limits.max_body)
        if len(body) <= MAX_INLINE_BYTES:
            return parse_as(kind, body)
        return await self._backend.parse(self.state.principal, lambda: parse_as(kind, body))
