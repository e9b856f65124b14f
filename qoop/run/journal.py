"""The journal of one query: events, decisions and their causes, for reports, people and tests."""

import contextlib
import errno
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from qoop.as_written.causes import AsWrittenCause
from qoop.errors import QoopError
from qoop.plans.plan import Plan, StageId, view_name
from qoop.plans.trees import Join, Tree
from qoop.replan import commands, events
from qoop.replan.commands import Command
from qoop.replan.events import Event
from qoop.replan.state import State
from qoop.run.journal_upgrade import upgrade
from yarn_plugin.errors import os_reason
from yarn_plugin.journal.codec import Codec
from yarn_plugin.journal.records import JournalError, JournalInUseError, NotARecordError, RecordFile, decode

TAGS: dict[str, type] = {
    "Planned": events.Planned,
    "CannotPlan": events.CannotPlan,
    "ShareChanged": events.ShareChanged,
    "StageFinished": events.StageFinished,
    "StageGrew": events.StageGrew,
    "TasksRan": events.TasksRan,
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
"""The tags of events and commands in journals, independent of the names of their classes."""

VERSION = 3
"""The version of the records written, in their field `v`; records without it are version 0. `journal_upgrade` describes
earlier versions."""

_KINDS = ("query", "input", "decision")
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class JournalPathError(QoopError):
    """No journal can be written at the path that was given."""

    exit_code = 2


class JournalFormatError(QoopError):
    """The file contains a record that this version cannot read."""

    def __init__(self, path: Path, number: int, problem: str) -> None:
        super().__init__(f"journal {str(path)!r}, record {number}: {problem}")


class QueryJournal:
    """Writes the journal of a query, replacing an earlier journal; without a path it writes nothing.

    A query does not depend on its journal: when a write fails, `warn` is called once, the file is closed after its last
    complete record, and the query continues.

    The file is readable by its owner only, as it contains SQL. Each line has `v` (`VERSION`), `seq`, `at` (epoch
    seconds) and `kind`: "query" (seq 1: text and candidate plans), "input" (an event, written before the decision on
    it) or "decision" (the commands, and the phase of the query after them; earlier journals have the phase next to the
    event). An input without a decision means that the query ended meanwhile.

    Raises:
        JournalPathError: the file is not a journal, is in use, or cannot be written.
    """

    seq = 1

    def __init__(self, path: str | Path | None, warn: Callable[[str], None] = lambda line: None) -> None:
        self._warn = warn
        self._file = _open(Path(path), warn) if path is not None else None
        self._codec = Codec(TAGS)

    def query(self, at: float, name: str, text: str, plans: tuple[Plan, ...], cause: AsWrittenCause | None) -> None:
        """Write the query and the candidate plans that decisions refer to by number; `cause`: why there are none."""

        def fields() -> dict[str, Any]:
            return {
                "name": name,
                "text": text,
                "plans": [_describe(plan) for plan in plans],
                "cause": None if cause is None else asdict(cause),
            }

        self._write("query", self.seq, at, fields)

    def input(self, seq: int, at: float, event: Event) -> None:
        """Write an event, before the decision on it."""
        self._write("input", seq, at, lambda: {"event": self._codec.write(event)})

    def decision(self, seq: int, at: float, commanded: tuple[Command, ...], state: State) -> None:
        """Write the commands that follow from an event, and the phase of the query after it."""

        def fields() -> dict[str, Any]:
            return {"commands": [self._codec.write(command) for command in commanded], "phase": state.phase}

        self._write("decision", seq, at, fields)

    def dump(self, value: object) -> bytes:
        """An event or a command in its written form."""
        return self._codec.dump(value)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()

    def _write(self, kind: str, seq: int, at: float, fields: Callable[[], dict[str, Any]]) -> None:
        if self._file is None:
            return
        try:
            record = {"v": VERSION, "kind": kind, "seq": seq, "at": at, **fields()}
            # No fsync: the record survives the process, and a lost machine takes the query with it anyway.
            self._file.append(record, durable=False)
        except Exception as problem:  # noqa: BLE001 - no journal error may end a query
            written, self._file = self._file, None
            _abandon(written)
            self._warn(_warning(written.path, problem))


def check_writable(path: str | Path) -> None:
    """Check, as far as that is possible without writing it, that a journal can be written.

    Raises:
        JournalPathError: the file is not a journal, or its directory does not exist or cannot be written to.
    """
    path = Path(path)
    try:
        _check_replaceable(path)
    except OSError as problem:
        raise _not_writable(path, problem) from None
    if not path.parent.is_dir():
        raise JournalPathError(f"--journal {str(path)!r}: no such directory; choose a writable file")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise JournalPathError(f"--journal {str(path)!r}: the directory cannot be written to; choose a writable file")


def remove_earlier(path: str | Path) -> None:
    """Remove an earlier query's journal, if there is one.

    Raises:
        JournalPathError: the file is not a journal, is in use, or cannot be removed.
    """
    path = Path(path)
    try:
        _remove(path)
    except Timeout:
        raise _in_use(path) from None
    except OSError as problem:
        raise _not_writable(path, problem) from None


def _open(path: Path, warn: Callable[[str], None]) -> RecordFile | None:
    """An empty journal that only its owner can read; None if the disk is full.

    Raises:
        JournalPathError: the file is not a journal, is in use, or cannot be written.
    """
    try:
        _remove(path)
        return RecordFile(path)
    except (Timeout, JournalInUseError):
        raise _in_use(path) from None
    except (JournalError, OSError) as problem:
        if _errno(problem) not in _FULL:
            raise _not_writable(path, problem) from None
        warn(_warning(path, problem))
        return None


def _remove(path: Path) -> None:
    """Remove an earlier journal, unless it is in use: only a new file is sure to be readable by its owner alone."""
    if os.path.lexists(path):
        _check_replaceable(path)
        with FileLock(f"{path}.lock", timeout=0, mode=0o600):
            path.unlink()


def _check_replaceable(path: Path) -> None:
    """Check that what is in the place of a journal, if anything, is an earlier one."""
    if not os.path.lexists(path):
        return
    if path.is_dir():
        raise JournalPathError(f"--journal {str(path)!r}: is a directory; choose a file")
    if not path.is_file():
        raise JournalPathError(f"--journal {str(path)!r}: not a regular file; choose another file")
    with path.open("rb") as file:
        first = file.readline()
    if first and not _begins_query_journal(first):
        raise JournalPathError(f"--journal {str(path)!r}: not a query journal; choose another file")


def _begins_query_journal(line: bytes) -> bool:
    """Whether a file's first line is that of a query's journal: journals of the arbiter have the same form."""
    try:
        record = decode(line)
    except NotARecordError:
        return False
    return record is not None and record.get("kind") == "query" and isinstance(record.get("text"), str)


def _in_use(path: Path) -> JournalPathError:
    return JournalPathError(f"--journal {str(path)!r}: in use by another query; choose another file")


def _not_writable(path: Path, problem: Exception) -> JournalPathError:
    return JournalPathError(f"--journal {str(path)!r}: {_message(problem)}; choose a writable file")


def _abandon(records: RecordFile) -> None:
    """Close a file after a failed write, truncated to its last complete record."""
    good = records.size
    with contextlib.suppress(OSError):
        records.close()
    with contextlib.suppress(OSError):
        if records.path.stat().st_size > good:
            os.truncate(records.path, good)


def _warning(path: Path, problem: Exception) -> str:
    return f"--journal {str(path)!r}: {_message(problem)}; the query continues without a journal"


def _message(problem: BaseException) -> str:
    cause = _os_error(problem)
    return os_reason(cause) if cause is not None else " ".join(str(problem).split())


def _errno(problem: BaseException) -> int | None:
    cause = _os_error(problem)
    return cause.errno if cause is not None else None


def _os_error(problem: BaseException | None) -> OSError | None:
    """The OSError behind an exception, such as a JournalError."""
    while problem is not None and not isinstance(problem, OSError):
        problem = problem.__cause__ or problem.__context__
    return problem


def read(path: Path) -> list[dict[str, Any]]:
    """The complete records of a journal, up to the first truncated one. Takes no lock.

    Raises:
        QoopError: the file cannot be read, or was written by a newer version.
    """
    try:
        return [_upgraded(path, number, record) for number, record in enumerate(_complete_records(path), 1)]
    except OSError as problem:
        raise QoopError(f"journal {str(path)!r}: {os_reason(problem)}") from None


def follow(path: Path) -> list[dict[str, Any]]:
    """The complete records so far of a query that may still be running."""
    return list(_complete_records(path))


def _complete_records(path: Path) -> Iterator[dict[str, Any]]:
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                record = decode(line)
            except NotARecordError as problem:
                raise JournalFormatError(path, number, f"not a record of a query journal: {problem}") from None
            if record is None:
                return
            yield record


def _upgraded(path: Path, number: int, record: dict[str, Any]) -> dict[str, Any]:
    """A record in the format of this version.

    Raises:
        JournalFormatError: written by a newer version, or not a journal record.
    """
    version = record.get("v", 0)
    if not isinstance(version, int) or not 0 <= version <= VERSION:
        raise JournalFormatError(
            path, number, f"version {version!r} is not supported, the latest is {VERSION}; use a newer qoop"
        )
    if record.get("kind") not in _KINDS:
        raise JournalFormatError(
            path, number, f"unknown kind {record.get('kind')!r}; use the version of qoop that wrote it"
        )
    parts = [record.get("event"), *record.get("commands", [])]
    unknown = next((one["type"] for one in parts if isinstance(one, dict) and one.get("type") not in TAGS), None)
    if unknown is not None:
        raise JournalFormatError(path, number, f"unknown type {unknown!r}; use the version of qoop that wrote it")
    return {**upgrade(record, version), "v": VERSION}


def _describe(plan: Plan) -> dict[str, Any]:
    return {
        "trees": {block: _tree(plan, block, part.tree) for block, part in plan.block_plans.items()},
        "stages": {view_name(stage): sorted(map(view_name, after)) for stage, after in plan.stages().items()},
        **({"as_written": True} if plan.as_written else {}),
    }


def _tree(plan: Plan, block: str, tree: Tree) -> Any:
    """A tree as nested lists of aliases; a join that is a stage of its own has the name of its view."""
    graph = plan.query.blocks[block].graph
    assert graph is not None
    if not isinstance(tree, Join):
        return graph.aliases(tree.relations)[0]
    sides = [_tree(plan, block, side) for side in (tree.left, tree.right)]
    cut = tree.relations in plan.block_plans[block].cuts
    return {"join": sides, **({"stage": view_name(StageId(block, tree.relations))} if cut else {})}
