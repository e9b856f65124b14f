"""HTTP requests whose answers are bounded in size and time, even from a slow or endless sender."""

import http.client
import io
import socket
import time
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

MAX_SECONDS = 30.0
"""From a request to the last byte of its answer. (The timeouts of `requests` apply to single reads.)"""

MAX_BYTES = 128 * 1024 * 1024
"""Of an answer, uncompressed. 10,000 nodes take about 25 MB, 10,000 applications 50 MB."""

_CHUNK = 64 * 1024


class TooLargeError(Exception):
    """An answer is larger than `MAX_BYTES`."""


def bounded_session() -> requests.Session:
    """A session whose answers, with headers, take at most `MAX_SECONDS`. It ignores proxies and netrc."""
    session = requests.Session()
    session.trust_env = False
    for scheme in ("http://", "https://"):
        session.mount(scheme, _BoundedAdapter())
    return session


def read_body(answer: requests.Response, limit: int | None = None) -> bytes:
    """Read the body of an answer to a request with `stream=True`.

    Raises:
        TooLargeError: it is larger than `limit` (default: `MAX_BYTES`).
        requests.RequestException: it is late or incomplete.
    """
    body, max_bytes = bytearray(), MAX_BYTES if limit is None else limit
    with answer:
        for chunk in answer.iter_content(_CHUNK):
            body += chunk
            if len(body) > max_bytes:
                raise TooLargeError
    return bytes(body)


class _UntilDeadline(io.RawIOBase):
    """Reads from a socket until a deadline."""

    def __init__(self, sock: socket.socket, raw: Any, deadline: float) -> None:
        self._sock, self._raw, self._deadline = sock, raw, deadline
        self._timeout = sock.gettimeout()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("the answer takes too long")
        self._sock.settimeout(left if self._timeout is None else min(left, self._timeout))
        count: int | None = self._raw.readinto(buffer)
        # The connection may be reused for a request with its own deadline.
        self._sock.settimeout(self._timeout)
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()


class _BoundedResponse(http.client.HTTPResponse):
    def __init__(self, sock: socket.socket, *arguments: Any, **options: Any) -> None:
        super().__init__(sock, *arguments, **options)
        raw = self.fp.detach()
        self.fp = io.BufferedReader(_UntilDeadline(sock, raw, time.monotonic() + MAX_SECONDS))


class _Connection(HTTPConnection):
    response_class = _BoundedResponse


class _SecureConnection(HTTPSConnection):
    response_class = _BoundedResponse


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Connection


class _SecurePool(HTTPSConnectionPool):
    ConnectionCls = _SecureConnection


class _BoundedAdapter(HTTPAdapter):
    def init_poolmanager(self, *arguments: Any, **options: Any) -> None:
        super().init_poolmanager(*arguments, **options)
        self.poolmanager.pool_classes_by_scheme = {"http": _Pool, "https": _SecurePool}
