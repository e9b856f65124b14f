"""The share that the arbiter sends, translated into executors and slots."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from qoop.errors import QoopError
from qoop.replan.events import ArbiterAway, Event, ShareChanged
from yarn_plugin.api import wire
from yarn_plugin.api.client import ArbiterClient, ArbiterRefusedError, ShareListener

MAX_CONFIRM_TRIES = 8
"""How often the confirmation of a share is tried; by then its grace period is over, and confirming gains nothing."""

FIRST_PAUSE_S, MAX_PAUSE_S = 0.5, 5.0
"""Seconds between tries, doubled each time."""

MEMORY, VCORES = "memory-mb", "vcores"


class ShareTooSmallError(QoopError):
    """The share is too small for one executor."""


@dataclass(frozen=True, slots=True)
class ExecutorSize:
    """The container of an executor (memory in MiB with overhead), its slots, and the application master's container."""

    memory: int
    vcores: int
    slots: int
    master_memory: int
    master_vcores: int

    def count(self, resources: Mapping[str, int]) -> int:
        """How many executors fit into the resources besides the application master."""
        memory = resources.get(MEMORY, 0) - self.master_memory
        vcores = resources.get(VCORES, 0) - self.master_vcores
        return max(min(memory // self.memory, vcores // self.vcores), 0)

    def total(self, executors: int) -> dict[str, int]:
        """The resources of a number of executors and the application master."""
        return {
            MEMORY: self.master_memory + executors * self.memory,
            VCORES: self.master_vcores + executors * self.vcores,
        }

    def require_one(self, resources: Mapping[str, int], whose: str) -> None:
        """Check that the resources are enough for one executor.

        Raises:
            ShareTooSmallError: they are not; `whose` names them in the message.
        """
        if self.count(resources) < 1:
            have = f"{resources.get(MEMORY, 0)} MiB, {resources.get(VCORES, 0)} vcores"
            want = f"{self.memory + self.master_memory} MiB, {self.vcores + self.master_vcores} vcores"
            raise ShareTooSmallError(
                f"{whose}: {have} is too small for the application master and one executor ({want}); "
                "use smaller executors (--executor-memory, --executor-cores) or raise --weight"
            )


class ArbiterFeed:
    """Follows the event stream of one registered application, and confirms smaller shares."""

    def __init__(self, url: str, token: str, app: str, size: ExecutorSize, verify: str | bool = True) -> None:
        self._confirmer = Confirmer(ArbiterClient(url, token, verify), app)
        self._stream = ArbiterClient(url, token, verify)
        self._app, self._size = app, size
        self._listener: ShareListener | None = None

    def start(self, emit: Callable[[Event], None]) -> None:
        """Start listening; the current share is the first event."""
        self._listener = ShareListener(
            self._stream,
            self._app,
            on_share=lambda share: emit(self._translate(share)),
            on_lost=lambda reason: emit(ArbiterAway(reason)),
        )

    def confirm(self, seq: int) -> None:
        """Confirm that the query holds no more than share `seq`. Returns immediately; see `Confirmer`."""
        self._confirmer.confirm(seq)

    def close(self) -> None:
        """Stop listening and confirming. Returns immediately."""
        self._confirmer.close()
        if self._listener is not None:
            self._listener.close()

    def _translate(self, share: wire.Share) -> ShareChanged:
        """Plan with the guarantee (QOOP section 2.3.2); hold the entitlement."""
        planned = max(self._size.count(share.guarantee.resources), 1)
        executors = max(self._size.count(share.entitlement.resources), 1)
        return ShareChanged(
            slots=float(planned * self._size.slots),
            executors=executors,
            reason=share.reason,
            effective_at=share.effective_at,
            seq=share.seq,
            why=cause_kinds(share.cause),
        )


def cause_kinds(cause: dict[str, Any] | None) -> tuple[str, ...]:
    """The kinds of the events behind a share, from the arbiter's `cause`: those that it names, or its own.

    A newer arbiter may send causes of another shape: parts that are not understood are ignored; `reason` has the text.
    """
    if cause is None:
        return ()
    causes = cause.get("causes")
    named = causes.get("named") if isinstance(causes, dict) else None
    events = named if isinstance(named, list) and named else [cause]
    found = [event.get("kind") for event in events if isinstance(event, dict)]
    return tuple(kind for kind in found if isinstance(kind, str))


class Confirmer:
    """Confirms shares to the arbiter in a thread of its own, so that a slow or unreachable arbiter delays no decision.

    Only the latest share is confirmed; pending confirmations of earlier ones are dropped. If a confirmation is lost,
    the other applications wait until the grace period ends, and nothing else happens.
    """

    def __init__(self, client: ArbiterClient, app: str) -> None:
        self._client, self._app = client, app
        self._changed = threading.Condition()
        self._latest: int | None = None
        self._closed = False
        self._thread: threading.Thread | None = None

    def confirm(self, seq: int) -> None:
        """Confirm share number `seq` as soon as the arbiter accepts it. Returns immediately."""
        with self._changed:
            self._latest = seq
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._run, name=f"confirm-{self._app}", daemon=True)
                self._thread.start()
            self._changed.notify()

    def close(self) -> None:
        """Stop confirming. Returns immediately; a request in flight ends by its own timeout."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def _run(self) -> None:
        done: int | None = None
        while (seq := self._next(done)) is not None:
            self._confirm(seq)
            done = seq

    def _next(self, done: int | None) -> int | None:
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._latest != done)
            return None if self._closed else self._latest

    def _confirm(self, seq: int) -> None:
        pause = FIRST_PAUSE_S
        for _ in range(MAX_CONFIRM_TRIES):
            try:
                self._client.report_vacated(self._app, seq)
                return
            except ArbiterRefusedError as refused:
                if refused.status != 429:
                    # The arbiter no longer follows the application; the listener is notified of that.
                    return
            except Exception:  # noqa: BLE001 - any failure is retried; the thread must survive
                pass
            with self._changed:
                if self._changed.wait_for(lambda: self._closed or self._latest != seq, timeout=pause):
                    return
            pause = min(2 * pause, MAX_PAUSE_S)
