"""A folder in HDFS as a store, over its REST interface (WebHDFS), as the user who runs this program.

A client of our own: `requests` is here already, and fsspec's client has no renames that replace a file. Simple
authentication alone: HDFS believes the name of the user.

A file is written under a hidden name and renamed, so that it is there whole or not at all. A rename replaces what has
the name, as on POSIX. What a NameNode refuses that starts or is in safe mode, and what a DataNode does not answer that
is gone, is tried again for some seconds; a `StoreError` then says what was said.

HDFS is consistent: what one client has written, all others read. A file that is written is on all its DataNodes, though
perhaps only in their memory.
"""

import contextlib
import getpass
import json
import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TypeVar
from urllib.parse import quote, unquote, urlsplit

import requests

from themis_agent.errors import StoreError
from yarn_plugin.errors import BadInputError, os_reason
from yarn_plugin.observe.bounded import TooLargeError, bounded_session, read_body

SCHEME = "webhdfs"
Timeout = tuple[float, float]
TIMEOUT_S: Timeout = (5.0, 30.0)
"""To connect, and between two bytes of an answer."""

RETRY_S = (0.2, 1.0, 2.0)
"""Between attempts."""

CHUNK = 1 << 20
FILE_MODE, FOLDER_MODE = "600", "700"
_PARTIAL = "._partial-"
_MAX_REFUSAL = 1 << 20
_RETRIED = frozenset(("RetriableException", "StandbyException", "SafeModeException", "NoDatanodesException"))
_KERBEROS = "it asks for Kerberos (SPNEGO), which is not supported: a cluster with simple authentication is needed"

_T = TypeVar("_T")
_Body = bytes | BinaryIO | None


@dataclass(frozen=True, slots=True)
class Status:
    """Of a file or folder. `size` in bytes, `modified_ms` since the epoch, `mode` in octal."""

    size: int
    modified_ms: int
    owner: str
    mode: int
    is_folder: bool


class MissingError(StoreError):
    """There is no such file or folder."""


class _AwayError(StoreError):
    """It may work in a moment. `node`: the DataNode that did not answer; "": the NameNode."""

    def __init__(self, message: str, node: str = "") -> None:
        super().__init__(message)
        self.node = node


