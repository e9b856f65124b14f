"""`qoop explain`: a query's candidate plans, and which one would be chosen at which share."""

import os
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path

from rich.text import Text
from rich.tree import Tree as RichTree

from qoop.as_written.decide import Ask, Facts, HowToRun, Names, Planned, Reading, how_to_run
from qoop.as_written.wording import text as text_of
from qoop.as_written.wording import with_remedy
from qoop.engine import versions
from qoop.errors import CannotSplitError, QoopError, UnknownNameError, UnknownTableError
from qoop.estimate.breakdown import Part, breakdown
from qoop.estimate.cost import CostModel
from qoop.estimate.gate import Gate, Inputs
from qoop.estimate.speed import Line, Speed
from qoop.estimate.statistics import TableStatistics
from qoop.parsing.moment import Moment
from qoop.parsing.spark_sql import Catalogue
from qoop.parsing.statement import Statement, parse_statement
from qoop.planner import PlannedQuery, plan
from qoop.plans.candidates import CutPolicy
from qoop.plans.plan import RESULT, Plan, StageId, view_name
from qoop.plans.trees import Join, Tree
from qoop.replan.decision import Progress, Rules, evaluate
from qoop.replan.first_choice import first_plan
from qoop.run.machine_speed import read_speed
from qoop.run.wording import in_slots
from qoop.tables.folder import FolderCatalogue, unknown_table
from yarn_plugin import console
from yarn_plugin.errors import BadInputError
from yarn_plugin.quantities import count

MAX_SHARE = 1e9
"""Limit of --shares, in slots."""


PRINTED_ROWS = 1000
"""How many rows `qoop submit` prints by default; with fewer Spark may stop early."""


SHOWN_S = 0.005
"""Parts of plans below this many seconds are not shown."""


NOTHING_DONE = Progress(frozenset(), {})


def _now() -> Moment:
    now = datetime.now().astimezone()
    return Moment(now.replace(tzinfo=None), now)


def parse_shares(text: str) -> list[float]:
    """The shares of `--shares 1,2,4,8`, ascending and distinct.

    Raises:
        BadInputError: not a list of numbers above 0 and at most `MAX_SHARE`.
    """
    try:
        shares = [float(part) for part in text.split(",") if part.strip()]
    except ValueError:
        shares = []
    if not shares or not all(0 < share <= MAX_SHARE for share in shares):
        expected = f"must be numbers of slots above 0 and at most {MAX_SHARE:,.0f}, separated by commas"
        raise BadInputError("--shares", text, f"{expected}, such as 1,2,4,8")
    return sorted(set(shares))


def explain(text: str, tables: str | None, shares: Sequence[float], max_plans: int, json_file: Path | None) -> None:
    """Print the candidate plans of a query, and write them to `json_file` if given.

    Raises:
        QuerySyntaxError: the text is not SQL.
        UnknownNameError: the query names a table or column that does not exist.
        QoopError: the query cannot be planned, or its tables cannot be read.
    """
    try:
        planned, hows = _plan(text, tables, shares)
    except RecursionError:
        raise QoopError("query: nested too deeply for the planner; Spark may still run it") from None
    except CannotSplitError as problem:
        line = f"runs as written, in one stage, at every share: {with_remedy(problem.cause)}"
        console.out.print(line, soft_wrap=True)
        if json_file is not None:
            console.write_json(json_file, {"plans": [], "one_stage_reason": str(problem), "shares": list(shares)})
        return
    # As for `qoop submit`: the first query of an application.
    speed = read_speed()
    found = [evaluate(planned.plans, planned.estimator, NOTHING_DONE, share, Rules()) for share in shares]
    ends = [[speed.cold.seconds(one.seconds) for one in of_plan] for of_plan in zip(*found, strict=True)]
    chosen = [_chosen(planned, speed.cold, share) for share in shares]
    shown = list(dict.fromkeys([*chosen, *sorted(range(len(ends)), key=lambda number: ends[number])]))
    shown = shown[: max(max_plans, len(set(chosen)))]
    _show(planned, speed, shares, ends, chosen, shown)
    spark = versions.installed()
    for line in (*_verdicts(shares, hows), *(f"with Spark {spark}, {what}" for what in versions.lacking(spark))):
        console.out.print(line, soft_wrap=True)
    if json_file is not None:
        console.write_json(json_file, _estimates_as_json(planned, shares, ends, chosen))


