"""Terminal output of `tpcds run` and `tpcds queries`."""

from collections import defaultdict
from collections.abc import Sequence

from rich.console import RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from tpcds.queries import Shape
from tpcds.results import PLAN_COUNTS, QueryRow, Report
from yarn_plugin import console
from yarn_plugin.quantities import count


def progress() -> Progress:
    """A progress bar on stderr, removed at the end; without a terminal, see `print_progress`."""
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    return Progress(*columns, console=console.err, transient=True, disable=not console.err.is_terminal)


def print_progress(row: QueryRow, total: int, number: int) -> None:
    """Print a line for a finished query where stderr is not a terminal and shows no progress bar."""
    if not console.err.is_terminal:
        result = row.error or ("differs from a reference" if row.is_wrong else f"{row.seconds or 0:.1f} s")
        console.err.print(f"{number} of {total}: query {row.query}: {result}", soft_wrap=True)


def query_list(shapes: Sequence[Shape]) -> Table:
    """A row per query: its joins and its tables."""
    rows = [(shape.query, shape.joins, shape.max_relations, ", ".join(shape.tables)) for shape in shapes]
    return console.table(None, ("#query", "#joins", "#widest join", "tables"), rows)


def query_rows(rows: Sequence[QueryRow]) -> Table:
    """A row per query; columns without values in this run are omitted."""
    plans = [name for name in PLAN_COUNTS if any(getattr(row, name) is not None for row in rows)]
    compared = [name for name in ("spark", "duckdb") if any(_equal(row, name) is not None for row in rows)]
    columns = ("#query", "#rows", "#seconds", *(f"= {name}" for name in compared))
    columns += tuple(f"#{PLAN_COUNTS[name]}" for name in plans)
    lines = []
    for row in rows:
        cells: list[object] = [row.query, row.rows, None if row.seconds is None else f"{row.seconds:.2f}"]
        cells += [_yes_or_no(_equal(row, name)) for name in compared]
        cells += [getattr(row, name) for name in plans]
        lines.append((*cells, row.error or ("only NULL or 0 (weak check)" if row.rows and row.blank else "")))
    return console.table(None, (*columns, ""), lines)


def summary(report: Report) -> list[RenderableType]:
    """The run in a few lines: times, equality, plans, and each failure or difference."""
    total = report.totals
    lines: list[RenderableType] = [_times(report)]
    if total.compared_with_spark:
        lines.append(f"equal to Spark: {total.equal_to_spark} of {total.compared_with_spark}")
    if total.compared_with_duckdb:
        lines.append(f"equal to DuckDB: {total.equal_to_duckdb} of {total.compared_with_duckdb}")
    lines.append(f"answers with rows: {total.non_empty} of {total.queries}" + _listed("empty", total.empty))
    if blank := total.only_null_or_zero:
        lines.append(f"answers of only NULL or 0, a weak check: {len(blank)}" + _listed("queries", blank))
    if total.switches is not None:
        lines.append(f"queries with several join trees to choose from: {total.several_join_trees or 0}")
        names = ("switches", "reused", "cancelled", "unused")
        lines.append(", ".join(f"{PLAN_COUNTS[name]} {getattr(total, name)}" for name in names))
    return lines + _one_stage(report.queries) + _problems(report.queries)


def _one_stage(rows: Sequence[QueryRow]) -> list[RenderableType]:
    by_reason: dict[str, list[int]] = defaultdict(list)
    for row in rows:
        if row.one_stage_reason:
            by_reason[row.one_stage_reason].append(row.query)
    return [f"run as one stage, {reason}{_listed('queries', numbers)}" for reason, numbers in by_reason.items()]


def _problems(rows: Sequence[QueryRow]) -> list[RenderableType]:
    lines = [f"query {row.query}: {difference}" for row in rows for difference in row.differences]
    return [*lines, *(f"query {row.query} failed: {row.error}" for row in rows if row.error)]


def _times(report: Report) -> str:
    total, mean = report.totals, report.totals.seconds_geometric_mean
    geometric = "" if mean is None else f", geometric mean {mean:.2f} s"
    return f"{count(total.queries, 'query', 'queries')} on {report.engine} in {total.seconds:.1f} s{geometric}"


def _listed(word: str, numbers: Sequence[int]) -> str:
    return f" ({word}: {', '.join(map(str, numbers))})" if numbers else ""


def _equal(row: QueryRow, name: str) -> bool | None:
    return row.equal_to_spark if name == "spark" else row.equal_to_duckdb


def _yes_or_no(equal: bool | None) -> str:
    return {True: "yes", False: "NO", None: ""}[equal]
