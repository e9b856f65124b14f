"""The arbiter as a process: the daemon, its HTTP service, signals, and the file that says where it is."""

import asyncio
import contextlib
import gc
import getpass
import ipaddress
import json
import logging
import os
import resource
import socket
import stat
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from ssl import SSLContext
from typing import Any

import uvicorn
from fastapi import FastAPI

from yarn_plugin.act.ownership import Ownership, answers_as, claim, identity
from yarn_plugin.api.connections import MAX_HEAD_BYTES, Connections, CountingListener, limited_protocol
from yarn_plugin.api.refusals import Limits, Refusals
from yarn_plugin.api.service import create
from yarn_plugin.api.streams import Streams
from yarn_plugin.api.tokens import Tokens
from yarn_plugin.decide.arbiter import BUILT_IN
from yarn_plugin.decide.commands import Command
from yarn_plugin.decide.events import Event
from yarn_plugin.decide.pools.controller import Registry
from yarn_plugin.drive.config import ArbiterConfig, LimitsSection
from yarn_plugin.drive.daemon import Daemon, Stopped
from yarn_plugin.drive.diagnostics import Diagnostics
from yarn_plugin.drive.registry import INSTALLED, journal_tags
from yarn_plugin.drive.topology import load_topology
from yarn_plugin.drive.watchdog import Watchdog
from yarn_plugin.errors import BadInputError, ReportedError
from yarn_plugin.files import write_private
from yarn_plugin.journal.codec import Codec
from yarn_plugin.journal.intake import Decided
from yarn_plugin.observe.capabilities import probe
from yarn_plugin.observe.resource_manager import ManagerAwayError, ManagerError, ResourceManager
from yarn_plugin.observe.translate import queues

log = logging.getLogger("yarn_plugin.arbiter")

STATE_FILES = ("journal", "identity", "epoch", "secret", "admin.token", "scrape.token", "arbiter.json")
"""What the names of the files in the state folder begin with."""

MOST_DESCRIPTORS = 1_048_576
"""File descriptors that are asked for, at most."""

BACKLOG = 128
"""Connections that are accepted in one turn of the loop, at most."""

RESERVED = 256 + BACKLOG
"""File descriptors that are no connection's: the journal's, the ResourceManager's, Python's own."""


class ListenError(ReportedError):
    """The service cannot listen where it should."""


