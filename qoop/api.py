"""Run queries in a Spark session: the library call `qoop.sql`, and the functions that the driver and `tpcds` use."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, Row, SparkSession

from qoop.as_written.causes import Construct, Unsupported
from qoop.as_written.decide import AsWritten, HowToRun
from qoop.engine.checkpoints import counting
from qoop.engine.executors import slots_within
from qoop.engine.jobs import settings_of
from qoop.engine.persisted import PersistedRows, remove_all
from qoop.engine.session import (
    executes_at_once,
    in_session_of,
    plain_sql,
    require_classic_session,
    syntax_of,
    with_substitutions,
)
from qoop.engine.statement import StatementAsWritten, may_read_each_other, statements_as_written
from qoop.engine.stored_once import StoredOnce
from qoop.engine.timeout import cancelling_after
from qoop.errors import QoopError
from qoop.feedback.followed import following
from qoop.options import Options
from qoop.parsing.statement import ParsedText, Statement
from qoop.replan.state import QueryCounts
from qoop.run.query_run import Outcome, together
from qoop.session_query import SessionQuery

Place = TypeVar("Place")


@dataclass(frozen=True)
class Answer:
    """The rows of a query, its columns (name, type), and how it was run."""

    columns: list[tuple[str, str]]
    rows: list[Row]
    outcome: Outcome


def sql(spark: SparkSession, text: str, options: Options | None = None) -> DataFrame:
    """Run a query with replanning and return its result, like `spark.sql`.

    All stages but the last run now; the last one runs when the frame is used. Stage outputs that it reads are released
    when the frame, and all frames made by its own methods, have been garbage-collected; those in files when the
    application ends. So keep it in a variable while others read it: frames that it was joined to, its RDD, an iterator.
    A statement that stores rows is executed, and the frame is empty.

    Raises:
        QoopError: the query cannot be run.
        pyspark.errors.PySparkException: Spark rejects the query.
    """
    parsed = _parsed(spark, text)
    if parsed.stores_rows:
        execute(spark, parsed, options)
        return spark.range(0).select()
    return frame_of_query(SessionQuery(spark, parsed, _checked(options)))


def frame_of_query(query: SessionQuery) -> DataFrame:
    """Run all stages of a query but the last, which runs when the frame is used; see `sql`."""

    def consume(frame: DataFrame) -> tuple[int, DataFrame]:
        return 0, query.users(frame)

    try:
        query.run(consume)
        result: DataFrame = query.result
        query.hand_over(result)
    except BaseException:
        query.close()
        raise
    return result


def collect(
    spark: SparkSession,
    text: str | ParsedText,
    options: Options | None = None,
    max_rows: int | None = None,
    shown: Callable[[DataFrame], DataFrame] = lambda frame: frame,
) -> Answer:
    """Run a query and fetch its rows, or the first `max_rows`; a statement that stores rows returns none.

    `shown`: what is fetched of them, made from the frame of the result.
    """
    parsed = _parsed(spark, text)
    if parsed.stores_rows:
        return Answer([], [], execute(spark, parsed, options))
    use = f"the first {max_rows} rows"
    query = SessionQuery(spark, parsed, _checked(options), use=use, keeps_metadata=False, first=max_rows, in_copy=True)

    def consume(frame: DataFrame) -> tuple[int, list[Row]]:
        rows = shown(query.wanted(frame)).collect()
        return len(rows), rows

    try:
        outcome = query.run(consume)
    finally:
        query.close()
    return Answer(query.written.columns, query.result, outcome)


def fetch(
    spark: SparkSession,
    text: str | ParsedText,
    options: Options | None,
    take: Callable[[DataFrame], tuple[int, Place]],
) -> tuple[Place, Outcome]:
    """Run a query that stores no rows, and take those of its result.

    `take`: called for each attempt at the last stage, which a switch may cancel; returns their number, and what it has
    made of them. What it made of the complete result is returned.
    """
    query = SessionQuery(
        spark, _parsed(spark, text), _checked(options), use="all rows, fetched", keeps_metadata=False, in_copy=True
    )
    try:
        outcome = query.run(lambda frame: take(query.wanted(frame)))
    finally:
        query.close()
    return query.result, outcome


def write(
    spark: SparkSession,
    text: str | ParsedText,
    options: Options | None,
    store: Callable[[DataFrame], Place],
    publish: Callable[[Place], None] | None = None,
    only_writes: bool = False,
) -> Outcome:
    """Run a query and write its rows.

    Args:
        store: without `publish`, called once, with the complete result, which is persisted before: no switch can
            interrupt it. With `publish`, writes rows to a place where nobody reads them yet, and returns the place;
            called for each attempt at the last stage, which a switch may cancel.
        publish: takes the place of the complete result.
        only_writes: `store` does nothing with the frame but write it to files that no table is made of, so it may be
            one of a copy of the session; only with `publish`.
    """
    in_copy = only_writes and publish is not None
    query = SessionQuery(spark, _parsed(spark, text), _checked(options), use="all rows, written", in_copy=in_copy)
    if publish is None:
        return _keep_and_store(query, store)
    try:
        outcome = query.run(_counting_rows(query, store))
        publish(query.result)
    finally:
        query.close()
    return outcome


def how_to_run(
    spark: SparkSession,
    text: str,
    options: Options | None = None,
    max_rows: int | None = None,
    slots: Sequence[float] = (),
) -> list[HowToRun]:
    """Whether a query, or that of a statement that stores rows, would be planned now, and why not; nothing is run.

    `max_rows`: as of `collect`, whose earlier runs count. `slots`: tells it for each of these shares; without any, for
    the session's own. The causes are values of
    `qoop.as_written.causes`; `qoop.as_written.wording` has their words, and what would change each.
    """
    parsed, options = _parsed(spark, text), following(_checked(options), spark.sparkContext.applicationId)
    statement = parsed.statement
    shares = slots or (slots_within(spark.sparkContext, options.slots),)
    if parsed.stores_rows and statement is not None:
        written, sources = statements_as_written(spark, parsed.text), statement.source_queries()
        if len(written) != len(sources) or any(one.query is None for one in written):
            return [AsWritten(Unsupported(Construct.NO_QUERY))] * len(shares)
        try:
            queries = _stored_queries(spark, written, sources, options)
        except AnalysisException:
            return [AsWritten(Unsupported(Construct.MEANING_IN_STATEMENT))] * len(shares)
    elif executes_at_once(spark, parsed.text):
        return [AsWritten(parsed.cause or Unsupported(Construct.NO_QUERY))] * len(shares)
    else:
        use = f"the first {max_rows} rows"
        queries = [SessionQuery(spark, parsed, options, use=use, first=max_rows, in_copy=True)]
    every = [[query.how_to_run_at(share) for query in queries] for share in shares]
    return [next((one for one in hows if isinstance(one, AsWritten)), hows[0]) for hows in every]


def _store(query: SessionQuery, statement: StatementAsWritten) -> Outcome:
    """Run a query and store its rows: directly, unless another plan might then be needed after some were stored."""
    atomic = query.is_planned and statement.is_atomic
    if query.is_planned and not atomic:
        return _keep_and_store(query, statement.execute)
    consume = _counting_rows(query, statement.execute)
    try:
        return query.run(consume, StoredOnce(consume, atomic))
    finally:
        query.close()


def _counting_rows(
    query: SessionQuery, store: Callable[[DataFrame], Place]
) -> Callable[[DataFrame], tuple[int, Place]]:
    """A consumer of the last stage that stores its rows, and counts them meanwhile."""

    def consume(frame: DataFrame) -> tuple[int, Place]:
        counted, rows = counting(query.users(frame))
        place = store(counted)
        return int(rows() or 0), place

    return consume


def _keep_and_store(query: SessionQuery, store: Callable[[DataFrame], object]) -> Outcome:
    persisted: list[PersistedRows] = []

    def consume(frame: DataFrame) -> tuple[int, DataFrame]:
        kept = PersistedRows(in_session_of(query.spark, frame), "result")
        try:
            with settings_of(query.spark):
                kept.partitions()
            rows = int(kept.frame.count())
        except BaseException:
            # The next attempt has rows of its own.
            kept.remove()
            raise
        persisted.append(kept)
        return rows, query.users(kept.frame)

    try:
        outcome = query.run(consume)
        with cancelling_after(query.timeout, query.spark.sparkContext, query.passed_s):
            store(query.result)
    finally:
        query.close()
        remove_all(persisted)
    return outcome


def execute(spark: SparkSession, text: str | ParsedText, options: Options | None = None) -> Outcome:
    """Run a statement that stores rows (CREATE TABLE AS, INSERT): its query with replanning, then the statement.

    A statement without a query that can be planned is executed by Spark alone.
    """
    parsed = _parsed(spark, text)
    statement = parsed.statement
    options = _checked(options)
    if statement is None or not statement.stores_rows or _target_exists(spark, statement):
        return _execute_as_written(spark, parsed.text, options)
    written, sources = statements_as_written(spark, parsed.text), statement.source_queries()
    if len(written) != len(sources) or any(one.query is None for one in written):
        return _execute_as_written(spark, parsed.text, options)
    for one in written:
        one.check()
    try:
        queries = _stored_queries(spark, written, sources, options)
    except AnalysisException:
        # Its query means something only as part of the statement, such as DEFAULT.
        return _execute_as_written(spark, parsed.text, options, Construct.MEANING_IN_STATEMENT)
    if len(queries) > 1 and may_read_each_other(written, [query.written.analysed for query in queries]):
        return _execute_as_written(spark, parsed.text, options, Construct.READS_TARGET)
    outcomes = [_store(query, one) for query, one in zip(queries, written, strict=True)]
    return outcomes[0] if len(outcomes) == 1 else together(outcomes)


def _stored_queries(
    spark: SparkSession, written: Sequence[StatementAsWritten], sources: Sequence[Statement], options: Options
) -> list[SessionQuery]:
    """The queries of statements, as Spark and the planner parse them."""
    use = "all rows, stored"
    return [
        SessionQuery(spark, ParsedText(source.text, statement=source), options, one.query, use=use)
        for one, source in zip(written, sources, strict=True)
    ]


def _parsed(spark: SparkSession, text: str | ParsedText) -> ParsedText:
    """The text as the session reads it, with the values of `${...}` in their places."""
    require_classic_session(spark)
    given = text if isinstance(text, str) else text.text
    substituted = with_substitutions(spark, given)
    if isinstance(text, ParsedText) and substituted == given:
        return text
    return ParsedText(substituted, partial(syntax_of, spark))


def _checked(options: Options | None) -> Options:
    """The options, or the usual ones.

    Raises:
        QoopError: they are something else, such as the parameters of a text.
    """
    if options is not None and not isinstance(options, Options):
        raise QoopError(
            f"options {options!r:.100}: must be qoop.Options; a text has no parameters, but may read session variables"
        )
    return options or Options()


def _target_exists(spark: SparkSession, statement: Statement) -> bool:
    """Whether the table to create exists already: Spark then refuses or does nothing, and needs no rows."""
    return statement.creates is not None and spark.catalog.tableExists(statement.creates)


def _execute_as_written(
    spark: SparkSession, text: str, options: Options, why: Construct = Construct.NO_QUERY
) -> Outcome:
    started = time.monotonic()
    with cancelling_after(options.timeout, spark.sparkContext):
        plain_sql(spark, text).collect()
    return Outcome(QueryCounts(stages=1), 1, time.monotonic() - started, Unsupported(why), ())


__all__ = ["Answer", "Options", "collect", "execute", "fetch", "how_to_run", "sql", "write"]
