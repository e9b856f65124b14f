"""The driver that spark-submit runs: one query with replanning, its result printed or written to files."""

import contextlib
import logging
import signal
import sys
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from py4j.protocol import Py4JError, Py4JJavaError
from pydantic import ValidationError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from qoop.api import Options, collect, execute, write
from qoop.engine.folders import QueryFolder
from qoop.errors import QoopError
from qoop.feedback.arbiter import ArbiterFeed, ExecutorSize
from qoop.feedback.profile import ProfileFeed, fixed_share, read_profile
from qoop.parsing.statement import ParsedText, parse_leniently
from qoop.replan.decision import Rules
from qoop.run.progress import ProgressLines
from qoop.run.query_run import Feed, Outcome
from qoop.submit import rows
from qoop.submit.job import Job, Output
from qoop.submit.stderr import redirect_stderr
from qoop.tables.folder import FolderCatalogue, did_you_mean
from yarn_plugin import console
from yarn_plugin.errors import ReportedError
from yarn_plugin.quantities import count


def main() -> None:
    """Run the job whose JSON file is the only argument."""
    redirect_stderr(Path(sys.argv[1]))
    job = Job.model_validate_json(Path(sys.argv[1]).read_text())
    console.escape_unencodable()
    # Py4J and PySpark also log what they raise, with Java and Python stack traces: the user gets one line instead.
    logging.disable(logging.CRITICAL)
    for number in _stop_signals():
        signal.signal(number, _interrupt)
    spark = None
    try:
        spark = SparkSession.builder.appName(job.name).getOrCreate()
        run(spark, job)
    except (ReportedError, PySparkException, Py4JError, OSError, ValidationError) as problem:
        line = _first_line(problem) + _suggestion(problem, spark, job)
        _print(f"qoop: {line}")
        sys.exit(1)
    except KeyboardInterrupt:
        _print("qoop: stopped")
        sys.exit(130)
    finally:
        if spark is not None:
            _stop(spark)


def _stop_signals() -> list[signal.Signals]:
    """The signals that stop the query, besides Ctrl-C. An ignored SIGHUP (nohup) stays ignored."""
    hang_up = [] if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else [signal.SIGHUP]
    return [signal.SIGTERM, *hang_up]


def _interrupt(number: int, frame: object) -> None:
    """Unwind as on Ctrl-C: the query is cancelled and cleaned up on the way out."""
    raise KeyboardInterrupt


def _print(line: str) -> None:
    """Print on stderr, if it can still be written."""
    with contextlib.suppress(OSError):
        console.err.print(line, soft_wrap=True)


def _stop(spark: SparkSession) -> None:
    # A second signal must not interrupt the clean-up.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    try:
        spark.stop()
    except (Py4JError, OSError):
        # Spark had already stopped, and the query has reported it.
        return


def run(spark: SparkSession, job: Job) -> None:
    """Run a job in a Spark session."""
    parsed = parse_leniently(job.text)
    if job.tables is not None:
        for name, path in _tables(Path(job.tables), parsed).items():
            spark.read.parquet(path).createOrReplaceTempView(name)
    lines = ProgressLines(console.err)
    options = _options(spark, job, lines)
    outcome = _execute(spark, job, parsed, options)
    lines.summary(outcome)
    if job.report is not None:
        _write_report(job)


def _execute(spark: SparkSession, job: Job, parsed: ParsedText, options: Options) -> Outcome:
    if parsed.stores_rows:
        if job.output is not None:
            raise QoopError("--output: the statement stores its rows in a table; remove --output")
        return execute(spark, parsed, options)
    if job.output is not None:
        return write(spark, parsed, options, _writer(spark, job.output))
    answer = collect(spark, parsed, options, job.rows + 1)
    first = answer.rows[: job.rows]
    rows.print_rows(job.format, [name for name, _ in answer.columns], first)
    if len(answer.rows) > len(first):
        _print(f"only the first {count(len(first), 'row')} printed; --rows prints more, --output writes all")
    return answer.outcome


