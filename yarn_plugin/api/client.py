"""The Python client of the arbiter. Any language can do the same: it is HTTP, JSON and server-sent events.

arbiter = ArbiterClient("http://127.0.0.1:8780", token)
me = arbiter.register(wire.Register(name="nightly", request_id=new_request_id()))
for share in arbiter.follow(me):
    resize(share.guarantee.resources)
"""

import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import requests
from pydantic import BaseModel, TypeAdapter

from yarn_plugin.api import wire
from yarn_plugin.errors import ReportedError

Model = TypeVar("Model", bound=BaseModel)

DEFAULT_URL = "http://127.0.0.1:8780"
URL_VARIABLE = "YARN_ARBITER_URL"
TOKEN_VARIABLE = "YARN_ARBITER_TOKEN"
CONNECT_TIMEOUT, READ_TIMEOUT = 5.0, 15.0
FIRST_WAIT, LONGEST_WAIT = 0.2, 5.0


class ArbiterError(ReportedError):
    """The arbiter cannot be used."""


class ArbiterAwayError(ArbiterError):
    """No arbiter answers at this address, now."""


class ArbiterRefusedError(ArbiterError):
    """The arbiter refused the request; `status` is the HTTP status, `problems` what is wrong."""

    def __init__(self, status: int, problems: list[wire.Problem]) -> None:
        said = "; ".join(f"{p.field} {p.value!r}: {p.expected}" if p.value else p.expected for p in problems)
        super().__init__(f"the arbiter refused ({status}): {said}")
        self.status, self.problems = status, problems


def new_request_id() -> str:
    """An id for a registration: with the same id, a request sent again registers once."""
    return uuid.uuid4().hex


def find_token(file: Path | None = None) -> str:
    """The caller's token: from a file, or from the environment variable YARN_ARBITER_TOKEN.

    Raises:
        ArbiterError: there is none.
    """
    if file is not None:
        try:
            return file.read_text().strip()
        except OSError as problem:
            raise ArbiterError(f"--token-file {str(file)!r}: {problem.strerror}") from None
    token = os.environ.get(TOKEN_VARIABLE, "").strip()
    if not token:
        raise ArbiterError(f"no token: give --token-file, or set {TOKEN_VARIABLE} (`yarn-plugin token USER` makes one)")
    return token


