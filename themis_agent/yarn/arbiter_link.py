"""The connection of an agent to the arbiter: messages come in, answers go out, in threads of their own."""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from pydantic import ValidationError

from themis_agent.agent import messages
from themis_agent.agent.commands import Command, DeclareTrials, SendBid, SendEstimate
from themis_agent.agent.events import ArbiterListens, ArbiterRefused, Event, Recovered
from themis_agent.arbiter_messages import Translation, answer
from themis_agent.live import InvalidEventError
from themis_agent.trial_jobs import jobs
from themis_agent.view.answers import AnswerTimes, Kind
from themis_agent.yarn.outbox import Outbox
from themis_agent.yarn.recovery import Recovery
from themis_agent.yarn.submission import ArbiterAccess
from yarn_plugin.api import wire
from yarn_plugin.api.client import ArbiterClient, ArbiterError, ArbiterRefusedError, ArbiterUnavailableError
from yarn_plugin.api.jobs import Alternative
from yarn_plugin.errors import ReportedError
from yarn_plugin.model.resources import GPU

log = logging.getLogger("themis_agent")

AGAIN_S = (0.3, 1.0, 2.0, 5.0)
"""Between attempts to send."""

MIN_ANSWER_S = 10.0
"""How long an answer is tried at least."""

FOLLOW_AGAIN_S = 10.0
MAX_FOLLOW_AGAIN_S = 300.0
"""After which an arbiter that does not listen to this search is asked again; doubled each time, up to the maximum."""

MAX_RECOVER_AGAIN_S = 20.0
"""The maximum where the search may register again: an arbiter that has lost its journal refuses that before YARN
answers it, and leases the GPUs to others a minute after that."""


