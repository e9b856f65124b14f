"""uvicorn with the limits of this package."""

import asyncio
import socket
from ssl import SSLContext
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from yarn_plugin.serving.connections import MAX_HEAD_BYTES, limited_protocol
from yarn_plugin.serving.limits import BACKLOG, Limits
from yarn_plugin.serving.refusals import Refusals


def limited_config(app: ASGIApp, limits: Limits, refusals: Refusals, **more: Any) -> uvicorn.Config:
    """A configuration with limits on the head of a request. Serve it on a `CountingListener`."""
    return uvicorn.Config(
        app,
        # Other event loops bypass the counting socket; other protocols have no limits.
        loop="asyncio",
        http=limited_protocol(limits, refusals),
        ws="none",
        h11_max_incomplete_event_size=MAX_HEAD_BYTES,
        backlog=BACKLOG,
        # At lower levels, anybody who can connect could flood the log with malformed requests.
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        headers=[("X-Content-Type-Options", "nosniff")],
        **more,
    )


class LimitedServer(uvicorn.Server):
    """Limits TLS handshakes to the timeout of a request's head."""

    def __init__(self, config: uvicorn.Config, handshake_timeout: float) -> None:
        super().__init__(config)
        self._handshake_timeout = handshake_timeout

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen."""
        # uvicorn has no setting for this; asyncio's default is 60 s.
        loop = asyncio.get_running_loop()
        create = loop.create_server

        async def create_server(*args: Any, ssl: SSLContext | None = None, **more: Any) -> asyncio.Server:
            if ssl is not None:
                more |= {"ssl": ssl, "ssl_handshake_timeout": self._handshake_timeout}
            return await create(*args, **more)

        loop.create_server = create_server  # type: ignore[method-assign, assignment]
        try:
            await super().startup(sockets)
        finally:
            loop.create_server = create  # type: ignore[method-assign]
