"""`qoop shell`: statements typed at a terminal."""

import contextlib
import os
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import platformdirs
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from qoop.engine.session import plain_sql
from qoop.scripts.command import ScriptSettings, started
from qoop.scripts.runner import ScriptFailedError, ScriptRunner
from qoop.scripts.statements import ScriptStatement, divide
from qoop.submit.job import SparkFlags
from qoop.submit.registration import ArbiterAccess
from yarn_plugin import console

PROMPT, CONTINUED = "qoop> ", "    > "

MAX_HISTORY = 5000
"""How many lines of earlier shells are kept."""

WORDS = frozenset(
    re.findall(
        r"\w+",
        "ALTER ANALYZE AND AS ASC BETWEEN BY CACHE CASE COLUMNS CREATE CROSS DATABASE DATABASES DELETE DESC "
        "DESCRIBE DISTINCT DROP ELSE END EXISTS EXPLAIN FALSE FROM FULL FUNCTIONS GROUP HAVING IN INNER "
        "INSERT INTO INTERSECT IS JOIN LEFT LIKE LIMIT NOT NULL ON OR ORDER OUTER OVER OVERWRITE PARTITION "
        "PARTITIONED REFRESH RIGHT ROLLUP SELECT SET SHOW STATISTICS TABLE TABLES TEMPORARY THEN TRUE UNION "
        "USE USING VALUES VIEW WHEN WHERE WITH ",
    )
)
"""Words of SQL that are completed."""

NAMED = re.compile(r"\b(?:FROM|JOIN|INTO|TABLE|UPDATE)\s+([\w.`]+)", re.IGNORECASE)
"""Where a statement names a table."""


def run_shell(settings: ScriptSettings, flags: SparkFlags, access: ArbiterAccess | None) -> int:
    """Read statements and run them, until Ctrl-D, exit or quit. Returns the exit code.

    Raises:
        SubmissionError: the options contradict each other.
        ArbiterError: the arbiter cannot be reached, or refuses.
    """
    with started(settings, flags, access) as runner, _line_editing(Completion(runner.spark)):
        read_statements(runner, input)
    return 0


def read_statements(runner: ScriptRunner, ask: Callable[[str], str]) -> None:
    """Run statements as they are typed. `ask`: shows a prompt and returns a line.

    Raises:
        ScriptEndedError: it was ended by exit or quit.
    """
    typed = ""
    while True:
        try:
            typed += ask(CONTINUED if typed.strip() else PROMPT) + "\n"
        except EOFError:
            console.err.print("")
            return
        except KeyboardInterrupt:
            console.err.print("")
            typed = ""
            continue
        statements, rest = divide(typed)
        if not statements and _needs_no_semicolon(rest.text):
            statements, rest = [rest], ScriptStatement("", 1)
        typed = f"{rest.text}\n" if rest.text else ""
        _run(runner, statements)


def _needs_no_semicolon(text: str) -> bool:
    return text.lower() in ("exit", "quit") or text.startswith("!")


def _run(runner: ScriptRunner, statements: Sequence[ScriptStatement]) -> None:
    """Run statements up to the first that fails or is cancelled."""
    for number, statement in enumerate(statements, start=1):
        where = "statement" if len(statements) == 1 else f"statement {number}"
        try:
            runner.run_statement(statement, where)
        except ScriptFailedError as problem:
            console.tell("qoop", str(problem))
            return
        except KeyboardInterrupt:
            runner.cancel()
            console.tell("qoop", "cancelled")
            return


class Completion:
    """Completes words of SQL, names of tables, and names of columns of the tables that are named."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def __call__(self, begun: str, line: str) -> list[str]:
        """What a word may become that is at the end of a line."""
        names = [*self._tables(), *(name for table in NAMED.findall(line) for name in self._columns(table))]
        words = [word.lower() if begun.islower() else word for word in WORDS]
        return sorted({word for word in (*names, *words) if word.lower().startswith(begun.lower())})

    def _tables(self) -> list[str]:
        with contextlib.suppress(PySparkException, Py4JError):
            return [table.name for table in self._spark.catalog.listTables()]
        return []

    def _columns(self, table: str) -> list[str]:
        with contextlib.suppress(PySparkException, Py4JError):
            return list(plain_sql(self._spark, f"SELECT * FROM {table}").columns)
        return []


@contextlib.contextmanager
def _line_editing(complete: Completion) -> Iterator[None]:
    """Within this context lines are edited, kept for later shells, and completed."""
    try:
        import readline
    except ImportError:
        # A Python without it: lines are read as they are.
        yield
        return
    found: list[str] = []

    def completer(begun: str, state: int) -> str | None:
        if state == 0:
            found[:] = complete(begun, readline.get_line_buffer())
        return found[state] if state < len(found) else None

    history = Path(platformdirs.user_state_dir("qoop"), "shell_history")
    with contextlib.suppress(OSError):
        readline.read_history_file(history)
    readline.set_history_length(MAX_HISTORY)
    readline.set_completer(completer)
    readline.set_completer_delims(" \t\n,();=<>")
    readline.parse_and_bind("tab: complete")
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            history.parent.mkdir(parents=True, exist_ok=True)
            os.close(os.open(history, os.O_CREAT | os.O_WRONLY, 0o600))
            readline.write_history_file(history)
