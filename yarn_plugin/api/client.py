"""The Python client of the arbiter; in any other language, use HTTP, JSON and server-sent events directly.

arbiter = ArbiterClient("http://127.0.0.1:8780", token)
me = arbiter.register(wire.Register(name="nightly", request_id=new_request_id()))
for share in arbiter.follow(me):
    resize(share.guarantee.resources)
"""

import json
import os
import ssl
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

import requests
import urllib3
from pydantic import TypeAdapter, ValidationError

from yarn_plugin.api import wire
from yarn_plugin.api.environment import DEFAULT_URL, TOKEN_VARIABLE
from yarn_plugin.api.jobs import DeclaredJobs, Job, Jobs
from yarn_plugin.api.records import Recover, Recovered
from yarn_plugin.api.server_sent import EventParser, ServerSent, TooLongError
from yarn_plugin.errors import ReportedError, os_reason, with_causes
from yarn_plugin.validation import expectation

Answer = TypeVar("Answer")

CONNECT_TIMEOUT, READ_TIMEOUT = 5.0, 15.0
MIN_BACKOFF, MAX_BACKOFF = 0.2, 5.0
"""Seconds between attempts to reconnect; doubled after each that fails."""

ANSWER_TIMEOUT = 60.0
"""Seconds until an answer must be complete, however steadily its bytes arrive."""

MAX_ANSWER_BYTES = 256 * 1024 * 1024

MAX_PATIENCE = 5.0
"""The longest time, in seconds, that a call is repeated for while the arbiter answers 429 with Retry-After."""

RETRY_INTERVAL = 30.0
"""Seconds after which a `ShareListener` follows again an application that the arbiter no longer knows."""

GONE = (404, 410)
"""Statuses for an application that the arbiter does not know, or no longer."""

_CHUNK_BYTES = 65536
_IS_ADDRESS_RIGHT = "is this the address of an arbiter?"


class ArbiterError(ReportedError):
    """The arbiter cannot be used; the root of this module's errors."""


class ArbiterAccessError(ArbiterError):
    """The address or the token given for the arbiter cannot be right, whatever the arbiter says."""

    exit_code = 2


class ArbiterUnavailableError(ArbiterError):
    """No arbiter answers at this address for now: nothing does, or a proxy does, or the arbiter fails (5xx)."""


class ArbiterRefusedError(ArbiterError):
    """The arbiter itself refused the request, with this HTTP `status` and these `problems`.

    `retry_after`: seconds after which it may be repeated, if the arbiter says so.
    """

    def __init__(self, status: int, problems: list[wire.Problem], retry_after: float | None = None) -> None:
        super().__init__(f"the arbiter refused ({status}): {_describe(problems)}")
        self.status, self.problems, self.retry_after = status, problems, retry_after


def new_request_id() -> str:
    """An id for a registration: a request that is repeated with the same id registers once."""
    return uuid.uuid4().hex


def find_token(file: Path | None = None) -> str:
    """The caller's token: from a file, or from the environment variable YARN_ARBITER_TOKEN.

    Raises:
        ArbiterError: there is no token, or it is malformed.
    """
    if file is not None:
        try:
            return _checked_token(file.read_text(encoding="utf-8").strip(), f"--token-file {str(file)!r}")
        except OSError as problem:
            raise ArbiterAccessError(f"--token-file {str(file)!r}: {os_reason(problem)}") from None
        except UnicodeDecodeError:
            raise ArbiterAccessError(f"--token-file {str(file)!r}: {_MALFORMED_TOKEN}") from None
    token = os.environ.get(TOKEN_VARIABLE, "").strip()
    if not token:
        raise ArbiterAccessError(f"--token-file: required, or set {TOKEN_VARIABLE}; {_TOKEN_SOURCE}")
    return _checked_token(token, TOKEN_VARIABLE)


_TOKEN_SOURCE = "the administrator creates tokens with `yarn-plugin token USER`"
_MALFORMED_TOKEN = f"contains no token; {_TOKEN_SOURCE}"


def _checked_token(token: str, where: str) -> str:
    """The token, if it is well formed. It is a secret, so no message shows it."""
    if not token or not all("!" <= character <= "~" for character in token):
        raise ArbiterAccessError(f"{where}: {_MALFORMED_TOKEN}")
    return token


