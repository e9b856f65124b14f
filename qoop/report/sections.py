"""The section of a query in a page, and a page of queries."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

from qoop.report.decisions import decision_list, what_won
from qoop.report.plans import plan_blocks
from qoop.report.record import QueryRecord, read
from qoop.report.stages import stages_chart
from qoop.report.timeline import changed, share_chart
from qoop.run import wording
from yarn_plugin.quantities import count, seconds
from yarn_plugin.report import Code, Details, KeyFigure, KeyFigures, Page, Section, Text, write
from yarn_plugin.report.markup import Block
from yarn_plugin.report.table import Tone

MOST_TOLD = 3
"""How many switches are explained at the top."""


def page(title: str, records: Mapping[str, QueryRecord]) -> Page:
    """A page with a section for each query, by its name; where there is one, its parts are the sections."""
    began = datetime.fromtimestamp(min((record.began for record in records.values()), default=0.0), UTC)
    names = [record.opening.name for record in records.values()]
    whose = names[0] if len(names) == 1 else count(len(names), "query", "queries")
    subtitle = f"{whose}, {began:%Y-%m-%d %H:%M} UTC"
    if len(records) == 1:
        record = next(iter(records.values()))
        return Page(title, subtitle, parts(record), tuple(header_blocks(record)))
    return Page(title, subtitle, tuple(section(name, record) for name, record in records.items()))


def write_report(out: Path, journals: Mapping[str, Path], title: str = "Query report") -> None:
    """Write a page about queries, by their names, from their journals.

    Raises:
        NoRecordError: a journal is missing, or is not the record of a query.
        ReportError: the page cannot be written.
    """
    write(page(title, {name: read(path) for name, path in journals.items()}), out)


def section(title: str, record: QueryRecord) -> Section:
    """Everything about one query."""
    return Section(title, (*header_blocks(record), *parts(record)))


def header_blocks(record: QueryRecord) -> list[Block]:
    """The query, how it ended, and its figures."""
    lines: list[Block] = [KeyFigures(tuple(_figures(record)))]
    if record.opening.reason is not None:
        lines.append(Text(f"It ran in one piece: {record.opening.reason}.", "warning"))
    again = [wording.why(cause)[:300] for _, cause in record.as_written[_told(record) :]]
    lines += [Text(f"Run as written: {said}", "warning") for said in again]
    lines += [Text(f"The arbiter was away: {reason}", "warning") for _, reason in record.away]
    won = what_won(record)
    lines += [Text(sentence) for sentence in won[:MOST_TOLD]]
    if len(won) > MOST_TOLD:
        lines.append(Text(f"{len(won) - MOST_TOLD} more switches are among the decisions.", "muted"))
    return [*lines, Details("Query text", (Code(record.opening.text),))]


def _told(record: QueryRecord) -> int:
    """How many reasons to run as written the opening has told already."""
    return int(record.opening.reason is not None)


def parts(record: QueryRecord) -> tuple[Section, ...]:
    """Stages, decisions and plans, each under a heading."""
    stages = Section("Stages", (stages_chart(record), share_chart(record)))
    if not record.opening.plans:
        return (stages,)
    decisions = Section("Decisions", (decision_list(record),))
    return (stages, decisions, Section("Plans", tuple(plan_blocks(record))))


def _figures(record: QueryRecord) -> list[KeyFigure]:
    finished = [attempt for attempt in record.attempts if attempt.outcome == "finished"]
    decisions = [made.decision for made in record.switches]
    tones: dict[str, Tone] = {"done": "plain", "failed": "bad", "unfinished": "warn"}
    ended = {"done": "from plans to result", "failed": "then it failed", "unfinished": "then the record ends"}
    figures = [
        KeyFigure("Time", seconds(record.seconds), ended[record.status], tones[record.status]),
        KeyFigure("Stages run", str(len(finished)), f"{len({one.stage for one in finished})} different"),
    ]
    if record.opening.plans:
        plans = record.plans_in_force
        figures += [
            KeyFigure("Candidate plans", str(len(record.opening.plans)), count(record.join_trees, "join tree")),
            KeyFigure("Plan", " → ".join(map(str, _ends(plans))) or "none", count(len(plans), "plan") + " followed"),
            KeyFigure("Switches", str(len(decisions)), f"in {count(len(record.decisions), 'decision')}"),
            KeyFigure("Outputs reused", str(sum(len(decision.reused) for decision in decisions)), "after switches"),
            KeyFigure("Left behind", str(sum(len(decision.left_behind) for decision in decisions)), "by switches"),
        ]
    return figures + _share_changes(record) + _mishaps(record)


def _share_changes(record: QueryRecord) -> list[KeyFigure]:
    """How often the share changed, and what happened then, as far as its feed names it."""
    shares = [share for _, share in record.shares]
    changes = [after for before, after in pairwise(shares) if changed(before, after)]
    happened = Counter(kind.replace("-", " ") for share in changes for kind in share.why)
    said = ", ".join(f"{kind} {many}×" if many > 1 else kind for kind, many in happened.items())
    return [KeyFigure("Share changes", str(len(changes)), said)] if changes else []


def _ends(plans: Sequence[int]) -> Sequence[int]:
    return [plans[0], plans[-1]] if len(plans) > 1 else plans


def _mishaps(record: QueryRecord) -> list[KeyFigure]:
    """What went wrong, where anything did."""
    outcomes = [attempt.outcome for attempt in record.attempts]
    again = sum(attempt.number > 1 for attempt in record.attempts)
    counts: tuple[tuple[str, int, str, Tone], ...] = (
        ("Cancelled", outcomes.count("cancelled"), "stages", "plain"),
        ("Failed", outcomes.count("failed"), "stages", "bad"),
        ("Lost", len(record.losses), "outputs", "bad"),
        ("Run again", again, "stages", "plain"),
    )
    return [KeyFigure(name, str(many), of, tone) for name, many, of, tone in counts if many]
