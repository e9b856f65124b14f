"""The Python client of the arbiter. Any language can do the same: it is HTTP, JSON and server-sent events.

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
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

import requests
import urllib3
from pydantic import TypeAdapter, ValidationError

from yarn_plugin.api import wire
from yarn_plugin.api.server_sent import EventParser, ServerSent, TooLongError
from yarn_plugin.errors import ReportedError

Answer = TypeVar("Answer")

DEFAULT_URL = "http://127.0.0.1:8780"
URL_VARIABLE = "YARN_ARBITER_URL"
TOKEN_VARIABLE = "YARN_ARBITER_TOKEN"
CONNECT_TIMEOUT, READ_TIMEOUT = 5.0, 15.0
FIRST_WAIT, LONGEST_WAIT = 0.2, 5.0

ANSWER_WITHIN = 60.0
"""Seconds that a whole answer may take, however steadily its bytes trickle in."""

MAX_ANSWER_BYTES = 256 * 1024 * 1024

FOLLOW_AGAIN = 30.0
"""Seconds after which a `ShareListener` asks again for an application that is no longer followed."""

GONE = (404, 410)
"""What the arbiter says of an application that it does not follow, now."""

_PIECE = 65536


class ArbiterError(ReportedError):
    """The arbiter cannot be used."""


class ArbiterAwayError(ArbiterError):
    """No arbiter answers at this address, now; or something else does, such as a proxy, or it cannot answer (5xx)."""


class ArbiterRefusedError(ArbiterError):
    """The arbiter itself refused the request; `status` is the HTTP status, `problems` what is wrong."""

    def __init__(self, status: int, problems: list[wire.Problem]) -> None:
        super().__init__(f"the arbiter refused ({status}): {_said(problems)}")
        self.status, self.problems = status, problems


def new_request_id() -> str:
    """An id for a registration: with the same id, a request sent again registers once."""
    return uuid.uuid4().hex


def find_token(file: Path | None = None) -> str:
    """The caller's token: from a file, or from the environment variable YARN_ARBITER_TOKEN.

    Raises:
        ArbiterError: there is none, or what is there is no token.
    """
    if file is not None:
        try:
            return _checked_token(file.read_text(encoding="utf-8").strip(), f"--token-file {str(file)!r}")
        except OSError as problem:
            raise ArbiterError(f"--token-file {str(file)!r}: {problem.strerror}") from None
        except UnicodeDecodeError:
            raise ArbiterError(f"--token-file {str(file)!r}: {_NO_TOKEN}") from None
    token = os.environ.get(TOKEN_VARIABLE, "").strip()
    if not token:
        raise ArbiterError(f"no token: give --token-file, or set {TOKEN_VARIABLE} (`yarn-plugin token USER` makes one)")
    return _checked_token(token, TOKEN_VARIABLE)


_NO_TOKEN = "it holds no token; write the one line there that `yarn-plugin token USER` prints"


def _checked_token(token: str, where: str) -> str:
    """The token, if it can be one. It is a secret, so no message shows it."""
    if not token or not all("!" <= character <= "~" for character in token):
        raise ArbiterError(f"{where}: {_NO_TOKEN}")
    return token


def _checked_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address:
        raise ArbiterError(f"arbiter {url!r}: write its address, such as {DEFAULT_URL}")
    return url.rstrip("/")


class ArbiterClient:
    """Talks to one arbiter as one principal. Use one client per thread, and one more for each stream.

    Args:
        url: the arbiter's address.
        token: a user's, an application's, or the administrator's.
        verify: for https, a file of certificates to trust, or True for those that come with Python's `requests`.

    Every call raises ArbiterAwayError where no arbiter answers, and ArbiterRefusedError where it refuses. Fields that
    this version does not know are ignored in answers.

    Raises:
        ArbiterError: the address or the token cannot be one.
    """

    def __init__(self, url: str, token: str, verify: str | bool = True) -> None:
        self.url, self.token, self.verify = _checked_url(url), _checked_token(token, "token"), verify
        self._session = requests.Session()
        self._session.headers["Authorization"] = f"Bearer {token}"
        self._session.verify = verify
        # A proxy of the environment is never meant for the arbiter on loopback.
        self._session.trust_env = False

    def register(self, request: wire.Register) -> wire.Registered:
        """Register an application."""
        return self._ask("POST", "/v1/apps", wire.Registered, request)

    def revise(self, app: str, change: wire.Revise) -> wire.App:
        """Change an application's weight or demand."""
        return self._ask("PATCH", f"/v1/apps/{_part(app)}", wire.App, change)

    def deregister(self, app: str) -> None:
        """The application is done. Idempotent."""
        try:
            self._call("DELETE", f"/v1/apps/{_part(app)}")
        except ArbiterRefusedError as refused:
            if refused.status not in GONE:
                raise

    def say(self, app: str, kind: str, **fields: Any) -> None:
        """Say something to the controller of the application's pool: a message of a type that it declares.

        Raises:
            ArbiterAwayError: the arbiter does not answer.
            ArbiterRefusedError: it does not take the message.
        """
        message = wire.Message.model_validate({"type": kind, **fields})
        self._call("POST", f"/v1/apps/{_part(app)}/messages", message)

    def vacated(self, app: str, seq: int) -> None:
        """The application holds no more than share number `seq` gives it."""
        self._call("POST", f"/v1/apps/{_part(app)}/vacated", wire.Vacated(seq=seq))

    def app(self, app: str) -> wire.App:
        """One application, by the arbiter's id or YARN's."""
        return self._ask("GET", f"/v1/apps/{_part(app)}", wire.App)

    def apps(self) -> list[wire.App]:
        """The applications that the token may see."""
        return self._ask("GET", "/v1/apps", list[wire.App])

    def cluster(self) -> wire.Cluster:
        """Nodes, pools, enforcement."""
        return self._ask("GET", "/v1/cluster", wire.Cluster)

    def why(self, app: str, limit: int = 20) -> wire.Why:
        """The last decisions about an application."""
        return self._ask("GET", f"/v1/apps/{_part(app)}/why?limit={limit}", wire.Why)

    def decisions(self, limit: int = 100) -> list[wire.Decision]:
        """The last decisions, oldest first."""
        return self._ask("GET", f"/v1/decisions?limit={limit}", list[wire.Decision])

    def issue_token(self, user: str) -> wire.Token:
        """A token for a user; the administrator's token is needed."""
        return self._ask("POST", "/v1/tokens", wire.Token, wire.IssueToken(user=user))

    def follow(
        self,
        app: str,
        last_seen: int | None = None,
        away: Callable[[str], None] = lambda reason: None,
        stopped: Callable[[], bool] = lambda: False,
        ended: Callable[[str], None] = lambda reason: None,
        heard: Callable[[str, dict[str, Any]], None] = lambda name, message: None,
    ) -> Iterator[wire.Share]:
        """The application's shares: the present one, then every change, once each, in order.

        Reconnects by itself and misses nothing: the id of the last event goes back to the arbiter as it came. Ends when
        the application is no longer followed. Events of a name that is not known, or whose data cannot be read, are
        passed over.

        Args:
            app: the arbiter's id.
            last_seen: the number of the last share already known.
            away: called once each time the arbiter is lost, with the reason.
            stopped: asked between events; True ends the stream.
            ended: called with the reason before the stream ends because the application is no longer followed.
            heard: called with what the controller of the pool says: its name (`ask`, `grant`, ...) and its fields. The
                same may come again after a connection was lost; its `id` tells.

        Raises:
            ArbiterRefusedError: the arbiter itself refuses, and will again. What a proxy answers, and an arbiter that
                has too much to do (429), count as away.
        """
        wait, lost = FIRST_WAIT, False
        last_id = None if last_seen is None else str(last_seen)
        while not stopped():
            try:
                for event in self._events(app, last_id, stopped):
                    wait, lost = FIRST_WAIT, False
                    if event is None:
                        continue
                    repeated, last_id = event.id is not None and event.id == last_id, event.id or last_id
                    if event.name == "end":
                        ended(_end_of(event))
                        return
                    message = _message_of(event)
                    if message is not None and not repeated:
                        heard(event.name, message)
                    share = _share_of(event)
                    if share is None or repeated or _is_older(share, event, last_seen):
                        continue
                    last_seen = share.seq
                    yield share
                reason = f"arbiter {self.url}: the stream ended"
            except ArbiterAwayError as problem:
                reason = str(problem)
            except ArbiterRefusedError as refused:
                if refused.status == 410:
                    ended(_said(refused.problems))
                    return
                if refused.status != 429:
                    raise
                reason = str(refused)
            if stopped():
                return
            if not lost:
                lost = True
                away(reason)
            time.sleep(wait)
            wait = min(2 * wait, LONGEST_WAIT)

    def _events(self, app: str, last_id: str | None, stopped: Callable[[], bool]) -> Iterator[ServerSent | None]:
        """The events of one connection; None for a sign of life, which is a comment."""
        headers = {"Accept": "text/event-stream", "Accept-Encoding": "identity"}
        if last_id is not None:
            headers["Last-Event-ID"] = last_id
        path = f"/v1/apps/{_part(app)}/events"
        with self._open("GET", path, headers=headers) as answer:
            kind = answer.headers.get("Content-Type", "").partition(";")[0].strip()
            if kind != "text/event-stream":
                raise ArbiterAwayError(f"arbiter {self.url}: it answers with {kind or 'nothing'} instead of events")
            parser = EventParser()
            for piece in self._pieces(answer):
                if stopped():
                    return
                if piece.startswith(b":"):
                    yield None
                try:
                    yield from parser.take(piece)
                except TooLongError as problem:
                    raise ArbiterAwayError(f"arbiter {self.url}: {problem}") from None

    def _ask(self, method: str, path: str, kind: type[Answer], body: wire.Wire | None = None) -> Answer:
        said = self._call(method, path, body)
        try:
            return TypeAdapter(kind).validate_json(said)
        except ValidationError as problem:
            raise ArbiterAwayError(f"arbiter {self.url}: {_not_understood(problem)}") from None

    def _call(self, method: str, path: str, body: wire.Wire | None = None) -> bytes:
        with self._open(method, path, body) as answer:
            return self._body(answer)

    def _body(self, answer: requests.Response) -> bytes:
        """The whole body, if it comes to an end."""
        deadline, said = time.monotonic() + ANSWER_WITHIN, bytearray()
        for piece in self._pieces(answer):
            said += piece
            if time.monotonic() > deadline or len(said) > MAX_ANSWER_BYTES:
                raise ArbiterAwayError(f"arbiter {self.url}: its answer is too long or too slow")
        return bytes(said)

    def _pieces(self, answer: requests.Response) -> Iterator[bytes]:
        """The body as it arrives: `iter_content` would wait until a piece is full, or read one byte at a time."""
        try:
            while piece := answer.raw.read1(_PIECE, decode_content=True):
                yield piece
        except (urllib3.exceptions.HTTPError, OSError) as problem:
            raise ArbiterAwayError(f"arbiter {self.url}: {_cause(problem)}") from None

    def _open(
        self, method: str, path: str, body: wire.Wire | None = None, headers: dict[str, str] | None = None
    ) -> requests.Response:
        content = None if body is None else body.model_dump_json(exclude_unset=True).encode()
        sent = {**(headers or {}), **({"Content-Type": "application/json"} if content else {})}
        try:
            # Redirects are not followed: the token is this arbiter's alone.
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
            raise ArbiterAwayError(f"arbiter {self.url}: {_cause(problem)}{_advice(problem)}") from None
        if 200 <= answer.status_code < 300:
            return answer
        with answer:
            raise self._refusal(answer)

    def _refusal(self, answer: requests.Response) -> ArbiterError:
        """What an answer that is not 2xx means. Only the arbiter names problems: all else was said on the way to it."""
        status = answer.status_code
        if answer.is_redirect:
            where = answer.headers.get("Location")
            return ArbiterAwayError(f"arbiter {self.url}: it redirects to {where!r}; give the arbiter's own address")
        try:
            problems = wire.Problems.model_validate_json(self._body(answer)).problems
        except ValueError:
            problems = []
        if status >= 500:
            why = f": {_said(problems)}" if problems else ""
            return ArbiterAwayError(f"arbiter {self.url}: it failed ({status}){why}")
        if not problems:
            return ArbiterAwayError(f"arbiter {self.url}: what answers there ({status}) is not an arbiter")
        return ArbiterRefusedError(status, problems)


