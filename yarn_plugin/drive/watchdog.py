"""Ends the process when the loop that decides has died, or makes no progress: a service manager then starts it anew.

A process that lives and does not decide is worse than none: its clients wait for shares that never come.
"""

import faulthandler
import logging
import os
import sys
import threading
import time
from collections.abc import Callable

log = logging.getLogger("yarn_plugin.arbiter")

EXIT_STALLED = 70
"""What the process ends with when its loop has died or stalled (EX_SOFTWARE of sysexits.h)."""

TICKS = 10
"""How often it looks, within the time after which it ends the process."""


def end_process(reason: str) -> None:
    """End at once, with every thread's stack in the log: nothing can be trusted to end in order."""
    log.critical("the arbiter ends with exit code %d: %s", EXIT_STALLED, reason)
    faulthandler.dump_traceback(sys.stderr)
    logging.shutdown()
    os._exit(EXIT_STALLED)


class Watchdog:
    """Looks, from a thread of its own, at whether a loop lives and makes progress.

    Time that the whole process did not get (it was stopped, or the machine slept) does not count: what is counted are
    the watchdog's own looks.

    Args:
        alive: whether the loop runs.
        progress: a number that changes whenever the loop comes round.
        patience: seconds without progress after which the process is ended.
        end: ends the process, with the reason.
    """

    def __init__(
        self,
        alive: Callable[[], bool],
        progress: Callable[[], int],
        patience: float,
        end: Callable[[str], None] = end_process,
    ) -> None:
        self._alive, self._progress, self._patience, self._end = alive, progress, patience, end
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watchdog", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def close(self) -> None:
        """Look no more."""
        self._stop.set()
        faulthandler.cancel_dump_traceback_later()

    def _run(self) -> None:
        every = self._patience / TICKS
        seen, without = self._progress(), 0
        while not self._stop.wait(every):
            self._guard_against_a_held_interpreter()
            now = self._progress()
            without = 0 if now != seen else without + 1
            seen = now
            if not self._alive():
                self._give_up("the loop that decides has died")
            elif without > TICKS:
                self._give_up(f"the loop that decides has made no progress for {self._patience:g} s")

    def _guard_against_a_held_interpreter(self) -> None:
        """One call into C that never returns holds this thread up too; the interpreter's own timer still ends us."""
        if self._end is end_process:
            faulthandler.dump_traceback_later(max(2 * self._patience, 10.0), exit=True)

    def _give_up(self, reason: str) -> None:
        if not self._stop.is_set():
            self._stop.set()
            self._end(reason)


class Heartbeat:
    """The progress of a loop, counted by the loop and read by others."""

    def __init__(self) -> None:
        self.count = 0
        self.at = time.monotonic()

    def beat(self) -> None:
        """The loop has come round."""
        self.count += 1
        self.at = time.monotonic()

    def age(self) -> float:
        """Seconds since the loop came round last."""
        return time.monotonic() - self.at
