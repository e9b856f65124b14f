"""The cell magic `%%qoop` of notebooks: `%load_ext qoop`, then a cell of SQL that is replanned, with its progress.

Needs IPython, which a notebook has.
"""

import argparse
import html
import shlex
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from rich.console import Console

from qoop.api import Answer, collect
from qoop.errors import QoopError
from qoop.options import Options
from qoop.report import NoRecordError, page, read_journal
from qoop.run.progress import ProgressLines
from yarn_plugin.quantities import count
from yarn_plugin.report.page import render

REFRESH_S = 0.3
"""Seconds between updates of a cell's progress."""

MAX_LINES = 12
"""Lines of progress that a cell shows while its query runs."""

ROWS = 100
"""Rows that a cell shows, unless it asks for others."""


class Shown:
    """What a cell shows: lines of progress while the query runs, then rows, decisions and the plan. Thread-safe.

    Args:
        update: shows HTML in the cell, in place of the last.
    """

    def __init__(self, update: Callable[[str], None]) -> None:
        self._update, self._lock = update, threading.Lock()
        self._lines: list[str] = []
        self._before = ""

    def write(self, text: str) -> int:
        """Take lines of progress."""
        with self._lock:
            self._lines += text.splitlines()
        return len(text)

    def flush(self) -> None:
        """Nothing is kept back."""

    def progress(self, tasks: str) -> None:
        """Show the latest lines, if there is anything new."""
        with self._lock:
            lines = [*self._lines[-MAX_LINES:], *([tasks] if tasks else [])]
        text = "\n".join(lines)
        if text != self._before:
            self._before = text
            self._update(f"<pre>{html.escape(text)}</pre>")

    def answer(self, answer: Answer, rows: int, report: str) -> None:
        """Show the rows, and below them, folded, how they were made."""
        with self._lock:
            lines = html.escape("\n".join(self._lines))
        first = f"only the first {count(rows, 'row')} shown" if rows > 1 else "only the first row is shown"
        more = f"<p>{first}; --rows N shows more</p>" if len(answer.rows) > rows else ""
        how = f"<details><summary>{html.escape(_summary(answer))}</summary><pre>{lines}</pre>{report}</details>"
        self._update(f"{table(answer, rows)}{more}{how}")


def table(answer: Answer, rows: int) -> str:
    """The first rows as a table in HTML."""
    head = "".join(f"<th>{html.escape(name)}</th>" for name, _ in answer.columns)
    body = "".join(
        f"<tr>{''.join(f'<td>{html.escape(_text(value))}</td>' for value in row)}</tr>" for row in answer.rows[:rows]
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _text(value: object) -> str:
    return "NULL" if value is None else str(value)


def _summary(answer: Answer) -> str:
    outcome = answer.outcome
    if outcome.one_stage_reason is not None:
        return f"as written, in {outcome.seconds:.1f} s: {outcome.one_stage_reason}"
    switches = count(outcome.counts.switches, "plan switch", "plan switches")
    return f"{count(outcome.counts.stages, 'stage')}, {switches}, in {outcome.seconds:.1f} s"


def run(spark: SparkSession, text: str, shown: Shown, options: Options, rows: int = ROWS) -> Answer:
    """Run the text of a cell, and show its progress and its answer. Ctrl-C ("interrupt") cancels the query."""
    lines = ProgressLines(Console(file=shown, width=1_000_000, emoji=False, highlight=False))  # type: ignore[arg-type]
    ended = threading.Event()
    tracker = spark.sparkContext.statusTracker()

    def poll() -> None:
        while not ended.wait(REFRESH_S):
            shown.progress(_tasks(tracker))

    thread = threading.Thread(target=poll, name="qoop-progress", daemon=True)
    with tempfile.TemporaryDirectory(prefix="qoop-cell-") as folder:
        journal = Path(folder, "journal")
        thread.start()
        try:
            told = replace(options, journal=journal, watch=lines.show, warn=lines.warn)
            answer = collect(spark, text, told, rows + 1)
        finally:
            ended.set()
            thread.join()
            shown.progress("")
        lines.summary(answer.outcome)
        shown.answer(answer, rows, report_of(journal))
    return answer


def _tasks(tracker: Any) -> str:
    """How many tasks of the running stages of Spark have ended."""
    try:
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    except Exception:  # noqa: BLE001 - Spark has stopped, or does not answer now: the query says so
        return ""
    known = [stage for stage in stages if stage is not None]
    done, every = sum(one.numCompletedTasks for one in known), sum(one.numTasks for one in known)
    return f"tasks: {done} of {every}" if every else ""


def report_of(journal: Path) -> str:
    """The report of a query, with its plan as a picture, in HTML; empty if it was not planned."""
    try:
        record = read_journal(journal)
    except NoRecordError:
        return ""
    if not record.header.plans:
        return ""
    document = html.escape(render(page("How it ran", {"cell": record})))
    # A document of its own: its styles are not the notebook's.
    return f'<iframe srcdoc="{document}" style="width: 100%; height: 40em; border: 0"></iframe>'


def parse(line: str) -> argparse.Namespace:
    """The options in the line of the magic.

    Raises:
        QoopError: one is wrong.
    """
    parser = argparse.ArgumentParser("%%qoop", add_help=False, exit_on_error=False)
    parser.add_argument("--plan", choices=("auto", "always", "never"))
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--into")
    try:
        given, rest = parser.parse_known_args(shlex.split(line))
    except (argparse.ArgumentError, ValueError) as problem:
        raise QoopError(f"%%qoop: {problem}") from None
    if rest:
        raise QoopError(f"%%qoop {rest[0]!r}: must be --plan auto|always|never, --rows N or --into NAME")
    if given.rows < 1:
        raise QoopError(f"%%qoop --rows {given.rows}: must be at least 1")
    return given


def load(shell: Any) -> None:
    """Make `%%qoop` known to an IPython shell."""
    shell.register_magic_function(lambda line, cell: magic(shell, line, cell), "cell", "qoop")


def magic(shell: Any, line: str, cell: str) -> None:
    """Run a cell of SQL in the session `spark` of the notebook, or in the active one.

    Raises:
        QoopError: there is no session, or an option is wrong; or the query failed.
    """
    given = parse(line)
    session = shell.user_ns.get("spark") or SparkSession.getActiveSession()
    if session is None:
        raise QoopError("%%qoop: there is no Spark session; make one first: spark = SparkSession.builder.getOrCreate()")
    ipython = import_module("IPython.display")
    handle = ipython.display(ipython.HTML(""), display_id=f"qoop-{time.monotonic_ns()}")
    shown = Shown(lambda text: handle.update(ipython.HTML(text)))
    answer = run(session, cell.strip().rstrip(";"), shown, Options(plan=given.plan), given.rows)
    if given.into:
        shell.user_ns[given.into] = answer.rows