def _checked_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address:
        raise ArbiterAccessError(f"--arbiter {url!r}: must be a URL, such as {DEFAULT_URL}")
    return url.rstrip("/")


class ArbiterClient:
    """A client of one arbiter, for one principal. Use one client per thread, and one more for each stream.

    Args:
        url: the arbiter's address.
        token: a user's, an application's, or the administrator's.
        verify: for https, a file of certificates to trust, or True for those that come with Python's `requests`.

    Every call raises ArbiterUnavailableError where no arbiter answers, and ArbiterRefusedError where it refuses.
    Unknown fields in answers are ignored.

    Raises:
        ArbiterError: the address or the token is malformed.
    """

    def __init__(self, url: str, token: str, verify: str | bool = True) -> None:
        self.url, self.token, self.verify = _checked_url(url), _checked_token(token, "token"), verify
        self._session = requests.Session()
        self._session.headers["Authorization"] = f"Bearer {token}"
        self._session.verify = verify
        # A proxy in the environment is never meant for the arbiter on loopback.
        self._session.trust_env = False

    def register(self, request: wire.Register) -> wire.Registered:
        """Register an application."""
        return self._ask("POST", "/v1/apps", wire.Registered, request)

    def recover(self, request: Recover) -> Recovered:
        """Register an application that runs again, with its records, where the arbiter has lost its journal."""
        return self._ask("POST", "/v1/apps/recovered", Recovered, request)

    def revise(self, app: str, change: wire.Revise) -> wire.App:
        """Change an application's weight or demand."""
        return self._ask("PATCH", f"/v1/apps/{_segment(app)}", wire.App, change)

    def declare_jobs(self, app: str, jobs: Sequence[Job]) -> DeclaredJobs:
        """Declare all jobs of an application: those that are left out end. Idempotent."""
        return self._ask("PUT", f"/v1/apps/{_segment(app)}/jobs", DeclaredJobs, Jobs(jobs=list(jobs)))

    def get_jobs(self, app: str) -> DeclaredJobs:
        """The jobs that an application has declared."""
        return self._ask("GET", f"/v1/apps/{_segment(app)}/jobs", DeclaredJobs)

    def deregister(self, app: str) -> None:
        """Deregister an application. Idempotent."""
        try:
            self._call("DELETE", f"/v1/apps/{_segment(app)}")
        except ArbiterRefusedError as refused:
            if refused.status not in GONE:
                raise

    def send(self, app: str, kind: str, **fields: Any) -> None:
        """Send a message to the controller of the application's pool, of a type that the controller declares."""
        message = wire.Message.model_validate({"type": kind, **fields})
        self._call("POST", f"/v1/apps/{_segment(app)}/messages", message)

    def get_leases(self, app: str) -> wire.Leases:
        """What an application leases now; `follow` goes on from it with its `seq` as `last_seen`."""
        return self._ask("GET", f"/v1/apps/{_segment(app)}/leases", wire.Leases)

    def report_vacated(self, app: str, seq: int) -> None:
        """Report that the application holds no more than share number `seq` allows."""
        self._call("POST", f"/v1/apps/{_segment(app)}/vacated", wire.Vacated(seq=seq))

    def get_app(self, app: str) -> wire.App:
        """One application, by the arbiter's id or YARN's."""
        return self._ask("GET", f"/v1/apps/{_segment(app)}", wire.App)

    def list_apps(self) -> list[wire.App]:
        """The applications that the token may see."""
        return self._ask("GET", "/v1/apps", list[wire.App])

    def get_cluster(self) -> wire.Cluster:
        """The cluster: nodes, pools, how shares are enforced."""
        return self._ask("GET", "/v1/cluster", wire.Cluster)

    def explain(self, app: str, limit: int = 20) -> wire.Why:
        """Why an application has what it has: the last decisions about it."""
        return self._ask("GET", f"/v1/apps/{_segment(app)}/why?limit={limit}", wire.Why)

    def list_decisions(self, limit: int = 100) -> list[wire.Decision]:
        """The last decisions, oldest first."""
        return self._ask("GET", f"/v1/decisions?limit={limit}", list[wire.Decision])

    def get_cells(self, pool: str) -> wire.Cells:
        """The cells file of a pool, and what runs; the administrator's token is needed."""
        return self._ask("GET", f"/v1/pools/{_segment(pool)}/cells", wire.Cells)

    def replace_cells(self, pool: str, text: str) -> wire.CellsChange:
        """Replace the cells file of a pool; the administrator's token is needed."""
        return self._ask("PUT", f"/v1/pools/{_segment(pool)}/cells", wire.CellsChange, wire.NewCells(text=text))

    def issue_token(self, user: str) -> wire.Token:
        """A token for a user; the administrator's token is needed."""
        return self._ask("POST", "/v1/tokens", wire.Token, wire.IssueToken(user=user))

    def follow(
        self,
        app: str,
        last_seen: int | None = None,
        on_lost: Callable[[str], None] = lambda reason: None,
        should_stop: Callable[[], bool] = lambda: False,
        on_end: Callable[[str], None] = lambda reason: None,
        on_message: Callable[[str, dict[str, Any]], None] = lambda name, message: None,
    ) -> Iterator[wire.Share]:
        """The application's shares: the present one, then every change, once each, in order.

        Reconnects by itself and misses nothing: it sends the id of the last event back to the arbiter. Ends when the
        arbiter no longer knows the application. Events with an unknown name or unreadable data are skipped.

        Args:
            app: the arbiter's id.
            last_seen: the number of the last share that is known already.
            on_lost: called with the reason, once each time the arbiter is lost.
            should_stop: called between events; True ends the stream.
            on_end: called with the reason before the stream ends because the arbiter no longer knows the application.
            on_message: called with each message of the pool's controller: its name (`ask`, `grant`, ...) and fields.
                A message may be repeated after a lost connection, with the same `id`. `leases`, first and when messages
                were missed, replaces all that was known of leases (`wire.Leases`).

        Raises:
            ArbiterRefusedError: the arbiter itself refuses, and will refuse again. Answers of a proxy, and of an
                arbiter that is overloaded (429), count as a lost arbiter.
        """
        backoff, is_lost = MIN_BACKOFF, False
        last_id = None if last_seen is None else str(last_seen)
        while not should_stop():
            try:
                for event in self._events(app, last_id, should_stop):
                    backoff, is_lost = MIN_BACKOFF, False
                    if event is None:
                        continue
                    repeated, last_id = event.id is not None and event.id == last_id, event.id or last_id
                    if event.name == "end":
                        on_end(_end_of(event))
                        return
                    message = _message_of(event)
                    if message is not None and not repeated:
                        on_message(event.name, message)
                    share = _share_of(event)
                    if share is None or repeated or _is_older(share, event, last_seen):
                        continue
                    last_seen = share.seq
                    yield share
                reason = f"arbiter {self.url}: the stream ended"
            except ArbiterUnavailableError as problem:
                reason = str(problem)
            except ArbiterRefusedError as refused:
                if refused.status == 410:
                    on_end("; ".join(problem.expected for problem in refused.problems))
                    return
                if refused.status != 429:
                    raise
                reason = str(refused)
            if should_stop():
                return
            if not is_lost:
                is_lost = True
                on_lost(reason)
            time.sleep(backoff)
            backoff = min(2 * backoff, MAX_BACKOFF)

    def _events(self, app: str, last_id: str | None, should_stop: Callable[[], bool]) -> Iterator[ServerSent | None]:
        """The events of one connection; None for a heartbeat, which is a comment."""
        headers = {"Accept": "text/event-stream", "Accept-Encoding": "identity"}
        if last_id is not None:
            headers["Last-Event-ID"] = last_id
        path = f"/v1/apps/{_segment(app)}/events"
        with self._open("GET", path, headers=headers) as answer:
            kind = answer.headers.get("Content-Type", "").partition(";")[0].strip()
            if kind != "text/event-stream":
                raise self._unavailable(f"answers with {kind or 'nothing'} instead of events; {_IS_ADDRESS_RIGHT}")
            parser = EventParser()
            for chunk in self._chunks(answer):
                if should_stop():
                    return
                if chunk.startswith(b":"):
                    yield None
                try:
                    yield from parser.feed(chunk)
                except TooLongError as problem:
                    raise self._unavailable(str(problem)) from None

    def _ask(self, method: str, path: str, kind: type[Answer], body: wire.Wire | None = None) -> Answer:
        content = self._call(method, path, body)
        try:
            return TypeAdapter(kind).validate_json(content)
        except ValidationError as problem:
            raise self._unavailable(_describe_invalid(problem)) from None

    def _call(self, method: str, path: str, body: wire.Wire | None = None) -> bytes:
        deadline = time.monotonic() + MAX_PATIENCE
        while True:
            try:
                with self._open(method, path, body) as answer:
                    return self._body(answer)
            except ArbiterRefusedError as refused:
                wait_s = refused.retry_after
                if wait_s is None or time.monotonic() + wait_s > deadline:
                    raise
            time.sleep(wait_s)

    def _body(self, answer: requests.Response) -> bytes:
        """The complete body.

        Raises:
            ArbiterUnavailableError: it is too long, or takes too long.
        """
        deadline, body = time.monotonic() + ANSWER_TIMEOUT, bytearray()
        for chunk in self._chunks(answer):
            body += chunk
            if len(body) > MAX_ANSWER_BYTES:
                raise self._unavailable(f"its answer has more than {MAX_ANSWER_BYTES // 2**20} MiB")
            if time.monotonic() > deadline:
                raise self._unavailable(f"its answer was not complete after {ANSWER_TIMEOUT:g} s")
        return bytes(body)

    def _chunks(self, answer: requests.Response) -> Iterator[bytes]:
        """The body as it arrives: `iter_content` would wait until a chunk is full, or read one byte at a time."""
        try:
            while chunk := answer.raw.read1(_CHUNK_BYTES, decode_content=True):
                yield chunk
        except (urllib3.exceptions.HTTPError, OSError) as problem:
            raise self._unavailable(_cause(problem)) from None

    def _open(
        self, method: str, path: str, body: wire.Wire | None = None, headers: dict[str, str] | None = None
    ) -> requests.Response:
        content = None if body is None else body.model_dump_json(exclude_unset=True).encode()
        sent = {**(headers or {}), **({"Content-Type": "application/json"} if content else {})}
        try:
            # Redirects are not followed: the token is for this arbiter only.
            answer = self._session.request(
                method,
                self.url + path,
                data=content,
                headers=sent,
                stream=True,
                allow_redirects=False,
                timeout=(CONNECT_TIMEOUT, READ_TIMEOUT),
            )
        except (OSError, ValueError, urllib3.exceptions.HTTPError) as problem:
            raise self._unavailable(_cause(problem) + _advice(problem)) from None
        if 200 <= answer.status_code < 300:
            return answer
        with answer:
            raise self._refusal(answer)

    def _unavailable(self, reason: str) -> ArbiterUnavailableError:
        return ArbiterUnavailableError(f"arbiter {self.url}: {reason}")

    def _refusal(self, answer: requests.Response) -> ArbiterError:
        """The error for an answer that is not 2xx. Only the arbiter lists problems; all else comes from a proxy."""
        status = answer.status_code
        if answer.is_redirect:
            where = answer.headers.get("Location")
            return self._unavailable(f"redirects to {where!r}; use the arbiter's own address")
        try:
            problems = wire.Problems.model_validate_json(self._body(answer)).problems
        except ValueError:
            problems = []
        if status >= 500:
            why = f": {_describe(problems)}" if problems else ""
            return self._unavailable(f"HTTP status {status}{why}")
        if not problems:
            return self._unavailable(f"HTTP status {status}; {_IS_ADDRESS_RIGHT}")
        again = answer.headers.get("Retry-After", "")
        retry_after = float(again) if status == 429 and again.isdecimal() and len(again) < 4 else None
        return ArbiterRefusedError(status, problems, retry_after)


