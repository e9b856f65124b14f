"""The worker process: reads tasks from stdin, one line of JSON each, until its parent exits.

    python -m yarn_plugin.act.solving MODULE:ATTRIBUTE PARENT

`MODULE:ATTRIBUTE` is the registry or a function that returns it; `PARENT` is the parent's process id.
"""

import ctypes
import json
import os
import queue
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import import_module
from typing import Any, BinaryIO

from yarn_plugin.decide.pools.controller import Registry
from yarn_plugin.errors import BadInputError, describe
from yarn_plugin.journal.codec import Codec

NICENESS = 10
"""Lowers its priority below the arbiter's: a solver must not delay a share."""

MAX_ANSWER = 64 * 1024 * 1024
"""Bytes of a result as JSON; a task with a larger one fails."""

_SET_PARENT_DEATH_SIGNAL = 1
"""PR_SET_PDEATHSIG of prctl(2)."""


def resolve(reference: str) -> Registry:
    """The registry at `module:attribute`, or the result of the function there.

    Raises:
        BadInputError: the reference is malformed.
        ImportError, AttributeError: the module or attribute does not exist.
    """
    module, _, attribute = reference.partition(":")
    if not module or not attribute:
        raise BadInputError("registry", reference, "must have the form module:attribute")
    found = getattr(import_module(module), attribute)
    return found() if callable(found) else found  # type: ignore[no-any-return]


def main(reference: str, parent: int) -> None:
    """Solve tasks from stdin until it is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _exit_with(parent)
    os.nice(NICENESS)
    tasks, answers = _take_pipes()
    lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(tasks, lines), name="tasks", daemon=True).start()
    try:
        registry = resolve(reference)
        codec, solvers = Codec(registry.tags()), registry.solvers()
    except Exception as problem:  # noqa: BLE001 - reported to the arbiter
        _answer(
            answers,
            {"failed": f"the worker process cannot load controllers from {reference!r}: {describe(problem)}"[:300]},
        )
        return
    _answer(answers, {"ready": True})
    solving = os.getpid()
    while True:
        answer = _solve(solvers, codec, json.loads(lines.get()))
        if os.getpid() != solving:
            # A child forked by the solver: its answer would be mistaken for that of the next task.
            os._exit(0)
        _answer(answers, answer)


def _solve(solvers: Mapping[str, Callable[[Any], object]], codec: Codec, task: dict[str, Any]) -> dict[str, Any]:
    """The answer to a task, also if its solver fails."""
    try:
        solver = solvers.get(task["type"])
        if solver is None:
            return {"failed": f"no installed controller has a solver for problems of type {task['type']!r}"}
        done = solver(codec.read(task))
        # The journal cannot store infinity; the task must fail before it is recorded.
        codec.check(done)
        return {"done": codec.write(done)}
    except BaseException as problem:  # noqa: BLE001 - includes sys.exit() in a solver
        return {"failed": describe(problem)}


def _answer(answers: BinaryIO, answer: dict[str, Any]) -> None:
    line = json.dumps(answer, separators=(",", ":")).encode() + b"\n"
    if len(line) > MAX_ANSWER:
        line = b'{"failed":"the result has %d bytes; the maximum is %d"}\n' % (len(line), MAX_ANSWER)
    answers.write(line)
    answers.flush()


def _take_pipes() -> tuple[BinaryIO, BinaryIO]:
    """The pipes to the arbiter. Afterwards stdin is empty and stdout is stderr, for solvers that print or read."""
    tasks = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb")
    with open(os.devnull, "rb") as nothing:  # noqa: PTH123 - a descriptor is wanted
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    return tasks, answers


def _read(tasks: BinaryIO, lines: "queue.SimpleQueue[bytes]") -> None:
    """Queue lines; at the end of the input, exit, even during a task."""
    for line in tasks:
        lines.put(line)
    _exit()


def _exit() -> None:
    """Exit at once and kill the children of solvers."""
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(0)


def _exit_with(parent: int) -> None:
    """Have the kernel kill this process with its parent: native code that holds the GIL stops all threads."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        _exit()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
