"""The page of one or several queries, and the section of a query."""

import os
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from errno import EACCES, EISDIR, ENOTDIR
from itertools import pairwise
from pathlib import Path

from qoop.as_written.wording import with_remedy
from qoop.report.decisions import decision_list, switch_explanations
from qoop.report.plans import plan_blocks
from qoop.report.record import QueryRecord, read_journal
from qoop.report.stages import stages_chart
from qoop.report.timeline import share_change, share_chart
from qoop.run import wording
from yarn_plugin.files import PRIVATE_MODE
from yarn_plugin.quantities import count, plural, seconds
from yarn_plugin.report import Code, Details, KeyFigure, KeyFigures, Page, Section, Text, write
from yarn_plugin.report.markup import Block
from yarn_plugin.report.page import not_written
from yarn_plugin.report.table import Tone

MAX_EXPLAINED = 3
"""How many switches are explained at the top."""


def page(title: str, records: Mapping[str, QueryRecord]) -> Page:
    """A page with a section for each query; for a single query, its parts are the sections."""
    started = datetime.fromtimestamp(min((record.started for record in records.values()), default=0.0), UTC)
    names = [record.header.name for record in records.values()]
    subject = names[0] if len(names) == 1 else count(len(names), "query", "queries")
    subtitle = f"{subject}, {started:%Y-%m-%d %H:%M} UTC"
    if len(records) == 1:
        record = next(iter(records.values()))
        return Page(title, subtitle, query_sections(record), tuple(header_blocks(record)))
    return Page(title, subtitle, tuple(section(name, record) for name, record in records.items()))


def write_report(out: Path, journals: Mapping[str, Path], title: str = "Query report") -> None:
    """Write the page of queries, given the name and the journal of each; as these, only its owner can read it.

    Raises:
        NoRecordError: a journal is missing, or is not a query journal.
        ReportError: the page cannot be written.
    """
    write(page(title, {name: read_journal(path) for name, path in journals.items()}), out, PRIVATE_MODE)


def ensure_writable(out: Path) -> None:
    """Check that a report can be written here, and make its folder, before there is anything to report.

    Raises:
        ReportError: it cannot be written.
    """
    try:
        if out.is_dir():
            raise IsADirectoryError(EISDIR, os.strerror(EISDIR))
        out.parent.mkdir(parents=True, exist_ok=True)
        # Devices and pipes are written as they are; files are replaced.
        place = out if out.exists() and not out.is_file() else out.parent
        if not os.access(place, os.W_OK):
            raise PermissionError(EACCES, os.strerror(EACCES))
    except FileExistsError:
        raise not_written(out, NotADirectoryError(ENOTDIR, os.strerror(ENOTDIR))) from None
    except OSError as problem:
        raise not_written(out, problem) from None


def section(title: str, record: QueryRecord) -> Section:
    """Everything about one query."""
    return Section(title, (*header_blocks(record), *query_sections(record)))


def header_blocks(record: QueryRecord) -> list[Block]:
    """Key figures, warnings, the explanation of switches, and the text of the query."""
    lines: list[Block] = [KeyFigures(tuple(_figures(record)))]
    if record.header.cause is not None:
        lines.append(Text(f"Ran as written, in one stage: {with_remedy(record.header.cause)}.", "warning"))
    # The first cause is that of the header, if it has one.
    reasons = [wording.why(cause)[:300] for _, cause in record.as_written[record.header.cause is not None :]]
    lines += [Text(f"Ran as written: {reason}", "warning") for reason in reasons]
    lines += [Text(f"Lost contact with the arbiter: {reason}", "warning") for _, reason in record.arbiter_losses]
    explanations = switch_explanations(record)
    lines += [Text(sentence) for sentence in explanations[:MAX_EXPLAINED]]
    if len(explanations) > MAX_EXPLAINED:
        lines.append(
            Text(f"{count(len(explanations) - MAX_EXPLAINED, 'more switch', 'more switches')}: see Decisions.", "muted")
        )
    return [*lines, Details("Query text", (Code(record.header.text),))]


def query_sections(record: QueryRecord) -> tuple[Section, ...]:
    """Stages, decisions and plans, each under a heading."""
    stages = Section("Stages", (stages_chart(record), share_chart(record)))
    if not record.header.plans:
        return (stages,)
    decisions = Section("Decisions", (decision_list(record),))
    return (stages, decisions, Section("Plans", tuple(plan_blocks(record))))


def _figures(record: QueryRecord) -> list[KeyFigure]:
    finished = [attempt for attempt in record.attempts if attempt.outcome == "finished"]
    decisions = [timed.decision for timed in record.switches]
    tones: dict[str, Tone] = {"done": "plain", "failed": "bad", "unfinished": "warn"}
    ended = {"done": "from plans to result", "failed": "until it failed", "unfinished": "until the journal ends"}
    figures = [
        KeyFigure("Time", seconds(record.seconds), ended[record.status], tones[record.status]),
        *_estimate(record),
        KeyFigure("Stages run", str(len(finished)), f"{len({attempt.stage for attempt in finished})} different"),
    ]
    if record.header.plans:
        plans = record.plans_used
        reused = sum(len(decision.reused) for decision in decisions)
        unused = sum(len(decision.left_behind) for decision in decisions)
        figures += [
            KeyFigure("Candidate plans", str(len(record.header.plans)), count(record.join_trees, "join tree")),
            KeyFigure("Plan", " → ".join(_first_and_last(record)) or "none", count(len(plans), "plan") + " used"),
            KeyFigure("Switches", str(len(decisions)), f"in {count(len(record.decisions), 'decision')}"),
            KeyFigure("Outputs reused", str(reused), "after switches"),
            KeyFigure("Outputs unused", str(unused), "after switches"),
        ]
    return figures + _share_changes(record) + _failures(record)


def _estimate(record: QueryRecord) -> list[KeyFigure]:
    """What the first plan was expected to take, beside the time that the query took."""
    if not record.decisions:
        return []
    first = record.decisions[0].decision
    return [KeyFigure("Estimate", seconds(first.expected), f"of plan {first.plan}, before it began")]


def _share_changes(record: QueryRecord) -> list[KeyFigure]:
    """How often the share changed, and what caused the changes, as far as its feed names them."""
    shares = [share for _, share in record.shares]
    changes = [after for before, after in pairwise(shares) if share_change(before, after)]
    causes = Counter(kind.replace("-", " ") for share in changes for kind in share.why)
    detail = ", ".join(f"{kind} {many}×" if many > 1 else kind for kind, many in causes.items())
    return [KeyFigure("Share changes", str(len(changes)), detail)] if changes else []


def _first_and_last(record: QueryRecord) -> list[str]:
    """The plans at the start and at the end, once if they are the same."""
    plans = [str(timed.decision.plan) for timed in record.decisions]
    return list(dict.fromkeys((plans[0], plans[-1]))) if plans else []


def _failures(record: QueryRecord) -> list[KeyFigure]:
    """Counts of cancelled, failed, lost and repeated stages that are not 0."""
    outcomes = [attempt.outcome for attempt in record.attempts]
    again = sum(attempt.number > 1 for attempt in record.attempts)
    counts: tuple[tuple[str, int, str, Tone], ...] = (
        ("Cancelled", outcomes.count("cancelled"), "stage", "plain"),
        ("Failed", outcomes.count("failed"), "stage", "bad"),
        ("Lost", len(record.losses), "output", "bad"),
        ("Run again", again, "stage", "plain"),
    )
    return [KeyFigure(name, str(number), plural(number, noun), tone) for name, number, noun, tone in counts if number]