class ShareListener:
    """Follows an application's shares in a thread of its own.

    The arbiter may remove an application in error, which then comes back under its own id. So after the end of a
    stream, and where the arbiter does not know the application (404, 410), the listener reports that once through
    `on_lost` and retries every 30 s until it is closed. It ends by itself, and reports why through `on_lost`, only
    where the arbiter refuses for good: the token is not valid (401) or not for this application (403), or the request
    is wrong. No answer of a proxy ends it.

    Args:
        client: a client for this listener only.
        app: the arbiter's id.
        on_share: called with every new share.
        on_lost: called with the reason, once each time the arbiter is lost.
    """

    def __init__(
        self, client: ArbiterClient, app: str, on_share: Callable[[wire.Share], None], on_lost: Callable[[str], None]
    ) -> None:
        self._client, self._app, self._on_share, self._on_lost = client, app, on_share, on_lost
        self._last_reported: str | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"shares-{app}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening. Does not wait for the thread."""
        self._stop.set()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._follow()
            except ArbiterRefusedError as refused:
                self._report(str(refused))
                if refused.status not in GONE:
                    return
            except Exception as problem:  # noqa: BLE001 - if the thread died silently, the last share would stay in force for good
                self._report(f"following the share failed: {type(problem).__name__}: {problem}")
            self._stop.wait(RETRY_INTERVAL)

    def _follow(self) -> None:
        def on_end(reason: str) -> None:
            self._report(f"the arbiter sends no more shares of {self._app}: {reason}")

        # From the present share on, each time: an end that was seen must not hide what came after it.
        stopped = self._stop.is_set
        for share in self._client.follow(self._app, on_lost=self._on_lost, should_stop=stopped, on_end=on_end):
            self._last_reported = None
            self._on_share(share)

    def _report(self, reason: str) -> None:
        """Report a reason once, until the next share."""
        if reason != self._last_reported and not self._stop.is_set():
            self._last_reported = reason
            self._on_lost(reason)


