"""Defects to put into the planner, to see whether the fuzz finds them: `python -m tests.fuzz.bugs`, resumable.

The comparison of plans with the query as written is switched off, so that rows alone tell; `--verified` leaves it on,
and a defect is then found if a plan is rejected for it.
"""

import argparse
import json
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from itertools import chain
from multiprocessing.queues import SimpleQueue
from pathlib import Path
from typing import Any
from unittest.mock import patch

from pyspark.sql.types import StructField, StructType
from sqlglot import exp

from qoop import session_query
from qoop.engine import checkpoints, persisted, verification
from qoop.engine.checkpoints import ExecutorCheckpoints
from qoop.errors import QoopError
from qoop.known_plans import KnownPlans
from qoop.parsing import joins, pushdown, query, render
from qoop.parsing.render import plan_query
from tests.fuzz.case import Case, by_world
from tests.fuzz.compose import planned
from tests.fuzz.run import Lab, Result, session

SEEDS = 200

Defect = Callable[[], AbstractContextManager[object]]


@contextmanager
def _rewriting(change: Callable[[exp.Query], None]) -> Iterator[None]:
    """Every block is changed after it was split off."""
    split = query.split_query

    def defective(*arguments):
        found = split(*arguments)
        for block in found.blocks.values():
            change(block)
        return found

    with patch.object(query, "split_query", defective):
        yield


def _every(kind, new, matches=lambda node: True) -> Defect:
    """Every node of a kind is replaced."""

    def change(tree):
        for node in list(tree.find_all(kind)):
            if matches(node):
                made = new(node)
                if made is not None and made is not node:
                    node.replace(made)

    return lambda: _rewriting(change)


def _set(kind, matches=lambda node: True, /, **arguments) -> Defect:
    """Arguments of every node of a kind are set."""

    def change(node):
        for name, value in arguments.items():
            node.set(name, value)

    return _every(kind, change, matches)


def _patched(where, name, make) -> Defect:
    """A function of the planner is replaced by what `make` makes of it."""
    return lambda: patch.object(where, name, make(getattr(where, name)))


def _is_join(side="", kind=""):
    return lambda join: join.side == side and join.kind in (kind, *(("OUTER",) if not kind else ()))


def _lower_fields(node):
    for place, part in enumerate(node.expressions):
        if isinstance(part, exp.PropertyEQ | exp.Alias):
            part.set("this" if isinstance(part, exp.PropertyEQ) else "alias", _lower(part))
        elif node.key == "anonymous" and place % 2 == 0 and isinstance(part, exp.Literal):
            part.set("this", part.this.lower())


def _lower(part):
    name = part.this if isinstance(part, exp.PropertyEQ) else part.args["alias"]
    return exp.to_identifier(name.name.lower(), quoted=True)


def _without_not(node):
    return node.this.copy() if isinstance(node.this, exp.Paren) else None


def _first_condition_lost(original):
    return lambda graph, join: " AND ".join(original(graph, join).split(" AND ")[1:])


def _last_condition_lost(original):
    return lambda graph, join: " AND ".join(original(graph, join).split(" AND ")[:-1])


def _no_filters(original):
    def leaf(graph, relation):
        text = original(graph, relation)
        return text.rpartition(" WHERE ")[0] + ")" if relation.filters else text

    return leaf


def _stale() -> Defect:
    """An output is taken for that of any earlier query whose stage had the same view and columns."""
    original, kept = ExecutorCheckpoints.save, {}

    def save(self, view, frame, whole=False, **versions):
        key = (view, tuple(frame.dtypes))
        if key in kept:
            fields = [StructField(field.name, field.dataType) for field in frame.schema.fields]
            frame = self.session.createDataFrame(kept[key], StructType(fields))
        stored = original(self, view, frame, whole, **versions)
        # Not before: a frame that was computed is not persisted any more.
        kept.setdefault(key, frame.collect())
        return stored

    return lambda: patch.object(ExecutorCheckpoints, "save", save)


def _in_session(**values):
    """The query's own session has other settings than the user's."""

    def make(original):
        def copy(spark):
            made = original(spark)
            for name, value in values.items():
                made.conf.set("spark.sql." + name.replace("__", "."), value)
            return made

        return copy

    return _patched(session_query, "query_session", make)


