"""The driver that spark-submit runs: one query with replanning, its result printed or written to files."""

import logging
import re
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pydantic import ValidationError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from qoop.api import Options, collect, execute, write
from qoop.engine.failures import java_message
from qoop.engine.folder_tables import view_table
from qoop.engine.output import OutputFiles
from qoop.engine.printable import SEPARATORS, in_zone_of, printable
from qoop.engine.session import syntax_of
from qoop.errors import QoopError, QueryFailedError, did_you_mean
from qoop.feedback.arbiter import ArbiterFeed, ExecutorSize
from qoop.feedback.profile import ProfileFeed, read_profile
from qoop.parsing.statement import ParsedText
from qoop.replan.decision import Rules
from qoop.run.journal import remove_earlier
from qoop.run.progress import ProgressLines
from qoop.run.query_run import Feed, Outcome
from qoop.run.query_status import StatusFile
from qoop.submit import rows
from qoop.submit.job import Job
from qoop.submit.stderr import redirect_stderr
from qoop.tables.folder import FolderCatalogue
from yarn_plugin import console
from yarn_plugin.errors import ReportedError, describe
from yarn_plugin.quantities import count


def main() -> None:
    """Run the job whose JSON file is the only argument."""
    redirect_stderr(Path(sys.argv[1]))
    job = Job.model_validate_json(Path(sys.argv[1]).read_text())
    console.escape_unencodable()
    # Py4J and PySpark also log what they raise, with Java and Python stack traces: the user gets one line instead.
    logging.disable(logging.CRITICAL)
    interrupt_on_signals()
    spark = None
    try:
        spark = SparkSession.builder.appName(job.name).getOrCreate()
        run(spark, job)
    except (ReportedError, PySparkException, Py4JError, OSError, ValidationError) as problem:
        _print(_message(problem, spark, job))
        sys.exit(getattr(problem, "exit_code", 1))
    except KeyboardInterrupt:
        _print("stopped by a signal; the query was cancelled")
        sys.exit(130)
    finally:
        if spark is not None:
            _stop(spark)


INTERRUPT_AGAIN_S = 0.1
"""Seconds after which an interrupt that was ignored is raised again."""


def interrupt_on_signals() -> None:
    """Let stop signals raise KeyboardInterrupt in this thread, again if Python ignores it.

    It ignores exceptions in what it calls to finalise an object, and Py4J does much there for each Java object.
    """
    for number in (*_stop_signals(), signal.SIGALRM):
        signal.signal(number, _interrupt)
    reported = sys.unraisablehook

    def ignored(problem: Any) -> None:
        if problem.exc_type is KeyboardInterrupt:
            # Later: this is still a part of what Python ignores.
            signal.setitimer(signal.ITIMER_REAL, INTERRUPT_AGAIN_S)
        else:
            reported(problem)

    sys.unraisablehook = ignored


def _stop_signals() -> list[signal.Signals]:
    """The signals that stop the query, besides Ctrl-C. An ignored SIGHUP (nohup) stays ignored."""
    hang_up = [] if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else [signal.SIGHUP]
    return [signal.SIGTERM, *hang_up]


def _interrupt(number: int, frame: object) -> None:
    """Unwind as on Ctrl-C: the query is cancelled and cleaned up on the way out."""
    raise KeyboardInterrupt


def _print(line: str) -> None:
    console.tell("qoop", line)


def _stop(spark: SparkSession) -> None:
    # A second signal must not interrupt the clean-up.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM):
        signal.signal(number, signal.SIG_IGN)
    try:
        spark.stop()
    except (Py4JError, OSError):
        # Spark had already stopped, and the query has reported it.
        return


def run(spark: SparkSession, job: Job) -> None:
    """Run a job in a Spark session."""
    lines = ProgressLines(console.err)
    in_zone_of(spark)
    _prepare_files(job)
    parsed = ParsedText(job.text, partial(syntax_of, spark))
    if job.tables is not None:
        _show_tables(spark, Path(job.tables), parsed, lines.warn)
    status = StatusFile(job.name, job.text)
    options = status.watched(replace(_options(spark, job, lines), watch=lines.show))
    try:
        outcome = _execute(spark, job, parsed, options)
    except BaseException as problem:
        status.failed(_message(problem, spark, job) if isinstance(problem, Exception) else "stopped by a signal")
        if job.journal is not None and Path(job.journal).exists():
            _write_report(job, lines.warn)
        raise
    status.done(outcome)
    lines.summary(outcome)
    _write_report(job, lines.warn)


def _prepare_files(job: Job) -> None:
    """Check that a report can be written, and remove an earlier query's journal: this one may write none.

    Raises:
        ReportError: the report cannot be written.
        QoopError: the journal is not one, is in use, or cannot be removed.
    """
    if job.report is not None:
        from qoop.report import ensure_writable

        ensure_writable(Path(job.report))
    if job.journal is not None:
        remove_earlier(job.journal)


def _execute(spark: SparkSession, job: Job, parsed: ParsedText, options: Options) -> Outcome:
    if job.output is not None and parsed.returns_no_rows:
        raise QoopError("--output: cannot be given for a statement that itself stores its rows; remove --output")
    if parsed.stores_rows:
        return execute(spark, parsed, options)
    if job.output is not None:
        with OutputFiles(spark, job.output.path, job.output.format) as files:
            return write(spark, parsed, options, files.store, files.publish, only_writes=True)
    answer = collect(spark, parsed, options, job.rows + 1, partial(printable, separator=SEPARATORS[job.format]))
    first = answer.rows[: job.rows]
    rows.print_rows(job.format, [name for name, _ in answer.columns], first)
    if len(answer.rows) > len(first):
        _print(f"only the first {count(len(first), 'row')} printed; --rows prints more, --output writes all")
    return answer.outcome


