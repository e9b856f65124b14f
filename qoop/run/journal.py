"""The record of one query: what happened, what was decided, and why. For people, reports and tests."""

import contextlib
import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from qoop.errors import QoopError
from qoop.parsing.render import view_name
from qoop.plans.plan import Plan, StageId
from qoop.plans.trees import Join, Tree
from qoop.replan import commands, events
from qoop.replan.commands import Command
from qoop.replan.events import Event
from qoop.replan.state import State
from qoop.run.journal_upgrade import upgrade
from yarn_plugin.journal.codec import Codec
from yarn_plugin.journal.records import JournalError, JournalInUseError, RecordFile, decode

TAGS: dict[str, type] = {
    "Planned": events.Planned,
    "CannotPlan": events.CannotPlan,
    "ShareChanged": events.ShareChanged,
    "StageFinished": events.StageFinished,
    "StageFailed": events.StageFailed,
    "StageCancelled": events.StageCancelled,
    "QueryCancelled": events.QueryCancelled,
    "CheckpointLost": events.CheckpointLost,
    "ExecutorsChanged": events.ExecutorsChanged,
    "ArbiterAway": events.ArbiterAway,
    "TimerFired": events.TimerFired,
    "StartStage": commands.StartStage,
    "CancelStages": commands.CancelStages,
    "SetExecutors": commands.SetExecutors,
    "ConfirmVacated": commands.ConfirmVacated,
    "RunAsWritten": commands.RunAsWritten,
    "Finish": commands.Finish,
    "Fail": commands.Fail,
    "Note": commands.Note,
    "SetTimer": commands.SetTimer,
}
"""What events and commands are called in journals, whatever their classes are called."""

VERSION = 2
"""The version of the records that are written, in their field `v`; without it they are of version 0. How earlier ones
differ: `qoop.run.journal_upgrade`."""

_KINDS = ("query", "input", "decision")
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class JournalFormatError(QoopError):
    """The file holds records that this version does not read."""

    def __init__(self, path: Path, number: int, said: str) -> None:
        super().__init__(f"journal {str(path)!r}, record {number}: {said}")


class QueryJournal:
    """Writes the record of a query, over that of an earlier one; without a path it writes nothing.

    A journal is for later: where it cannot be written any more `warn` is told once, what is in it stays whole, and the
    query goes on without it.

    Raises:
        QoopError: the file holds something else, or cannot be a journal.

    Only its owner reads it: it holds SQL. Each line has `v` (`VERSION`), `seq`, `at` (epoch seconds) and `kind`:
    "query" (number 1: text and candidate plans), "input" (an event, written before it is decided on), "decision" (the
    commands, and the phase that the query is in after them; earlier journals have the phase beside the event). An
    input without a decision is one during which the query ended.
    """

    seq = 1

    def __init__(self, path: Path | None, warn: Callable[[str], None] = lambda line: None) -> None:
        self._warn = warn
        self._file = _begin(path, warn) if path is not None else None
        self._codec = Codec(TAGS)

    def query(self, at: float, name: str, text: str, plans: tuple[Plan, ...], reason: str | None) -> None:
        """The query, and the candidate plans that its decisions number; `reason`: why there are none."""

        def fields() -> dict[str, Any]:
            return {"name": name, "text": text, "plans": [_describe(plan) for plan in plans], "reason": reason}

        self._write("query", self.seq, at, fields)

    def input(self, seq: int, at: float, event: Event) -> None:
        """An event that is to be decided on."""
        self._write("input", seq, at, lambda: {"event": self._codec.write(event)})

    def decision(self, seq: int, at: float, commanded: tuple[Command, ...], state: State) -> None:
        """What was commanded on an event, and the phase that the query is in after it."""

        def fields() -> dict[str, Any]:
            return {"commands": [self._codec.write(command) for command in commanded], "phase": state.phase}

        self._write("decision", seq, at, fields)

    def dump(self, value: object) -> bytes:
        """An event or a command as it is written."""
        return self._codec.dump(value)

    def close(self) -> None:
        """Nothing more is written."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()

    def _write(self, kind: str, seq: int, at: float, fields: Callable[[], dict[str, Any]]) -> None:
        if self._file is None:
            return
        try:
            record = {"v": VERSION, "kind": kind, "seq": seq, "at": at, **fields()}
            # Not forced to disk: the record outlives the process, and a lost machine loses the query with it.
            self._file.append(record, durable=False)
        except Exception as problem:  # noqa: BLE001 - whatever it is, a journal's error never ends a query
            written, self._file = self._file, None
            _abandon(written)
            self._warn(_without(written.path, problem))


def _begin(path: Path, warn: Callable[[str], None]) -> RecordFile | None:
    """An empty journal that only its owner reads; None where the disk is full.

    Raises:
        QoopError: there is something else, or nothing can be there.
    """
    if path.is_dir():
        raise QoopError(f"--journal {str(path)!r}: it is a folder; name a file")
    try:
        if path.exists():
            _remove(path)
        return RecordFile(path)
    except (Timeout, JournalInUseError):
        raise QoopError(f"--journal {str(path)!r}: another query writes it; name another file") from None
    except (JournalError, OSError) as problem:
        if _errno(problem) not in _FULL:
            raise QoopError(f"--journal {str(path)!r}: {_said(problem)}; name a file that you can write") from None
        warn(_without(path, problem))
        return None


def _remove(path: Path) -> None:
    """Remove an earlier journal, unless somebody writes it: a new file is its owner's alone, whatever this one was."""
    if not path.is_file():
        raise QoopError(f"--journal {str(path)!r}: it is no ordinary file; name another")
    with path.open("rb") as file:
        first = file.readline()
    if first and decode(first) is None:
        raise QoopError(f"--journal {str(path)!r}: it holds something else than a journal; name another file")
    with FileLock(f"{path}.lock", timeout=0, mode=0o600):
        path.unlink()


