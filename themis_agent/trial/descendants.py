"""Processes that end with those that started them: Linux's parent-death signal and child subreaper.

The launcher is two processes. The outer one is what a container knows. The inner one, in a session of its own, starts
the training processes. Whichever of the two is killed, the other one kills every process below it, also those that left
their process group: as a subreaper it inherits what has lost its parent.
"""

import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable
from types import FrameType

import psutil

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36

_EXEC = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
if os.getppid() != int(sys.argv[1]):
    os._exit(137)
try:
    os.execvp(sys.argv[2], sys.argv[2:])
except OSError as problem:
    print(f"{sys.argv[2]}: {problem.strerror}", flush=True)
    os._exit(127)
"""


def dying_with_us(command: list[str]) -> list[str]:
    """A command that runs this one and is killed when this process (its main thread) ends."""
    return [sys.executable, "-I", "-S", "-c", _EXEC, str(os.getpid()), *command]


def guarded(run: Callable[[int], int]) -> int:
    """Run in an inner process, and return its exit code when all processes below it are gone.

    `run` gets a descriptor that becomes readable when the outer process has ended: it must then kill all below it.
    SIGTERM and SIGINT are passed on. Must be called before threads are started.
    """
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    reading, writing = os.pipe()
    outer = os.getpid()
    inner = os.fork()
    if not inner:
        os.close(writing)
        code = 1
        try:
            os.setsid()
            _prctl(_PR_SET_CHILD_SUBREAPER, 1)
            # It may be stopped when the outer process ends: then it must go on, and kill.
            _prctl(_PR_SET_PDEATHSIG, signal.SIGCONT)
            code = run(reading) if os.getppid() == outer else 1
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code)
    os.close(reading)

    def pass_on(number: int, _frame: FrameType | None) -> None:
        os.kill(inner, number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, pass_on)
    status = _reap_until(inner)
    kill_descendants()
    return 128 - status if status < 0 else status


def kill_descendants() -> None:
    """Kill all processes below this one, and wait until they are gone."""
    while True:
        for process in psutil.Process().children(recursive=True):
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
        if not _reap_all():
            return
        time.sleep(0.005)


def _reap_all() -> bool:
    """Whether children are left."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def _reap_until(child: int) -> int:
    while True:
        ended, status = os.waitpid(-1, 0)
        if ended == child:
            return os.waitstatus_to_exitcode(status)


def _prctl(option: int, value: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0):
        raise OSError(ctypes.get_errno(), f"prctl {option}")