def _chosen(planned: PlannedQuery, cold: Line, share: float) -> int:
    """The plan that a query would begin with at a share."""
    planned, _ = planned.at_speed(cold, share)
    rules = Rules()
    at_share = evaluate(planned.plans, planned.estimator, NOTHING_DONE, share, rules)
    return first_plan(planned.plans, planned.estimator, at_share, share, rules)


def _turns_at(planned: PlannedQuery, cold: Line, low: float, high: float, before: int) -> float:
    """The share between two at which a plan is no longer the one that is chosen, within a hundredth."""
    while high / low > 1.01:
        middle = (low * high) ** 0.5
        low, high = (middle, high) if _chosen(planned, cold, middle) == before else (low, middle)
    return high


def _plan(text: str, tables: str | None, shares: Sequence[float]) -> tuple[PlannedQuery, list[HowToRun]]:
    """The query's plans, and whether it would be planned at each share."""
    if tables is not None:
        folder = FolderCatalogue(tables)
        try:
            planned = _planned(parse_statement(text), folder, folder.statistics)
        except UnknownTableError as problem:
            raise unknown_table(problem, folder, tables) from None
        inputs = _inputs(planned, folder)
        return planned, [_how(Reading(inputs, Gate(), share, characters=len(text))) for share in shares]
    from qoop.api import how_to_run as how_in_session
    from qoop.engine.catalogue import local_catalogue
    from qoop.submit.job import SparkFlags, spark_defaults
    from qoop.submit.kept_catalogue import kept_catalogue

    flags = SparkFlags((), spark_defaults((), os.environ))
    with kept_catalogue(flags, os.environ, _warn, creates=False) as kept, local_catalogue(kept) as known:
        try:
            planned = _planned(parse_statement(text, known.syntax), known, known.statistics)
        except UnknownTableError as problem:
            raise UnknownNameError(f"{problem} in Spark's catalog; give its directory with --tables") from None
        return planned, how_in_session(known.session, text, max_rows=PRINTED_ROWS + 1, slots=shares)


def _warn(line: str) -> None:
    console.err.print(f"qoop: {line}", soft_wrap=True)


def _planned(statement: Statement, catalogue: Catalogue, statistics: Callable[[str], TableStatistics]) -> PlannedQuery:
    if statement.inserts:
        # They read the same source.
        statement = statement.source_queries()[0]
    return plan(statement, catalogue, statistics, CutPolicy(), CostModel(), _now, fewer_stages=True)


def _inputs(planned: PlannedQuery, folder: FolderCatalogue) -> Inputs:
    """What a query reads of a folder's tables, roughly: of each table the part of its columns that are read."""
    sizes = []
    for block in planned.text.query.blocks.values():
        for relation in block.graph.relations if block.graph is not None else ():
            if not relation.is_block:
                columns = folder.columns(relation.source) or {}
                part = min(len(relation.columns) / max(len(columns), 1), 1.0)
                sizes.append(folder.statistics(relation.source).bytes * part)
    return Inputs(tuple(sizes), named=len(planned.text.tables))


def _how(reading: Reading) -> HowToRun:
    """Whether a query with plans would be planned, as far as that is known without Spark."""
    how = how_to_run(
        Facts(
            when="auto",
            is_optimised=True,
            reading=reading,
            text=None,
            earlier=None,
            is_deterministic=True,
            names=Names(),
            files=None,
            plans=None,
            pinned=None,
        )
    )
    assert not isinstance(how, Ask)
    return how


def _verdicts(shares: Sequence[float], hows: Sequence[HowToRun]) -> Iterator[str]:
    """Whether the query would be planned by default, at each share, and what would change that."""
    by_verdict: dict[str, list[float]] = {}
    for share, how in zip(shares, hows, strict=True):
        verdict = "planned" if isinstance(how, Planned) else f"as written: {with_remedy(how.cause)}"
        by_verdict.setdefault(verdict, []).append(share)
    for verdict, at in by_verdict.items():
        *others, last = at
        on = f"{', '.join(f'{share:g}' for share in others)} and {in_slots(last)}" if others else in_slots(last)
        yield f"by default (--plan auto), on {on}: {verdict}"