def _abandon(records: RecordFile) -> None:
    """Close a file that could not be written, at its last whole record, whatever its buffer still holds."""
    good = records.size
    with contextlib.suppress(OSError):
        records.close()
    with contextlib.suppress(OSError):
        if records.path.stat().st_size > good:
            os.truncate(records.path, good)


def _without(path: Path, problem: Exception) -> str:
    return f"--journal {str(path)!r}: {_said(problem)}; the query goes on without its journal"


def _said(problem: BaseException) -> str:
    cause = _os_error(problem)
    return (cause.strerror if cause is not None else None) or " ".join(str(problem).split())


def _errno(problem: BaseException) -> int | None:
    cause = _os_error(problem)
    return cause.errno if cause is not None else None


def _os_error(problem: BaseException | None) -> OSError | None:
    """The system's error, which a JournalError puts into its own words."""
    while problem is not None and not isinstance(problem, OSError):
        problem = problem.__cause__ or problem.__context__
    return problem


def read(path: Path) -> list[dict[str, Any]]:
    """The records of a query, as far as they are whole. Nothing is written, and nobody is kept from writing.

    Raises:
        QoopError: it cannot be read, or a newer version wrote it.
    """
    try:
        return [_understood(path, number, record) for number, record in enumerate(_whole(path), 1)]
    except OSError as problem:
        raise QoopError(f"journal {str(path)!r}: {problem.strerror}") from None


def follow(path: Path) -> list[dict[str, Any]]:
    """The records so far of a query that may still run."""
    return [record for line in path.read_bytes().splitlines(keepends=True) if (record := decode(line)) is not None]


def _whole(path: Path) -> Iterator[Any]:
    with path.open("rb") as file:
        for line in file:
            record = decode(line)
            if record is None:
                return
            yield record


def _understood(path: Path, number: int, record: Any) -> dict[str, Any]:
    """A record as this version writes it.

    Raises:
        JournalFormatError: a newer version wrote it, or nobody knows what.
    """
    if not isinstance(record, dict):
        raise JournalFormatError(path, number, "it is none of a query's journal")
    version = record.get("v", 0)
    if not isinstance(version, int) or not 0 <= version <= VERSION:
        raise JournalFormatError(path, number, f"version {version!r}; this one reads up to {VERSION}: use a newer qoop")
    if record.get("kind") not in _KINDS:
        raise JournalFormatError(path, number, f"kind {record.get('kind')!r}; known are {', '.join(_KINDS)}")
    parts = [record.get("event"), *record.get("commands", [])]
    unknown = next((one["type"] for one in parts if isinstance(one, dict) and one.get("type") not in TAGS), None)
    if unknown is not None:
        raise JournalFormatError(path, number, f"type {unknown!r} is not known; use the version that wrote it")
    return {**upgrade(record, version), "v": VERSION}


def _describe(plan: Plan) -> dict[str, Any]:
    return {
        "trees": {block: _tree(plan, block, part.tree) for block, part in plan.parts.items()},
        "stages": {view_name(stage): sorted(map(view_name, after)) for stage, after in plan.stages().items()},
    }


def _tree(plan: Plan, block: str, tree: Tree) -> Any:
    """A tree as nested lists of aliases; a stage of its own is marked by its view."""
    graph = plan.query.blocks[block].graph
    assert graph is not None
    if not isinstance(tree, Join):
        return graph.aliases(tree.relations)[0]
    sides = [_tree(plan, block, side) for side in (tree.left, tree.right)]
    cut = tree.relations in plan.parts[block].cuts
    return {"join": sides, **({"stage": view_name(StageId(block, tree.relations))} if cut else {})}
