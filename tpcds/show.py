"""What a run and a list of queries look like on a terminal."""

from collections import defaultdict
from collections.abc import Sequence

from rich.console import RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from tpcds.queries import Shape
from tpcds.results import QueryRow, Report
from yarn_plugin import console

PLAN_COLUMNS = ("join_trees", "stages", "switches", "reused", "cancelled", "backtracked")


def progress() -> Progress:
    """A progress bar on stderr, gone when it is done; see `done` for where stderr is not a terminal."""
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    return Progress(*columns, console=console.err, transient=True, disable=not console.err.is_terminal)


def done(row: QueryRow, of: int, number: int) -> None:
    """Where no progress bar can be shown, a line for a query that has ended."""
    if not console.err.is_terminal:
        said = row.error or ("not equal" if row.wrong else f"{row.seconds or 0:.1f} s")
        console.err.print(f"{number} of {of}: query {row.query}: {said}", soft_wrap=True)


def query_list(shapes: Sequence[Shape]) -> Table:
    """A line per query: its joins and its tables."""
    rows = [(shape.query, shape.joins, shape.widest, ", ".join(shape.tables)) for shape in shapes]
    return console.table(None, ("#query", "#joins", "#widest join", "tables"), rows)


def query_rows(rows: Sequence[QueryRow]) -> Table:
    """A line per query; columns that say nothing in this run are left out."""
    plans = [name for name in PLAN_COLUMNS if any(getattr(row, name) is not None for row in rows)]
    compared = [name for name in ("spark", "duckdb") if any(_equal(row, name) is not None for row in rows)]
    columns = ("#query", "#rows", "#seconds", *(f"= {name}" for name in compared))
    columns += tuple(f"#{name.replace('_', ' ')}" for name in plans)
    lines = []
    for row in rows:
        cells: list[object] = [row.query, row.rows, None if row.seconds is None else f"{row.seconds:.2f}"]
        cells += [_said(_equal(row, name)) for name in compared]
        cells += [getattr(row, name) for name in plans]
        lines.append((*cells, row.error or ("only NULL or 0" if row.rows and row.blank else "")))
    return console.table(None, (*columns, ""), lines)


def summary(report: Report) -> list[RenderableType]:
    """The suite in a few lines: equality, times, plans, and every exception by name."""
    total = report.totals
    lines: list[RenderableType] = [_times(report)]
    if total.compared_with_spark:
        lines.append(f"equal to Spark: {total.equal_to_spark} of {total.compared_with_spark}")
    if total.compared_with_duckdb:
        lines.append(f"equal to DuckDB: {total.equal_to_duckdb} of {total.compared_with_duckdb}")
    lines.append(f"with rows: {total.non_empty} of {total.queries}" + _listed("without", total.empty))
    if total.only_null_or_zero:
        lines.append("rows of NULL or 0 only" + _listed("in", total.only_null_or_zero))
    if total.switches is not None:
        lines.append(f"several join trees: {total.several_join_trees} queries")
        counts = ("switches", "reused", "cancelled", "backtracked")
        lines.append(", ".join(f"{name} {getattr(total, name)}" for name in counts))
    return lines + _one_stage(report.queries) + _exceptions(report.queries)


def _one_stage(rows: Sequence[QueryRow]) -> list[RenderableType]:
    by_reason: dict[str, list[int]] = defaultdict(list)
    for row in rows:
        if row.one_stage_reason:
            by_reason[row.one_stage_reason].append(row.query)
    return [f"one stage, {reason}{_listed('in', numbers)}" for reason, numbers in by_reason.items()]


def _exceptions(rows: Sequence[QueryRow]) -> list[RenderableType]:
    lines = [f"query {row.query}: {difference}" for row in rows for difference in row.differences]
    return [*lines, *(f"query {row.query} failed: {row.error}" for row in rows if row.error)]


def _times(report: Report) -> str:
    total, mean = report.totals, report.totals.seconds_geometric_mean
    geometric = "" if mean is None else f", geometric mean {mean:.2f} s"
    return f"{total.queries} queries on {report.engine} in {total.seconds:.1f} s{geometric}"


def _listed(word: str, numbers: Sequence[int]) -> str:
    return f" ({word}: {', '.join(map(str, numbers))})" if numbers else ""


def _equal(row: QueryRow, name: str) -> bool | None:
    return row.equal_to_spark if name == "spark" else row.equal_to_duckdb


def _said(equal: bool | None) -> str:
    return {True: "yes", False: "NO", None: ""}[equal]
