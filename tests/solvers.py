"""Solvers for the tests of the worker process: they return, raise, print, hang, or end the process."""

import ctypes
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from yarn_plugin.decide.pools.controller import Kind, Registry


@dataclass(frozen=True, slots=True)
class Sum:
    """Numbers to be added up."""

    numbers: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Total:
    """What numbers add up to, who found it, and at which priority."""

    value: float
    pid: int = 0
    niceness: int = 0


@dataclass(frozen=True, slots=True)
class Trouble:
    """A solver that does something else first; `mark`: a file that it writes once it has started."""

    kind: str
    mark: str = ""


@dataclass(frozen=True, slots=True)
class Unsolved:
    """A problem without a solver."""


class Untagged:
    """A result that has no tag."""


def add(problem):
    return Total(sum(problem.numbers), os.getpid(), os.nice(0))


def be_trouble(problem):
    if problem.mark:
        begun = Path(problem.mark + ".part")
        begun.write_text(str(os.getpid()))
        begun.rename(problem.mark)
    match problem.kind:
        case "raises":
            raise ValueError("no\nsolution " + "x" * 1000)
        case "exits":
            sys.exit("enough")
        case "prints":
            print("garbage")
            os.write(1, b'{"done": "garbage"}\n')
            subprocess.run(["echo", "more garbage"], check=True)
            return Total(float(len(sys.stdin.read())))
        case "sleeps":
            time.sleep(1000)
        case "holds the interpreter":
            ctypes.PyDLL(None).sleep(1000)
        case "is interrupted":
            os.kill(os.getpid(), signal.SIGINT)
            return Total(1.0)
        case "dies":
            os._exit(3)
        case "closes its pipes":
            os.closerange(3, 100)
            time.sleep(1000)
        case "starts another":
            child = subprocess.Popen(["sleep", "1000"])
            Path(problem.mark + ".child").write_text(str(child.pid))
            time.sleep(1000)
        case "untagged":
            return Untagged()
        case "endless":
            return Total(float("inf"))
        case "forks":
            # The child returns too, and its parent's answer is long read by then.
            if not os.fork():
                time.sleep(0.2)
                return Total(666.0)
            return Total(1.0)
        case "wrong":
            return Total("many")
    return Total(0.0)


TAGS = {"sum": Sum, "total": Total, "trouble": Trouble, "unsolved": Unsolved}
SOLVERS = {"sum": add, "trouble": be_trouble}
REGISTRY = Registry({"toy": Kind("toy", lambda pool, registry: None, TAGS, solvers=SOLVERS)}, {})


def registry():
    """The registry, made when it is asked for."""
    return REGISTRY


def broken():
    raise RuntimeError("a policy is missing")
