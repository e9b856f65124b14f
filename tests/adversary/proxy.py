"""A reverse proxy on loopback that answers well, or in any way a broken network, cache or gateway would.

A mood is a function of (the request, a function that asks the real server) that returns a `Reply`, or None to drop the
connection. `HostileProxy.set` gives paths a mood; everything else passes through. All writes are recorded.
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
class Asked:
    """A request that the proxy got; `path` without the query."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes


@dataclass
class Reply:
    """What is answered. `promised`: a Content-Length that is not the body's; `pause_s`: between pieces of a trickle."""

    status: int
    body: bytes
    headers: dict[str, str] = field(default_factory=lambda: {"Content-Type": "application/json"})
    promised: int | None = None
    piece: int = 0
    pause_s: float = 0.0


Forward = Callable[[], Reply]
Mood = Callable[[Asked, Forward], Reply | None]


@dataclass
class _Rule:
    path: re.Pattern[str]
    method: str | None
    mood: Mood
    times: int | None
    used: int = 0


class HostileProxy:
    """Stands before `target` (http://host:port); over TLS where it has a certificate (with its key, in one file).

    `writes` holds every PUT, POST and DELETE that got through.
    """

    def __init__(self, target: str, certificate: Path | None = None) -> None:
        self.target = target
        self.writes: list[Asked] = []
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
                asked = Asked(self.command, parts.path, query, dict(self.headers.items()), body)
                reply = proxy._reply(asked, self.path)
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

            do_GET = do_PUT = do_POST = do_DELETE = do_PATCH = _handle  # noqa: N815 - the names http.server looks for

            def log_message(self, *arguments: Any) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 256

            def handle_error(self, request: Any, client_address: Any) -> None:
                pass  # a client that has gone

        self._server = Server(("127.0.0.1", 0), Handler)
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        self.url = f"{'https' if certificate else 'http'}://127.0.0.1:{self._server.server_address[1]}"

    def set(self, path: str, mood: Mood, times: int | None = None, method: str | None = "GET") -> Callable[[], int]:
        """Answer requests whose path matches the expression in this mood (so many times).

        Returns a function that says how often that was done.
        """
        rule = _Rule(re.compile(path), method, mood, times)
        with self._lock:
            self._rules.insert(0, rule)
        return lambda: rule.used

    def allow(self, path: str) -> None:
        """End the moods that were set with this expression."""
        with self._lock:
            self._rules = [rule for rule in self._rules if rule.path.pattern != path]

    def behave(self) -> None:
        """Pass everything through again."""
        with self._lock:
            self._rules.clear()

    def forget(self) -> None:
        """Behave, and forget what was written."""
        self.behave()
        self.writes.clear()

    def queue_writes(self) -> list[dict[str, Any]]:
        """Every change of a queue that the server took: its name, what was done, and the properties."""
        found = []
        for asked in list(self.writes):
            if asked.path.endswith("/scheduler-conf"):
                with contextlib.suppress(ValueError):
                    found += _changes(json.loads(asked.body))
        return found

    def close(self) -> None:
        """Listen no more."""
        self._server.shutdown()
        self._server.server_close()

    def _reply(self, asked: Asked, target: str) -> Reply | None:
        with self._lock:
            rule = next((rule for rule in self._rules if self._matches(rule, asked)), None)
            if rule:
                rule.used += 1
        if rule:
            return rule.mood(asked, lambda: self._forward(asked, target))
        return self._forward(asked, target)

    @staticmethod
    def _matches(rule: _Rule, asked: Asked) -> bool:
        fresh = rule.times is None or rule.used < rule.times
        return fresh and rule.method in (None, asked.method) and bool(rule.path.search(asked.path))

    def _forward(self, asked: Asked, target: str) -> Reply:
        parts = urlsplit(self.target)
        headers = {
            name: value
            for name, value in asked.headers.items()
            if name.lower() not in HOP_BY_HOP | {"host", "accept-encoding"}
        }
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=30)
        try:
            connection.request(asked.method, target, asked.body or None, headers)
            answer = connection.getresponse()
            body = answer.read()
            kept = {name: value for name, value in answer.getheaders() if name.lower() not in HOP_BY_HOP}
        except (OSError, http.client.HTTPException):
            return Reply(502, b'{"message": "nobody behind this proxy"}')
        finally:
            connection.close()
        if asked.method != "GET" and answer.status < 300:
            self.writes.append(asked)
        return Reply(answer.status, body, kept)


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