class HdfsStore:
    """See the module. `url`: webhdfs://HOST:PORT/PATH, of the NameNode's web address. `user`: as whom; None: as the
    user of this program, in a container of YARN the submitter. `retry_s`: waits between attempts. `timeout_s`: see
    `TIMEOUT_S`.

    All methods raise `StoreError`. For any thread.
    """

    def __init__(
        self,
        url: str,
        user: str | None = None,
        retry_s: tuple[float, ...] = RETRY_S,
        *,
        timeout_s: Timeout = TIMEOUT_S,
    ) -> None:
        parts = urlsplit(url)
        self.url, self._authority = url.rstrip("/"), parts.netloc
        self._root = unquote(parts.path).rstrip("/")
        self.user, self._retry_s, self._timeout_s = user or getpass.getuser(), retry_s, timeout_s

    def url_of(self, name: str) -> str:
        """The URL of a file or folder, also for YARN."""
        return f"{SCHEME}://{self._authority}{quote(self._path(name))}"

    def names(self, folder: str) -> list[str]:
        """What is in a folder, sorted; nothing if there is no such folder."""
        try:
            answer = self._json("GET", folder, "LISTSTATUS")
        except MissingError:
            if not folder:
                raise
            # A root that is not there is no empty folder.
            self._json("GET", "", "GETFILESTATUS")
            return []
        with self._understood(folder):
            # Of a file, it lists the file itself, without a name.
            found = [str(one["pathSuffix"]) for one in answer["FileStatuses"]["FileStatus"]]
            if any("/" in name or name in (".", "..") for name in found):
                raise ValueError("a name that leads out of the folder")
        return sorted(name for name in found if name and not name.startswith(_PARTIAL))

    def status(self, name: str) -> Status:
        """Of a file or folder.

        Raises:
            MissingError: there is none.
        """
        answer = self._json("GET", name, "GETFILESTATUS")
        with self._understood(name):
            found = answer["FileStatus"]
            return Status(
                size=int(found["length"]),
                modified_ms=int(found["modificationTime"]),
                owner=str(found["owner"]),
                mode=int(found["permission"], 8),
                is_folder=found["type"] == "DIRECTORY",
            )

    def make_folder(self, name: str, mode: str = FOLDER_MODE) -> None:
        """Make a folder and those above it. Idempotent."""
        if not self._json("PUT", name, "MKDIRS", permission=mode).get("boolean"):
            raise self._error(name, "the folder cannot be made")

    def put(self, source: Path, name: str, modified_ms: int | None = None) -> None:
        """Copy a local file there. `modified_ms`: when it is to be said to be modified, since the epoch.

        Raises:
            OSError: the local one cannot be read.
        """
        with source.open("rb") as data:
            self._create(name, data, modified_ms)

    def write(self, name: str, data: bytes, modified_ms: int | None = None) -> None:
        """Write a file of what is in memory. `modified_ms`: as in `put`."""
        self._create(name, data, modified_ms)

    def append(self, name: str, data: bytes) -> None:
        """Append to a file. Never tried again: if it fails, the data may be there, a part of them, or nothing."""
        location = self._retried(lambda: self._redirected(name, "POST", "APPEND", {}))
        self._send(name, "POST", location, data)

    def fetch(self, name: str, target: Path) -> None:
        """Copy a file from there to a new local one.

        Raises:
            OSError: the local one cannot be written.
        """
        target.parent.mkdir(parents=True, exist_ok=True)

        def copy(chunks: Iterator[bytes]) -> None:
            with target.open("wb") as file:
                file.writelines(chunks)

        self._opened(name, 0, copy)

    def read(self, name: str, offset: int = 0) -> bytes:
        """Read a small file, or the end of it from an offset on."""
        return self._opened(name, offset, b"".join)

    def rename(self, old: str, new: str) -> None:
        """Rename a file, or a folder, atomically; an existing file is replaced, as is an empty folder."""
        again = False

        def rename() -> None:
            nonlocal again
            try:
                self._json_once("PUT", old, "RENAME", destination=self._path(new), renameoptions="OVERWRITE")
            except MissingError:
                # An attempt whose answer was lost has done it.
                if not again or not self._exists(new):
                    raise
            finally:
                again = True

        self._retried(rename)

    def remove(self, name: str) -> None:
        """Remove a file, or a folder with all in it. Idempotent."""
        with contextlib.suppress(MissingError):
            self._json("DELETE", name, "DELETE", recursive="true")

    def _exists(self, name: str) -> bool:
        try:
            self._json_once("GET", name, "GETFILESTATUS")
        except MissingError:
            return False
        return True

    def _create(self, name: str, data: bytes | BinaryIO, modified_ms: int | None = None) -> None:
        folder, _, last = name.rpartition("/")
        partial = f"{folder}/{_PARTIAL}{secrets.token_hex(4)}-{last}".lstrip("/")
        dead: dict[str, str] = {}

        def create() -> None:
            if not isinstance(data, bytes):
                data.seek(0)
            more = {"overwrite": "true", "permission": FILE_MODE, **dead}
            self._send(partial, "PUT", self._redirected(partial, "PUT", "CREATE", more), data)

        try:
            self._retried(create, dead)
            if modified_ms is not None:
                self._json("PUT", partial, "SETTIMES", modificationtime=str(modified_ms))
            self.rename(partial, name)
        except StoreError:
            with contextlib.suppress(StoreError):
                self._json_once("DELETE", partial, "DELETE")
            raise

    def _send(self, name: str, method: str, location: str, data: bytes | BinaryIO) -> None:
        with self._asked(name, method, location, data, node=urlsplit(location).netloc) as answer:
            self._check(name, answer)

    def _opened(self, name: str, offset: int, use: Callable[[Iterator[bytes]], _T]) -> _T:
        dead: dict[str, str] = {}

        def read() -> _T:
            location = self._redirected(name, "GET", "OPEN", {"offset": str(offset), **dead})
            node = urlsplit(location).netloc
            with self._asked(name, "GET", location, node=node) as answer:
                self._check(name, answer)
                return use(self._chunks(name, answer, node))

        return self._retried(read, dead)

    def _chunks(self, name: str, answer: requests.Response, node: str) -> Iterator[bytes]:
        try:
            yield from answer.iter_content(CHUNK)
        except requests.RequestException as problem:
            raise _AwayError(self._said(name, f"DataNode {node}: {_reason(problem)}"), node) from None

    def _redirected(self, name: str, method: str, operation: str, more: dict[str, str]) -> str:
        """The address at the DataNode that the NameNode names."""
        with self._asked(name, method, self._address(name, operation, more)) as answer:
            if not answer.is_redirect:
                self._check(name, answer)
            location = answer.headers.get("Location", "")
            with contextlib.suppress(ValueError):
                if urlsplit(location).netloc:
                    return location
            raise self._error(name, f"the answer to {operation} names no DataNode; is this the NameNode's address?")

    def _json(self, method: str, name: str, operation: str, **more: str) -> dict[str, Any]:
        return self._retried(lambda: self._json_once(method, name, operation, **more))

    def _json_once(self, method: str, name: str, operation: str, **more: str) -> dict[str, Any]:
        with self._asked(name, method, self._address(name, operation, more)) as answer:
            self._check(name, answer)
            with self._understood(name):
                found = _parsed(read_body(answer) or b"{}")
                if not isinstance(found, dict):
                    raise ValueError("no object")
                return found

    def _retried(self, attempt: Callable[[], _T], dead: dict[str, str] | None = None) -> _T:
        """Try a few times. `dead`: takes the DataNode that did not answer, for the NameNode to name another."""
        for wait_s in self._retry_s:
            try:
                return attempt()
            except _AwayError as problem:
                if dead is not None and problem.node:
                    dead["excludedatanodes"] = problem.node
                time.sleep(wait_s)
        return attempt()

    def _address(self, name: str, operation: str, more: dict[str, str]) -> str:
        query = "&".join(f"{key}={quote(value, safe='')}" for key, value in {"user.name": self.user, **more}.items())
        return f"http://{self._authority}/webhdfs/v1{quote(self._path(name))}?op={operation}&{query}"

    @contextlib.contextmanager
    def _asked(
        self, name: str, method: str, address: str, data: _Body = None, node: str = ""
    ) -> Iterator[requests.Response]:
        who = f"DataNode {node}: " if node else ""
        # A session for each request: they are used by several threads, and connections to DataNodes are not reused.
        with requests.Session() if node else bounded_session() as session:
            session.trust_env = False
            headers = {"Content-Type": "application/octet-stream"} if data is not None else {}
            try:
                answer = session.request(
                    method,
                    address,
                    data=data,
                    headers=headers,
                    timeout=self._timeout_s,
                    allow_redirects=False,
                    stream=True,
                )
            except (requests.RequestException, ValueError) as problem:
                raise _AwayError(self._said(name, f"{who}{_reason(problem)}"), node) from None
            except OSError as problem:
                raise self._error(name, os_reason(problem)) from None
            try:
                yield answer
            except requests.RequestException as problem:
                raise _AwayError(self._said(name, f"{who}{_reason(problem)}"), node) from None

    @contextlib.contextmanager
    def _understood(self, name: str) -> Iterator[None]:
        try:
            yield
        except (LookupError, TypeError, ValueError, TooLargeError):
            raise self._error(name, "the answer makes no sense; is this the NameNode's web address?") from None

    def _check(self, name: str, answer: requests.Response) -> None:
        if answer.status_code < 300:
            return
        if answer.is_redirect:
            raise self._error(name, "the answer leads elsewhere; is this the NameNode's web address?")
        if answer.status_code == 401:
            raise self._error(name, _KERBEROS)
        kind, message = _remote(answer)
        if kind == "FileNotFoundException":
            raise MissingError(self._said(name, "no such file or folder"))
        if kind in _RETRIED or "safe mode" in message or "Safe mode" in message:
            raise _AwayError(self._said(name, f"{kind}: {message}"))
        raise self._error(name, f"{kind}: {message}")

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}" if name else self._root or "/"

    def _error(self, name: str, reason: str) -> StoreError:
        return StoreError(self._said(name, reason))

    def _said(self, name: str, reason: str) -> str:
        return f"store {self.url}, {name or '.'}: {reason}"


