"""Run the statements of a script, one after the other, with replanning; what is printed is what `spark-sql` prints."""

import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from pathlib import Path

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import ParseException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from qoop.api import execute, fetch
from qoop.as_written.causes import Construct, Unsupported
from qoop.engine.connection import java_class, without_delay
from qoop.engine.failures import java_message
from qoop.engine.session import syntax_of, with_substitutions
from qoop.errors import QoopError
from qoop.options import Options
from qoop.parsing.statement import ParsedText
from qoop.run.query_run import Outcome
from qoop.run.query_status import kept_status
from qoop.scripts import hive
from qoop.scripts.printed import printed_rows
from qoop.scripts.statements import ScriptStatement, statements_of
from yarn_plugin.errors import ReportedError, os_reason
from yarn_plugin.quantities import count

MAX_DEPTH = 50
"""How deeply files may read others with `source`."""

NOT_QUERIES = tuple(map(Unsupported, (Construct.NO_QUERY, Construct.COMMAND, Construct.NOT_SELECT)))
"""Causes that say only that a statement is no query."""


class ScriptFailedError(QoopError):
    """A statement has failed, and no further one is run."""


class ScriptEndedError(Exception):
    """The script has said `exit` or `quit`."""


class UnreadableScriptError(QoopError):
    """A script's file cannot be read."""

    exit_code = 2


@dataclass(frozen=True, slots=True)
class Manner:
    """How a script is run.

    Args:
        is_hive: it is written for Hive.
        prints_header: column names are printed before rows.
        ignores_errors: the statements after one that has failed are run, too.
        is_verbose: statements are printed before they are run.
    """

    is_hive: bool = False
    prints_header: bool = False
    ignores_errors: bool = False
    is_verbose: bool = False


class ScriptRunner:
    """Runs statements in a session.

    Rows go to stdout. `outcomes`: how the statements were run that Spark has accepted. `has_failed`: whether the latest
    statement has, which decides the exit code if errors are ignored.

    Args:
        options: for one statement.
        tell: called with a line for people about each statement.
        warn: called with a line about each that has failed, where errors are ignored.
    """

    def __init__(
        self,
        spark: SparkSession,
        options: Callable[[], Options],
        tell: Callable[[str], None],
        warn: Callable[[str], None],
        manner: Manner,
    ) -> None:
        self.spark, self._options, self._tell, self._warn, self._manner = spark, options, tell, warn, manner
        self._depth = 0
        self.outcomes: list[Outcome] = []
        self.has_failed = False
        without_delay(spark)
        if manner.is_hive:
            for name, value in hive.SETTINGS.items():
                spark.conf.set(name, value)

    def run_file(self, path: str) -> None:
        """Run the statements of a file; see `run`.

        Raises:
            UnreadableScriptError: the file cannot be read.
        """
        self.run(read_script(path), path)

    def run(self, text: str, name: str) -> None:
        """Run the statements of a text.

        Args:
            name: of the text, for messages.

        Raises:
            ScriptFailedError: a statement has failed, and errors are not ignored.
            ScriptEndedError: the script ends itself.
        """
        for statement in statements_of(text):
            self.run_statement(statement, f"{name}, line {statement.line}")

    def run_statement(self, statement: ScriptStatement, where: str) -> None:
        """Run one statement; see `run`. `where` it is, for messages."""
        if self._manner.is_verbose:
            sys.stdout.write(statement.text + "\n")
        self.has_failed = False
        try:
            self._run(statement.text, where)
        except (ReportedError, PySparkException, Py4JError, OSError) as problem:
            if isinstance(problem, ScriptFailedError):
                # A statement of a file that this one reads.
                raise
            failed = self._failed(problem, statement.text, where)
            self.has_failed = True
            if not self._manner.ignores_errors:
                raise failed from problem
            self._warn(str(failed))

    def cancel(self) -> None:
        """Cancel the jobs of a statement that was interrupted; those of plans have been cancelled."""
        self.spark.sparkContext.cancelAllJobs()

    def _run(self, text: str, where: str) -> None:
        word, _, rest = text.partition(" ")
        match word.lower():
            case "exit" | "quit" if not rest:
                raise ScriptEndedError
            case "source" if rest:
                self._source(rest.strip())
            case "dfs":
                self._dfs(rest.split())
            case _ if text.startswith("!"):
                self._shell(text[1:])
            case _:
                self._statement(text, where)

    def _source(self, path: str) -> None:
        if self._depth >= MAX_DEPTH:
            raise UnreadableScriptError(f"source {path}: files read each other more than {MAX_DEPTH} deep")
        self._depth += 1
        try:
            self.run_file(path)
        finally:
            self._depth -= 1

    def _shell(self, command: str) -> None:
        sys.stdout.flush()
        code = subprocess.run(with_substitutions(self.spark, command), shell=True, stdin=subprocess.DEVNULL).returncode
        if code:
            raise QoopError(f"!{command}: ended with exit code {code}")

    def _dfs(self, words: list[str]) -> None:
        """Run a command of Hadoop's file system shell, whose output is the JVM's, which shares our stdout."""
        sys.stdout.flush()
        shell = java_class(self.spark._jvm, "org.apache.hadoop.fs.FsShell")
        gateway = self.spark.sparkContext._gateway
        assert gateway is not None
        array = gateway.new_array(gateway.jvm.java.lang.String, len(words))
        for place, word in enumerate(words):
            array[place] = with_substitutions(self.spark, word)
        code = shell(self.spark._jsparkSession.sessionState().newHadoopConf()).run(array)
        if code:
            raise QoopError(f"dfs {' '.join(words)}: ended with exit code {code}")

    def _statement(self, text: str, where: str) -> None:
        if self._manner.is_hive:
            as_spark_reads = hive.rewritten(text)
            for change in as_spark_reads.changes:
                self._tell(f"{where}: runs {change}")
            text = as_spark_reads.text
        started = time.monotonic()
        parsed = ParsedText(text, partial(syntax_of, self.spark))
        if parsed.statement is None or parsed.statement.query is None:
            rows, outcome = self._executed(parsed, self._options())
        else:
            with kept_status(text) as status:
                rows, outcome = self._executed(parsed, status.watched(self._options()))
                status.done(outcome)
        self.outcomes.append(outcome)
        seconds = time.monotonic() - started
        self._tell(f"{where}: {summary(rows, outcome, seconds)}")

    def _executed(self, parsed: ParsedText, options: Options) -> tuple[int | None, Outcome]:
        """Run a statement and print its rows: how many it had, None if it stores them."""
        if parsed.stores_rows:
            outcome = execute(self.spark, parsed, options)
            self._print_header([])
            return None, outcome
        header: list[str] = []

        def take(frame: DataFrame) -> tuple[int, tuple[int, list[str]]]:
            header[:] = frame.columns
            printed = printed_rows(self.spark, frame)
            return printed[0], printed

        (rows, texts), outcome = fetch(self.spark, parsed, options, take)
        self._print_header(header)
        for printed in texts:
            sys.stdout.write(printed + "\n")
        sys.stdout.flush()
        return rows, outcome

    def _print_header(self, columns: Sequence[str]) -> None:
        """Print column names, if they are wanted; of a statement that has none, what spark-sql prints then."""
        if self._manner.prints_header:
            sys.stdout.write("\t".join(columns or ("Response code",)) + "\n")

    def _failed(self, problem: Exception, text: str, where: str) -> ScriptFailedError:
        if _is_refused(problem):
            construct = hive.hive_only(text)
            if construct is not None:
                return ScriptFailedError(f"{where}: {construct}")
            if not self._manner.is_hive and (changes := hive.rewritten(text).changes):
                return ScriptFailedError(f"{where}: with --dialect hive, runs {changes[0]}; {_first_line(problem)}")
        return ScriptFailedError(f"{where}: {_first_line(problem)}")


