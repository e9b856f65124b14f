"""`qoop server` from its options to its end: registered, Spark started, clients served, all of it shut down."""

import asyncio
import contextlib
import importlib.util
import logging
import signal
import socket
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from qoop.errors import QoopError
from qoop.server.limits import Budget, ServerLimits
from qoop.submit.job import SparkFlags, SubmissionError, check_share_and_tables
from qoop.submit.registration import ArbiterAccess, Registration
from yarn_plugin.console import OneLineFormatter
from yarn_plugin.errors import BadInputError, os_reason
from yarn_plugin.serving.address import Address

if TYPE_CHECKING:
    from qoop.as_written.decide import PlanWhen
    from qoop.server.connections import Listener
    from qoop.server.handler import Handler
    from qoop.server.spark import SparkApplication

log = logging.getLogger("qoop.server")

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)

CHECK_S = 5.0
"""Seconds between checks for idle sessions, and whether Spark has stopped."""

QUIET_S = 2.0
"""Seconds without a statement after which a server that shuts down waits no longer for rows to be fetched."""

NEEDED = "needs the extra `server`: pip install 'yarn-plugin[server]'"


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """What `qoop server` was asked for. `drain_s`: how long running statements may take at shutdown."""

    address: Address
    name: str = "qoop server"
    tables: Path | None = None
    profile: Path | None = None
    plan: "PlanWhen | None" = None
    spill: Path | None = None
    drain_s: float = 30.0
    limits: ServerLimits = field(default_factory=ServerLimits)


class SparkStoppedError(QoopError):
    """Spark has stopped: the cluster has ended the application, or its JVM has died."""


def serve(settings: ServerSettings, flags: SparkFlags, access: ArbiterAccess | None) -> int:
    """Serve until SIGTERM or Ctrl-C.

    Raises:
        SubmissionError: the options contradict each other.
        ArbiterError: the arbiter cannot be reached, or refuses.
        SparkStoppedError: Spark has stopped.
    """
    from qoop.submit.application import registered

    _check(settings, flags, access)
    _log_to_stderr()
    # Before Spark is started, which takes seconds: the address may be in use.
    with contextlib.closing(_bind(settings.address)) as listening:
        certificate = _certificate(settings.address)
        signal.signal(signal.SIGTERM, _interrupt)
        with registered(settings.name, flags, access, log.warning) as registration:
            _serve(settings, flags, access, registration, listening, certificate)
    return 0


def _interrupt(number: int, frame: object) -> None:
    """Until clients are served, SIGTERM is like Ctrl-C: what has been started is ended on the way out."""
    raise KeyboardInterrupt


def _log_to_stderr() -> None:
    shown = logging.StreamHandler()
    shown.setFormatter(OneLineFormatter("%(asctime)s %(levelname)s %(message)s"))
    log.addHandler(shown)
    log.setLevel(logging.INFO)
    log.propagate = False
    # Of each SHOW and DESCRIBE, that it is not planned; of each statement that fails, Java's stack trace.
    for name in ("sqlglot", "py4j", "pyspark", "SQLQueryContextLogger"):
        logging.getLogger(name).setLevel(logging.CRITICAL)


def _check(settings: ServerSettings, flags: SparkFlags, access: ArbiterAccess | None) -> None:
    for package in ("thrift", "TCLIService"):
        if importlib.util.find_spec(package) is None:
            raise SubmissionError(f"qoop server: {NEEDED} ({package} is missing)")
    if flags.is_cluster_mode:
        raise SubmissionError("--deploy-mode cluster: cannot be given; clients connect to the driver, so it runs here")
    check_share_and_tables(settings.profile, settings.tables)
    if access is None and not settings.address.is_loopback:
        raise BadInputError(
            "--listen", str(settings.address), "requires --arbiter, whose tokens are the passwords of clients"
        )


def _serve(
    settings: ServerSettings,
    flags: SparkFlags,
    access: ArbiterAccess | None,
    registration: Registration | None,
    listening: socket.socket,
    certificate: ssl.SSLContext | None,
) -> None:
    from qoop.server.authentication import ByName, ByToken
    from qoop.server.connections import Listener
    from qoop.server.handler import Handler
    from qoop.server.results import ResultRoom
    from qoop.server.start import started

    limits = settings.limits
    folder = None if settings.spill is None else str(settings.spill)
    room = ResultRoom(Budget(limits.memory_bytes), Budget(limits.disk_bytes), folder)
    authenticator = ByName() if access is None else ByToken(access.url, access.verify)
    with started(settings.name, settings.tables, settings.profile, settings.plan, flags, access, registration) as spark:
        handler = Handler(spark, limits, room)
        listener = Listener(listening, handler, authenticator, limits, certificate)
        asyncio.run(_run(settings, handler, listener, spark))


async def _run(settings: ServerSettings, handler: "Handler", listener: "Listener", spark: "SparkApplication") -> None:
    """Serve until a signal arrives, then let running statements end."""
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, stopping.set)
    await listener.start()
    log.info("listening at %s", listener.where)
    try:
        while not stopping.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CHECK_S):
                    await stopping.wait()
            if await loop.run_in_executor(None, spark.has_stopped):
                raise SparkStoppedError("Spark has stopped; its log, or the cluster's of this application, says why")
            await handler.close_idle()
        log.info("shutting down: running statements have %g s to end", settings.drain_s)
        listener.close()
        handler.stop_starting()
        await _drain(handler, settings.drain_s)
    finally:
        listener.close()
        await handler.close()


async def _drain(handler: "Handler", seconds: float) -> None:
    """Wait until no statement runs, and clients have had time to fetch the rows of the last."""
    loop = asyncio.get_running_loop()
    deadline, busy_at = loop.time() + seconds, loop.time() - QUIET_S
    while handler.sessions.all() and loop.time() < deadline:
        if handler.is_busy:
            busy_at = loop.time()
        elif loop.time() - busy_at > QUIET_S:
            return
        await asyncio.sleep(0.1)


def _bind(address: Address) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    opened = socket.socket(family, socket.SOCK_STREAM)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        opened.bind((address.host, address.port))
    except OSError as problem:
        opened.close()
        raise BadInputError("--listen", str(address), f"{os_reason(problem)}; choose another port or address") from None
    return opened


def _certificate(address: Address) -> ssl.SSLContext | None:
    from qoop.server.connections import tls

    return None if address.certificate is None else tls(str(address.certificate), str(address.key))
