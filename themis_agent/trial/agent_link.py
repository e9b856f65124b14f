"""The launcher's connection to its agent: events go out until they are acknowledged, answers come in."""

import math
import stat
import sys
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import requests
from pydantic import ValidationError

from themis_agent.errors import StoreError
from themis_agent.trial.store import read_at
from themis_agent.trial.wire import AgentAddress, Answer, AnyEvent, Batch, LaunchSpec, Reported, Wire
from yarn_plugin.errors import BadInputError, os_reason

_MAX_REPORTS = 10_000
"""Kept while the agent is away; the oldest are dropped, but every 100th step."""

_PER_BATCH = 1000
_TIMEOUT_S = 5.0
_SILENT_S, _ADDRESS_S = 2.0, 10.0
"""In a store, the agent's address is read again when the agent has not answered for so long; or else so often."""

_ADDRESS_TIMEOUT_S = (3.0, 3.0)
"""Of a store with the agent's address. Meanwhile the launcher neither reports nor hears that it is to stop."""

_REFUSED = (400, 413, 422)
"""Sent again, the same events would be refused again."""


class AgentLink:
    """Posts in a thread of its own; `wake` is called from there after each answer.

    Raises:
        BadInputError: the token file cannot be read, or others can read it.
    """

    def __init__(self, spec: LaunchSpec, wake: Callable[[], None]) -> None:
        self.launcher = uuid.uuid4().hex
        self._spec, self._wake = spec, wake
        self._url, self._attempt = spec.agent_url, 0 if spec.agent_url is None else 1
        self._session = session_with(spec.token_file)
        self._waiting: list[AnyEvent] = []
        self._batch = _PER_BATCH
        self._changed = threading.Condition()
        self._urgent = self._closed = False
        self.answer: Answer | None = None
        self.answered_at = time.monotonic()
        self._address_read_at = -math.inf
        self._thread = threading.Thread(target=self._run, name="agent", daemon=True)
        if self.exists:
            self._thread.start()

    @property
    def exists(self) -> bool:
        """Whether there is an agent at all."""
        return self._spec.agent_url is not None or self._spec.agent_address is not None

    @property
    def silent_s(self) -> float:
        """For how long the agent has not answered."""
        return time.monotonic() - self.answered_at if self.exists else 0.0

    def send(self, event: AnyEvent) -> None:
        """Send an event: reports with the next heartbeat, others at once."""
        if not self.exists:
            return
        with self._changed:
            self._waiting.append(event)
            if len(self._waiting) > _MAX_REPORTS:
                self._waiting = _thinned(self._waiting)
            if not isinstance(event, Reported):
                self._urgent = True
                self._changed.notify()

    def close(self, wait_s: float) -> None:
        """Wait so long at most until all events are acknowledged, then stop."""
        end = time.monotonic() + wait_s
        with self._changed:
            while self._waiting and self.exists and (left := end - time.monotonic()) > 0:
                self._urgent = True
                self._changed.notify()
                self._changed.wait(min(left, 0.05))
            self._closed = True
            self._changed.notify()

    def _run(self) -> None:
        while not self._closed:
            self._exchange()
            with self._changed:
                if not self._closed and not self._urgent:
                    self._changed.wait(self._spec.heartbeat_s)
                self._urgent = False

    def _exchange(self) -> None:
        self._follow_address()
        with self._changed:
            batch = Batch(
                launcher=self.launcher,
                first_rank=self._spec.ranks[0],
                epoch=self._spec.epoch,
                events=self._waiting[: self._batch],
            )
        try:
            response = post(self._session, f"{self._url}/v1/trials/{quote(self._spec.trial)}/events", batch)
            if response.status_code in _REFUSED and batch.events:
                self._refused(batch, response)
            response.raise_for_status()
            answer = Answer.model_validate_json(response.content)
        except (requests.RequestException, ValidationError):
            with self._changed:
                # It is tried again at the next heartbeat, also what is urgent.
                self._urgent = False
            time.sleep(min(0.2, self._spec.heartbeat_s))
            return
        if answer.attempt < self._attempt:
            return
        with self._changed:
            self._attempt = answer.attempt
            self._waiting = [event for event in self._waiting if event.sequence > answer.acknowledged]
            self._batch = min(2 * self._batch, _PER_BATCH)
            self._urgent = self._urgent or len(self._waiting) >= self._batch
            self.answer, self.answered_at = answer, time.monotonic()
            self._changed.notify_all()
        self._wake()

    def _refused(self, batch: Batch, response: requests.Response) -> None:
        """Drop the event that is refused: of several, they are sent again one by one to find it."""
        with self._changed:
            self._batch, self._urgent = 1, True
            if len(batch.events) > 1:
                return
            (event,) = batch.events
            self._waiting = [one for one in self._waiting if one.sequence > event.sequence]
            self._changed.notify_all()
        sys.stderr.write(
            f"the agent refuses event {event.sequence} ({event.type}), which is dropped;"
            f" report this: HTTP {response.status_code}, {response.text[:1000]}\n"
        )
        sys.stderr.flush()

    def _follow_address(self) -> None:
        place = self._spec.agent_address
        if place is not None and self._is_due(place) and (later := later_address(place, self._attempt)):
            self._url, self._attempt = later.url, later.attempt

    def _is_due(self, address: str) -> bool:
        """A shared folder is looked into each time; a store, which all launchers of a cluster may share, only while the
        agent does not answer, or after a while."""
        now = time.monotonic()
        is_answering = self.answer is not None and now < self.answered_at + _SILENT_S
        if not address.startswith("file:") and is_answering and now < self._address_read_at + _ADDRESS_S:
            return False
        self._address_read_at = now
        return True


def _thinned(events: list[AnyEvent]) -> list[AnyEvent]:
    recent = len(events) // 2
    older = [one for one in events[:recent] if not isinstance(one, Reported) or one.step % 100 == 0]
    return older + events[recent:]


def session_with(token_file: str | None) -> requests.Session:
    """For requests to the agent; with the token in a file, or in a store.

    Raises:
        BadInputError: it cannot be read, or others can read it.
    """
    session = requests.Session()
    session.trust_env = False
    if token_file is not None:
        session.headers["Authorization"] = f"Bearer {_read_token(token_file)}"
    return session


def post(session: requests.Session, url: str, message: Wire) -> requests.Response:
    """The agent's answer to a message.

    Raises:
        RequestException: it does not answer.
    """
    headers = {"Content-Type": "application/json"}
    return session.post(url, data=message.model_dump_json().encode(), headers=headers, timeout=_TIMEOUT_S)


def later_address(place: str, attempt: int) -> AgentAddress | None:
    """Where a later attempt of the agent has published itself. None: none has, or `place` cannot be read now."""
    try:
        address = AgentAddress.model_validate_json(read_at(place, (), timeout_s=_ADDRESS_TIMEOUT_S))
    except (OSError, ValueError, StoreError):
        return None
    return address if address.attempt > attempt else None


def _read_token(place: str) -> str:
    path = Path(place)
    try:
        # In a store, it is the store that checks who may read.
        mode = path.stat().st_mode if "://" not in place else 0
        token = read_at(place).decode().strip()
    except OSError as problem:
        raise BadInputError("token_file", place, os_reason(problem)) from problem
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise BadInputError("token_file", str(path), "make it readable by its owner alone: chmod 600")
    return token