def _writer(spark: SparkSession, output: Output) -> Callable[[DataFrame], None]:
    """A function that writes a result atomically: to a temporary folder next to the path, which is then renamed.

    Raises:
        QoopError: the path exists, or cannot be written.
    """
    path = output.path.rstrip("/")
    try:
        draft = QueryFolder(spark, f"{path}.qoop-", uuid.uuid4().hex[:8])
        taken = draft.exists(path)
    except Py4JJavaError as problem:
        raise QoopError(f"--output {output.path!r}: {problem.java_exception.getMessage()}") from None
    if taken:
        raise QoopError(f"--output {output.path!r}: already exists; choose another path, or remove it first")

    def put(frame: DataFrame) -> None:
        writer = frame.write.option("header", "true") if output.format == "csv" else frame.write
        try:
            draft.create()
            writer.format(output.format).save(f"{draft.path}/rows")
            if draft.exists(path) or not draft.move("rows", path):
                raise QoopError(f"--output {output.path!r}: the result could not be renamed to this path")
        except Py4JJavaError as problem:
            raise QoopError(f"--output {output.path!r}: {problem.java_exception.getMessage()}") from None
        finally:
            draft.delete()

    return put


def _options(spark: SparkSession, job: Job, lines: ProgressLines) -> Options:
    feed, confirm = _feed(spark, job)
    options = Options(
        feed=lambda: feed,
        rules=Rules(hysteresis=job.hysteresis, force=job.switch_every_stage),
        checkpoint=job.checkpoint,
        journal=Path(job.journal) if job.journal else None,
        warn=lines.warn,
        watch=lines.show,
        replanning=job.replanning,
    )
    return replace(options, confirm=confirm) if confirm else options


def _feed(spark: SparkSession, job: Job) -> tuple[Feed, Callable[[int], None] | None]:
    if job.arbiter is not None and job.app is not None and job.token is not None and job.size is not None:
        feed = ArbiterFeed(job.arbiter, job.token, job.app, ExecutorSize(*job.size), job.verify)
        return feed, feed.confirm
    if job.profile is not None:
        return ProfileFeed(read_profile(Path(job.profile))), None
    return fixed_share(job.slots or float(spark.sparkContext.defaultParallelism)), None


def _tables(folder: Path, parsed: ParsedText) -> dict[str, str]:
    """The paths of the tables that a query names; of all tables in the folder if the planner cannot parse the query."""
    catalogue = FolderCatalogue(folder)
    named = parsed.statement.table_names if parsed.statement is not None else frozenset(catalogue.tables)
    return {name: str(catalogue.path(name)) for name in catalogue.tables if name in named}


def _write_report(job: Job) -> None:
    from qoop.report import write_report

    if job.journal is not None and job.report is not None:
        write_report(Path(job.report), {"query": Path(job.journal)})


def _suggestion(problem: Exception, spark: SparkSession | None, job: Job) -> str:
    """For a table that does not exist, a table with a similar name. For columns Spark makes suggestions itself."""
    if spark is None or not isinstance(problem, PySparkException):
        return ""
    if problem.getCondition() != "TABLE_OR_VIEW_NOT_FOUND":
        return ""
    missing = str((problem.getMessageParameters() or {}).get("relationName", ""))
    known = [table.name for table in spark.catalog.listTables()]
    if job.tables is not None:
        known += FolderCatalogue(Path(job.tables)).tables
    return did_you_mean(missing, known)


def _first_line(problem: Exception) -> str:
    """The problem in one line, without the query and plan that Spark prints below it."""
    text = str(problem).split("\n\n")[0] if not isinstance(problem, ReportedError) else str(problem)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    first = lines[0] if lines else type(problem).__name__
    where = next((line for line in lines[1:] if line.startswith("(line") or "(line " in line), "")
    return first if "(line" in first else f"{first} {where}".strip()


if __name__ == "__main__":
    main()
