"""A reverse proxy on loopback that can answer as a broken network, cache or gateway would.

A fault is a function of (the request, a function that forwards it) that returns a `Reply`, or None to drop the
connection. `HostileProxy.set` sets a fault for paths; other requests are forwarded. All writes are recorded.
"""

import contextlib
import http.client
import json
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

HOP_BY_HOP = {
    "connection",
    "keep-alive",
    "transfer-encoding",
    "content-length",
    "te",
    "trailer",
    "upgrade",
    "server",
    "date",
}


@dataclass
class Request:
    """A request to the proxy; `path` is without the query."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes


@dataclass
class Reply:
    """An answer. `promised`: a false Content-Length; `piece`, `pause_s`: bytes sent at a time, and pauses."""

    status: int
    body: bytes
    headers: dict[str, str] = field(default_factory=lambda: {"Content-Type": "application/json"})
    promised: int | None = None
    piece: int = 0
    pause_s: float = 0.0


Forward = Callable[[], Reply]
Fault = Callable[[Request, Forward], Reply | None]


@dataclass
class _Rule:
    path: re.Pattern[str]
    method: str | None
    fault: Fault
    times: int | None
    used: int = 0


class HostileProxy:
    """A proxy of `target` (http://host:port), with TLS if it has a certificate (and its key, in one file).

    `writes`: each PUT, POST and DELETE that the target accepted.
    """

    def __init__(self, target: str, certificate: Path | None = None) -> None:
        self.target = target
        self.writes: list[Request] = []
        self._rules: list[_Rule] = []
        self._lock = threading.Lock()
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout = 60

            def _handle(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                parts = urlsplit(self.path)
                query = {name: values[0] for name, values in parse_qs(parts.query).items()}
                request = Request(self.command, parts.path, query, dict(self.headers.items()), body)
                reply = proxy._reply(request, self.path)
                with contextlib.suppress(OSError):
                    self._send(reply)

            def _send(self, reply: Reply | None) -> None:
                if reply is None:
                    self.close_connection = True
                    self.connection.shutdown(socket.SHUT_RDWR)
                    return
                self.send_response(reply.status)
                for name, value in reply.headers.items():
                    self.send_header(name, value)
                length = len(reply.body) if reply.promised is None else reply.promised
                self.send_header("Content-Length", str(length))
                if reply.promised is not None:
                    self.close_connection = True
                    self.send_header("Connection", "close")
                self.end_headers()
                for at in range(0, len(reply.body), reply.piece or max(len(reply.body), 1)):
                    self.wfile.write(reply.body[at : at + (reply.piece or len(reply.body))])
                    self.wfile.flush()
                    time.sleep(reply.pause_s)

            do_GET = do_PUT = do_POST = do_DELETE = do_PATCH = _handle  # noqa: N815 - the names that http.server requires

            def log_message(self, *arguments: Any) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 256

            def handle_error(self, request: Any, client_address: Any) -> None:
                pass  # the client closed its connection

        self._server = Server(("127.0.0.1", 0), Handler)
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        self.url = f"{'https' if certificate else 'http'}://127.0.0.1:{self._server.server_address[1]}"

    def set(self, path: str, fault: Fault, times: int | None = None, method: str | None = "GET") -> Callable[[], int]:
        """Answer requests whose path matches an expression with a fault, at most `times` times.

        Returns a function that returns how often that was done.
        """
        rule = _Rule(re.compile(path), method, fault, times)
        with self._lock:
            self._rules.insert(0, rule)
        return lambda: rule.used

    def allow(self, path: str) -> None:
        """Remove the faults that were set with this expression."""
        with self._lock:
            self._rules = [rule for rule in self._rules if rule.path.pattern != path]

    def clear_faults(self) -> None:
        """Forward all requests again."""
        with self._lock:
            self._rules.clear()

    def reset(self) -> None:
        """Remove all faults and recorded writes."""
        self.clear_faults()
        self.writes.clear()

    def queue_writes(self) -> list[dict[str, Any]]:
        """Each change of a queue that the server accepted: its name, the kind of change, and the properties."""
        changes = []
        for request in list(self.writes):
            if request.path.endswith("/scheduler-conf"):
                with contextlib.suppress(ValueError):
                    changes += _changes(json.loads(request.body))
        return changes

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()

    def _reply(self, request: Request, target: str) -> Reply | None:
        with self._lock:
            rule = next((rule for rule in self._rules if self._matches(rule, request)), None)
            if rule:
                rule.used += 1
        if rule:
            return rule.fault(request, lambda: self._forward(request, target))
        return self._forward(request, target)

    @staticmethod
    def _matches(rule: _Rule, request: Request) -> bool:
        is_active = rule.times is None or rule.used < rule.times
        return is_active and rule.method in (None, request.method) and bool(rule.path.search(request.path))

    def _forward(self, request: Request, target: str) -> Reply:
        parts = urlsplit(self.target)
        headers = {
            name: value
            for name, value in request.headers.items()
            if name.lower() not in HOP_BY_HOP | {"host", "accept-encoding"}
        }
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=30)
        try:
            connection.request(request.method, target, request.body or None, headers)
            answer = connection.getresponse()
            body = answer.read()
            headers = {name: value for name, value in answer.getheaders() if name.lower() not in HOP_BY_HOP}
        except (OSError, http.client.HTTPException):
            return Reply(502, b'{"message": "the target does not answer"}')
        finally:
            connection.close()
        if request.method != "GET" and answer.status < 300:
            self.writes.append(request)
        return Reply(answer.status, body, headers)


def _changes(body: dict[str, Any]) -> list[dict[str, Any]]:
    changes: list[dict[str, Any]] = []
    for kind in ("update-queue", "add-queue"):
        for one in _each(body.get(kind)):
            entries = _each((one.get("params") or {}).get("entry"))
            changes.append(
                {"queue": one.get("queue-name", ""), "kind": kind, "set": {e["key"]: e.get("value") for e in entries}}
            )
    changes += [{"queue": str(one), "kind": "remove-queue", "set": {}} for one in _each(body.get("remove-queue"))]
    for one in _each(body.get("global-updates")):
        changes.append({"queue": "", "kind": "global-updates", "set": one})
    return changes


def _each(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


# Faults.


def json_reply(value: Any, status: int = 200) -> Fault:
    """Always answer with this JSON."""
    return lambda request, forward: Reply(status, json.dumps(value).encode())


def text(body: bytes, status: int = 200, kind: str = "text/html") -> Fault:
    """Always answer with these bytes."""
    return lambda request, forward: Reply(status, body, {"Content-Type": kind})


def drop(request: Request, forward: Forward) -> None:
    """Close the connection without an answer."""


def redirect(request: Request, forward: Forward) -> Reply:
    """Redirect to a login page, as a gateway does."""
    return Reply(302, b"", {"Location": "http://127.0.0.1:1/login"})


def truncated(request: Request, forward: Forward) -> Reply:
    """Close the connection in the middle of the answer."""
    real = forward()
    return Reply(real.status, real.body[: len(real.body) // 2], real.headers, promised=len(real.body))


def half(request: Request, forward: Forward) -> Reply:
    """Send half of the JSON as a complete answer."""
    real = forward()
    return Reply(real.status, real.body[: len(real.body) // 2], real.headers)


def trickle(request: Request, forward: Forward) -> Reply:
    """Send the answer in fifty pieces, with pauses of 60 ms."""
    real = forward()
    return Reply(real.status, real.body, real.headers, piece=max(len(real.body) // 50, 1), pause_s=0.06)


def wrong_types(request: Request, forward: Forward) -> Reply:
    """Replace numbers by strings, strings by lists, lists by numbers."""
    real = forward()
    with contextlib.suppress(ValueError):
        return Reply(real.status, json.dumps(_twisted(json.loads(real.body), 0)).encode())
    return real


def _twisted(value: Any, depth: int) -> Any:
    match value:
        case dict():
            return {name: _twisted(one, depth + 1) for name, one in value.items()}
        case bool():
            return "true"
        case int() | float():
            return f"{value} units"
        case str():
            return [value]
        case list():
            return [_twisted(one, depth + 1) for one in value] if depth < 3 else 7
    return 0


def numbers(literal: str) -> Fault:
    """Replace every number in the answer by a literal (1e999, -1, NaN, a hundred digits)."""

    def fault(request: Request, forward: Forward) -> Reply:
        real = forward()
        body = re.sub(rb"([:\[,]\s*)-?\d+(\.\d+)?(?=\s*[,}\]])", rb"\g<1>" + literal.encode(), real.body)
        return Reply(real.status, body, real.headers)

    return fault


def nested(request: Request, forward: Forward) -> Reply:
    """Twenty thousand nested lists."""
    return Reply(200, b"[" * 20_000 + b"]" * 20_000)


def finished_apps(count: int, queue: str = "root.sql.gone") -> Fault:
    """Drop the query, as a gateway may: the list of applications has `count` finished ones too."""

    def fault(request: Request, forward: Forward) -> Reply:
        real = forward()
        listed = ((json.loads(real.body).get("apps") or {}).get("app")) or []
        finished = [_finished(number, f"{queue}_{number % 50}") for number in range(count)]
        return Reply(200, json.dumps({"apps": {"app": [*listed, *finished]}}).encode())

    return fault


def _finished(number: int, queue: str) -> dict[str, Any]:
    return {
        "id": f"application_1600000000000_{number:05}", "name": "long gone", "user": "ghost", "queue": queue,
        "state": ("FINISHED", "KILLED", "FAILED")[number % 3], "finalStatus": "SUCCEEDED", "startedTime": 1600000000000,
        "finishedTime": 1600000100000, "allocatedMB": -1, "allocatedVCores": -1, "runningContainers": -1,
    }  # fmt: skip


def edited(change: Callable[[Any], Any]) -> Fault:
    """The real answer, its JSON modified by a function."""

    def fault(request: Request, forward: Forward) -> Reply:
        real = forward()
        with contextlib.suppress(ValueError):
            return Reply(real.status, json.dumps(change(json.loads(real.body))).encode(), real.headers)
        return real

    return fault
