"""A REST client of the ResourceManager: one address, or the addresses of an HA pair."""

import contextlib
import json
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

import requests
import urllib3.exceptions
from pydantic_core import from_json

from yarn_plugin.errors import BadInputError, ReportedError, os_reason, with_causes
from yarn_plugin.observe import bounded

TIMEOUT = (3.0, 20.0)
PREFIX = "/ws/v1/cluster"
EXPECTED = "must be the ResourceManager's web URL, such as http://host:8088; for an HA pair both, separated by a comma"
NO_MANAGER = f"the server there is not a ResourceManager; {EXPECTED}"


def unreadable(path: str, problem: str) -> str:
    """The message for an answer that begins like a ResourceManager's and cannot be read."""
    return f"the answer to {path} cannot be read: {problem}; is it a proxy's, or that of another version of Hadoop?"


class ManagerError(ReportedError):
    """The ResourceManager cannot be used."""


class ManagerAwayError(ManagerError):
    """No ResourceManager answers now."""


class NotAManagerError(ManagerError):
    """The server at this address is not a ResourceManager."""


class ManagerRefusedError(ManagerError):
    """The ResourceManager refused a request, such as "PUT /x as user yarn"; `status` is the HTTP status."""

    def __init__(self, status: int, message: str, request: str = "a request") -> None:
        super().__init__(f"the ResourceManager refused {request} ({status}): {message}")
        self.status = status


class SecuredManagerError(ManagerError):
    """The ResourceManager requires Kerberos, which is not supported."""

    def __init__(self, url: str) -> None:
        super().__init__(
            f"--rm {url}: the ResourceManager requires Kerberos (SPNEGO); only simple authentication is supported. "
            "Put an authenticating gateway such as Apache Knox in front of it, and give its URL"
        )


def addresses(text: str) -> list[str]:
    """The addresses in `--rm`: one, or those of an HA pair, separated by commas.

    Raises:
        BadInputError: one is invalid.
    """
    found = [part.strip().rstrip("/") for part in text.split(",") if part.strip()]
    wrong = next((url for url in found if not _is_address(url)), None)
    if wrong is not None or not found:
        raise BadInputError("--rm", wrong or text, EXPECTED)
    return found


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


@dataclass(frozen=True, slots=True)
class _Answer:
    """A complete answer."""

    status: int
    reason: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode(errors="replace")

    def json(self) -> Any:
        """The body as JSON; None if it is not JSON."""
        # The first takes half the time, which matters for 10,000 nodes; the second also accepts lone surrogates, which
        # names of applications may contain.
        for read in (from_json, json.loads):
            with contextlib.suppress(ValueError, RecursionError):
                return read(self.body)
        return None

    def why_not_json(self) -> str:
        """Why an object cannot be read; empty if the body does not begin like one."""
        if not self.body.lstrip().startswith(b"{"):
            return ""
        try:
            json.loads(self.body)
        except UnicodeDecodeError as problem:
            return f"its byte {problem.start} is not UTF-8"
        except json.JSONDecodeError as problem:
            return f"not JSON: line {problem.lineno}, column {problem.colno}: {problem.msg}"
        except RecursionError:
            return "its lists and objects are nested too deeply"
        except ValueError:
            return "it has a number with thousands of digits"
        return ""


