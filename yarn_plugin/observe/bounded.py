"""HTTP answers of bounded size and duration, however slowly or endlessly they are sent."""

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
"""From a request to the last byte of its answer. (The timeouts of `requests` hold for each read alone.)"""

MAX_BYTES = 128 * 1024 * 1024
"""Of an answer, unpacked. 10,000 nodes take about 25 MB, 10,000 applications 50 MB."""

_PART = 64 * 1024


class TooLargeError(Exception):
    """An answer is larger than `MAX_BYTES`."""


def bounded_session() -> requests.Session:
    """A session whose answers end in `MAX_SECONDS`, headers included; that follows no proxy and reads no netrc."""
    session = requests.Session()
    session.trust_env = False
    for scheme in ("http://", "https://"):
        session.mount(scheme, _BoundedAdapter())
    return session


def read_body(answer: requests.Response, limit: int | None = None) -> bytes:
    """The body of an answer that was asked for with `stream=True`.

    Raises:
        TooLargeError: it is larger than `limit` (`MAX_BYTES` where none is given).
        requests.RequestException: it did not come in time, or not whole.
    """
    body, most = bytearray(), MAX_BYTES if limit is None else limit
    with answer:
        for part in answer.iter_content(_PART):
            body += part
            if len(body) > most:
                raise TooLargeError
    return bytes(body)


class _UntilDeadline(io.RawIOBase):
    """Reads from a socket, each time no longer than is left until the deadline."""

    def __init__(self, sock: socket.socket, raw: Any, deadline: float) -> None:
        self._sock, self._raw, self._deadline = sock, raw, deadline
        self._usual = sock.gettimeout()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("the answer takes too long")
        self._sock.settimeout(left if self._usual is None else min(left, self._usual))
        count: int | None = self._raw.readinto(buffer)
        # The connection may be used again, for a question of its own deadline.
        self._sock.settimeout(self._usual)
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
