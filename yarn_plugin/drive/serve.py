"""The arbiter as a process: the daemon, its HTTP service, signals, and the file that says where it is."""

import asyncio
import contextlib
import getpass
import ipaddress
import json
import logging
import os
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import uvicorn
from fastapi import FastAPI

from yarn_plugin.api.service import create
from yarn_plugin.api.streams import Streams
from yarn_plugin.api.tokens import Tokens
from yarn_plugin.decide.commands import Command
from yarn_plugin.decide.events import Event
from yarn_plugin.drive.config import ArbiterConfig
from yarn_plugin.drive.daemon import Daemon
from yarn_plugin.errors import BadInputError, ReportedError
from yarn_plugin.journal.intake import Decided
from yarn_plugin.observe.capabilities import find_out
from yarn_plugin.observe.resource_manager import ManagerAwayError, ManagerError, ResourceManager
from yarn_plugin.observe.translate import queues

log = logging.getLogger("yarn_plugin.arbiter")


class ListenError(ReportedError):
    """The service cannot listen where it should."""


class MissingQueueError(ReportedError):
    """The ResourceManager does not have a pool's queue."""


@dataclass(frozen=True, slots=True)
class Listen:
    """Where the service listens, and with which certificate."""

    host: str
    port: int
    certificate: Path | None = None
    key: Path | None = None

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine reaches it."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    @property
    def url(self) -> str:
        """Its address."""
        return f"{'https' if self.certificate else 'http'}://{self.host}:{self.port}"


def parse_listen(text: str, certificate: Path | None, key: Path | None) -> Listen:
    """Read `--listen HOST:PORT`.

    Raises:
        BadInputError: it is not that; or others could listen in, for want of a certificate.
    """
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or not 0 <= int(port) < 65536:
        raise BadInputError("--listen", text, "write HOST:PORT, such as 127.0.0.1:8780")
    if (certificate is None) != (key is None):
        raise BadInputError("--tls-cert", str(certificate), "give --tls-cert and --tls-key together")
    for name, file in (("--tls-cert", certificate), ("--tls-key", key)):
        if file is not None and not file.is_file():
            raise BadInputError(name, str(file), "no such file")
    listen = Listen(host.strip("[]"), int(port), certificate, key)
    if not listen.is_loopback and certificate is None:
        raise BadInputError(
            "--listen", text, "tokens would cross the network in the clear; give --tls-cert and --tls-key"
        )
    return listen


def serve(
    urls: list[str], config: ArbiterConfig, listen: Listen, state_dir: Path, ready: Callable[[str, Path], None]
) -> None:
    """Run the arbiter until it is told to end (SIGTERM, Ctrl-C). `ready` is told its address and the admin token file.

    Raises:
        ListenError: the address is taken or not this machine's.
        ManagerError: there is no ResourceManager.
        MissingQueueError: it does not have a pool's queue.
        JournalError: another arbiter uses the same state.
    """
    user = getpass.getuser()
    pools = tuple(section.pool() for section in config.pools)

    def managers() -> ResourceManager:
        return ResourceManager(urls, user)

    with _listening(listen) as opened:
        listen = Listen(listen.host, opened.getsockname()[1], listen.certificate, listen.key)
        daemon = Daemon(managers, pools, config.watch.rhythm(), state_dir)
        try:
            _check_queues(managers(), config, patient=daemon.state.manager_url is not None)
            daemon.start()
            tokens = Tokens(state_dir)
            server = _server(daemon, tokens, listen)
            _write_address(state_dir, listen)
            ready(listen.url, tokens.admin_file)
            log.info("listening on %s, resumed from %d journaled inputs", listen.url, daemon.resumed)
            server.run(sockets=[opened])
        finally:
            daemon.stop()


def _check_queues(manager: ResourceManager, config: ArbiterConfig, patient: bool) -> None:
    """Every pool's queue must be there; a manager that is away for now is no reason not to start again."""
    try:
        find_out(manager)
        known = queues(manager.get("/scheduler"))
    except ManagerAwayError:
        if patient:
            return
        raise
    if not known:
        raise ManagerError(
            f"--rm {manager.url}: its scheduler is not the CapacityScheduler, which shares are steered by"
        )
    for pool in config.pools:
        if pool.queue not in known:
            raise MissingQueueError(
                f"pool {pool.name}: the ResourceManager has no queue {pool.queue!r}, only "
                f"{', '.join(sorted(known)[:10])}; create it with `yarn-plugin queues apply FILE`, "
                "or name another in --config"
            )


def _server(daemon: Daemon, tokens: Tokens, listen: Listen) -> uvicorn.Server:
    streams = Streams(daemon)
    service = create(daemon, tokens, streams, open_metrics=listen.is_loopback)
    service.router.lifespan_context = _publishing(daemon, streams)
    config = uvicorn.Config(
        service,
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=2,
        ssl_certfile=listen.certificate,
        ssl_keyfile=str(listen.key) if listen.key else None,
    )
    return _Server(config, streams)


class _Server(uvicorn.Server):
    """Ends its streams before it waits for its connections."""

    def __init__(self, config: uvicorn.Config, streams: Streams) -> None:
        super().__init__(config)
        self._streams = streams

    def handle_exit(self, sig: int, frame: object) -> None:
        # Not uvicorn's own way: it would raise the signal again when it is done, and the daemon would not end in order.
        self._streams.stop()
        self.force_exit = self.should_exit
        self.should_exit = True


def _publishing(daemon: Daemon, streams: Streams) -> Callable[[FastAPI], contextlib.AbstractAsyncContextManager[None]]:
    """Pass what is decided from the daemon's thread to the server's loop."""

    @contextlib.asynccontextmanager
    async def lifespan(service: FastAPI) -> AsyncIterator[None]:
        loop = asyncio.get_running_loop()

        def publish(decided: Decided[Event, Command]) -> None:
            # After the loop has closed there is nobody left to tell.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(streams.publish, decided)

        daemon.publish_to(publish)
        yield

    return lifespan


@contextlib.contextmanager
def _listening(listen: Listen) -> Iterator[socket.socket]:
    try:
        opened = socket.create_server((listen.host, listen.port), backlog=512)
    except OSError as problem:
        cause = os.strerror(problem.errno) if problem.errno else problem
        raise ListenError(f"--listen {listen.host}:{listen.port}: {cause}; port 0 takes a free one") from None
    with opened:
        yield opened


def _write_address(state_dir: Path, listen: Listen) -> None:
    """Tell others on this machine where the arbiter is."""
    draft = state_dir / "arbiter.json.part"
    draft.write_text(json.dumps({"url": listen.url, "pid": os.getpid()}) + "\n")
    draft.replace(state_dir / "arbiter.json")