def _show(
    planned: PlannedQuery,
    speed: Speed,
    shares: Sequence[float],
    ends: list[list[float]],
    chosen: list[int],
    shown: list[int],
) -> None:
    console.out.print(f"{count(len(planned.plans), 'candidate plan')} over {count(planned.join_trees, 'join tree')}")
    for number in shown:
        console.out.print(_tree(planned, number))
    columns = ("plan", "#stages", *(f"#{in_slots(share)}" for share in shares))
    rows = [
        (number, len(planned.plans[number].stages()), *_marked(ends[number], [number == other for other in chosen]))
        for number in shown
    ]
    console.out.print(f"estimated seconds to completion (* chosen at this share), {_calibrated(speed)}")
    console.out.print(console.table(None, columns, rows))
    for before, after, low, high in zip(chosen, chosen[1:], shares, shares[1:], strict=False):
        if before != after:
            turn = _turns_at(planned, speed.cold, low, high, before)
            console.out.print(
                f"at {in_slots(low)} plan {before} is chosen, at {in_slots(high)} plan {after}; "
                f"it turns at about {turn:.2g} slots"
            )
    here = planned.slower_by(speed.cold.factor)
    for number in dict.fromkeys(chosen):
        place = chosen.index(number)
        other = min((one for one in range(len(ends)) if one != number), key=lambda one: ends[one][place], default=None)
        if other is not None:
            console.out.print(_why_it_wins(here, number, other, shares[place]), soft_wrap=True)
    cause = planned.one_stage_cause()
    if cause is not None:
        console.out.print(f"every plan is a single stage: {with_remedy(cause)}", soft_wrap=True)


def _calibrated(speed: Speed) -> str:
    if not speed.runs:
        return "at nominal speed, as no planned query has run on this machine yet"
    start = f", {speed.cold.start_s:.1f} s of them until Spark is warm" if speed.cold.start_s >= SHOWN_S else ""
    return f"at this machine's speed, as {count(speed.runs, 'run')} of planned queries showed{start}"


def _why_it_wins(planned: PlannedQuery, number: int, other: int, share: float) -> str:
    """Where a plan saves time against another one, and where it loses some."""
    won, lost = (breakdown(planned.plans[one], planned.estimator, share) for one in (number, other))
    shown = [part for part in Part if max(won[part], lost[part]) >= SHOWN_S]
    parts = ", ".join(f"{part} {won[part]:.2f} s (plan {other}: {lost[part]:.2f})" for part in shown)
    most = max(Part, key=lambda part: lost[part] - won[part])
    saved = lost[most] - won[most]
    why = f"; it saves most in {most}, {saved:.2f} s" if saved >= SHOWN_S else ""
    return f"plan {number} on {in_slots(share)}: {parts}{why}"


def _marked(ends: list[float], taken: list[bool]) -> list[str]:
    return [f"{seconds:.2f}{'*' if here else ' '}" for seconds, here in zip(ends, taken, strict=True)]


def _tree(planned: PlannedQuery, number: int) -> RichTree:
    shown = planned.plans[number]
    how = ", the query as written" if shown.as_written else ""
    root = RichTree(f"plan {number}: {count(len(shown.stages()), 'stage')}{how}")
    for block, part in shown.block_plans.items():
        branch = root.add(f"{block}")
        _add(branch, planned, shown, block, part.tree)
    return root


def _add(branch: RichTree, planned: PlannedQuery, shown: Plan, block: str, tree: Tree) -> None:
    graph = planned.text.query.blocks[block].graph
    assert graph is not None
    rows = planned.estimator.rows[block].rows(tree.relations)
    if not isinstance(tree, Join):
        relation = graph.relations[tree.relations.bit_length() - 1]
        filters = f", {count(len(relation.filters), 'filter')}" if relation.filters else ""
        name = relation.alias if relation.alias == relation.source else f"{relation.alias} ({relation.source})"
        branch.add(f"{name}: {_about_rows(rows)}{filters}")
        return
    cut = tree.relations in shown.block_plans[block].cuts
    label = Text(f"join: {_about_rows(rows)}")
    if cut:
        label.append(", ").append(f"stage {view_name(StageId(block, tree.relations))}", style="bold")
    below = branch.add(label)
    for side in (tree.left, tree.right):
        _add(below, planned, shown, block, side)


def _about_rows(rows: float) -> str:
    return f"about {count(round(rows), 'row')}"


def _estimates_as_json(
    planned: PlannedQuery, shares: Sequence[float], ends: list[list[float]], chosen: list[int]
) -> dict[str, object]:
    return {
        "shares": list(shares),
        "join_trees": planned.join_trees,
        "chosen": chosen,
        "one_stage_reason": None if (cause := planned.one_stage_cause()) is None else text_of(cause),
        "plans": [
            {
                "plan": number,
                "stages": [view_name(stage) if stage != RESULT else "result" for stage in one.stages()],
                "seconds": ends[number],
            }
            for number, one in enumerate(planned.plans)
        ],
    }