class ResourceManager:
    """A client of the active ResourceManager, of an HA pair too. Not thread-safe.

    `url`: the address that answered last. `user`: for writing (simple authentication). `verify`: a file with trusted
    certificates for HTTPS, or True for those that come with Python. Proxies and netrc are ignored.
    """

    def __init__(self, urls: list[str], user: str, verify: str | bool = True) -> None:
        self._urls, self._user, self._verify = list(urls), user, verify
        self._session = bounded.bounded_session()
        self._session.headers["Accept"] = "application/json"
        self._date = ""
        self.url = self._urls[0]

    @property
    def is_pair(self) -> bool:
        """Whether there are several addresses, any of which may become active."""
        return len(self._urls) > 1

    @property
    def addresses(self) -> str:
        """All addresses, as on the command line."""
        return ",".join(self._urls)

    @property
    def clock(self) -> float | None:
        """The time of the last answer by the ResourceManager's clock, in epoch seconds."""
        try:
            # Hadoop sends the header twice.
            return parsedate_to_datetime(self._date.partition(" GMT")[0] + " GMT").timestamp()
        except (ValueError, TypeError, OverflowError):
            return None

    def get(self, path: str, **params: str) -> Any:
        """The JSON at a path below /ws/v1/cluster.

        Raises:
            ManagerError: there is no answer, or not a ResourceManager's.
        """
        answer = self._send("GET", path, params=params)
        content = answer.json()
        # A ResourceManager always answers with an object.
        if not isinstance(content, dict):
            problem = answer.why_not_json()
            raise NotAManagerError(f"--rm {self.url}: {unreadable(path, problem) if problem else NO_MANAGER}")
        return content

    def put(self, path: str, body: Any) -> Any:
        """PUT JSON to a path below /ws/v1/cluster, as `user`."""
        return self._send("PUT", path, json=body, params={"user.name": self._user}).text

    def post(self, path: str, body: Any = None) -> Any:
        """POST JSON to a path below /ws/v1/cluster, as `user`."""
        return self._send("POST", path, json=body, params={"user.name": self._user}).text

    def configuration(self) -> dict[str, str]:
        """The ResourceManager's configuration by property (its /conf page); empty if it is not accessible."""
        try:
            answer = self._fetch(self.url, "GET", "/conf")
        except ManagerAwayError:
            return {}
        content = answer.json() if answer.status == 200 else None
        entries = content.get("properties") if isinstance(content, dict) else None
        return {
            entry["key"]: entry["value"]
            for entry in (entries if isinstance(entries, list) else ())
            if isinstance(entry, dict) and isinstance(entry.get("key"), str) and isinstance(entry.get("value"), str)
        }

    def _send(self, method: str, path: str, **request: Any) -> _Answer:
        problems: list[str] = []
        for url in [self.url, *(other for other in self._urls if other != self.url)]:
            try:
                answer = self._send_to(url, method, path, **request)
            except ManagerAwayError as away:
                problems.append(str(away))
                continue
            self.url, self._date = url, answer.headers.get("Date", "")
            return answer
        raise ManagerAwayError("; ".join(problems))

    def _send_to(self, url: str, method: str, path: str, **request: Any) -> _Answer:
        answer = self._fetch(url, method, PREFIX + path, **request)
        if answer.status == 401 and "Negotiate" in answer.headers.get("WWW-Authenticate", ""):
            raise SecuredManagerError(url)
        # JSON is excluded: an application may be named so.
        if answer.status == 307 or (b"This is standby RM" in answer.body[:500] and answer.body[:1] != b"{"):
            advice = "" if self.is_pair else "; give both addresses: --rm URL,URL"
            raise ManagerAwayError(f"ResourceManager {url}: is the standby of an HA pair{advice}")
        if 300 <= answer.status < 400:
            raise NotAManagerError(f"--rm {url}: redirects to {answer.headers.get('Location')!r}; {EXPECTED}")
        if answer.status in (502, 503, 504):
            raise ManagerAwayError(
                f"ResourceManager {url}: not ready (HTTP status {answer.status}); it is starting, or see its log"
            )
        if not 200 <= answer.status < 300:
            user = "" if method == "GET" else f" as user {self._user}"
            raise ManagerRefusedError(answer.status, _message(answer), f"{method} {path}{user}")
        return answer

    def _fetch(self, url: str, method: str, path: str, **request: Any) -> _Answer:
        """Send a request to one address and read the complete answer."""
        try:
            answer = self._session.request(
                method, url + path, timeout=TIMEOUT, allow_redirects=False, stream=True, verify=self._verify, **request
            )
            body = bounded.read_body(answer)
        except _IO_ERRORS as problem:
            raise ManagerAwayError(f"ResourceManager {url}: {_cause(problem)}") from None
        return _Answer(answer.status_code, answer.reason or "", answer.headers, body)


_IO_ERRORS = (
    requests.RequestException,
    urllib3.exceptions.HTTPError,
    bounded.TooLargeError,
    OSError,
    ValueError,
)
"""Raised if there is no answer, or an incomplete one."""


def _cause(problem: BaseException) -> str:
    """The reason for a missing answer, as text."""
    chain = list(with_causes(problem))
    for cause in chain:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"certificate verify failed: {cause.verify_message}; give its CA certificate with --ca-file"
        if isinstance(cause, ssl.SSLError) and cause.reason == "NO_CERTIFICATE_OR_CRL_FOUND":
            return "the file in --ca-file (or REQUESTS_CA_BUNDLE) contains no certificates (PEM)"
        if isinstance(cause, ssl.SSLError):
            return f"TLS failed: {(cause.reason or str(cause)).replace('_', ' ').lower()}"
    if "TLS CA certificate bundle" in str(problem):
        return "the file in --ca-file (or REQUESTS_CA_BUNDLE) does not exist"
    if any(isinstance(cause, bounded.TooLargeError) for cause in chain):
        return f"its answer is larger than {bounded.MAX_BYTES // 2**20} MiB"
    if any(isinstance(cause, requests.Timeout | TimeoutError | urllib3.exceptions.ReadTimeoutError) for cause in chain):
        return "no answer before the timeout; is it running there?"
    if any(isinstance(cause, _TRUNCATED_ERRORS) for cause in chain):
        return "its answer is truncated or not HTTP"
    if any(isinstance(cause, socket.gaierror) for cause in chain):
        return "unknown host name"
    reasons = [os_reason(cause) for cause in chain if isinstance(cause, OSError) and cause.errno]
    return f"no connection{f' ({reasons[0]})' if reasons else ''}; is it running there?"


_TRUNCATED_ERRORS = (
    requests.exceptions.ChunkedEncodingError,
    requests.exceptions.ContentDecodingError,
    urllib3.exceptions.IncompleteRead,
    urllib3.exceptions.DecodeError,
    ValueError,
)


def _message(answer: _Answer) -> str:
    """The ResourceManager's error message, as one line."""
    content, text = answer.json(), answer.text
    if isinstance(content, dict):
        inner = content.get("RemoteException")
        text = (inner if isinstance(inner, dict) else content).get("message", text)
    return " ".join(str(text).encode(errors="replace").decode().split())[:300] or answer.reason[:100]
