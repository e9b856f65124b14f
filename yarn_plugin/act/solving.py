"""The worker process: solves one task after another, a line of JSON each, until its parent is gone.

    python -m yarn_plugin.act.solving MODULE:ATTRIBUTE PARENT

`MODULE:ATTRIBUTE` is the registry, or a function that returns it; `PARENT` the number of the process that started it.
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
"""By how much its priority is lower than the arbiter's: a solve must not delay a share."""

MAX_ANSWER = 64 * 1024 * 1024
"""Bytes of a result, as JSON, above which a task counts as failed."""

_SET_PARENT_DEATH_SIGNAL = 1
"""PR_SET_PDEATHSIG of prctl(2)."""


def resolve(reference: str) -> Registry:
    """The registry at `module:attribute`; called, if it is a function.

    Raises:
        BadInputError: it is no such reference.
        ImportError, AttributeError: there is no such module or attribute.
    """
    module, _, attribute = reference.partition(":")
    if not module or not attribute:
        raise BadInputError("registry", reference, "write module:attribute")
    found = getattr(import_module(module), attribute)
    return found() if callable(found) else found  # type: ignore[no-any-return]


def main(reference: str, parent: int) -> None:
    """Solve what comes on stdin until it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _end_with(parent)
    os.nice(NICENESS)
    tasks, answers = _take_pipes()
    lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(tasks, lines), name="tasks", daemon=True).start()
    try:
        registry = resolve(reference)
        codec, solvers = Codec(registry.tags()), registry.solvers()
    except Exception as problem:  # noqa: BLE001 - whatever it is, the arbiter learns it
        _answer(answers, {"failed": f"the worker process cannot use {reference!r}: {describe(problem)}"[:300]})
        return
    _answer(answers, {"ready": True})
    solving = os.getpid()
    while True:
        answer = _solve(solvers, codec, json.loads(lines.get()))
        if os.getpid() != solving:
            # What a solver forked and let return: a second answer would be taken for that of the next task.
            os._exit(0)
        _answer(answers, answer)


def _solve(solvers: Mapping[str, Callable[[Any], object]], codec: Codec, task: dict[str, Any]) -> dict[str, Any]:
    """What came of a task, whatever its solver does."""
    try:
        solver = solvers.get(task["type"])
        if solver is None:
            return {"failed": f"no solver for problems of type {task['type']!r}"}
        done = solver(codec.read(task))
        # A journal has no infinity: better that the task fails than that nobody can replay it.
        codec.check(done)
        return {"done": codec.write(done)}
    except BaseException as problem:  # noqa: BLE001 - also sys.exit(): a solver fails, and the process goes on
        return {"failed": describe(problem)}


def _answer(answers: BinaryIO, answer: dict[str, Any]) -> None:
    line = json.dumps(answer, separators=(",", ":")).encode() + b"\n"
    if len(line) > MAX_ANSWER:
        line = b'{"failed":"its result has %d bytes, at most %d are taken"}\n' % (len(line), MAX_ANSWER)
    answers.write(line)
    answers.flush()


def _take_pipes() -> tuple[BinaryIO, BinaryIO]:
    """The pipes to the arbiter, for this process alone: a solver that prints, prints to stderr, and reads nothing."""
    tasks = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb")
    with open(os.devnull, "rb") as nothing:  # noqa: PTH123 - a descriptor is wanted
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    return tasks, answers


def _read(tasks: BinaryIO, lines: "queue.SimpleQueue[bytes]") -> None:
    """Take lines in; when there will be no more, end, also in the middle of a solve."""
    for line in tasks:
        lines.put(line)
    _end()


def _end() -> None:
    """End at once, with whatever a solver has started."""
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(0)


def _end_with(parent: int) -> None:
    """Let the kernel end this process with its parent: a solver in C that holds the interpreter stops every thread."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        _end()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