def _options(spark: SparkSession, job: Job, lines: ProgressLines) -> Options:
    feed = _feed(job)
    options = Options(
        feed=None if feed is None else lambda: feed,
        slots=feed.first if isinstance(feed, ProfileFeed) else job.slots,
        rules=Rules(hysteresis=job.hysteresis, force=job.switch_every_stage),
        checkpoint=job.checkpoint,
        journal=Path(job.journal) if job.journal else None,
        warn=lines.warn,
        plan=job.plan,
        replanning=job.replanning,
        timeout=job.timeout,
    )
    return replace(options, confirm=feed.confirm, expect=feed.expect) if isinstance(feed, ArbiterFeed) else options


def _feed(job: Job) -> Feed | None:
    """The source of a share that may change."""
    if job.arbiter is not None and job.app is not None and job.token is not None and job.size is not None:
        return ArbiterFeed(job.arbiter, job.token, job.app, ExecutorSize(*job.size), job.verify)
    if job.profile is not None:
        return ProfileFeed(read_profile(Path(job.profile)))
    return None


def _show_tables(spark: SparkSession, folder: Path, parsed: ParsedText, warn: Callable[[str], None]) -> None:
    """Make a view of each table that a query names; of all in the folder if the planner cannot parse the query.

    Raises:
        TablesError: the folder does not exist, or has no tables.
        pyspark.errors.PySparkException, Py4JError: Spark cannot read a table that the query names.
    """
    catalogue = FolderCatalogue(folder)
    named = parsed.statement.table_names if parsed.statement is not None else None
    for name in catalogue.tables if named is None else sorted(named & catalogue.tables.keys()):
        try:
            view_table(spark, name, catalogue.stored(name))
        except (PySparkException, Py4JError, UnicodeError, QoopError) as problem:
            if named is not None or name in parsed.text.lower():
                raise
            warn(f"--tables {str(folder)!r}: {name!r} is left out: {_first_line(problem)}")


def show_all_tables(spark: SparkSession, folder: Path, warn: Callable[[str], None]) -> None:
    """Make a view of each table in a folder; warn of those that Spark cannot read.

    Raises:
        TablesError: the folder does not exist, or has no tables.
    """
    _show_tables(spark, folder, ParsedText(""), warn)


def _write_report(job: Job, warn: Callable[[str], None]) -> None:
    """Write the report of a query that has ended. Whatever fails, it has ended all the same: that is a warning."""
    if job.report is None or job.journal is None:
        return
    if not Path(job.journal).exists():
        warn(f"--report {job.report!r}: not written; Spark executed the statement as it is, so nothing was recorded")
        return
    from qoop.report import write_report

    try:
        write_report(Path(job.report), {"query": Path(job.journal)})
    except ReportedError as problem:
        warn(f"--report: {problem}")
    except Exception as problem:  # noqa: BLE001 - see above
        warn(f"--report {job.report!r}: not written; {describe(problem)}")


def _first_line(problem: Exception) -> str:
    if isinstance(problem, Py4JJavaError):
        return java_message(problem)
    return next((line.strip() for line in str(problem).splitlines() if line.strip()), type(problem).__name__)


def _message(problem: Exception, spark: SparkSession | None, job: Job) -> str:
    """The problem in one line, without the query and plan that Spark prints below it."""
    if isinstance(problem, Py4JJavaError):
        return _first_line(problem)
    if isinstance(problem, QueryFailedError):
        return QUOTED_QUERY.sub("", " ".join(str(problem).split()))
    if not isinstance(problem, PySparkException):
        return " ".join(str(problem).split()) or type(problem).__name__
    position = POSITION.search(str(problem))
    where = f"query, line {position['line']}, position {int(position['offset']) + 1}: " if position else ""
    return where + _spark_message(problem, spark, job)


QUOTED_QUERY = re.compile(r"\s*== (SQL|DataFrame)\b.*")
"""What Spark appends to a message: the part of the query that failed."""

POSITION = re.compile(r"\bline (?P<line>\d+),? pos (?P<offset>\d+)")
"""How Spark prints a position in the query; the offset is from 0."""


def _spark_message(problem: PySparkException, spark: SparkSession | None, job: Job) -> str:
    """Spark's message; for an unknown table or column in the words of `qoop explain`."""
    condition, values = problem.getCondition() or "", problem.getMessageParameters() or {}
    if condition == "TABLE_OR_VIEW_NOT_FOUND" and spark is not None:
        return _unknown_table(values.get("relationName", ""), spark, job)
    if condition == "UNRESOLVED_COLUMN.WITH_SUGGESTION":
        similar = values.get("proposal", "").replace("`", "")
        return f"column {_plain(values.get('objectName', ''))!r} not found; did you mean one of {similar}?"
    if condition == "UNRESOLVED_COLUMN.WITHOUT_SUGGESTION":
        return f"column {_plain(values.get('objectName', ''))!r} not found"
    text = _first_line(problem).removeprefix(f"[{condition}] ").partition(" SQLSTATE: ")[0].rstrip(".")
    return f"{text[:1].lower()}{text[1:]} ({condition})" if condition else text


def _unknown_table(relation: str, spark: SparkSession, job: Job) -> str:
    known = [table.name for table in spark.catalog.listTables()]
    where = "Spark's catalog"
    if job.tables is not None:
        known += FolderCatalogue(Path(job.tables)).tables
        where = f"--tables {job.tables!r}"
    return f"table {_plain(relation)!r} not found in {where}{did_you_mean(relation, known)}"


def _plain(name: str) -> str:
    """A name as Spark quotes it, without the quotes."""
    return name.replace("`", "")


if __name__ == "__main__":
    main()
