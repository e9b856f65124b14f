"""What spark-submit runs: one query with replanning, its result to the terminal or to files."""

import os
import sys
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import DataFrame, SparkSession

from qoop.errors import CannotSplitError, QoopError, QuerySyntaxError
from qoop.feedback.arbiter import ArbiterFeed
from qoop.feedback.profile import ProfileFeed, fixed, read
from qoop.feedback.sizing import ExecutorSize
from qoop.progress import ProgressLines
from qoop.replan.decision import Rules
from qoop.run import Feed, Outcome
from qoop.session import Options, collect, execute, write
from qoop.sql import statement
from qoop.submission import Job, Output
from qoop.tables.folder import FolderCatalogue
from yarn_plugin import console
from yarn_plugin.api.client import TOKEN_VARIABLE
from yarn_plugin.errors import ReportedError


def main() -> None:
    """Run the job in the file that is named as the only argument."""
    job = Job.model_validate_json(Path(sys.argv[1]).read_text())
    # Spark writes each failed query as JSON with its stack: the user gets one line instead.
    PySparkLogger.getLogger("SQLQueryContextLogger").setLevel("CRITICAL")
    try:
        spark = SparkSession.builder.appName(job.name).getOrCreate()
        try:
            run(spark, job)
        finally:
            spark.stop()
    except (ReportedError, PySparkException, Py4JError) as problem:
        console.err.print(f"qoop: {_first_line(problem)}", soft_wrap=True, markup=False)
        sys.exit(1)


def run(spark: SparkSession, job: Job) -> None:
    """Run a job in a session."""
    if job.tables is not None:
        for name, path in _tables(Path(job.tables), job.text).items():
            spark.read.parquet(path).createOrReplaceTempView(name)
    lines = ProgressLines(console.err)
    options = _options(spark, job, lines)
    outcome = _execute(spark, job, options)
    lines.summary(outcome)
    if job.report is not None:
        _write_report(job)


def _execute(spark: SparkSession, job: Job, options: Options) -> Outcome:
    if _stores_rows(job.text):
        return execute(spark, job.text, options)
    if job.output is not None:
        return write(spark, job.text, options, _writer(job.output))
    answer = collect(spark, job.text, options)
    shown = answer.rows[: job.rows]
    cells = [["NULL" if cell is None else cell for cell in row] for row in shown]
    console.out.print(console.table(None, [name for name, _ in answer.columns], cells))
    if len(answer.rows) > len(shown):
        console.err.print(f"{len(answer.rows) - len(shown)} more rows; --rows shows more, --output keeps all")
    return answer.outcome


def _stores_rows(text: str) -> bool:
    try:
        return statement.read(text).writes
    except (CannotSplitError, QuerySyntaxError):
        return False


def _writer(output: Output) -> Callable[[DataFrame], None]:
    def put(frame: DataFrame) -> None:
        """Whole or not at all: written beside, then renamed."""
        session, path = frame.sparkSession, output.path.rstrip("/")
        draft = f"{path}.qoop-{uuid.uuid4().hex[:8]}"
        hadoop: Any = session.sparkContext._jvm.org.apache.hadoop.fs.Path
        system = hadoop(path).getFileSystem(session._jsparkSession.sessionState().newHadoopConf())
        if system.exists(hadoop(path)):
            raise QoopError(f"--output {output.path!r}: it exists; name another, or remove it first")
        writer = frame.write.option("header", "true") if output.format == "csv" else frame.write
        try:
            writer.format(output.format).save(draft)
            if not system.rename(hadoop(draft), hadoop(path)):
                raise QoopError(f"--output {output.path!r}: the result could not be moved there")
        finally:
            system.delete(hadoop(draft), True)

    return put


def _options(spark: SparkSession, job: Job, lines: ProgressLines) -> Options:
    feed, confirm = _feed(spark, job)
    options = Options(
        feed=lambda: feed,
        rules=Rules(hysteresis=job.hysteresis, force=job.switch_every_stage),
        checkpoint=job.checkpoint,
        journal=Path(job.journal) if job.journal else None,
        warn=lines.warn,
        watch=lines.watch,
        replanning=job.replanning,
    )
    return replace(options, confirm=confirm) if confirm else options


def _feed(spark: SparkSession, job: Job) -> tuple[Feed, Callable[[int], None] | None]:
    if job.arbiter is not None and job.app is not None and job.size is not None:
        token = os.environ.get(TOKEN_VARIABLE, "")
        feed = ArbiterFeed(job.arbiter, token, job.app, ExecutorSize(*job.size), job.verify)
        return feed, feed.confirm
    if job.profile is not None:
        return ProfileFeed(read(Path(job.profile))), None
    return fixed(job.slots or float(spark.sparkContext.defaultParallelism)), None


def _tables(folder: Path, text: str) -> dict[str, str]:
    """The tables of a folder that a query names; all of them where the planner does not read it."""
    catalogue = FolderCatalogue(folder)
    try:
        named = statement.table_names(text)
    except QoopError:
        named = frozenset(catalogue.tables)
    return {name: str(catalogue.path(name)) for name in catalogue.tables if name in named}


def _write_report(job: Job) -> None:
    from qoop.report import write_report

    if job.journal is not None and job.report is not None:
        write_report(Path(job.report), {"query": Path(job.journal)})


def _first_line(problem: Exception) -> str:
    """What is wrong, without the query and the plan that Spark shows below it."""
    text = str(problem).split("\n\n")[0] if not isinstance(problem, ReportedError) else str(problem)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    first = lines[0] if lines else type(problem).__name__
    where = next((line for line in lines[1:] if line.startswith("(line") or "(line " in line), "")
    return first if "(line" in first else f"{first} {where}".strip()


if __name__ == "__main__":
    main()
