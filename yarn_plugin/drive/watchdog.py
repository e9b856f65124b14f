"""Exits the process when the decision loop has died or hangs, so that a service manager restarts it.

A running process that does not decide is worse than none: its clients wait for shares that never come.
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
"""The exit code when the loop has died or hangs (EX_SOFTWARE of sysexits.h)."""

TICKS = 10
"""How many times it checks within its patience."""


def end_process(reason: str) -> None:
    """Exit at once with the stacks of all threads in the log: an orderly shutdown may hang."""
    log.critical(
        "exiting with code %d: %s. After a restart the arbiter continues from its journal. Report this log, with the "
        "stacks below",
        EXIT_STALLED,
        reason,
    )
    faulthandler.dump_traceback(sys.stderr)
    logging.shutdown()
    os._exit(EXIT_STALLED)


class Watchdog:
    """Checks from its own thread that a loop is alive and makes progress.

    It counts its own checks, so that time in which the whole process was suspended does not count.

    Args:
        alive: whether the loop runs.
        progress: a number that changes with every iteration of the loop.
        patience: seconds without progress after which the process exits.
        end: exits the process; takes the reason.
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
        """Start to check."""
        self._thread.start()

    def close(self) -> None:
        """Stop."""
        self._stop.set()
        faulthandler.cancel_dump_traceback_later()

    def _run(self) -> None:
        every = self._patience / TICKS
        last, idle_checks = self._progress(), 0
        while not self._stop.wait(every):
            self._arm_native_timer()
            now = self._progress()
            idle_checks = 0 if now != last else idle_checks + 1
            last = now
            if not self._alive():
                self._exit("the decision loop has failed")
            elif idle_checks > TICKS:
                self._exit(f"the decision loop has made no progress for {self._patience:g} s")

    def _arm_native_timer(self) -> None:
        """Native code that holds the GIL blocks this thread, too; the interpreter's own timer still exits."""
        if self._end is end_process:
            faulthandler.dump_traceback_later(max(2 * self._patience, 10.0), exit=True)

    def _exit(self, reason: str) -> None:
        if not self._stop.is_set():
            self._stop.set()
            self._end(reason)


class Heartbeat:
    """Counts the iterations of a loop, for other threads to read."""

    def __init__(self) -> None:
        self.count = 0
        self.at = time.monotonic()

    def beat(self) -> None:
        """Count an iteration."""
        self.count += 1
        self.at = time.monotonic()

    def age(self) -> float:
        """Seconds since the last iteration."""
        return time.monotonic() - self.at
