"""The record of one query: what happened, what was decided, and why. For people, reports and tests."""

from pathlib import Path
from typing import Any

from qoop.errors import QoopError
from qoop.plans.plan import Plan, StageId
from qoop.plans.tree import Join, Tree
from qoop.replan import commands, events
from qoop.replan.commands import Command
from qoop.replan.events import Event
from qoop.sql.render import view_of
from yarn_plugin.journal.codec import Codec
from yarn_plugin.journal.records import RecordFile, decode

TYPES = (*events.Event.__args__, *commands.Command.__args__)


class QueryJournal:
    """Writes the record of a query, over that of an earlier one; without a path it writes nothing.

    Raises:
        QoopError: the file holds something else.

    Each line has `seq`, `at` (epoch seconds) and `kind`: "query" (text and candidate plans), "input", "decision".
    """

    def __init__(self, path: Path | None) -> None:
        self._file = _empty(path) if path is not None else None
        self._codec = Codec(TYPES)
        self._seq = 0

    def query(self, at: float, name: str, text: str, plans: tuple[Plan, ...], reason: str | None) -> None:
        """The query, and the candidate plans that its decisions number; `reason`: why there are none."""
        described = [_describe(plan) for plan in plans]
        self._write("query", at, {"name": name, "text": text, "plans": described, "reason": reason})

    def took(self, at: float, event: Event, commanded: tuple[Command, ...], phase: str) -> None:
        """An event, the phase that the query is in after it, and what was commanded."""
        self._write("input", at, {"event": self._codec.write(event), "phase": phase})
        self._write("decision", at, {"commands": [self._codec.write(command) for command in commanded]})

    def close(self) -> None:
        """Nothing more is written."""
        if self._file is not None:
            self._file.close()

    def _write(self, kind: str, at: float, fields: dict[str, Any]) -> None:
        if self._file is None:
            return
        self._seq += kind != "decision"
        # Not forced to disk: the record outlives the process, and a lost machine loses the query with it.
        self._file.append({"kind": kind, "seq": self._seq, "at": at, **fields}, durable=False)


def _empty(path: Path) -> RecordFile:
    if path.is_dir():
        raise QoopError(f"--journal {str(path)!r}: it is a folder; name a file")
    if path.is_file():
        with path.open("rb") as file:
            first = file.readline()
        if first and decode(first) is None:
            raise QoopError(f"--journal {str(path)!r}: it holds something else than a journal; name another file")
    records = RecordFile(path)
    records.rewrite()
    return records


def read(path: Path) -> list[dict[str, Any]]:
    """The records of a query."""
    records = RecordFile(path)
    try:
        return list(records.read())
    finally:
        records.close()


def follow(path: Path) -> list[dict[str, Any]]:
    """The records so far of a query that may still run."""
    return [record for line in path.read_bytes().splitlines(keepends=True) if (record := decode(line)) is not None]


def _describe(plan: Plan) -> dict[str, Any]:
    return {
        "trees": {block: _tree(plan, block, part.tree) for block, part in plan.parts.items()},
        "stages": {view_of(stage): sorted(map(view_of, after)) for stage, after in plan.stages().items()},
    }


def _tree(plan: Plan, block: str, tree: Tree) -> Any:
    """A tree as nested lists of aliases; a stage of its own is marked by its view."""
    graph = plan.query.blocks[block].graph
    assert graph is not None
    if not isinstance(tree, Join):
        return graph.aliases(tree.relations)[0]
    sides = [_tree(plan, block, side) for side in (tree.left, tree.right)]
    cut = tree.relations in plan.parts[block].cuts
    return {"join": sides, **({"stage": view_of(StageId(block, tree.relations))} if cut else {})}