def summary(rows: int | None, outcome: Outcome, seconds: float) -> str:
    """How a statement was run, in words."""
    done = f"{'done' if rows is None else count(rows, 'row')} in {seconds:.1f} s"
    if outcome.cause in NOT_QUERIES:
        return done
    if outcome.cause is not None:
        return f"{done}, as written: {outcome.one_stage_reason}"
    counts = outcome.counts
    return (
        f"{done}, {count(counts.stages, 'stage')}, {count(counts.switches, 'plan switch', 'plan switches')} among "
        f"{count(outcome.join_trees, 'join tree')}"
    )


def read_script(path: str) -> str:
    """The text of a script.

    Raises:
        UnreadableScriptError: the file cannot be read.
    """
    try:
        # Some editors begin a file with a byte order mark.
        return Path(path.removeprefix("file://")).read_text(encoding="utf-8-sig")
    except OSError as problem:
        raise UnreadableScriptError(f"script {path!r}: {os_reason(problem)}") from None
    except UnicodeDecodeError:
        raise UnreadableScriptError(f"script {path!r}: not valid UTF-8") from None


def _is_refused(problem: Exception) -> bool:
    """Whether Spark does not know what a statement says, or says that it does not support it."""
    if not isinstance(problem, PySparkException):
        return False
    return isinstance(problem, ParseException) or (problem.getCondition() or "").startswith("UNSUPPORTED_FEATURE")


def _first_line(problem: Exception) -> str:
    """What failed, without the text and the plan that Spark prints below it."""
    text = java_message(problem) if isinstance(problem, Py4JJavaError) else str(problem)
    lines = [line.strip() for line in text.partition("\n\nJVM stacktrace:")[0].splitlines()]
    head = (
        [*takewhile(lambda line: not line.startswith("== "), lines)] if isinstance(problem, ParseException) else lines
    )
    return next(filter(None, head), type(problem).__name__)