class StateError(ReportedError):
    """The state folder cannot be used."""


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
    def is_unspecified(self) -> bool:
        """Whether it is every address of this machine."""
        try:
            return ipaddress.ip_address(self.host).is_unspecified
        except ValueError:
            return False

    @property
    def url(self) -> str:
        """Its address, as others reach it."""
        host = socket.getfqdn() if self.is_unspecified else f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.certificate else 'http'}://{host}:{self.port}"


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
    urls: list[str],
    config: ArbiterConfig,
    listen: Listen,
    state_dir: Path,
    ready: Callable[[str, Path], None],
    verify: str | bool = True,
    accept_loss: bool = False,
    registry: Registry = BUILT_IN,
    registry_at: str = INSTALLED,
) -> None:
    """Run the arbiter until SIGTERM or Ctrl-C. `ready` is told its address and the admin token file.

    `verify`: for a ResourceManager over HTTPS, a file of certificates to trust, or True for the system's.
    `accept_loss`: go on without what follows damage in the journal. `registry`: the controllers that there are;
    `registry_at`: where the worker process finds them, as `module:attribute`.

    Raises:
        FileError: the topology file cannot be used.
        ListenError: the address is taken or not this machine's.
        ManagerError: there is no ResourceManager.
        MissingQueueError: it does not have a pool's queue.
        JournalError: another arbiter uses the same state, or the journal is damaged.
        OwnedError: another arbiter, elsewhere, owns the pools' queues.
        SecretError: the secret in the state folder cannot be used.
        StateError: the state folder cannot be made, or made private.
    """
    user = getpass.getuser()
    pools = tuple(section.pool() for section in config.pools)
    topology = load_topology(config.topology.file) if config.topology.file is not None else None

    def managers() -> ResourceManager:
        return ResourceManager(urls, user, verify)

    make_private(state_dir)
    limits = _limits(config.limits)
    with _listening(listen) as opened:
        listen = Listen(listen.host, opened.getsockname()[1], listen.certificate, listen.key)
        me, parents = identity(state_dir), [pool.queue for pool in pools]

        def claim_queues() -> Ownership | None:
            return claim(managers(), parents, me, listen.url, answers_as)

        daemon = Daemon(
            managers,
            pools,
            config.poll.intervals(),
            state_dir,
            config.poll.reconcile_s,
            accept_loss,
            me,
            claim_queues,
            config.watchdog_s,
            registry,
            registry_at,
            config.limits.solve_timeout_s,
            topology=topology,
        )
        spare_the_collector()
        watchdog = Watchdog(daemon.is_alive, lambda: daemon.heartbeat.count, config.watchdog_s)
        try:
            tokens = Tokens(state_dir)
            _check_queues(managers(), config, patient=daemon.state.manager_url is not None)
            daemon.start()
            watchdog.start()
            refusals = Refusals()
            connections = Connections(limits.max_connections, refusals)
            asking = Diagnostics(managers)
            server = _server(daemon, tokens, listen, limits, refusals, connections, asking, config.users, registry)
            _write_address(state_dir, listen)
            ready(listen.url, tokens.admin_file)
            log.info("listening on %s, resumed from %d journaled inputs", listen.url, daemon.resumed)
            server.run(sockets=[CountingListener(opened, connections, secure=listen.certificate is not None)])
        finally:
            watchdog.close()
            daemon.stop()


def spare_the_collector() -> None:
    """Have the garbage collector leave alone what is there for good, and come seldom.

    What the arbiter knows is immutable and without cycles, so that nothing of it waits for the collector; which would
    all the same go through all of it while an answer of thousands of applications is read, and hold up everything.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)


def make_private(state_dir: Path) -> None:
    """Make the state folder, and keep it and whatever is written from now on from everybody else.

    Raises:
        StateError: the folder cannot be made, is another user's, or is one that all may write to.
    """
    os.umask(0o077)
    try:
        state_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        if _is_to_be_closed(state_dir):
            _close_to_others(state_dir, 0o700)
        for path in state_dir.iterdir():
            if path.name.startswith(STATE_FILES) and path.is_file() and not path.is_symlink():
                _close_to_others(path, 0o600)
    except OSError as problem:
        where = problem.filename or state_dir
        raise StateError(f"--state {str(where)!r}: {problem.strerror}; choose a folder of your own") from None


def _is_to_be_closed(state_dir: Path) -> bool:
    """Whether a folder is the arbiter's alone. One that holds other files is left as it is: they may be others' too.

    Raises:
        StateError: it is another user's, or others could exchange the files in it.
    """
    found, where = state_dir.stat(), f"--state {str(state_dir)!r}"
    if found.st_uid != os.geteuid():
        raise StateError(f"{where}: it belongs to another user; choose a folder of your own")
    if found.st_mode & stat.S_ISVTX:
        raise StateError(f"{where}: every user can write there; choose a folder of your own")
    names = [path.name for path in state_dir.iterdir()]
    if not names or any(name.startswith("journal") for name in names):
        return True
    if found.st_mode & 0o022:
        raise StateError(f"{where}: other users can write there; choose a folder of your own")
    return all(name.startswith(STATE_FILES) for name in names)


def _close_to_others(path: Path, mode: int) -> None:
    if path.stat().st_mode & 0o077:
        path.chmod(mode)
        log.warning("%s was accessible to other users; now it is private", path)


def _limits(section: LimitsSection) -> Limits:
    """The limits in force: those configured, as far as this process may have descriptors for them."""
    descriptors = _raise_descriptors()
    connections = max(min(section.max_connections, descriptors - RESERVED), 1)
    limits = Limits(
        max_connections=connections,
        # A quarter of the connections is kept for requests that are answered and done.
        max_streams=min(section.max_streams, max(connections - connections // 4, 1)),
        max_body=section.max_body_kb * 1024,
        header_timeout=section.header_timeout_s,
        metrics_apps=section.metrics_apps,
    )
    log.info(
        "limits: %d connections (%d descriptors), %d streams; head %d KiB, body %d KiB, within %g s each; read by h11",
        limits.max_connections, descriptors, limits.max_streams, MAX_HEAD_BYTES // 1024, section.max_body_kb,
        limits.header_timeout,
    )  # fmt: skip
    if connections < section.max_connections:
        log.warning("max_connections %d: only %d descriptors are allowed", section.max_connections, descriptors)
    return limits


def _raise_descriptors() -> int:
    """Allow this process as many file descriptors as it may; returns how many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MOST_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
    return MOST_DESCRIPTORS if soft == resource.RLIM_INFINITY else soft


