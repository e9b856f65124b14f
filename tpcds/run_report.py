"""The page of a run (`tpcds run --html`): times, switches, and whether the answers are equal."""

from collections import defaultdict
from collections.abc import Sequence

from tpcds.results import PLAN_COUNTS, QueryRow, Report, Totals
from yarn_plugin.quantities import count, number, plural, seconds
from yarn_plugin.report import (
    Badge,
    Column,
    ColumnChart,
    ColumnSeries,
    Distribution,
    KeyFigure,
    KeyFigures,
    Meter,
    Page,
    Sample,
    Section,
    Table,
    Text,
)
from yarn_plugin.report.markup import Block
from yarn_plugin.report.table import Cell, Tone

STAGE_OUTCOMES = ("reused", "cancelled", "unused")


def page(report: Report) -> Page:
    """The page of a run's results."""
    scale = "" if report.scale is None else f" at scale {report.scale:g}"
    master = "" if report.engine == "duckdb" else f", master {report.master}"
    forced = ", switch forced after every stage" if report.switch_every_stage else ""
    repeated = f", median of {report.repeat} runs" if report.repeat > 1 else ""
    sections = [
        Section("Times", tuple(_times(report))),
        *_switching(report),
        Section("Queries", (_table(report),)),
        *_problems(report),
        Section("Setup", (_setup(report),)),
    ]
    return Page(
        f"TPC-DS on {report.engine}: {count(len(report.queries), 'query', 'queries')}",
        f"Data{scale}{master}{forced}{repeated}",
        tuple(sections),
        (KeyFigures(tuple(_figures(report.totals))),),
    )


def _figures(total: Totals) -> list[KeyFigure]:
    figures = [
        KeyFigure("Total time", seconds(total.seconds), f"{count(total.queries, 'query', 'queries')}"),
        KeyFigure("Geometric mean", seconds(total.seconds_geometric_mean), "per query"),
    ]
    compared = (
        ("Equal to Spark", total.equal_to_spark, total.compared_with_spark),
        ("Equal to DuckDB", total.equal_to_duckdb, total.compared_with_duckdb),
    )
    for name, equal, of in compared:
        if of:
            figures.append(KeyFigure(name, f"{equal} of {of}", "answers", _tone(equal == of)))
    figures.append(KeyFigure("With rows", f"{total.non_empty} of {total.queries}", "answers"))
    if total.failed:
        figures.append(
            KeyFigure("Failed", str(len(total.failed)), plural(len(total.failed), "query", "queries"), "bad")
        )
    if total.switches is not None:
        reused = f"{count(total.reused or 0, 'stage output')} reused"
        trees = total.several_join_trees or 0
        figures.append(KeyFigure("Several join trees", str(trees), plural(trees, "query", "queries")))
        figures.append(KeyFigure("Switches", number(total.switches), reused))
    return figures


def _tone(good: bool) -> Tone:
    return "good" if good else "bad"


def _times(report: Report) -> list[Block]:
    names = tuple(str(row.query) for row in report.queries)
    times = tuple(row.seconds for row in report.queries)
    title = f"Time per query on {report.engine}"
    blocks: list[Block] = [
        ColumnChart(title, "seconds", names, (ColumnSeries("seconds", times),), x_label="query", digits=2)
    ]
    known = tuple(time for time in times if time is not None)
    if len(known) >= 10:
        blocks.append(Distribution("Distribution of query times", "seconds", (Sample(report.engine, known),)))
    return blocks


def _switching(report: Report) -> list[Section]:
    rows = [row for row in report.queries if row.switches is not None]
    if not rows:
        return []
    names = tuple(str(row.query) for row in rows)
    switches = ColumnSeries("switches", tuple(row.switches for row in rows))
    outcomes = tuple(
        ColumnSeries(PLAN_COUNTS[name], tuple(getattr(row, name) for row in rows), place)
        for place, name in enumerate(STAGE_OUTCOMES, 2)
    )
    return [
        Section(
            "Switches",
            (
                ColumnChart("Switches per query", "switches", names, (switches,), x_label="query", digits=0),
                ColumnChart(
                    "Stages reused, cancelled and unused after switches",
                    "stages",
                    names,
                    outcomes,
                    x_label="query",
                    stacked=True,
                    digits=0,
                ),
            ),
        )
    ]


def _table(report: Report) -> Table:
    compared = [name for name in ("spark", "duckdb") if name in report.compared_with]
    plans = [name for name in PLAN_COUNTS if any(getattr(row, name) is not None for row in report.queries)]
    columns = (
        Column("query", numeric=True),
        Column("seconds", numeric=True),
        Column("rows", numeric=True),
        *(Column(f"equal to {NAMES[name]}") for name in compared),
        *(Column(PLAN_COUNTS[name], numeric=True) for name in plans),
        Column("remarks"),
    )
    longest = max((row.seconds or 0.0 for row in report.queries), default=0.0)
    rows = (_row(row, compared, plans, longest) for row in report.queries)
    return Table(columns, tuple(rows), note="Click a column's name to sort by it.")


NAMES = {"spark": "Spark", "duckdb": "DuckDB"}


def _row(row: QueryRow, compared: Sequence[str], plans: Sequence[str], longest: float) -> tuple[Cell, ...]:
    time = None if row.seconds is None else Meter(row.seconds, longest, f"{row.seconds:.2f}")
    equal = (_equal(row.equal_to_spark if name == "spark" else row.equal_to_duckdb) for name in compared)
    return (row.query, time, row.rows, *equal, *(getattr(row, name) for name in plans), _remarks(row))


def _equal(equal: bool | None) -> Badge | None:
    if equal is None:
        return None
    return Badge("equal", "good") if equal else Badge("NOT equal", "bad")


def _remarks(row: QueryRow) -> str:
    remarks = [f"failed: {row.error}"] if row.error else []
    if row.rows == 0:
        remarks.append("no rows")
    if row.rows and row.blank:
        remarks.append("only NULL or 0 (weak check)")
    if row.one_stage_reason:
        remarks.append(f"one stage: {row.one_stage_reason}")
    return "; ".join(remarks)


def _problems(report: Report) -> list[Section]:
    """Failures and differences, and the queries that were not split into stages."""
    sections = []
    wrong = [Text(f"Query {row.query} failed: {row.error}", "warning") for row in report.queries if row.error]
    wrong += [Text(f"Query {row.query}: {line}") for row in report.queries for line in row.differences]
    if wrong:
        sections.append(Section("Failures and differences", tuple(wrong)))
    by_reason: dict[str, list[int]] = defaultdict(list)
    for row in report.queries:
        if row.one_stage_reason:
            by_reason[row.one_stage_reason].append(row.query)
    if by_reason:
        rows = tuple((len(queries), ", ".join(map(str, queries)), reason) for reason, queries in by_reason.items())
        columns = (Column("count", numeric=True), Column("queries"), Column("reason"))
        sections.append(Section("Queries run as one stage", (Table(columns, rows),)))
    return sections


def _setup(report: Report) -> Table:
    rows = [
        ("engine", report.engine),
        ("compared with", ", ".join(report.compared_with) or "nothing"),
        *([] if report.engine == "duckdb" else [("master", report.master)]),
        ("scale", "unknown" if report.scale is None else f"{report.scale:g}"),
        ("runs per query", str(report.repeat)),
        *report.confs.items(),
    ]
    return Table((Column(""), Column("")), tuple(rows))