@contextmanager
def _skipped_by_bounds() -> Iterator[None]:
    """Spark skips stored batches by bounds that leave NaN out, and parts of files where -0.0 is not 0.0."""
    with (
        patch.object(persisted, "filtered_by_rows", lambda frame: frame),
        patch.object(checkpoints, "filtered_by_rows", lambda frame: frame),
    ):
        yield


def _distinct_output(original):
    return lambda *arguments: original(*arguments).replace("SELECT ", "SELECT DISTINCT ", 1)


def _other_join(original):
    return lambda *arguments, **more: original(*arguments, **more).replace(") JOIN (", ") LEFT JOIN (")


def _uncorrelated(node):
    """A subquery in EXISTS without its conditions."""
    node.this.set("where", None)


def _drop_last(name):
    def change(node):
        parts = node.args.get(name) or []
        if len(parts) > 1:
            node.set(name, parts[:-1])

    return change


def _last_on_lost(join):
    if isinstance(join.args.get("on"), exp.And):
        join.set("on", join.args["on"].left.copy())


def _aggregate(node, kind):
    return kind(this=node.this.copy())


def _not_null_in(node):
    """NOT IN as it would be without NULLs."""
    inner = node.this
    chosen = inner.args["query"].this if isinstance(inner.args["query"], exp.Subquery) else inner.args["query"]
    if isinstance(chosen, exp.Select):
        chosen.where(chosen.selects[0].unalias().copy().is_(exp.null()).not_(), copy=False)


def _has_subquery(node):
    return isinstance(node.this, exp.In) and node.this.args.get("query") is not None


def _null_in_not_in(node):
    """NOT IN is kept for rows whose own value is NULL."""
    return exp.or_(node.copy(), exp.Is(this=node.this.this.copy(), expression=exp.null()))


def _swapped_outputs(original):
    """Two columns of a stage's output change places."""

    def swapped(graph, tree, views):
        outputs = [column.output for column in graph.outputs(tree.relations)]
        text = original(graph, tree, views)
        if len(outputs) < 2:
            return text
        first, last = f"`{outputs[0]}`", f"`{outputs[-1]}`"
        head, _, rest = text.partition(" FROM ")
        head = head.replace(first, "`?`").replace(last, f"{last} AS {first}", 1).replace("`?`", f"{first} AS {last}", 1)
        return f"{head} FROM {rest}"

    return swapped


def _and_for_or(original):
    return lambda parts: original(parts) if len(parts) < 2 else joins.all_of(parts)


def _is(kind, name):
    return lambda node: bool(node.args.get(name)) and isinstance(node, kind)


ZONE = {"session__timeZone": "Europe/Paris"}

