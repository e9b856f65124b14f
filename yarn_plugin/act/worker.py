"""Runs long computations in a separate process, one by one: nothing blocks on them, and they can be killed."""

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

from yarn_plugin.act.outcomes import report
from yarn_plugin.act.solving import MAX_ANSWER
from yarn_plugin.decide.events import Solved
from yarn_plugin.errors import describe, os_reason
from yarn_plugin.journal.codec import Codec
from yarn_plugin.observe.delivery import Stopped

log = logging.getLogger("yarn_plugin.arbiter")

START_TIMEOUT = 60.0
"""Seconds for the process to start and to import its solvers."""

EXIT_TIMEOUT = 1.0
"""Seconds for the process to exit after it has closed its pipes."""


class Worker:
    """Solves tasks in a worker process and emits their outcomes, in the order of the tasks, from its own thread.

    A task is `done`; or `failed`, if its solver raised; or `lost`, if the process was killed, exited or exceeded the
    timeout. The process is started for the first task, and again for the next task after a lost one. A solver's output
    goes to stderr. `counters`: failures by name, never reset.

    Args:
        registry: `module:attribute` of the solvers: a `Registry`, or a function that returns one. The process imports
            it with this process's module search path.
        tags: the types of problems and results by their tags, as in that registry.
        emit: called once for each task, except those that are open in `close`.
        timeout_s: seconds for one task, after which the process is killed.
    """

    COUNTED = ("tasks_failed", "tasks_lost", "outcomes_lost")

    def __init__(
        self,
        registry: str,
        tags: Mapping[str, type],
        emit: Callable[[Solved], object],
        timeout_s: float,
    ) -> None:
        self._registry, self._emit, self._timeout_s = registry, emit, timeout_s
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
        """Solve a problem asynchronously. Idempotent by `(pool, id)`: a task in progress is not repeated; a queued task
        keeps its place and takes this problem."""
        with self._changed:
            if (pool, id) != self._solving:
                self._waiting[pool, id] = problem
                self._changed.notify_all()

    def pid(self) -> int | None:
        """The process id; None if no process is running."""
        process = self._process
        return process.pid if process is not None else None

    def is_alive(self) -> bool:
        """Whether it solves tasks: until `close` or the end of the arbiter."""
        return self._thread.is_alive()

    def close(self) -> None:
        """Stop at once; open tasks are abandoned without an outcome."""
        with self._changed:
            self._closing = True
            self._waiting.clear()
            if self._process is not None:
                self._process.kill()
            self._changed.notify_all()
        self._thread.join(timeout=10)

    def _run(self) -> None:
        # The process ends with the thread that started it (see `solving`), so this thread must start it.
        try:
            while (task := self._next()) is not None:
                outcome = self._outcome(*task)
                with self._changed:
                    self._solving = None
                    if self._closing:
                        return
                report(outcome, self._emit, self.counters, f"task {outcome.id} of pool {outcome.pool}")
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
        """Solve a problem; its outcome, also if that fails."""
        try:
            task = json.dumps(self._codec.write(problem)).encode() + b"\n"
            return Solved(pool, id, "done", self._result(self._ready().ask(task, self._timeout_s)))
        except _LostError as lost:
            self._end_process()
            # `close` kills the process and abandons the task.
            if not self._closing:
                self.counters["tasks_lost"] += 1
                log.warning("pool=%s task=%s no result: %s; its controller decides whether to retry", pool, id, lost)
            return Solved(pool, id, "lost", error=str(lost))
        except _FailedError as failed:
            error = str(failed)
        except Exception as unexpected:  # noqa: BLE001 - the pool waits for an outcome
            error = describe(unexpected)
        self.counters["tasks_failed"] += 1
        return Solved(pool, id, "failed", error=_encodable(error))

    def _result(self, answer: dict[str, Any]) -> object:
        if "done" not in answer:
            raise _FailedError(answer.get("failed"))
        return self._codec.read(answer["done"])

    def _ready(self) -> "_Process":
        """A process that is ready for a task.

        Raises:
            _LostError: it cannot be started, or exited while starting.
            _FailedError: it cannot load its registry.
        """
        if self._process is not None and not self._process.is_running():
            self._end_process()
        if self._process is None:
            with self._changed:
                if self._closing:
                    raise _LostError("the arbiter is stopping")
                self._process = _Process(self._registry)
            started = self._process.ask(b"", START_TIMEOUT)
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