class ArbiterClient:
    """Talks to one arbiter as one principal. Use one client per thread, and one more for each stream.

    Args:
        url: the arbiter's address.
        token: a user's, an application's, or the administrator's.
        verify: for https, a file of certificates to trust, or True for the system's.
    """

    def __init__(self, url: str, token: str, verify: str | bool = True) -> None:
        self.url, self.token, self.verify = url.rstrip("/"), token, verify
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
        return self._ask("PATCH", f"/v1/apps/{app}", wire.App, change)

    def deregister(self, app: str) -> None:
        """The application is done. Done already is done too."""
        try:
            self._call("DELETE", f"/v1/apps/{app}")
        except ArbiterRefusedError as refused:
            if refused.status != 404:
                raise

    def vacated(self, app: str, seq: int) -> None:
        """The application holds no more than share number `seq` gives it."""
        self._call("POST", f"/v1/apps/{app}/vacated", wire.Vacated(seq=seq))

    def app(self, app: str) -> wire.App:
        """One application, by the arbiter's id or YARN's."""
        return self._ask("GET", f"/v1/apps/{app}", wire.App)

    def apps(self) -> list[wire.App]:
        """The applications that the token may see."""
        return TypeAdapter(list[wire.App]).validate_python(self._call("GET", "/v1/apps"))

    def cluster(self) -> wire.Cluster:
        """Nodes, pools, enforcement."""
        return self._ask("GET", "/v1/cluster", wire.Cluster)

    def why(self, app: str, limit: int = 20) -> wire.Why:
        """The last decisions about an application."""
        return self._ask("GET", f"/v1/apps/{app}/why?limit={limit}", wire.Why)

    def decisions(self, limit: int = 100) -> list[wire.Decision]:
        """The last decisions, oldest first."""
        return TypeAdapter(list[wire.Decision]).validate_python(self._call("GET", f"/v1/decisions?limit={limit}"))

    def issue_token(self, user: str) -> wire.Token:
        """A token for a user; the administrator's token is needed."""
        return self._ask("POST", "/v1/tokens", wire.Token, wire.IssueToken(user=user))

    def follow(
        self,
        app: str,
        last_seen: int | None = None,
        away: Callable[[str], None] = lambda reason: None,
        stopped: Callable[[], bool] = lambda: False,
    ) -> Iterator[wire.Share]:
        """The application's shares: the present one, then every change, once each, in order.

        Reconnects by itself and misses nothing. Ends when the application is no longer followed.

        Args:
            app: the arbiter's id.
            last_seen: the number of the last share already known.
            away: called once each time the arbiter is lost, with the reason.
            stopped: asked between events; True ends the stream.
        """
        wait, lost = FIRST_WAIT, False
        while not stopped():
            try:
                for event, data in self._events(app, last_seen, stopped):
                    wait, lost = FIRST_WAIT, False
                    if event == "end":
                        return
                    if event == "share":
                        share = wire.Share.model_validate_json(data)
                        if last_seen is None or share.seq > last_seen:
                            last_seen = share.seq
                            yield share
                reason = "the stream ended"
            except ArbiterAwayError as problem:
                reason = str(problem)
            if stopped():
                return
            if not lost:
                lost = True
                away(reason)
            time.sleep(wait)
            wait = min(2 * wait, LONGEST_WAIT)

    def _events(self, app: str, last_seen: int | None, stopped: Callable[[], bool]) -> Iterator[tuple[str, str]]:
        headers = {} if last_seen is None else {"Last-Event-ID": str(last_seen)}
        with self._open("GET", f"/v1/apps/{app}/events", headers=headers, stream=True) as answer:
            fields: dict[str, str] = {}
            try:
                # One byte at a time would be slow, and a larger chunk would wait until it is full.
                for line in answer.iter_lines(chunk_size=None, decode_unicode=True):
                    if stopped():
                        return
                    if line and not line.startswith(":"):
                        name, _, value = line.partition(":")
                        fields[name] = value.removeprefix(" ")
                    elif not line and fields:
                        yield fields.get("event", "message"), fields.get("data", "")
                        fields = {}
                    elif line.startswith(":"):
                        yield "alive", ""
            except requests.RequestException as problem:
                raise ArbiterAwayError(f"arbiter {self.url}: {_short(problem)}") from None

    def _ask(self, method: str, path: str, model: type[Model], body: wire.Wire | None = None) -> Model:
        return model.model_validate(self._call(method, path, body))

    def _call(self, method: str, path: str, body: wire.Wire | None = None) -> Any:
        with self._open(method, path, body) as answer:
            return answer.json() if answer.content else None

    def _open(
        self,
        method: str,
        path: str,
        body: wire.Wire | None = None,
        headers: dict[str, str] | None = None,
        stream: bool = False,
    ) -> requests.Response:
        content = None if body is None else body.model_dump_json(exclude_unset=True)
        sent = {**(headers or {}), **({"Content-Type": "application/json"} if content else {})}
        try:
            answer = self._session.request(
                method,
                self.url + path,
                data=content,
                headers=sent,
                stream=stream,
                timeout=(CONNECT_TIMEOUT, READ_TIMEOUT),
            )
        except requests.RequestException as problem:
            raise ArbiterAwayError(
                f"arbiter {self.url}: {_short(problem)}; is `yarn-plugin arbiter` running there?"
            ) from None
        if answer.status_code >= 500:
            raise ArbiterAwayError(f"arbiter {self.url}: it failed ({answer.status_code})")
        if not answer.ok:
            raise ArbiterRefusedError(answer.status_code, _problems(answer))
        return answer


class ShareListener:
    """Follows an application's shares in a thread of its own.

    Args:
        client: a client of the listener's own.
        app: the arbiter's id.
        told: called with every new share.
        away: called once each time the arbiter is lost, with the reason.
    """

    def __init__(
        self, client: ArbiterClient, app: str, told: Callable[[wire.Share], None], away: Callable[[str], None]
    ) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(
            target=self._run, args=(client, app, told, away), name=f"shares-{app}", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Stop listening; returns at once."""
        self._stop.set()

    def _run(
        self, client: ArbiterClient, app: str, told: Callable[[wire.Share], None], away: Callable[[str], None]
    ) -> None:
        try:
            for share in client.follow(app, away=away, stopped=self._stop.is_set):
                told(share)
        except ArbiterRefusedError as refused:
            away(str(refused))


def _problems(answer: requests.Response) -> list[wire.Problem]:
    try:
        return wire.Problems.model_validate_json(answer.content).problems
    except ValueError:
        return [wire.Problem(field="url", value=answer.url, expected="this is not the address of an arbiter")]


def _short(problem: requests.RequestException) -> str:
    """The cause, without the library's own wording around it."""
    if isinstance(problem, requests.Timeout):
        return "no answer in time"
    if isinstance(problem, requests.exceptions.SSLError):
        return f"TLS: {problem}"
    if isinstance(problem, requests.ConnectionError):
        return "no connection"
    return str(problem)