def _check_queues(manager: ResourceManager, config: ArbiterConfig, patient: bool) -> None:
    """Every pool's queue must be there; a manager that is away for now is no reason not to start again."""
    try:
        probe(manager)
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


def _server(
    daemon: Daemon,
    tokens: Tokens,
    listen: Listen,
    limits: Limits,
    refusals: Refusals,
    connections: Connections,
    diagnostics: Diagnostics,
    users: dict[str, list[str]],
    registry: Registry,
) -> uvicorn.Server:
    streams = Streams(daemon, limits.max_streams, Codec(journal_tags(registry)))
    service = create(
        daemon,
        tokens,
        streams,
        diagnostics.why_waiting,
        limits=limits,
        refusals=refusals,
        users=users,
        connections=lambda: connections.open,
        ended=Stopped,
        registry=registry,
    )
    service.router.lifespan_context = _publishing(daemon, streams)
    config = uvicorn.Config(
        service,
        # Other loops accept connections without asking the socket, which counts them; other protocols have no limits.
        loop="asyncio",
        http=limited_protocol(limits, refusals),
        ws="none",
        h11_max_incomplete_event_size=MAX_HEAD_BYTES,
        backlog=BACKLOG,
        # Whatever is not HTTP would be a line in the log each, for anybody who can connect.
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        headers=[("X-Content-Type-Options", "nosniff")],
        timeout_graceful_shutdown=2,
        ssl_certfile=listen.certificate,
        ssl_keyfile=str(listen.key) if listen.key else None,
    )
    return _Server(config, streams, limits.header_timeout)


class _Server(uvicorn.Server):
    """Ends its streams before it waits for its connections; waits for TLS no longer than for a request's head."""

    def __init__(self, config: uvicorn.Config, streams: Streams, handshake_timeout: float) -> None:
        super().__init__(config)
        self._streams, self._handshake_timeout = streams, handshake_timeout

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        # uvicorn has no setting for this: asyncio's own 60 s would hold a connection that much longer.
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
        streams.catch_up(daemon.history())
        yield

    return lifespan


@contextlib.contextmanager
def _listening(listen: Listen) -> Iterator[socket.socket]:
    try:
        family = socket.AF_INET6 if ":" in listen.host else socket.AF_INET
        opened = socket.create_server((listen.host, listen.port), family=family, backlog=BACKLOG)
    except OSError as problem:
        cause = os.strerror(problem.errno) if problem.errno else problem
        raise ListenError(f"--listen {listen.host}:{listen.port}: {cause}; port 0 takes a free one") from None
    with opened:
        yield opened


def _write_address(state_dir: Path, listen: Listen) -> None:
    """Tell others on this machine where the arbiter is."""
    file = state_dir / "arbiter.json"
    try:
        write_private(file, json.dumps({"url": listen.url, "pid": os.getpid()}) + "\n")
    except OSError as problem:
        raise StateError(f"state file {str(file)!r}: {problem.strerror}") from None