# Moods.


def json_reply(value: Any, status: int = 200) -> Mood:
    """Always this JSON."""
    return lambda asked, forward: Reply(status, json.dumps(value).encode())


def text(body: bytes, status: int = 200, kind: str = "text/html") -> Mood:
    """Always these bytes."""
    return lambda asked, forward: Reply(status, body, {"Content-Type": kind})


def drop(asked: Asked, forward: Forward) -> None:
    """The connection is cut without an answer."""


def redirect(asked: Asked, forward: Forward) -> Reply:
    """A gateway's login page is elsewhere."""
    return Reply(302, b"", {"Location": "http://127.0.0.1:1/login"})


def truncated(asked: Asked, forward: Forward) -> Reply:
    """The connection is cut in the middle of the answer."""
    real = forward()
    return Reply(real.status, real.body[: len(real.body) // 2], real.headers, promised=len(real.body))


def half(asked: Asked, forward: Forward) -> Reply:
    """Half of the JSON, declared complete."""
    real = forward()
    return Reply(real.status, real.body[: len(real.body) // 2], real.headers)


def trickle(asked: Asked, forward: Forward) -> Reply:
    """The answer comes in fifty pieces, with pauses of 60 ms."""
    real = forward()
    return Reply(real.status, real.body, real.headers, piece=max(len(real.body) // 50, 1), pause_s=0.06)


def wrong_types(asked: Asked, forward: Forward) -> Reply:
    """Numbers are strings, strings are lists, lists are numbers."""
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


def numbers(spelt: str) -> Mood:
    """Every number in the answer is this one, as it is spelt (1e999, -1, NaN, a hundred digits)."""

    def mood(asked: Asked, forward: Forward) -> Reply:
        real = forward()
        body = re.sub(rb"([:\[,]\s*)-?\d+(\.\d+)?(?=\s*[,}\]])", rb"\g<1>" + spelt.encode(), real.body)
        return Reply(real.status, body, real.headers)

    return mood


def nested(asked: Asked, forward: Forward) -> Reply:
    """Twenty thousand lists in one another."""
    return Reply(200, b"[" * 20_000 + b"]" * 20_000)


def finished_apps(count: int, queue: str = "root.sql.gone") -> Mood:
    """A gateway that drops the query: so many finished applications beside the real ones."""

    def mood(asked: Asked, forward: Forward) -> Reply:
        real = forward()
        said = json.loads(real.body)
        listed = ((said.get("apps") or {}).get("app")) or []
        finished = [_finished(number, f"{queue}_{number % 50}") for number in range(count)]
        return Reply(200, json.dumps({"apps": {"app": [*listed, *finished]}}).encode())

    return mood


def _finished(number: int, queue: str) -> dict[str, Any]:
    return {
        "id": f"application_1600000000000_{number:05}", "name": "long gone", "user": "ghost", "queue": queue,
        "state": ("FINISHED", "KILLED", "FAILED")[number % 3], "finalStatus": "SUCCEEDED", "startedTime": 1600000000000,
        "finishedTime": 1600000100000, "allocatedMB": -1, "allocatedVCores": -1, "runningContainers": -1,
    }  # fmt: skip


def edited(change: Callable[[Any], Any]) -> Mood:
    """The real answer's JSON, changed."""

    def mood(asked: Asked, forward: Forward) -> Reply:
        real = forward()
        with contextlib.suppress(ValueError):
            return Reply(real.status, json.dumps(change(json.loads(real.body))).encode(), real.headers)
        return real

    return mood