BUGS: dict[str, Defect] = {
    "filters of a relation dropped": _patched(render, "leaf_query", _no_filters),
    "first condition of a join dropped": _patched(render, "_conditions", _first_condition_lost),
    "last condition of a join dropped": _patched(render, "_conditions", _last_condition_lost),
    "outer for inner join in a stage": _patched(render, "_source", _other_join),
    "inner for left outer join": _set(exp.Join, _is_join("LEFT"), side="", kind=""),
    "full for left outer join": _set(exp.Join, _is_join("LEFT"), side="FULL"),
    "outer for semi join": _set(exp.Join, _is_join("LEFT", "SEMI"), kind=""),
    "semi for anti join": _set(exp.Join, _is_join("LEFT", "ANTI"), kind="SEMI"),
    "left for right outer join": _set(exp.Join, _is_join("RIGHT"), side="LEFT"),
    "left for full outer join": _set(exp.Join, _is_join("FULL"), side="LEFT"),
    "NOT IN ignores NULLs": _every(exp.Not, _not_null_in, _has_subquery),
    "NOT IN keeps a NULL": _every(exp.Not, _null_in_not_in, _has_subquery),
    "IN for NOT IN": _every(exp.Not, lambda node: node.this.copy(), _has_subquery),
    "EXISTS for NOT EXISTS": _every(exp.Not, lambda n: n.this.copy(), lambda n: isinstance(n.this, exp.Exists)),
    "EXISTS without its conditions": _every(exp.Exists, _uncorrelated),
    "names of fields in lower case": _every((exp.Struct, exp.Anonymous), _lower_fields),
    "lost DISTINCT": _set(exp.Select, lambda node: bool(node.args.get("distinct")), distinct=None),
    "DISTINCT of a stage's output": _patched(render, "join_query", _distinct_output),
    "lost DISTINCT in an aggregate": _every(
        exp.Distinct, lambda n: n.expressions[0].copy(), lambda n: bool(n.expressions)
    ),
    "UNION ALL for UNION": _set(exp.Union, lambda node: bool(node.args.get("distinct")), distinct=False),
    "UNION for UNION ALL": _set(exp.Union, lambda node: not node.args.get("distinct"), distinct=True),
    "EXCEPT without ALL": _set(exp.Except, lambda node: not node.args.get("distinct"), distinct=True),
    "UNION for INTERSECT": _every(
        exp.Intersect,
        lambda n: exp.Union(this=n.this.copy(), expression=n.expression.copy(), distinct=n.args.get("distinct")),
    ),
    "wrong zone": _in_session(**ZONE),
    "another evaluation of errors": _in_session(ansi__enabled="false"),
    "stale output of another query": _stale(),
    "NaN left out of bounds": _skipped_by_bounds,
    "lost HAVING": _set(exp.Select, lambda node: bool(node.args.get("having")), having=None),
    "lost ORDER BY": _set(exp.Select, lambda node: bool(node.args.get("order")), order=None),
    "descending for ascending": _every(exp.Ordered, lambda node: node.set("desc", not node.args.get("desc"))),
    "NULLs at the other end": _every(exp.Ordered, lambda n: n.set("nulls_first", not n.args.get("nulls_first"))),
    "another LIMIT": _every(exp.Limit, lambda node: exp.Limit(expression=exp.Literal.number(2))),
    "lost OFFSET": _set(exp.Select, lambda node: bool(node.args.get("offset")), offset=None),
    "ROLLUP for CUBE": _every(exp.Cube, lambda node: exp.Rollup(expressions=[e.copy() for e in node.expressions])),
    "a grouping set lost": _every(exp.GroupingSets, _drop_last("expressions")),
    "a window without its partition": _set(
        exp.Window, lambda node: bool(node.args.get("partition_by")), partition_by=None
    ),
    "min for max": _every(exp.Max, lambda node: _aggregate(node, exp.Min)),
    "lost FILTER": _every(exp.Filter, lambda node: node.this.copy()),
    "= for <=>": _every(exp.NullSafeEQ, lambda n: exp.EQ(this=n.this.copy(), expression=n.expression.copy())),
    "< for <=": _every(exp.LTE, lambda n: exp.LT(this=n.this.copy(), expression=n.expression.copy())),
    "IS NULL for IS NOT NULL": _every(exp.Not, lambda n: n.this.copy(), lambda n: isinstance(n.this, exp.Is)),
    "NOT dropped": _every(exp.Not, _without_not),
    "COALESCE of its first argument": _every(exp.Coalesce, lambda node: node.this.copy()),
    "AND for OR": _patched(joins, "any_of", _and_for_or),
    "swapped columns of a stage": _patched(render, "join_query", _swapped_outputs),
    "a filter pushed into a block that others read too": _patched(
        pushdown._Blocks, "readers", lambda original: lambda blocks, name: 1
    ),
    "a filter pushed below an aggregate of all": _patched(
        pushdown,
        "_can_push_down",
        lambda original: lambda block, *rest: isinstance(block, exp.Select) or original(block, *rest),
    ),
    "last condition of an outer join dropped": _every(exp.Join, _last_on_lost, lambda join: bool(join.side)),
}
"""Defects by name; each makes a context in which the planner has it."""

OF_EXECUTION = {
    "wrong zone",
    "another evaluation of errors",
    "stale output of another query",
    "NaN left out of bounds",
}
"""Defects that no text of a plan shows."""


@dataclass(frozen=True)
class Hunt:
    """Where results are, a line each seed; time.time() at which to stop; whether plans are compared."""

    results: Path
    deadline: float | None
    verified: bool

    def lines(self) -> list[dict[str, Any]]:
        """A line for each seed: which defects change its plans, and what is wrong with its rows because of which."""
        return [*map(json.loads, self.results.read_text().splitlines())] if self.results.exists() else []

    def add(self, line: dict[str, Any]) -> None:
        """Append a line; other processes do too."""
        self.results.parent.mkdir(parents=True, exist_ok=True)
        with self.results.open("a") as file:
            file.write(json.dumps(line) + "\n")

    def found(self) -> set[str]:
        """The defects that some seed has found."""
        return {name for line in self.lines() for name in line["found"]}


