"""The HTTP server of the arbiter: its address, its limits, and uvicorn set up for event streams."""

import asyncio
import contextlib
import logging
import os
import resource
import socket
from collections.abc import AsyncIterator, Callable, Iterator

import uvicorn
from fastapi import FastAPI

from yarn_plugin.api.cells import CellsFiles
from yarn_plugin.api.declaration import Tenants
from yarn_plugin.api.refusals import Limits
from yarn_plugin.api.registration import Users
from yarn_plugin.api.service import create
from yarn_plugin.api.streams import Streams
from yarn_plugin.api.tokens import Tokens
from yarn_plugin.decide.commands import Command
from yarn_plugin.decide.events import Event
from yarn_plugin.decide.pools.controller import Registry
from yarn_plugin.drive.config import LimitsSection
from yarn_plugin.drive.daemon import Daemon, Stopped
from yarn_plugin.drive.diagnostics import Diagnostics
from yarn_plugin.drive.registry import journal_tags
from yarn_plugin.errors import ReportedError
from yarn_plugin.journal.codec import Codec
from yarn_plugin.journal.intake import Decided
from yarn_plugin.serving.address import Address
from yarn_plugin.serving.connections import MAX_HEAD_BYTES, Connections
from yarn_plugin.serving.limits import BACKLOG, allowed_connections
from yarn_plugin.serving.refusals import Refusals
from yarn_plugin.serving.server import LimitedServer, limited_config

log = logging.getLogger("yarn_plugin.arbiter")


class ListenError(ReportedError):
    """The service cannot listen at its address."""


def limits_in_force(section: LimitsSection) -> Limits:
    """The configured limits, reduced to what the file descriptors of this process allow."""
    connections = allowed_connections(section.max_connections)
    return Limits(
        max_connections=connections,
        # A quarter of the connections is reserved for short requests.
        max_streams=min(section.max_streams, max(connections - connections // 4, 1)),
        max_body=section.max_body_kb * 1024,
        header_timeout=section.header_timeout_s,
        metrics_apps=section.metrics_apps,
        changes_per_s=section.changes_per_s,
        changes_burst=section.changes_burst,
    )


def log_limits(section: LimitsSection, limits: Limits) -> None:
    """Log the limits in force, and warn if they are lower than configured."""
    descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    log.info(
        "HTTP limits: %d connections, %d event streams, %d KiB of headers, %d KiB of body, %g s to receive each",
        limits.max_connections, limits.max_streams, MAX_HEAD_BYTES // 1024, limits.max_body // 1024,
        limits.header_timeout,
    )  # fmt: skip
    if limits.max_connections < section.max_connections:
        log.warning(
            "max_connections %d: reduced to %d, as this process may open only %d files; raise LimitNOFILE of its "
            "systemd unit, or ulimit -n",
            section.max_connections, limits.max_connections, descriptors,
        )  # fmt: skip


def http_server(
    daemon: Daemon,
    tokens: Tokens,
    listen: Address,
    limits: Limits,
    refusals: Refusals,
    connections: Connections,
    diagnostics: Diagnostics,
    users: Users,
    tenants: Tenants,
    registry: Registry,
    cells_files: CellsFiles,
) -> uvicorn.Server:
    """The HTTP service of a daemon."""
    streams = Streams(daemon, limits.max_streams, Codec(journal_tags(registry)))
    service = create(
        daemon,
        tokens,
        streams,
        diagnostics.why_waiting,
        limits=limits,
        refusals=refusals,
        users=users,
        tenants=tenants,
        connections=lambda: connections.open,
        ended=Stopped,
        registry=registry,
        cells_files=cells_files,
    )
    service.router.lifespan_context = _publishing(daemon, streams)
    config = limited_config(
        service,
        limits,
        refusals,
        timeout_graceful_shutdown=2,
        ssl_certfile=listen.certificate,
        ssl_keyfile=str(listen.key) if listen.key else None,
    )
    return _Server(config, streams, limits.header_timeout)


class _Server(LimitedServer):
    """Ends streams before it waits for connections."""

    def __init__(self, config: uvicorn.Config, streams: Streams, handshake_timeout: float) -> None:
        super().__init__(config, handshake_timeout)
        self._streams = streams

    def handle_exit(self, sig: int, frame: object) -> None:
        # Unlike uvicorn's own handler, do not raise the signal again at the end: the daemon stops after the server.
        self._streams.stop()
        self.force_exit = self.should_exit
        self.should_exit = True


def _publishing(daemon: Daemon, streams: Streams) -> Callable[[FastAPI], contextlib.AbstractAsyncContextManager[None]]:
    """Pass decisions from the daemon's thread to the server's event loop."""

    @contextlib.asynccontextmanager
    async def lifespan(service: FastAPI) -> AsyncIterator[None]:
        loop = asyncio.get_running_loop()

        def publish(decided: Decided[Event, Command]) -> None:
            # A closed event loop has no clients left.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(streams.publish, decided)

        daemon.publish_to(publish)
        streams.catch_up(daemon.history())
        yield

    return lifespan


@contextlib.contextmanager
def listening(listen: Address) -> Iterator[socket.socket]:
    """A socket that listens at an address.

    Raises:
        ListenError: the address is in use, or not this machine's.
    """
    try:
        family = socket.AF_INET6 if ":" in listen.host else socket.AF_INET
        opened = socket.create_server((listen.host, listen.port), family=family, backlog=BACKLOG)
    except OSError as problem:
        cause = os.strerror(problem.errno).lower() if problem.errno else problem
        address = f"{listen.host}:{listen.port}"
        raise ListenError(f"--listen {address!r}: {cause}; choose another port, or port 0 for any free one") from None
    with opened:
        yield opened
