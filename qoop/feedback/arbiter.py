"""The share as the arbiter tells it, translated into executors and slots."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from qoop.errors import QoopError
from qoop.replan.events import ArbiterAway, Event, ShareChanged
from yarn_plugin.api import wire
from yarn_plugin.api.client import ArbiterClient, ArbiterRefusedError, ShareListener

CONFIRM_TRIES = 8
"""How often one share is confirmed at most: later than that its grace is over, and there is nothing left to hasten."""

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 5.0
"""Seconds between tries."""

MEMORY, VCORES = "memory-mb", "vcores"


class ShareTooSmallError(QoopError):
    """The share does not hold one executor."""


@dataclass(frozen=True, slots=True)
class ExecutorSize:
    """An executor's container (`memory` with overhead, MiB; `vcores`), the tasks it runs at once, and the master's."""

    memory: int
    vcores: int
    slots: int
    master_memory: int
    master_vcores: int

    def count(self, resources: Mapping[str, int]) -> int:
        """How many executors fit into an amount, beside the application master."""
        memory = resources.get(MEMORY, 0) - self.master_memory
        vcores = resources.get(VCORES, 0) - self.master_vcores
        return max(min(memory // self.memory, vcores // self.vcores), 0)

    def total(self, executors: int) -> dict[str, int]:
        """The resources of so many executors and the master."""
        return {
            MEMORY: self.master_memory + executors * self.memory,
            VCORES: self.master_vcores + executors * self.vcores,
        }

    def need_one(self, resources: Mapping[str, int], whose: str) -> None:
        """Check that an amount holds an executor.

        Raises:
            ShareTooSmallError: it does not.
        """
        if self.count(resources) < 1:
            have = f"{resources.get(MEMORY, 0)} MB, {resources.get(VCORES, 0)} vcores"
            want = f"{self.memory + self.master_memory} MB, {self.vcores + self.master_vcores} vcores"
            raise ShareTooSmallError(
                f"{whose}: {have} is too small for the application master and one executor ({want}); "
                "use smaller executors (--executor-memory, --executor-cores) or ask for a larger share"
            )


class ArbiterFeed:
    """Follows the stream of one registered application, and says when a smaller share is kept to."""

    def __init__(self, url: str, token: str, app: str, size: ExecutorSize, verify: str | bool = True) -> None:
        self._confirmer = Confirmer(ArbiterClient(url, token, verify), app)
        self._stream = ArbiterClient(url, token, verify)
        self._app, self._size = app, size
        self._listener: ShareListener | None = None

    def start(self, tell: Callable[[Event], None]) -> None:
        """Begin to listen; the present share is the first event."""
        self._listener = ShareListener(
            self._stream,
            self._app,
            on_share=lambda share: tell(self._translate(share)),
            on_lost=lambda reason: tell(ArbiterAway(reason)),
        )

    def confirm(self, seq: int) -> None:
        """Say that no more is held than share `seq` gives. Returns at once; see `Confirmer`."""
        self._confirmer.confirm(seq)

    def close(self) -> None:
        """Stop listening, and confirm no more. Returns at once."""
        self._confirmer.close()
        if self._listener is not None:
            self._listener.close()

    def _translate(self, share: wire.Share) -> ShareChanged:
        """Plan with the guarantee (QOOP section 2.3.2); hold what one is entitled to."""
        planned = max(self._size.count(share.guarantee.resources), 1)
        held = max(self._size.count(share.entitlement.resources), 1)
        return ShareChanged(
            slots=float(planned * self._size.slots),
            executors=held,
            reason=share.reason,
            effective_at=share.effective_at,
            seq=share.seq,
            why=kinds(share.cause),
        )


def kinds(cause: dict[str, Any] | None) -> tuple[str, ...]:
    """The kinds of what happened, of the arbiter's cause of a share; one that holds none is of its own kind.

    A later arbiter may send causes of any shape: what is not understood is left out, `reason` says it all.
    """
    if cause is None:
        return ()
    happened = cause.get("causes")
    named = happened.get("named") if isinstance(happened, dict) else None
    found = named if isinstance(named, list) and named else [cause]
    said = [one.get("kind") for one in found if isinstance(one, dict)]
    return tuple(kind for kind in said if isinstance(kind, str))


class Confirmer:
    """Tells the arbiter that a share is kept to, in a thread of its own: an arbiter that is slow, or away, holds up no
    decision.

    Only the latest share counts: what is still to be said of an earlier one is not said any more. What is lost for good
    costs the others the grace, and nothing else.
    """

    def __init__(self, client: ArbiterClient, app: str) -> None:
        self._client, self._app = client, app
        self._changed = threading.Condition()
        self._latest: int | None = None
        self._closed = False
        self._thread: threading.Thread | None = None

    def confirm(self, seq: int) -> None:
        """Confirm share number `seq`, as soon as the arbiter takes it. Returns at once."""
        with self._changed:
            self._latest = seq
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._run, name=f"confirm-{self._app}", daemon=True)
                self._thread.start()
            self._changed.notify()

    def close(self) -> None:
        """Confirm no more. Returns at once; a request that is on its way ends with its own limits of time."""
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
        pause = FIRST_PAUSE
        for _ in range(CONFIRM_TRIES):
            try:
                self._client.report_vacated(self._app, seq)
                return
            except ArbiterRefusedError as refused:
                if refused.status != 429:
                    # The application is not followed any more, and whoever listens hears of that.
                    return
            except Exception:  # noqa: BLE001 - whatever was wrong, the next share is to be confirmed as well
                pass
            with self._changed:
                if self._changed.wait_for(lambda: self._closed or self._latest != seq, timeout=pause):
                    return
            pause = min(2 * pause, LONGEST_PAUSE)