class ArbiterLink:
    """While the arbiter is away, what is said waits, and leases stay as they are. Nothing here blocks the agent.

    Args:
        access: to the arbiter, with `token` of the application.
        translation: of its messages.
        put: takes events, in the listening thread.
        check: raises when nothing may be sent any more, because a later attempt does.
        answers: counts what is answered.
        max_gpus: that the search can use at once.
        alternatives: of each trial, if trials are its jobs; `max_gpus` is not said then.
        recovery: to register again with an arbiter that has lost its journal; None: it never does.
    """

    def __init__(
        self,
        access: ArbiterAccess,
        token: str,
        translation: Translation,
        put: Callable[[Event], object],
        check: Callable[[], None],
        answers: AnswerTimes,
        max_gpus: int,
        alternatives: Sequence[Alternative] = (),
        recovery: Recovery | None = None,
    ) -> None:
        self._access, self._token = access, token
        self._translation, self._put, self._check = translation, put, check
        self._outbox, self._changed = Outbox(), threading.Condition()
        self._answers, self._max_gpus, self._alternatives = answers, max_gpus, alternatives
        self._recovery = recovery
        self._asked: dict[str, float] = {}
        self._refusal, self._refused_for = "", dict[str, str]()
        self._closed = False
        self._failure: Exception | None = None

    def start(self) -> None:
        """Begin to listen and to speak."""
        for run, name in (
            (self._listen, "from arbiter"),
            (self._speak, "to arbiter"),
            (self._say_demand, "demand to arbiter"),
        ):
            threading.Thread(target=self._watched, args=(run,), name=name, daemon=True).start()

    def check(self) -> None:
        """Raise what has ended a thread, if something has: without it there would be no leases any more."""
        if self._failure is not None:
            raise self._failure

    def say(self, command: Command) -> None:
        """Send a command that is for the arbiter, as soon as it listens."""
        with self._changed:
            if self._outbox.put(command):
                self._changed.notify()

    def leave(self, wait_s: float) -> bool:
        """Deregister, which gives all leases back; whether that worked within so long."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        client, until, attempt = self._client(), time.monotonic() + wait_s, 0
        while True:
            try:
                client.deregister(self._access.app)
                return True
            except ArbiterUnavailableError as away:
                if time.monotonic() >= until:
                    log.warning("not deregistered; the arbiter will learn from YARN that this has ended: %s", away)
                    return False
            except ArbiterRefusedError as refused:
                log.warning("not deregistered: %s", refused)
                return False
            time.sleep(AGAIN_S[min(attempt, len(AGAIN_S) - 1)])
            attempt += 1

    def _client(self) -> ArbiterClient:
        return ArbiterClient(self._access.url, self._token, self._access.ca or True)

    def _watched(self, run: Callable[[], None]) -> None:
        try:
            run()
        except Exception as problem:  # noqa: BLE001 - `check` ends the agent
            self._failure = problem

    def _listen(self) -> None:
        wait_s = FOLLOW_AGAIN_S
        while not self._closed:
            try:
                for _ in self._client().follow(
                    self._access.app,
                    on_lost=lambda reason: log.warning("leases stay as they are: %s", reason),
                    on_end=self._refused,
                    on_message=self._take,
                    should_stop=lambda: self._closed,
                ):
                    pass
            except ArbiterRefusedError as refused:
                self._refused(str(refused))
            except (ArbiterError, InvalidEventError) as problem:
                log.warning("no messages from the arbiter: %s", problem)
            if self._closed:
                return
            if self._refusal and self._recovered():
                continue
            self._wait_to_follow(wait_s)
            longest_s = MAX_FOLLOW_AGAIN_S if self._access.recovery_token is None else MAX_RECOVER_AGAIN_S
            wait_s = min(2 * wait_s, longest_s) if self._refusal else FOLLOW_AGAIN_S

    def _recovered(self) -> bool:
        """Register again with an arbiter that has lost its journal; returns whether that worked."""
        recovery, access = self._recovery, self._access
        if recovery is None or access.recovery_token is None:
            return False
        self._check()
        try:
            again = ArbiterClient(access.url, access.recovery_token, access.ca or True).recover(recovery.request())
            held = ArbiterClient(access.url, again.token, access.ca or True).get_leases(again.app)
            access = recovery.note(again)
        except (ArbiterError, OSError) as problem:
            log.info("not registered again: %s", problem)
            return False
        for one in again.refused:
            log.warning("the arbiter does not lease %s again: %s", ", ".join(one.gpus), one.why)
        log.info("registered again, as %s: the arbiter had lost its journal", again.app)
        self._refusal = ""
        with self._changed:
            # Messages in the old outbox name leases by their former ids.
            self._access, self._token, self._outbox = access, again.token, Outbox()
        leases = messages.Leases.model_validate(held.model_dump())
        self._put(Recovered(again.app, self._translation.held(leases)))
        return True

    def _wait_to_follow(self, wait_s: float) -> None:
        time.sleep(wait_s)

    def _refused(self, reason: str) -> None:
        """The arbiter does not know this application, or not any more."""
        if not self._closed and reason != self._refusal:
            log.warning("the arbiter does not listen to this search: %s", reason)
            self._refusal = reason
            self._put(ArbiterRefused(reason))

    def _take(self, name: str, fields: dict[str, Any]) -> None:
        if self._refusal:
            self._refusal = ""
            self._put(ArbiterListens())
        try:
            message = messages.read(name, fields)
        except ValidationError as problem:
            log.warning("a message %s of the arbiter cannot be read: %s", name, " ".join(str(problem).split()))
            return
        if message is None or self._closed:
            return
        with self._changed:
            if isinstance(message, messages.Ask | messages.Offer):
                self._asked[message.id] = time.monotonic()
            if isinstance(message, messages.Ask):
                self._outbox.expect(message.id, _in_time(message.answer_by))
            elif isinstance(message, messages.Offer):
                self._outbox.expect(message.id, _in_time(message.bid_by))
        for event in self._translation.translated(message):
            self._put(event)

    def _say_demand(self) -> None:
        """Say how many GPUs the search can use.

        The arbiter did not know it yet when the application was submitted. So it offers idle GPUs anew, to one that
        listens by now: it may have missed the first offer while its master was started.
        """
        client, failures = self._client(), 0
        while not self._closed and not self._alternatives:
            try:
                self._check()
                client.revise(self._access.app, wire.Revise(demand=[{GPU: self._max_gpus}]))
                return
            except ArbiterUnavailableError:
                time.sleep(AGAIN_S[min(failures, len(AGAIN_S) - 1)])
                failures += 1
            except ReportedError as problem:
                log.warning("its demand is not sent: %s", problem)
                return

    def _speak(self) -> None:
        client, failures = self._client(), 0
        while True:
            if client.token != self._token:
                client = self._client()
            with self._changed:
                command = self._outbox.next(time.monotonic())
                self._count_late()
                if self._closed:
                    return
                if command is None:
                    self._changed.wait()
                    continue
            kind = _name_of(command)
            try:
                self._check()
                self._send(client, command)
                failures = 0
                self._count(command)
            except ArbiterUnavailableError as away:
                if not failures:
                    log.warning("%s waits: %s", kind, away)
                time.sleep(AGAIN_S[min(failures, len(AGAIN_S) - 1)])
                failures += 1
                continue
            except ArbiterRefusedError as refused:
                if str(refused) != self._refused_for.get(kind):
                    log.warning("%s: %s", kind, refused)
                self._refused_for[kind] = str(refused)
                if isinstance(command, DeclareTrials):
                    self._put(ArbiterRefused(str(refused)))
            except ReportedError as superseded:
                log.warning("%s is not sent: %s", kind, superseded)
                return
            except ValueError as invalid:
                log.error("%s cannot be sent; report this: %s", kind, " ".join(str(invalid).split()))
            with self._changed:
                self._outbox.done(command)

    def _send(self, client: ArbiterClient, command: Command) -> None:
        if isinstance(command, DeclareTrials):
            client.declare_jobs(self._access.app, jobs(self._alternatives, command))
            return
        said = answer(command)
        assert said is not None
        kind, fields = said
        client.send(self._access.app, kind, **fields)

    def _count(self, command: Command) -> None:
        """Count an answer that was sent."""
        if isinstance(command, SendEstimate | SendBid):
            asked_at = self._asked.pop(command.id, None)
            if asked_at is not None:
                self._answers.sent(_KINDS[type(command)], time.monotonic() - asked_at)

    def _count_late(self) -> None:
        while self._outbox.late:
            command = self._outbox.late.pop()
            if isinstance(command, SendEstimate | SendBid):
                self._asked.pop(command.id, None)
                self._answers.too_late(_KINDS[type(command)])


def _name_of(command: Command) -> str:
    """What a command sends, for logs."""
    said = answer(command)
    return "the declaration of its trials" if said is None else said[0]


def _in_time(until: float) -> float:
    """When an answer is too late, on the monotonic clock. `until`: its deadline on the clock of the arbiter's machine,
    which may be behind ours: so it is tried for a while in any case."""
    return time.monotonic() + max(until - time.time(), MIN_ANSWER_S)


_KINDS: dict[type, Kind] = {SendEstimate: "estimate", SendBid: "bid"}
