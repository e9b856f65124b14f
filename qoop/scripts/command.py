"""`qoop run` and `qoop shell`: one application from its start to its end, registered once, and statements in it."""

import contextlib
import io
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from qoop.as_written.decide import PlanWhen
from qoop.errors import QoopError
from qoop.options import Options
from qoop.parsing.render import quoted
from qoop.replan.commands import Command, RunAsWritten
from qoop.replan.events import Event
from qoop.run.progress import ProgressLines
from qoop.scripts.runner import Manner, ScriptEndedError, ScriptRunner, read_script
from qoop.submit.application import following_share, registered, spark_session
from qoop.submit.driver import interrupt_on_signals, show_all_tables
from qoop.submit.job import SparkFlags, SubmissionError
from qoop.submit.kept_catalogue import kept_catalogue
from qoop.submit.registration import ArbiterAccess
from yarn_plugin import console

PRINT_HEADER = "hive.cli.print.header"
IGNORE_ERRORS = "hive.cli.errors.ignore"


@dataclass(frozen=True, slots=True)
class ScriptSettings:
    """What `qoop run` and `qoop shell` have in common.

    `settings`: of the session. `database`: to begin in. `init`: files to run first. `is_silent`: only rows and errors
    are printed.
    """

    name: str
    settings: Mapping[str, str] = field(default_factory=dict)
    database: str | None = None
    init: Sequence[str] = ()
    tables: Path | None = None
    profile: Path | None = None
    plan: PlanWhen | None = None
    is_hive: bool = False
    is_silent: bool = False
    is_verbose: bool = False

    @property
    def manner(self) -> Manner:
        """How statements are run."""
        return Manner(self.is_hive, self._is_on(PRINT_HEADER), self._is_on(IGNORE_ERRORS), self.is_verbose)

    def _is_on(self, name: str) -> bool:
        return self.settings.get(name, "").strip().lower() == "true"


def run_script(
    settings: ScriptSettings, text: str | None, file: str | None, flags: SparkFlags, access: ArbiterAccess | None
) -> int:
    """Run a text, or the statements of a file. Returns the exit code.

    Raises:
        UnreadableScriptError: a file cannot be read; Spark is not started.
        SubmissionError: the options contradict each other.
        ArbiterError: the arbiter cannot be reached, or refuses.
    """
    if file is not None:
        # Before Spark is started, which takes seconds.
        read_script(file)
    with started(settings, flags, access) as runner:
        if file is not None:
            runner.run_file(file)
        else:
            runner.run(text or "", "-e")
        return int(runner.has_failed)
    # The script has said `exit`.
    return 0


@contextlib.contextmanager
def _without_logs() -> Iterator[None]:
    """Py4J and PySpark also log what they raise, with stack traces."""
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


@contextlib.contextmanager
def started(settings: ScriptSettings, flags: SparkFlags, access: ArbiterAccess | None) -> Iterator[ScriptRunner]:
    """Within this context an application runs, in which statements can be; its initial files have been run."""
    if flags.is_cluster_mode:
        raise SubmissionError("--deploy-mode cluster: cannot be given; rows are printed here, so the driver runs here")
    for path in settings.init:
        read_script(path)
    tell = _quiet if settings.is_silent else _print
    interrupt_on_signals()
    with (
        _without_logs(),
        kept_catalogue(flags, os.environ, _print) as catalogue,
        registered(settings.name, flags, access, _print) as registration,
    ):
        spark = spark_session(settings.name, flags, registration, catalogue)
        try:
            with following_share(spark, settings.profile, access, registration, tell, _print) as shares:

                def options() -> Options:
                    lines = ProgressLines(console.err)

                    def watch(told: Event | Command) -> None:
                        # Why a query runs as written, the line about the statement says.
                        if not settings.is_silent and not isinstance(told, RunAsWritten):
                            lines.show(told)

                    told = Options(plan=settings.plan, warn=lines.warn, watch=watch)
                    return told if shares is None else replace(told, feed=shares.feed, slots=shares.slots)

                yield _prepared(settings, spark, options, tell)
        except ScriptEndedError:
            return
        except KeyboardInterrupt:
            _print("stopped by a signal; the statement was cancelled")
            raise SystemExit(130) from None
        finally:
            _stop(spark)


def _prepared(
    settings: ScriptSettings, spark: SparkSession, options: Callable[[], Options], tell: Callable[[str], None]
) -> ScriptRunner:
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    if settings.tables is not None:
        show_all_tables(spark, settings.tables, _print)
    for name, value in settings.settings.items():
        try:
            spark.conf.set(name, value)
        except (PySparkException, Py4JError) as problem:
            raise QoopError(f"--hiveconf {name}={value}: {str(problem).splitlines()[0]}") from problem
    runner = ScriptRunner(spark, options, tell, _print, settings.manner)
    if settings.database is not None:
        runner.run(f"USE {quoted(settings.database)}", "--database")
    for path in settings.init:
        runner.run_file(path)
    return runner


def _stop(spark: SparkSession) -> None:
    # A second signal must not interrupt the clean-up.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM):
        signal.signal(number, signal.SIG_IGN)
    with contextlib.suppress(Py4JError, OSError):  # It has stopped already.
        spark.stop()


def _print(line: str) -> None:
    console.tell("qoop", line)


def _quiet(line: str) -> None:
    """Print nothing."""
