"""The share that the arbiter sends, translated into executors and slots; what a query reports to the arbiter."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Generic, TypeVar

from qoop.errors import QoopError
from qoop.replan.completion import Completion
from qoop.replan.events import ArbiterAway, Event, ShareChanged
from yarn_plugin.api import wire
from yarn_plugin.api.client import ArbiterClient, ArbiterRefusedError, ShareListener

MAX_TRIES = 8
"""How often a report is tried. By then the grace period of a share is over, and confirming it gains nothing."""

FIRST_PAUSE_S, MAX_PAUSE_S = 0.5, 5.0
"""Seconds between tries, doubled each time."""

MIN_CHANGE = 0.05
"""An expected completion is reported if it changes finish-time fairness by this fraction: the arbiter counts on."""

MEMORY, VCORES = "memory-mb", "vcores"

Report = TypeVar("Report")


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
    """Follows the event stream of one registered application, confirms smaller shares, and reports when the query is
    expected to finish."""

    def __init__(self, url: str, token: str, app: str, size: ExecutorSize, verify: str | bool = True) -> None:
        reports, estimates = ArbiterClient(url, token, verify), ArbiterClient(url, token, verify)
        self._confirmations = LatestReport[int](lambda seq: reports.report_vacated(app, seq), f"confirm-{app}")
        self._completions = LatestReport[Completion](
            lambda expected: estimates.send(app, "share.estimate", **asdict(expected)), f"estimate-{app}"
        )
        self._stream = ArbiterClient(url, token, verify)
        self._app, self._size = app, size
        self._listener: ShareListener | None = None
        self._reported: Completion | None = None

    def start(self, emit: Callable[[Event], None]) -> None:
        """Start listening; the current share is the first event."""
        self._listener = ShareListener(
            self._stream,
            self._app,
            on_share=lambda share: emit(self._translate(share)),
            on_lost=lambda reason: emit(ArbiterAway(reason)),
        )

    def confirm(self, seq: int) -> None:
        """Confirm that the query holds no more than share `seq`. Returns immediately; see `LatestReport`.

        If a confirmation is lost, the other applications wait until the grace period ends, and nothing else happens.
        """
        self._confirmations.send(seq)

    def expect(self, completion: Completion) -> None:
        """Report when the query is expected to finish, if that has changed. Returns immediately."""
        before = self._reported
        if before is None or abs(completion.rho - before.rho) >= MIN_CHANGE * before.rho:
            self._reported = completion
            self._completions.send(completion)

    def close(self) -> None:
        """Stop listening and reporting. Returns immediately."""
        self._confirmations.close()
        self._completions.close()
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


class LatestReport(Generic[Report]):
    """Sends reports of one kind to the arbiter in a thread of its own, so that a slow or unreachable arbiter delays no
    decision. Only the latest report matters: pending earlier ones are dropped.

    Args:
        post: sends one report; it may fail.
        name: of the thread.
    """

    def __init__(self, post: Callable[[Report], None], name: str) -> None:
        self._post, self._name = post, name
        self._changed = threading.Condition()
        self._latest: Report | None = None
        self._closed = False
        self._thread: threading.Thread | None = None

    def send(self, report: Report) -> None:
        """Send a report as soon as the arbiter accepts it. Returns immediately."""
        with self._changed:
            self._latest = report
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
            self._changed.notify()

    def close(self) -> None:
        """Stop sending. Returns immediately; a request in flight ends by its own timeout."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def _run(self) -> None:
        done: Report | None = None
        while (report := self._next(done)) is not None:
            self._try(report)
            done = report

    def _next(self, done: Report | None) -> Report | None:
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._latest != done)
            return None if self._closed else self._latest

    def _try(self, report: Report) -> None:
        pause = FIRST_PAUSE_S
        for _ in range(MAX_TRIES):
            try:
                self._post(report)
                return
            except ArbiterRefusedError as refused:
                if refused.status != 429:
                    # It no longer follows the application, of which the listener is notified; or it is an earlier
                    # release that does not know this report.
                    return
            except Exception:  # noqa: BLE001 - any failure is retried; the thread must survive
                pass
            with self._changed:
                if self._changed.wait_for(lambda: self._closed or self._latest != report, timeout=pause):
                    return
            pause = min(2 * pause, MAX_PAUSE_S)
