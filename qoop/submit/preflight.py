"""What can be known of a query to be wrong without Spark, which takes many seconds to start."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from qoop.errors import RunsAsWrittenError, UnknownColumnError, UnknownTableError
from qoop.parsing.query import describe_query
from qoop.parsing.statement import ParsedText
from qoop.run.journal import check_writable
from qoop.scripts.statements import statements_of
from qoop.submit import kept_catalogue
from qoop.submit.job import Job, SparkFlags, SubmissionError
from qoop.tables.folder import FolderCatalogue, unknown_table
from yarn_plugin.errors import BadInputError
from yarn_plugin.spelling import near

ONLY_SPARK_KNOWS = re.compile(r"\$\{|_metadata\b|\bIDENTIFIER\s*\(", re.IGNORECASE)
"""Texts with names that only Spark replaces: `${...}`, hidden columns, IDENTIFIER('...')."""


FIRST_WORD = re.compile(r"(?:\s|--[^\n]*\n|/\*.*?\*/|\()*([A-Za-z]+)\b", re.DOTALL)

FIRST_WORDS = frozenset(
    """ADD ALTER ANALYZE BEGIN CACHE CALL CLEAR CLOSE COMMENT COMMIT CONVERT COPY CREATE DECLARE DELETE DESC
    DESCRIBE DFS DROP EXECUTE EXPLAIN EXPORT FETCH FROM GENERATE GRANT IMPORT INSERT LIST LOAD LOCK MAP
    MERGE MSCK OPEN OPTIMIZE REDUCE REFRESH REORG REPAIR REPLACE RESET RESTORE REVOKE ROLLBACK SELECT SET
    SHOW START TABLE TRUNCATE UNCACHE UNDROP UNLOCK UPDATE USE VACUUM VALUES WITH""".split()  # noqa: SIM905 - one a line would be a page
)
"""The words with which statements of Spark, and of table formats that extend it, begin."""


def check_job(job: Job, flags: SparkFlags, environment: Mapping[str, str]) -> None:
    """Check a job before Spark starts.

    Raises:
        ReportedError: what is wrong, in one line.
    """
    if flags.is_cluster_mode:
        # Its files are on the node of the driver.
        return
    _check_files(job, flags, environment)
    check_text(job.text)
    parsed = ParsedText(job.text)
    if job.output is not None and parsed.returns_no_rows:
        raise SubmissionError("--output: cannot be given for a statement that itself stores its rows; remove --output")
    if job.tables is not None:
        check_names(parsed, FolderCatalogue(job.tables), job.tables, has_other_tables(flags, environment))


def check_text(text: str) -> None:
    """Check that a text is one statement, and that its first word is not one of Spark's misspelt.

    Raises:
        SubmissionError: it is several statements.
        BadInputError: its first word is misspelt.
    """
    if ";" in text and len(statements := statements_of(text)) > 1:
        raise SubmissionError(f"query: {len(statements)} statements; must be exactly one; `qoop run` runs scripts")
    first = FIRST_WORD.match(text)
    if (
        first is not None
        and first[1].upper() not in FIRST_WORDS
        and (meant := near(first[1].upper(), FIRST_WORDS, 0.8))
    ):
        raise BadInputError("query: the first word", first[1], f"begins no statement{meant}")


def _check_files(job: Job, flags: SparkFlags, environment: Mapping[str, str]) -> None:
    if job.output is not None and (path := _local_path(job.output.path, flags, environment)) and os.path.lexists(path):
        raise BadInputError("--output", job.output.path, "already exists; remove it, or choose another path")
    if job.report is not None:
        from qoop.report import ensure_writable

        ensure_writable(Path(job.report))
    if job.journal is not None:
        check_writable(job.journal)


def _local_path(url: str, flags: SparkFlags, environment: Mapping[str, str]) -> str | None:
    """The path of a URL that is certainly of this machine; otherwise None."""
    parts = urlsplit(url)
    if parts.scheme == "file":
        return unquote(parts.path)
    others = environment.get("HADOOP_CONF_DIR") or environment.get("YARN_CONF_DIR")
    if parts.scheme or others or flags.conf("spark.hadoop.fs.defaultFS"):
        return None
    return url


def has_other_tables(flags: SparkFlags, environment: Mapping[str, str]) -> bool:
    """Whether Spark may know tables besides those of the folder: a metastore's, or the lasting catalogue's."""
    is_hive = flags.conf(kept_catalogue.IMPLEMENTATION) == "hive" or kept_catalogue.hive_site(environment) is not None
    return is_hive or not flags.master.startswith("local") or kept_catalogue.exists(flags, environment)


def check_names(parsed: ParsedText, folder: FolderCatalogue, given: str, has_others: bool) -> None:
    """Check the names in a query of a folder's tables, unless they mean something that only Spark knows.

    Args:
        has_others: Spark may know other tables too.

    Raises:
        UnknownNameError: a table or a column does not exist, or a column's name is misspelt.
    """
    statement = parsed.statement
    if statement is None or ONLY_SPARK_KNOWS.search(parsed.text):
        return
    for source in statement.source_queries() if statement.writes else (statement,):
        assert source.query is not None
        try:
            describe_query(source.query, folder, source.syntax)
        except UnknownTableError as problem:
            if not has_others and "." not in problem.table:
                raise unknown_table(problem, folder, given) from None
        except UnknownColumnError as problem:
            # sqlglot cannot resolve all that Spark can, but then there is hardly a similar name.
            if problem.similar and folder.has_one_schema(statement.table_names):
                raise
        except (RunsAsWrittenError, RecursionError):
            continue