Worlds = SimpleQueue[list[int] | None]
"""Seeds that wait, those of one world together; None at the end."""


def _run(seeds: Sequence[int], hunt: Hunt, processes: int) -> bool:
    """Look for defects in several processes, since a defect is one of a whole process; True if one of them crashed."""
    context = multiprocessing.get_context("spawn")
    waiting: Worlds = context.SimpleQueue()
    worlds = by_world(seeds)
    started = [context.Process(target=_look, args=(waiting, hunt)) for _ in range(min(processes, len(worlds)))]
    for process in started:
        process.start()
    for world in [*worlds, *(None for _ in started)]:
        waiting.put(world)
    for process in started:
        process.join()
    return any(process.exitcode for process in started)


def _look(waiting: Worlds, hunt: Hunt) -> None:
    """Look for the defects that are not found yet by the cases that wait."""
    with tempfile.TemporaryDirectory() as folder, session(folder) as spark:
        lab = Lab(spark)
        for seed in chain.from_iterable(iter(waiting.get, None)):
            names = [name for name in BUGS if name not in hunt.found()]
            if not names or (hunt.deadline is not None and time.time() > hunt.deadline):
                return
            case, expected, _ = lab.case(seed)
            changed = _changing(lab, case, names)
            found = {
                name: why for name in changed if (why := _finding(lab, case, expected, name, hunt.verified)) is not None
            }
            hunt.add({"seed": seed, "changed": changed, "found": found})
            print(f"seed {seed} finds {', '.join(found)}" if found else f"seed {seed}", flush=True)


def _finding(lab: Lab, case: Case, expected: Result, name: str, verified: bool) -> str | None:
    """What is wrong with the rows of a case because of a defect, or why its plan is rejected; None: nothing."""
    with ExitStack() as stack:
        stack.enter_context(BUGS[name]())
        # Not those that were made without the defect.
        stack.enter_context(patch.object(session_query, "_known_plans", KnownPlans()))
        if not verified:
            stack.enter_context(patch.object(verification.Verification, "check", lambda self, text, last=False: None))
        run = lab.compare(case, expected)
    return run.difference or (run.reason if verified and run.as_written else None)


def _changing(lab: Lab, case: Case, names: Sequence[str]) -> list[str]:
    """The defects that change a plan of a case, and those that no text of a plan shows."""

    def text() -> str:
        try:
            made = planned(lab, case)
        except QoopError as problem:
            return f"not planned: {problem}"
        return plan_query(made.text, made.plans[0]) + plan_query(made.text, made.plans[-1])

    def is_changed(name: str) -> bool:
        try:
            with BUGS[name]():
                return text() != before
        except Exception:  # noqa: BLE001 - the defect makes the planner fail
            return False

    lab.prepare(case.tables)
    with lab.under(case.settings):
        before = text()
        return [name for name in names if name in OF_EXECUTION or is_changed(name)]


def main() -> int:
    """Look for each defect; return 1 if too few are found."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.bugs", description=__doc__)
    parser.add_argument("--results", type=Path, default=Path("out/fuzz-bugs.jsonl"), help="default: %(default)s")
    parser.add_argument("--minutes", type=float, default=0, help="stop after this time, to be resumed; 0: never")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="default: all cores")
    parser.add_argument("--verified", action="store_true", help="with the comparison of plans")
    options = parser.parse_args()
    hunt = Hunt(options.results, time.time() + options.minutes * 60 if options.minutes else None, options.verified)
    done = {line["seed"] for line in hunt.lines()}
    crashed = _run([seed for seed in range(SEEDS) if seed not in done], hunt, options.processes)
    lines = sorted(hunt.lines(), key=lambda line: line["seed"])
    for name in BUGS:
        first = next((line["seed"] for line in lines if name in line["found"]), None)
        changed = sum(name in line["changed"] for line in lines)
        print(f"{name}: {'not found' if first is None else f'found by seed {first}'}, {changed} changed")
    found = len(hunt.found())
    print(f"{found} of {len(BUGS)} found by {len(lines)} of {SEEDS} seeds")
    return 0 if not crashed and found >= 0.95 * len(BUGS) else 1


if __name__ == "__main__":
    # By its own name, under which the other processes import it.
    from tests.fuzz import bugs

    sys.exit(bugs.main())
