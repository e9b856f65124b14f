"""Long work in a process of its own, one task after another: nothing waits for it, and it may be killed at any time."""

import json
import logging
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import IO, Any

from yarn_plugin.act.solving import MAX_ANSWER
from yarn_plugin.decide.events import Solved
from yarn_plugin.errors import describe
from yarn_plugin.journal.codec import Codec
from yarn_plugin.observe.delivery import Stopped

log = logging.getLogger("yarn_plugin.arbiter")

START_LIMIT = 60.0
"""Seconds for the process to start and to import what it solves with."""


class Worker:
    """Takes tasks and calls `tell` with what became of each, from a thread of its own, in the order of the tasks.

    A task is done; or it failed: its solver raised, as it would again; or it is lost: the process was killed,
    ended, or ran past its limit. The process is started for the first task, and again for the next one after it was
    lost. What a solver prints goes to this process's stderr. `counters` counts by name what went wrong; never reset.

    Args:
        registry: `module:attribute`, where the process finds what it solves with: a `Registry`, or a function that
            returns it. It imports what this process can.
        tags: the types of problems and results by their tags, as in that registry.
        tell: called once for every task, but for those that are open when it is closed.
        limit_s: seconds for one task, after which the process is killed.
    """

    COUNTED = ("tasks_failed", "tasks_lost", "outcomes_lost")

    def __init__(
        self,
        registry: str,
        tags: Mapping[str, type],
        tell: Callable[[Solved], object],
        limit_s: float,
    ) -> None:
        self._registry, self._tell, self._limit_s = registry, tell, limit_s
        self._codec = Codec(tags)
        self.counters: Counter[str] = Counter(dict.fromkeys(self.COUNTED, 0))
        self._changed = threading.Condition()
        self._waiting: dict[tuple[str, str], object] = {}
        self._solving: tuple[str, str] | None = None
        self._closing = False
        self._process: _Process | None = None
        self._thread = threading.Thread(target=self._run, name="work", daemon=True)
        self._thread.start()

    def submit(self, pool: str, id: str, problem: object) -> None:
        """Solve a problem, later. Idempotent by `(pool, id)`: one that is being solved is solved once; one that waits
        keeps its place, with this problem."""
        with self._changed:
            if (pool, id) != self._solving:
                self._waiting[pool, id] = problem
                self._changed.notify_all()

    def pid(self) -> int | None:
        """The number of the process; None where none was started, or the last one was lost."""
        process = self._process
        return process.pid if process is not None else None

    def is_alive(self) -> bool:
        """Whether tasks are taken: until `close`, or the end of the arbiter."""
        return self._thread.is_alive()

    def close(self) -> None:
        """End at once: open tasks are given up, and nothing is told of them."""
        with self._changed:
            self._closing = True
            self._waiting.clear()
            if self._process is not None:
                self._process.kill()
            self._changed.notify_all()
        self._thread.join(timeout=10)

    def _run(self) -> None:
        # The process ends with the thread that started it (see `solving`): this one, which outlives every task.
        try:
            while (task := self._next()) is not None:
                outcome = self._outcome(*task)
                with self._changed:
                    self._solving = None
                    if self._closing:
                        return
                self._deliver(outcome)
        except Stopped:
            return
        finally:
            self._end_process()

    def _next(self) -> tuple[str, str, object] | None:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closing)
            if self._closing:
                return None
            self._solving = next(iter(self._waiting))
            return *self._solving, self._waiting.pop(self._solving)

    def _outcome(self, pool: str, id: str, problem: object) -> Solved:
        """Solve a problem, whatever happens."""
        try:
            task = json.dumps(self._codec.write(problem)).encode() + b"\n"
            return Solved(pool, id, "done", self._result(self._ready().ask(task, self._limit_s)))
        except _LostError as lost:
            self._end_process()
            self.counters["tasks_lost"] += 1
            log.warning("task %s of pool %s is lost: %s", id, pool, lost)
            return Solved(pool, id, "lost", error=str(lost))
        except _FailedError as failed:
            error = str(failed)
        except Exception as unexpected:  # noqa: BLE001 - whatever it is, somebody waits for an outcome
            error = describe(unexpected)
        self.counters["tasks_failed"] += 1
        return Solved(pool, id, "failed", error=_writable(error))

    def _result(self, answer: dict[str, Any]) -> object:
        if "done" not in answer:
            raise _FailedError(answer.get("failed"))
        return self._codec.read(answer["done"])

    def _ready(self) -> "_Process":
        """A process that takes a task now.

        Raises:
            _LostError: it cannot be started, or ended while it started.
            _FailedError: it cannot use its registry.
        """
        if self._process is not None and not self._process.is_running():
            self._end_process()
        if self._process is None:
            with self._changed:
                if self._closing:
                    raise _LostError("the arbiter ends")
                self._process = _Process(self._registry)
            started = self._process.ask(b"", START_LIMIT)
            if "ready" not in started:
                self._end_process()
                raise _FailedError(started.get("failed"))
        return self._process

    def _end_process(self) -> None:
        with self._changed:
            process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.reap()

    def _deliver(self, outcome: Solved) -> None:
        try:
            self._tell(outcome)
        except Stopped:
            raise
        except Exception:
            self.counters["outcomes_lost"] += 1
            log.exception("what became of task %s of pool %s is not taken in", outcome.id, outcome.pool)


