"""Uploads complete local checkpoints in a thread of its own: training never waits for the store."""

import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from themis_agent.errors import StoreError, SupersededError
from themis_agent.trial.checkpoints import Checkpoints, LogPosition, UnstorableError
from yarn_plugin.errors import describe

_RETRY_S = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0)


@dataclass(frozen=True, slots=True)
class Committed:
    """A checkpoint is in the store."""

    step: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Refused:
    """It is not stored. It is tried again, unless that cannot help."""

    step: int
    problem: str


@dataclass(frozen=True, slots=True)
class Superseded:
    """A later epoch has begun."""


_Upload = tuple[int, Path, LogPosition]

Outcome = Committed | Refused | Superseded


class Uploads:
    """`outcome` is called in the thread, and `before` before each upload. Of checkpoints that wait, only the latest is
    uploaded."""

    def __init__(
        self,
        checkpoints: Checkpoints,
        outcome: Callable[[Outcome], None],
        before: Callable[[], object] = lambda: None,
    ) -> None:
        self._checkpoints, self._outcome, self._before = checkpoints, outcome, before
        self._next: _Upload | None = None
        self._busy = False
        self._hurry = False
        self._changed = threading.Condition()
        threading.Thread(target=self._run, name="uploads", daemon=True).start()

    def upload(self, step: int, source: Path, log: LogPosition = MappingProxyType({})) -> None:
        """Upload this one next."""
        with self._changed:
            self._next = (step, source, log)
            self._changed.notify_all()

    def finish(self, wait_s: float) -> bool:
        """Wait so long until all is uploaded; whether it is. From the first call on, failures are tried again
        sooner.
        """
        end = time.monotonic() + wait_s
        with self._changed:
            if not self._hurry:
                self._hurry = True
                self._changed.notify_all()
            while (self._next or self._busy) and (left := end - time.monotonic()) > 0:
                self._changed.wait(left)
            return not (self._next or self._busy)

    def _run(self) -> None:
        failures = 0
        while True:
            with self._changed:
                while self._next is None:
                    self._changed.wait()
                (step, source, log), self._next, self._busy = self._next, None, True
            begin = time.monotonic()
            try:
                self._before()
                self._checkpoints.commit(step, source, log)
            except SupersededError:
                self._outcome(Superseded())
                return self._rest(None)
            except FileNotFoundError:
                # The script has removed it: a later one follows.
                self._rest(None)
                continue
            except Exception as problem:  # noqa: BLE001 - without this thread, no checkpoint is ever stored again
                failures += 1
                told = str(problem) if isinstance(problem, StoreError | OSError) else describe(problem)
                # Names of files may not be UTF-8, but events are.
                self._outcome(Refused(step, told.encode(errors="backslashreplace").decode()))
                self._rest(None if isinstance(problem, UnstorableError) else (step, source, log))
                with self._changed:
                    self._changed.wait(_RETRY_S[0] if self._hurry else _RETRY_S[min(failures, len(_RETRY_S)) - 1])
                continue
            failures = 0
            self._outcome(Committed(step, time.monotonic() - begin))
            self._rest(None)

    def _rest(self, again: _Upload | None) -> None:
        with self._changed:
            self._busy = False
            self._next = self._next or again
            self._changed.notify_all()


def remove_local(directories: dict[int, Path], committed: int, keep: int = 2) -> None:
    """Remove local checkpoints older than the committed one, but for the newest `keep`."""
    for step in sorted(directories, reverse=True)[keep:]:
        if step < committed:
            shutil.rmtree(directories[step], ignore_errors=True)