def check_url(url: str) -> None:
    """Check the URL of a store.

    Raises:
        BadInputError: it is none.
    """
    parts = urlsplit(url)
    try:
        has_port = parts.port is not None
    except ValueError:
        has_port = False
    names = unquote(parts.path).strip("/").split("/")
    if not parts.hostname or not has_port or parts.query or parts.fragment or parts.username or {"", ".."} & {*names}:
        raise BadInputError(
            "checkpoint url", url, "give webhdfs://HOST:PORT/PATH: host and port of the NameNode's web address"
        )


def _remote(answer: requests.Response) -> tuple[str, str]:
    """The kind of a refusal and its first line."""
    try:
        said = _parsed(read_body(answer, _MAX_REFUSAL))["RemoteException"]
        return str(said["exception"]), str(said["message"]).strip().splitlines()[0][:500]
    except (ValueError, LookupError, TypeError, TooLargeError, requests.RequestException):
        return f"HTTP {answer.status_code}", (answer.reason or "no reason given")


def _parsed(body: bytes) -> Any:
    """JSON that somebody sends.

    Raises:
        ValueError: it is none, or deeper than anybody writes it.
    """
    try:
        return json.loads(body)
    except RecursionError:
        raise ValueError("too deep") from None


def _reason(problem: Exception) -> str:
    if isinstance(problem, requests.Timeout):
        return "does not answer"
    if isinstance(problem, requests.exceptions.ChunkedEncodingError):
        return "the connection broke"
    return "cannot be reached"
