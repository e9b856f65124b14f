"""What the ResourceManager says of an application that waits: asked by few threads, however many want to know."""

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
MOST_WAITING = 16
"""Applications asked about at a time, at most."""
KEPT = 5.0
"""Seconds for which an answer is good."""
COLLECTING = 2.0
"""Seconds for which the ResourceManager collects its reasons between the first question and the second."""
MOST_LINES, LONGEST_LINE = 50, 1000
"""Of an answer, what is passed on at most: on thousands of nodes a reason may name each of them."""
BUSY = "the ResourceManager has too many questions waiting; try again"


class Diagnostics:
    """Asks why applications wait; one question per application at a time, its answer shared and kept for a moment.

    Args:
        managers: makes a client of the ResourceManager; each thread has its own.
        collecting: seconds for which the ResourceManager collects reasons.
        clock: the time, in seconds.
    """

    def __init__(
        self,
        managers: Callable[[], ResourceManager],
        collecting: float = COLLECTING,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._managers, self._collecting, self._clock = managers, collecting, clock
        self._lock = threading.Lock()
        self._asked: dict[str, Future[list[str]]] = {}
        self._answers: dict[str, tuple[float, list[str]]] = {}
        self._inbox: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._threads = 0

    def why_waiting(self, yarn_app: str) -> Future[list[str]]:
        """What the ResourceManager says of an application, in lines; never an exception."""
        now = self._clock()
        with self._lock:
            self._answers = {app: kept for app, kept in self._answers.items() if kept[0] > now}
            if yarn_app in self._answers:
                return _known(self._answers[yarn_app][1])
            if yarn_app in self._asked:
                return self._asked[yarn_app]
            if len(self._asked) >= MOST_WAITING:
                return _known([BUSY])
            asked: Future[list[str]] = Future()
            # It cannot be taken back: others may wait for it too.
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
            said = self._say(manager, yarn_app)
            with self._lock:
                self._answers[yarn_app] = (self._clock() + KEPT, said)
                asked = self._asked.pop(yarn_app)
            asked.set_result(said)

    def _say(self, manager: ResourceManager, yarn_app: str) -> list[str]:
        try:
            return [line[:LONGEST_LINE] for line in self._ask(manager, yarn_app)[:MOST_LINES]]
        except ManagerError as problem:
            return [f"the ResourceManager does not say: {problem}"]
        except Exception:
            # Whatever answered: this thread answers others too.
            log.exception("why %s waits: an answer of %s", yarn_app, manager.url)
            return ["the ResourceManager does not say: its answer could not be read"]

    def _ask(self, manager: ResourceManager, yarn_app: str) -> list[str]:
        path = f"/scheduler/app-activities/{yarn_app}"
        asked = {"maxTime": "3", "groupBy": "diagnostic", "summarize": "true"}
        manager.get(path, **asked)
        time.sleep(self._collecting)
        said = translate.why_waiting(manager.get(path, **asked))
        # On nodes that are wholly taken nothing is even tried, so there is nothing to tell of them.
        return said or translate.diagnostics(manager.get(f"/apps/{yarn_app}"))


def _known(lines: list[str]) -> Future[list[str]]:
    answered: Future[list[str]] = Future()
    answered.set_result(lines)
    return answered