class ShareListener:
    """Follows an application's shares in a thread of its own.

    An application may be dismissed in error, and come back under its own id. So after the end of a stream, and where
    the arbiter says that there is no such application (404, 410), the listener tells that once through `away` and asks
    again every 30 s until it is closed: whoever was dismissed in error hears of its shares again. It ends by itself,
    and tells why through `away`, only where the arbiter refuses for good: the token is not valid (401), or not for this
    application (403), or the request is wrong. Whatever a proxy answers ends nothing.

    Args:
        client: a client of the listener's own.
        app: the arbiter's id.
        told: called with every new share.
        away: called once each time the arbiter is lost, with the reason.
    """

    def __init__(
        self, client: ArbiterClient, app: str, told: Callable[[wire.Share], None], away: Callable[[str], None]
    ) -> None:
        self._client, self._app, self._told, self._away = client, app, told, away
        self._said: str | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"shares-{app}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening; returns at once."""
        self._stop.set()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._follow()
            except ArbiterRefusedError as refused:
                self._say(str(refused))
                if refused.status not in GONE:
                    return
            except Exception as problem:  # noqa: BLE001 - a thread that ended untold would leave the last share for good
                self._say(f"the share could not be followed: {type(problem).__name__}: {problem}")
            self._stop.wait(FOLLOW_AGAIN)

    def _follow(self) -> None:
        def ended(reason: str) -> None:
            self._say(f"the arbiter no longer follows {self._app}: {reason}")

        # From the present share on, each time: an end that was seen must not hide what came after it.
        for share in self._client.follow(self._app, away=self._away, stopped=self._stop.is_set, ended=ended):
            self._said = None
            self._told(share)

    def _say(self, reason: str) -> None:
        """Tell a reason once, until there was a share again."""
        if reason != self._said and not self._stop.is_set():
            self._said = reason
            self._away(reason)


