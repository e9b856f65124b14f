"""The page of the demo: what happened on the cluster and to query A, and what switching was worth.

`write_report(folder / "story.json", folder / "report.html")`; what the story's files hold: `tpcds.demo.record`.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from qoop.report import QueryRecord, decision_list, plan_blocks, what_won
from qoop.report import read as read_journal
from qoop.run.wording import verdict
from tpcds.demo.charts import SceneRecord, scene_section
from tpcds.demo.record import Environment, Run, Scene, Story, read_samples
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
from yarn_plugin.report.numbers import count, number, seconds


def write_report(story: Path, out: Path) -> None:
    """Write the page of a story.

    Raises:
        DemoReportError: the story or its samples cannot be read.
        NoRecordError: a journal that the story names cannot be read.
        ReportError: the page cannot be written.
    """
    write(page(Story.read(story), story.parent), out)


def page(story: Story, folder: Path) -> Page:
    """The page of a story whose files are in `folder`."""
    staged = {name: _stage(name, scene, folder) for name, scene in story.scenes()}
    main = staged["with switching"]
    a = main.scene.runs[0]
    sections = [
        Section("What made the new plan win", tuple(_won(main))),
        scene_section("What happened", main),
        Section("What switching was worth", tuple(_comparison(story, staged))),
        *_about_a(main),
        *(scene_section(f"For comparison: A {name}", one) for name, one in staged.items() if one is not main),
        Section("What it ran on", tuple(_environment(story))),
    ]
    began = datetime.fromtimestamp(a.submitted_at, UTC)
    return Page(
        f"A query that changes its plan when its share changes: TPC-DS query {a.query}",
        f"TPC-DS at scale {story.scale:g} on a YARN cluster of {count(story.environment.nodes, 'node')}, "
        f"{began:%Y-%m-%d %H:%M} UTC",
        tuple(sections),
        tuple(_top(story, main)),
    )


def _stage(name: str, scene: Scene, folder: Path) -> SceneRecord:
    samples = tuple(read_samples(folder / scene.samples)) if scene.samples else ()
    journals = {run.name: read_journal(folder / run.journal) for run in scene.runs if run.journal}
    return SceneRecord(name, scene, samples, journals)


def _top(story: Story, main: SceneRecord) -> list[Block]:
    a, record = main.scene.runs[0], main.journals.get("A")
    blocks: list[Block] = [Text(_told(main), "lead"), KeyFigures(tuple(_figures(story, record)))]
    blocks.append(Text(_verdict(a, story.fixed.runs[0])))
    wrong = [f"query {run.query} ({name})" for name, run in _runs(story) if run.equal_to_duckdb is False]
    if wrong:
        blocks.append(Text(f"Not equal to DuckDB: {', '.join(wrong)}.", "warning"))
    return blocks


def _won(main: SceneRecord) -> list[Block]:
    record = main.journals.get("A")
    if record is None:
        return [Text("A left no journal.", "warning")]
    if not record.switches:
        kept = f" At its last decision: {verdict(record.decisions[-1].decision)}." if record.decisions else ""
        return [Text(f"Nothing: A kept its plan in this run.{kept}", "warning")]
    return [Text(sentence) for sentence in what_won(record, main.axis)]


def _told(main: SceneRecord) -> str:
    """The story in a few sentences, from what was recorded."""
    a, *others = main.scene.runs
    said = [f"Query {a.query} (A) began alone on the cluster."]
    for other in others:
        after = seconds(other.submitted_at - a.submitted_at)
        said.append(f"{after} later query {other.query} ({other.name}) was submitted.")
    record = main.journals.get("A")
    if record and len(record.shares) > 1:
        slots = " → ".join(f"{share.slots:g}" for _, share in record.shares)
        said.append(f"A was told its share each time it changed: {slots} slots.")
    if record and record.switches:
        plans = " → ".join(str(made.decision.plan) for made in (record.decisions[0], *record.switches))
        said.append(f"It went from plan to plan in mid-query: {plans}.")
    return " ".join([*said, f"It had its answer after {seconds(a.seconds)} of work."])


def _figures(story: Story, record: QueryRecord | None) -> list[KeyFigure]:
    equal = [run.equal_to_duckdb for _, run in _runs(story)]
    compared = [one for one in equal if one is not None]
    right = sum(compared)
    a, fixed, alone = (scene.runs[0].seconds for _, scene in story.scenes())
    figures = [
        KeyFigure("A with switching", seconds(a), "beside B", "accent"),
        KeyFigure("A, switching off", seconds(fixed), "beside B"),
        KeyFigure("A without B", seconds(alone), "the cluster to itself"),
    ]
    if record:
        reused = sum(len(made.decision.reused) for made in record.switches)
        figures.append(KeyFigure("Switches of A", str(len(record.switches)), f"{count(reused, 'output')} reused"))
    whole = f"{right} of {len(compared)}" if compared else "not compared"
    return [*figures, KeyFigure("Equal to DuckDB", whole, "answers", "good" if all(compared) and compared else "bad")]


def _verdict(on: Run, off: Run) -> str:
    """Which was faster, said as it is."""
    saved = off.seconds - on.seconds
    if abs(saved) < 0.02 * off.seconds:
        return "With switching A took as long as without it."
    more = f"{seconds(abs(saved))} ({number(100 * abs(saved) / off.seconds, 0)} %)"
    return f"Switching saved {more}." if saved > 0 else f"In this run switching cost {more}: A was slower with it."


def _runs(story: Story) -> list[tuple[str, Run]]:
    return [(name, run) for name, scene in story.scenes() for run in scene.runs]


def _comparison(story: Story, staged: dict[str, SceneRecord]) -> list[Block]:
    names = {"with switching": "with switching, beside B", "switching off": "switching off, beside B"}
    first = [(names.get(name, name), scene.runs[0]) for name, scene in story.scenes()]
    bars = BarChart(
        f"Query {first[0][1].query} (A), from its text to its last row",
        "s",
        tuple((name, run.seconds) for name, run in first),
        colours=(4, None, None),
        digits=1,
    )
    columns = (
        Column("query"),
        Column("scene"),
        Column("seconds", figures=True, digits=1),
        Column("submitted to ended, s", figures=True, digits=1),
        Column("switches", figures=True),
        Column("stages run", figures=True),
        Column("reused", figures=True),
        Column("cancelled", figures=True),
        Column("rows", figures=True),
        Column("equal to DuckDB"),
    )
    rows = tuple(_row(one, run) for one in staged.values() for run in one.scene.runs)
    wrong = [f"{run.name} {name}: {line}" for name, run in _runs(story) for line in run.differences]
    return [bars, Table(columns, rows), *map(Text, wrong)]


def _row(staged: SceneRecord, run: Run) -> tuple[str | float | Badge | None, ...]:
    record = staged.journals.get(run.name)
    attempts = record.attempts if record else []
    return (
        f"{run.name} (query {run.query})",
        staged.name,
        run.seconds,
        run.ended_at - run.submitted_at,
        len(record.switches) if record else None,
        sum(attempt.outcome == "finished" for attempt in attempts) if record else None,
        sum(len(made.decision.reused) for made in record.switches) if record else None,
        sum(attempt.outcome == "cancelled" for attempt in attempts) if record else None,
        run.rows,
        _equal(run.equal_to_duckdb),
    )


def _equal(equal: bool | None) -> Badge:
    if equal is None:
        return Badge("not compared", "warn")
    return Badge("equal", "good") if equal else Badge("NOT equal", "bad")


def _about_a(main: SceneRecord) -> list[Section]:
    record = main.journals.get("A")
    if record is None:
        return []
    decisions: list[Block] = [decision_list(record, main.axis)]
    for name, other in main.journals.items():
        if name != "A" and other.decisions:
            decisions.append(Details(f"Decisions of {name}", (decision_list(other, main.axis),)))
    return [Section("Decisions of A", tuple(decisions)), Section("Plans of A", tuple(plan_blocks(record)))]


def _environment(story: Story) -> list[Block]:
    facts = _facts(story.environment)
    rows: Sequence[tuple[str, str]] = [*facts, *story.environment.versions.items()]
    notes = [Text(note) for note in story.notes]
    return [Table((Column(""), Column("")), tuple(rows)), *notes]


def _facts(on: Environment) -> list[tuple[str, str]]:
    each = f"{on.node_vcores} vcores, {number(on.node_memory_mb)} MB each"
    per_node = "not limited" if on.cpu_per_node is None else f"{on.cpu_per_node:g} cores a node"
    return [
        ("machine", f"{count(on.machine_cores, 'core')}, {number(on.machine_memory_mb)} MB"),
        ("nodes", f"{on.nodes}, {each}"),
        ("processor time", f"{per_node}: {on.quotas}"),
        ("executors", on.executor),
    ]
