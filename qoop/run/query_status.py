"""What `qoop status` knows of queries: a small file for each, written by the query while it runs."""

import contextlib
import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Literal

import platformdirs
import psutil
from pydantic import BaseModel, ValidationError

from qoop.options import Options
from qoop.replan.commands import Command, Note, RunAsWritten
from qoop.replan.events import Event, Planned, ShareChanged, StageFinished
from qoop.run import wording
from qoop.run.query_run import Outcome
from yarn_plugin.files import PRIVATE_MODE, delete_oldest, write

MAX_QUERIES = 100
"""How many queries are kept; beyond that, the oldest are forgotten."""

MAX_TEXT = 200

_numbers = itertools.count()
"""Of the queries of this process, some of which may begin at once."""


class QueryStatus(BaseModel):
    """A query of this user on this machine.

    Times are seconds since the epoch. `plan`: the present one; None: as written, or not planned yet. `plans`: how many
    there were to choose from. `stages`: how many have finished. `remaining_s`: until its end, as estimated
    `estimated_at`. `estimate_s`: for all of it, before it began. `slots`: its share. `why`: why that is its share.
    `in_cluster`: its driver runs in the cluster, so its state is what `qoop submit` has seen; `submitted` if that did
    not see its end.
    """

    name: str
    text: str
    pid: int
    process_began: float
    started: float
    ended: float | None = None
    in_cluster: bool = False
    state: Literal["running", "done", "failed", "killed", "submitted"] = "running"
    error: str = ""
    plan: int | None = None
    plans: int = 0
    stages: int = 0
    switches: int = 0
    slots: float | None = None
    why: str = ""
    estimate_s: float | None = None
    remaining_s: float | None = None
    estimated_at: float | None = None

    def seconds(self, now: float) -> float:
        """How long it ran, or runs already."""
        return max((self.ended if self.ended is not None else now) - self.started, 0.0)

    def progress(self, now: float) -> float | None:
        """The part of its time that has passed, by the latest estimate; None if there is none."""
        if self.state == "done":
            return 1.0
        if self.remaining_s is None or self.estimated_at is None or self.state != "running":
            return None
        left = max(self.remaining_s - (now - self.estimated_at), 0.01 * self.remaining_s)
        passed = self.seconds(now)
        return min(passed / (passed + left), 0.99) if passed + left else None


class StatusFile:
    """Keeps the status of a query on disk while it runs. No query depends on it: what cannot be written is not kept."""

    def __init__(self, name: str, text: str, clock: Callable[[], float] = time.time, in_cluster: bool = False) -> None:
        process, self._clock = psutil.Process(), clock
        now = clock()
        self._status = QueryStatus(
            name=name,
            text=" ".join(text.split())[:MAX_TEXT],
            pid=process.pid,
            process_began=process.create_time(),
            started=now,
            in_cluster=in_cluster,
        )
        self._path = _folder() / f"{int(now * 1000)}-{process.pid}-{next(_numbers)}.json"
        self._write()
        with contextlib.suppress(OSError):
            delete_oldest(self._path.parent, MAX_QUERIES)

    def show(self, told: Event | Command) -> None:
        """Take an event or a command of the planner."""
        known = self._status
        match told:
            case Planned(plans):
                known.plans = plans
            case ShareChanged():
                known.slots, known.why = told.slots, told.reason
            case Note(decision):
                known.plan, known.remaining_s, known.estimated_at = decision.plan, decision.expected, self._clock()
                known.switches += decision.switched
                if decision.before is None:
                    known.estimate_s = decision.expected
            case StageFinished():
                known.stages += 1
            case RunAsWritten(cause):
                known.plan, known.error = None, wording.why(cause)
            case _:
                return
        self._write()

    def watched(self, options: Options) -> Options:
        """The options of the query, of which this keeps the status."""

        def watch(told: Event | Command) -> None:
            options.watch(told)
            self.show(told)

        return replace(options, watch=watch)

    def done(self, outcome: Outcome) -> None:
        """The query has succeeded."""
        self._status.switches, self._status.stages = outcome.counts.switches, outcome.counts.stages
        self._end("done")

    def left(self, code: int, goes_on: bool) -> None:
        """`spark-submit` has ended with this exit code. `goes_on`: the driver in the cluster still runs."""
        if goes_on:
            self._end("submitted")
        elif code:
            self.failed(f"spark-submit ended with exit code {code}")
        else:
            self._end("done")

    def failed(self, problem: str) -> None:
        """The query has failed, or was stopped."""
        self._status.error = problem
        self._end("failed")

    def _end(self, state: Literal["done", "failed", "submitted"]) -> None:
        self._status.state, self._status.ended = state, self._clock()
        self._write()

    def _write(self) -> None:
        with contextlib.suppress(OSError, UnicodeError):
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write(self._path, self._status.model_dump_json(), PRIVATE_MODE)


@contextlib.contextmanager
def kept_status(text: str, name: str | None = None, in_cluster: bool = False) -> Iterator[StatusFile]:
    """A context in which a query runs. It is listed by its name, or by the beginning of its text; the caller reports
    its success. An exception that leaves the context is its failure."""
    status = StatusFile(name or " ".join(text.split())[:60], text, in_cluster=in_cluster)
    try:
        yield status
    except Exception as problem:
        status.failed(next(iter(str(problem).splitlines()), type(problem).__name__))
        raise
    except BaseException:
        status.failed("stopped by a signal")
        raise


def read_statuses() -> list[QueryStatus]:
    """The queries of this user on this machine, the latest first; one whose process has vanished was killed."""
    found = []
    with contextlib.suppress(OSError):
        for path in _folder().glob("*.json"):
            with contextlib.suppress(OSError, ValidationError):
                status = QueryStatus.model_validate_json(path.read_bytes())
                if status.state == "running" and not _is_running(status):
                    status.state = "submitted" if status.in_cluster else "killed"
                    status.ended = path.stat().st_mtime
                found.append(status)
    return sorted(found, key=lambda one: one.started, reverse=True)


def _is_running(status: QueryStatus) -> bool:
    try:
        return abs(psutil.Process(status.pid).create_time() - status.process_began) < 1.0
    except psutil.Error:
        return False


def _folder() -> Path:
    return Path(platformdirs.user_state_dir("qoop")) / "queries-1"
