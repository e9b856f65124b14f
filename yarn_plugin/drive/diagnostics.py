"""Why applications wait for containers: queries to the ResourceManager, by few threads and with cached answers."""

import logging
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future

from yarn_plugin.observe import translate
from yarn_plugin.observe.resource_manager import ManagerError, ResourceManager

log = logging.getLogger("yarn_plugin.arbiter")

THREADS = 2
MAX_WAITING = 16
"""How many applications may be queried at a time."""
CACHE_TTL = 5.0
"""Seconds for which an answer is cached."""
COLLECT_SECONDS = 2.0
"""Seconds for which the ResourceManager collects its reasons between the first query and the second."""
MAX_LINES, MAX_LINE_LENGTH = 50, 1000
"""Limits of an answer: a reason may name each of thousands of nodes."""
BUSY = "too many queries to the ResourceManager are waiting; try again later"


class Diagnostics:
    """Queries why applications wait: one query per application at a time, whose answer is shared and cached.

    Args:
        managers: makes a client of the ResourceManager, one per thread.
        collect_seconds: for which the ResourceManager collects reasons.
        clock: the time, in seconds.
    """

    def __init__(
        self,
        managers: Callable[[], ResourceManager],
        collect_seconds: float = COLLECT_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._managers, self._collect_seconds, self._clock = managers, collect_seconds, clock
        self._lock = threading.Lock()
        self._asked: dict[str, Future[list[str]]] = {}
        self._answers: dict[str, tuple[float, list[str]]] = {}
        self._inbox: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._threads = 0

    def why_waiting(self, yarn_app: str) -> Future[list[str]]:
        """The ResourceManager's reasons, as lines; errors are lines, too."""
        now = self._clock()
        with self._lock:
            self._answers = {app: cached for app, cached in self._answers.items() if cached[0] > now}
            if yarn_app in self._answers:
                return _known(self._answers[yarn_app][1])
            if yarn_app in self._asked:
                return self._asked[yarn_app]
            if len(self._asked) >= MAX_WAITING:
                return _known([BUSY])
            asked: Future[list[str]] = Future()
            # Not cancellable: other callers may wait for it, too.
            asked.set_running_or_notify_cancel()
            self._asked[yarn_app] = asked
            if self._threads < THREADS:
                self._threads += 1
                threading.Thread(target=self._work, name=f"why-{self._threads}", daemon=True).start()
        self._inbox.put(yarn_app)
        return asked

    def _work(self) -> None:
        manager = self._managers()
        while True:
            yarn_app = self._inbox.get()
            lines = self._answer(manager, yarn_app)
            with self._lock:
                self._answers[yarn_app] = (self._clock() + CACHE_TTL, lines)
                asked = self._asked.pop(yarn_app)
            asked.set_result(lines)

    def _answer(self, manager: ResourceManager, yarn_app: str) -> list[str]:
        try:
            return [line[:MAX_LINE_LENGTH] for line in self._query(manager, yarn_app)[:MAX_LINES]]
        except ManagerError as problem:
            return [f"the ResourceManager gives no reason: {problem}"]
        except Exception:
            # This thread serves other queries, too.
            log.exception("app=%s cannot read its diagnostics from %s; only `why` is affected", yarn_app, manager.url)
            return ["the ResourceManager gives no reason: its answer is unreadable"]

    def _query(self, manager: ResourceManager, yarn_app: str) -> list[str]:
        path = f"/scheduler/app-activities/{yarn_app}"
        parameters = {"maxTime": "3", "groupBy": "diagnostic", "summarize": "true"}
        manager.get(path, **parameters)
        time.sleep(self._collect_seconds)
        reasons = translate.why_waiting(manager.get(path, **parameters))
        # If all nodes are full, YARN does not try to allocate, and records no reasons.
        return reasons or translate.diagnostics(manager.get(f"/apps/{yarn_app}"))


def _known(lines: list[str]) -> Future[list[str]]:
    answered: Future[list[str]] = Future()
    answered.set_result(lines)
    return answered
