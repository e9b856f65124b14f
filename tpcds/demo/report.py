"""The page of the demo: what happened on the cluster and to query A, and the effect of switching.

`write_report(folder / "demo.json", folder / "report.html")`; `tpcds.demo.record` describes the files.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from qoop.report import QueryRecord, decision_list, plan_blocks, read_journal, switch_explanations
from qoop.run.wording import verdict
from tpcds.demo.charts import ScenarioRecord, scenario_section
from tpcds.demo.effects import effects
from tpcds.demo.record import DemoRecord, Environment, Run, Scenario, read_samples
from yarn_plugin.quantities import count, number, seconds
from yarn_plugin.report import (
    Badge,
    BarChart,
    Column,
    Details,
    KeyFigure,
    KeyFigures,
    Page,
    Section,
    Table,
    Text,
    write,
)
from yarn_plugin.report.markup import Block


def write_report(demo: Path, out: Path) -> None:
    """Write the page of a demo.

    Raises:
        DemoReportError: the demo's record or its samples cannot be read.
        NoRecordError: a journal of the demo cannot be read.
        ReportError: the page cannot be written.
    """
    write(page(DemoRecord.read(demo), demo.parent), out)


def page(demo: DemoRecord, folder: Path) -> Page:
    """The page of a demo whose files are in `folder`."""
    recorded = {name: _recorded(name, scenario, folder) for name, scenario in demo.scenarios()}
    main = recorded["with switching"]
    a = main.scenario.runs[0]
    record = main.journals.get("A")
    has_kept = record is not None and not record.switches
    sections = [
        Section("Why A kept its plan" if has_kept else "Why A switched plans", tuple(_reasons(main))),
        scenario_section("What happened", main),
        Section("The effect of switching", tuple(_comparison(demo, recorded))),
        *_about_a(main),
        *(
            scenario_section(f"For comparison: A {name}", other)
            for name, other in recorded.items()
            if other is not main
        ),
        Section("Environment", tuple(_environment(demo))),
    ]
    submitted = datetime.fromtimestamp(a.submitted_at, UTC)
    return Page(
        f"A query that can switch plans while it runs: TPC-DS query {a.query}",
        f"TPC-DS at scale {demo.scale:g} on a YARN cluster of {count(demo.environment.nodes, 'node')}, "
        f"{submitted:%Y-%m-%d %H:%M} UTC",
        tuple(sections),
        tuple(_top(demo, main)),
    )


def _recorded(name: str, scenario: Scenario, folder: Path) -> ScenarioRecord:
    samples = tuple(read_samples(folder / scenario.samples)) if scenario.samples else ()
    journals = {run.name: read_journal(folder / run.journal) for run in scenario.runs if run.journal}
    return ScenarioRecord(name, scenario, samples, journals)


def _top(demo: DemoRecord, main: ScenarioRecord) -> list[Block]:
    record = main.journals.get("A")
    blocks: list[Block] = [Text(_summary(main), "lead"), KeyFigures(tuple(_figures(demo, record)))]
    blocks.append(Text(effects(demo.times, len(record.switches) if record is not None else None)))
    wrong = [f"query {run.query} ({name})" for name, run in _runs(demo) if run.equal_to_duckdb is False]
    if wrong:
        blocks.append(Text(f"Not equal to DuckDB: {', '.join(wrong)}.", "warning"))
    return blocks


def _reasons(main: ScenarioRecord) -> list[Block]:
    record = main.journals.get("A")
    if record is None:
        return [Text("A recorded no events: it has no journal.", "warning")]
    if not record.switches:
        last = f" At its last decision: {verdict(record.decisions[-1].decision)}." if record.decisions else ""
        return [Text(f"A did not switch plans in this run.{last}")]
    return [Text(sentence) for sentence in switch_explanations(record, main.axis)]


def _summary(main: ScenarioRecord) -> str:
    """What happened to A, in a few sentences."""
    a, *others = main.scenario.runs
    sentences = [f"Query {a.query} (A) started alone on the cluster."]
    for other in others:
        after = seconds(other.submitted_at - a.submitted_at)
        sentences.append(f"{after} later, query {other.query} ({other.name}) was submitted.")
    record = main.journals.get("A")
    if record and len(record.shares) > 1:
        slots = " → ".join(f"{share.slots:g}" for _, share in record.shares)
        sentences.append(f"The arbiter notified A of each change of its share: {slots} slots.")
    if record and record.switches:
        plans = " → ".join(str(decided.decision.plan) for decided in (record.decisions[0], *record.switches))
        sentences.append(f"A switched plans while running: {plans}.")
    return " ".join([*sentences, f"Its answer was complete after {seconds(a.seconds)}."])


def _figures(demo: DemoRecord, record: QueryRecord | None) -> list[KeyFigure]:
    equal = [run.equal_to_duckdb for _, run in _runs(demo)]
    compared = [is_equal for is_equal in equal if is_equal is not None]
    equal_count = sum(compared)
    times = demo.times
    once = [] if times.once is None else [KeyFigure("A planned once", seconds(times.once), "alongside B")]
    figures = [
        KeyFigure("A with switching", seconds(times.switching), "alongside B", "accent"),
        *once,
        KeyFigure("A as written", seconds(times.written), "alongside B"),
        KeyFigure("A without B", seconds(demo.alone.runs[0].seconds), "alone on the cluster"),
    ]
    if record:
        reused = sum(len(decided.decision.reused) for decided in record.switches)
        figures.append(KeyFigure("Switches of A", str(len(record.switches)), f"{count(reused, 'stage output')} reused"))
    equality = f"{equal_count} of {len(compared)}" if compared else "not compared"
    return [
        *figures,
        KeyFigure("Equal to DuckDB", equality, "answers", "good" if all(compared) and compared else "bad"),
    ]


def _runs(demo: DemoRecord) -> list[tuple[str, Run]]:
    return [(name, run) for name, scenario in demo.scenarios() for run in scenario.runs]


def _comparison(demo: DemoRecord, recorded: dict[str, ScenarioRecord]) -> list[Block]:
    first = [
        (name if scenario is demo.alone else f"{name}, alongside B", scenario.runs[0])
        for name, scenario in demo.scenarios()
    ]
    bars = BarChart(
        f"Execution time of query {first[0][1].query} (A)",
        "s",
        tuple((name, run.seconds) for name, run in first),
        colours=(4, *(None for _ in first[1:])),
        digits=1,
    )
    columns = (
        Column("query"),
        Column("scenario"),
        Column("seconds", numeric=True, digits=1),
        Column("submission to end, s", numeric=True, digits=1),
        Column("switches", numeric=True),
        Column("stages run", numeric=True),
        Column("reused", numeric=True),
        Column("cancelled", numeric=True),
        Column("rows", numeric=True),
        Column("equal to DuckDB"),
    )
    rows = tuple(_row(entry, run) for entry in recorded.values() for run in entry.scenario.runs)
    wrong = [f"{run.name} {name}: {line}" for name, run in _runs(demo) for line in run.differences]
    return [bars, Table(columns, rows), *map(Text, wrong)]


def _row(recorded: ScenarioRecord, run: Run) -> tuple[str | float | Badge | None, ...]:
    record = recorded.journals.get(run.name)
    attempts = record.attempts if record else []
    return (
        f"{run.name} (query {run.query})",
        recorded.name,
        run.seconds,
        run.ended_at - run.submitted_at,
        len(record.switches) if record else None,
        sum(attempt.outcome == "finished" for attempt in attempts) if record else None,
        sum(len(decided.decision.reused) for decided in record.switches) if record else None,
        sum(attempt.outcome == "cancelled" for attempt in attempts) if record else None,
        run.rows,
        _equal(run.equal_to_duckdb),
    )


def _equal(equal: bool | None) -> Badge:
    if equal is None:
        return Badge("not compared", "warn")
    return Badge("equal", "good") if equal else Badge("NOT equal", "bad")


def _about_a(main: ScenarioRecord) -> list[Section]:
    record = main.journals.get("A")
    if record is None:
        return []
    decisions: list[Block] = [decision_list(record, main.axis)]
    for name, other in main.journals.items():
        if name != "A" and other.decisions:
            decisions.append(Details(f"Decisions of {name}", (decision_list(other, main.axis),)))
    return [Section("Decisions of A", tuple(decisions)), Section("Plans of A", tuple(plan_blocks(record)))]


def _environment(demo: DemoRecord) -> list[Block]:
    facts = _facts(demo.environment)
    rows: Sequence[tuple[str, str]] = [*facts, *demo.environment.versions.items()]
    notes = [Text(note) for note in demo.notes]
    return [Table((Column(""), Column("")), tuple(rows)), *notes]


def _facts(on: Environment) -> list[tuple[str, str]]:
    each = f"{on.node_vcores} vcores, {number(on.node_memory_mb)} MiB each"
    per_node = "not limited" if on.cpu_per_node is None else f"{on.cpu_per_node:g} cores per node"
    return [
        ("machine", f"{count(on.machine_cores, 'core')}, {number(on.machine_memory_mb)} MiB"),
        ("nodes", f"{on.nodes}, {each}"),
        ("CPU limit", f"{per_node}: {on.quotas}"),
        ("executors", on.executor),
    ]