class _LostError(Exception):
    """The process is lost; the message is the reason."""


class _FailedError(Exception):
    """The process reports a failed task, or a registry that it cannot load."""


class _Process:
    """A worker process: one line of JSON in, one line out."""

    def __init__(self, registry: str) -> None:
        command = [sys.executable, "-P", "-m", "yarn_plugin.act.solving", registry, str(os.getpid())]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(place for place in sys.path if place)}
        try:
            # In its own session, Ctrl-C in the arbiter's terminal does not reach it, and it can be killed with its
            # children.
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=environment,
                bufsize=0,
                start_new_session=True,
            )
        except OSError as problem:
            raise _LostError(f"the worker process could not be started: {os_reason(problem)}") from None
        assert self._process.stdin is not None and self._process.stdout is not None
        self._tasks: IO[bytes] = self._process.stdin
        self._answers: IO[bytes] = self._process.stdout
        os.set_blocking(self._tasks.fileno(), False)
        self.pid = self._process.pid

    def is_running(self) -> bool:
        """Whether it is running. It is not reaped here, since its id is needed to kill its children."""
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None

    def ask(self, line: bytes, timeout_s: float) -> dict[str, Any]:
        """Write a line, unless it is empty, and wait for the answer.

        Raises:
            _LostError: the process exited, exceeded the timeout, or gave an invalid answer.
        """
        deadline = time.monotonic() + timeout_s
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
                    raise _LostError(_timeout_reason(line, timeout_s))
        return _parsed(bytes(answer))

    def _receive(self, so_far: int) -> bytes:
        received = os.read(self._answers.fileno(), 1 << 20)
        if not received:
            raise _LostError(self._exit_reason())
        if so_far + len(received) > 2 * MAX_ANSWER:
            raise _LostError(f"the worker process sent more than {2 * MAX_ANSWER} bytes")
        return received

    def _send(self, unwritten: memoryview) -> int:
        try:
            return os.write(self._tasks.fileno(), unwritten)
        except BlockingIOError:
            return 0
        except BrokenPipeError:
            raise _LostError(self._exit_reason()) from None

    def _exit_reason(self) -> str:
        # It has closed a pipe, so it is exiting or useless.
        exited = self._exits()
        self.kill()
        code = self._process.wait()
        if not exited:
            return "the worker process closed its pipes and was stopped"
        if code >= 0:
            return f"the worker process ended with exit code {code}"
        hint = "; check whether the machine ran out of memory" if -code == signal.SIGKILL else ""
        return f"the worker process was killed by {signal.Signals(-code).name}{hint}"

    def _exits(self) -> bool:
        """Whether it exits within `EXIT_TIMEOUT`. `Popen.wait` would reap it: see `is_running`."""
        deadline = time.monotonic() + EXIT_TIMEOUT
        while self.is_running():
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.01)
        return True

    def kill(self) -> None:
        """Kill it and its children."""
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)

    def reap(self) -> None:
        """Wait for its exit, after `kill`, and close its pipes."""
        self._process.wait()
        self._tasks.close()
        self._answers.close()


def _timeout_reason(line: bytes, timeout_s: float) -> str:
    if not line:
        return f"the worker process did not start within {timeout_s:g} s"
    return f"the computation exceeded {timeout_s:g} s and was stopped; solve_timeout_s in [limits] sets the timeout"


def _parsed(line: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(line)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise _LostError("the worker process sent a malformed answer")
    return answer


def _encodable(error: object) -> str:
    """An error as text that can be encoded as UTF-8, without lone surrogates."""
    return str(error).encode(errors="replace").decode()[:300]