def _segment(name: str) -> str:
    """A name as one segment of a path, whatever characters are in it."""
    return quote(name, safe="")


def _share_of(event: ServerSent) -> wire.Share | None:
    if event.name != "share":
        return None
    try:
        return wire.Share.model_validate_json(event.data)
    except ValidationError:
        return None


def _message_of(event: ServerSent) -> dict[str, Any] | None:
    """A message of a pool's controller; None for an event of another kind, and for one that cannot be read."""
    if event.name in ("share", "end"):
        return None
    try:
        message = json.loads(event.data)
    except (ValueError, RecursionError):
        return None
    return message if isinstance(message, dict) and "id" in message else None


def _end_of(event: ServerSent) -> str:
    try:
        return wire.End.model_validate_json(event.data).reason
    except ValidationError:
        return "the application has ended"


def _is_older(share: wire.Share, event: ServerSent, last_seen: int | None) -> bool:
    """Whether a share was known before. Two shares of one decision have the same number, but ids of their own."""
    if last_seen is None:
        return False
    return share.seq < last_seen or (share.seq == last_seen and event.id in (None, str(last_seen)))


def _describe(problems: list[wire.Problem]) -> str:
    return "; ".join(f"{p.field}{f' {p.value!r}' if p.value else ''}: {p.expected}" for p in problems)