class _LostError(Exception):
    """The process is of no use any more; says why."""


class _FailedError(Exception):
    """What the process says of a task that failed, or of a registry that it cannot use."""


class _Process:
    """A worker process: a line goes in, a line comes out."""

    def __init__(self, registry: str) -> None:
        command = [sys.executable, "-P", "-m", "yarn_plugin.act.solving", registry, str(os.getpid())]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(place for place in sys.path if place)}
        try:
            # A session of its own: Ctrl-C in the arbiter's terminal is not for it, and what it starts ends with it.
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=environment,
                bufsize=0,
                start_new_session=True,
            )
        except OSError as problem:
            raise _LostError(f"the worker process cannot be started: {problem.strerror}") from None
        assert self._process.stdin is not None and self._process.stdout is not None
        self._tasks: IO[bytes] = self._process.stdin
        self._answers: IO[bytes] = self._process.stdout
        os.set_blocking(self._tasks.fileno(), False)
        self.pid = self._process.pid

    def is_running(self) -> bool:
        """Whether it has not ended. One that has is not reaped here: its number names what it has left running."""
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None

    def ask(self, line: bytes, limit_s: float) -> dict[str, Any]:
        """Write a line (none, if it is empty) and wait for the answer.

        Raises:
            _LostError: it ended, took too long, or what it said is no answer.
        """
        deadline = time.monotonic() + limit_s
        unwritten, answer = memoryview(line), bytearray()
        with selectors.DefaultSelector() as pipes:
            pipes.register(self._answers, selectors.EVENT_READ)
            if unwritten:
                pipes.register(self._tasks, selectors.EVENT_WRITE)
            while not answer.endswith(b"\n"):
                ready = {key.fileobj for key, _ in pipes.select(max(deadline - time.monotonic(), 0.0))}
                if self._answers in ready:
                    answer += self._receive(len(answer))
                elif self._tasks in ready:
                    unwritten = unwritten[self._send(unwritten) :]
                    if not unwritten:
                        pipes.unregister(self._tasks)
                elif time.monotonic() >= deadline:
                    raise _LostError(f"it ran past {limit_s:g} s and was killed")
        return _parsed(bytes(answer))

    def _receive(self, so_far: int) -> bytes:
        received = os.read(self._answers.fileno(), 1 << 20)
        if not received:
            raise _LostError(self._how_it_ended())
        if so_far + len(received) > 2 * MAX_ANSWER:
            raise _LostError(f"the worker process answered with more than {2 * MAX_ANSWER} bytes")
        return received

    def _send(self, unwritten: memoryview) -> int:
        try:
            return os.write(self._tasks.fileno(), unwritten)
        except BlockingIOError:
            return 0
        except BrokenPipeError:
            raise _LostError(self._how_it_ended()) from None

    def _how_it_ended(self) -> str:
        # It has closed a pipe, so it ends, or is of no use any more. One that ends already, ends as it would have.
        self.kill()
        code = self._process.wait()
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        return f"the worker process {how}"

    def kill(self) -> None:
        """End it at once, with whatever it has started."""
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)

    def reap(self) -> None:
        """Wait for its end, after `kill`, and let go of its pipes."""
        self._process.wait()
        self._tasks.close()
        self._answers.close()


def _parsed(line: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(line)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise _LostError("the worker process gave an answer that cannot be read")
    return answer


def _writable(said: object) -> str:
    """An error that a journal can hold: JSON can hold half a character."""
    return str(said).encode(errors="replace").decode()[:300]