def _part(name: str) -> str:
    """A name as one part of a path, whatever is in it."""
    return quote(name, safe="")


def _share_of(event: ServerSent) -> wire.Share | None:
    if event.name != "share":
        return None
    try:
        return wire.Share.model_validate_json(event.data)
    except ValidationError:
        return None


def _message_of(event: ServerSent) -> dict[str, Any] | None:
    """What a pool's controller says; None of an event of another kind, and of one that cannot be read."""
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
        return "it has ended"


def _is_older(share: wire.Share, event: ServerSent, last_seen: int | None) -> bool:
    """Whether a share was known before. Two shares of one decision have one number, and ids of their own."""
    if last_seen is None:
        return False
    return share.seq < last_seen or (share.seq == last_seen and event.id in (None, str(last_seen)))


def _said(problems: list[wire.Problem]) -> str:
    return "; ".join(f"{p.field} {p.value!r}: {p.expected}" if p.value else p.expected for p in problems)


def _not_understood(problem: ValidationError) -> str:
    first = problem.errors()[0]
    field = ".".join(map(str, first["loc"]))
    where = f"{field}: " if field else ""
    return f"its answer cannot be read ({where}{first['msg']}); is this the address of an arbiter?"


def _cause(problem: BaseException) -> str:
    """The cause, without the libraries' own wording around it."""
    for cause in _causes(problem):
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"TLS: certificate verify failed: {cause.verify_message}"
        if isinstance(cause, ssl.SSLError) and cause.reason:
            return f"TLS: {cause.reason.replace('_', ' ').lower()}"
        if isinstance(cause, urllib3.exceptions.NameResolutionError):
            return "its host name is not known"
        if isinstance(cause, requests.Timeout | urllib3.exceptions.ReadTimeoutError):
            return "no answer in time"
    if isinstance(problem, requests.ConnectionError | urllib3.exceptions.HTTPError):
        return "no connection"
    return " ".join(str(problem).split())


def _causes(problem: BaseException) -> Iterator[BaseException]:
    """An error, and what it wraps: `requests` and `urllib3` put the cause among the arguments, or under `reason`."""
    waiting, seen = [problem], set[int]()
    while waiting:
        one = waiting.pop(0)
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        wrapped = (*one.args, getattr(one, "reason", None), one.__cause__)
        waiting += [inner for inner in wrapped if isinstance(inner, BaseException)]


def _advice(problem: BaseException) -> str:
    """What to look at: where nothing answers, whether the arbiter runs; where TLS fails, which certificates count."""
    cause = _cause(problem)
    if "certificate verify failed" in cause:
        return "; give the certificate of its authority with --ca-file"
    return "" if cause.startswith("TLS") else "; is `yarn-plugin arbiter` running there?"