def _describe_invalid(problem: ValidationError) -> str:
    first = problem.errors()[0]
    field = ".".join(map(str, first["loc"]))
    where = f"{field}: " if field else ""
    return f"its answer cannot be read ({where}{expectation(dict(first), 'object')}); {_IS_ADDRESS_RIGHT}"


def _cause(problem: BaseException) -> str:
    """The cause of a failed request, without the wording of the libraries."""
    for cause in with_causes(problem):
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"TLS: certificate verify failed: {cause.verify_message}"
        if isinstance(cause, ssl.SSLError) and cause.reason:
            return f"TLS: {cause.reason.replace('_', ' ').lower()}"
        if isinstance(cause, urllib3.exceptions.NameResolutionError):
            return "unknown host name"
        if isinstance(cause, ConnectionRefusedError):
            return "connection refused"
        if isinstance(cause, requests.Timeout | urllib3.exceptions.ReadTimeoutError):
            return "timed out"
    if isinstance(problem, requests.ConnectionError | urllib3.exceptions.HTTPError):
        return "no connection"
    return " ".join(str(problem).split())


def _advice(problem: BaseException) -> str:
    """What to check: where nothing answers, whether the arbiter runs; where TLS fails, which certificates to trust."""
    cause = _cause(problem)
    if "certificate verify failed" in cause:
        return "; trust its authority's certificate with --ca-file"
    return "" if cause.startswith("TLS") else "; is `yarn-plugin arbiter` running there?"
