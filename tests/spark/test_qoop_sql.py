"""`qoop.sql` and related functions in a user's own PySpark program."""

import gc
import os
import re
import signal
import threading
import time
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import platformdirs
import pytest
from pyspark import InheritableThread
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import SparkSession
from pyspark.sql.types import IntegerType

import qoop
from qoop import api, session_query
from qoop.engine import catalogue, spark_engine
from qoop.engine import session as sessions
from qoop.engine.catalogue import SparkCatalogue
from qoop.engine.checkpoints import ExecutorCheckpoints
from qoop.engine.persisted import PersistedRows
from qoop.engine.scala import leaves
from qoop.engine.session import query_session
from qoop.engine.spark_engine import SparkEngine
from qoop.engine.statement import StatementAsWritten
from qoop.engine.verification import DifferentPlanError, Verification
from qoop.errors import QoopError, QueryFailedError
from qoop.estimate.statistics import UNKNOWN, ColumnStatistics
from qoop.known_plans import KnownPlans
from qoop.latest import Latest
from qoop.plans.candidates import CutPolicy
from qoop.replan.commands import StartStage
from qoop.replan.decision import Rules
from qoop.run import journal
from qoop.session_query import SessionQuery
from tests.sampled import one_in
from tests.spark.spark_sessions import (
    active_jobs,
    changed,
    local_session,
    session_state,
    session_unchanged,
    small_data,
    wait_until,
)

pytestmark = pytest.mark.integration

STAGED = qoop.Options(cut_policy=CutPolicy(everywhere=True))
"""A stage at every join, although the tables are small."""

SALES = """
SELECT i_category, s_state, d_year, count(*) AS sold, sum(ss_quantity) AS pieces
FROM store_sales
  JOIN item ON ss_item_sk = i_item_sk
  JOIN store ON ss_store_sk = s_store_sk
  JOIN date_dim ON ss_sold_date_sk = d_date_sk
WHERE d_moy < 7
GROUP BY i_category, s_state, d_year
"""

FAILS_IN_THE_MIDDLE = """
SELECT count(100 / (ss_quantity - 50)) AS n FROM store_sales
  JOIN item ON ss_item_sk = i_item_sk
  JOIN store ON ss_store_sk = s_store_sk
  JOIN date_dim ON ss_sold_date_sk = d_date_sk
"""

SLOW = """
SELECT count(*) AS n, sum(i_item_sk) AS items FROM store_sales
  JOIN slow_items ON ss_item_sk = i_item_sk
  JOIN store ON ss_store_sk = s_store_sk
  JOIN slow_dates ON ss_sold_date_sk = d_date_sk
"""


@pytest.fixture(scope="module")
def spark(tmp_path_factory):
    with local_session(tmp_path_factory.mktemp("spark"), small_data()) as session:
        yield session


@pytest.fixture
def slow_views(spark: SparkSession):
    """Two views that take 10 ms per row, so that the stages that read them run for minutes.

    One of them may be read only by the last stage.
    """

    def wait(value: int) -> int:
        import time

        time.sleep(0.01)
        return value

    spark.udf.register("dawdle", wait, IntegerType())
    spark.sql("CREATE TEMPORARY VIEW slow_dates AS SELECT * FROM date_dim WHERE dawdle(d_date_sk) > 0")
    spark.sql("CREATE TEMPORARY VIEW slow_items AS SELECT * FROM item WHERE dawdle(i_item_sk) > 0")
    yield
    spark.catalog.dropTempView("slow_items")
    spark.catalog.dropTempView("slow_dates")
    spark.sql("DROP TEMPORARY FUNCTION dawdle")


def rows_of(frame):
    return Counter(tuple(row) for row in frame.collect())


def in_thread(call):
    """Run a call in a thread; returns the thread and a list for its error."""
    errors = []

    def run():
        try:
            call()
        except QoopError as problem:
            errors.append(problem)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, errors


def test_a_query_stops_at_its_timeout(spark, slow_views):
    with session_unchanged(spark), pytest.raises(QueryFailedError, match="timeout of 2 s"):
        qoop.collect(spark, SLOW, qoop.Options(timeout=2.0, cut_policy=CutPolicy(everywhere=True)))


def test_a_plan_whose_outputs_take_too_much_room_is_given_up(spark, slow_views, monkeypatch):
    """Its outputs are removed before the query runs as written."""
    monkeypatch.setattr(spark_engine, "LIMIT_CHECK_S", 0.0)
    text = SLOW.replace("slow_items", "(SELECT * FROM slow_items WHERE i_item_sk < 60)").replace(
        "slow_dates", "(SELECT * FROM slow_dates WHERE d_date_sk BETWEEN 2450816 AND 2450875)"
    )
    warned, stored = [], []
    finish = SparkEngine._finish
    monkeypatch.setattr(
        SparkEngine,
        "_finish",
        lambda *args, **named: stored.append(session_state(spark)["persisted"]) or finish(*args, **named),
    )
    with changed(spark, "spark.qoop.maxStored", "1k"), session_unchanged(spark):
        before = session_state(spark)["persisted"]
        answer = qoop.collect(spark, text, replace(STAGED, warn=warned.append))
    assert answer.rows == spark.sql(text.replace("slow_items", "item").replace("slow_dates", "date_dim")).collect()
    assert stored == [before]
    (line,) = warned
    assert re.fullmatch(
        r"replanning stopped, running the query as written: the outputs of stages take .* MB, more than 0 MB "
        r"\(spark.qoop.maxStored\)",
        line,
    )


@pytest.mark.parametrize("size", ["much", "-1", ""])
def test_a_limit_that_is_no_size(spark, size):
    said = re.escape(f"spark.qoop.maxStored {size!r}: must be a size, such as 50g")
    with changed(spark, "spark.qoop.maxStored", size), pytest.raises(QoopError, match=said):
        qoop.collect(spark, SALES, STAGED)


@pytest.mark.parametrize("run", [qoop.collect, qoop.sql])
def test_a_query_leaves_no_view_in_its_session(spark, run, monkeypatch):
    """Spark's threads keep that session for a while: with a view all that its plan has broadcast."""
    made = []
    monkeypatch.setattr(
        session_query, "query_session", lambda user: made.append(sessions.query_session(user)) or made[-1]
    )
    result = run(spark, SALES, STAGED)
    assert session_state(made[0])["views"] == session_state(spark)["views"]
    if run is qoop.sql:
        assert rows_of(result) == rows_of(spark.sql(SALES)), "it can still be read"


# Results.


def test_the_frame_equals_that_of_spark(spark):
    expected = spark.sql(SALES)
    for options in (None, STAGED):
        frame = qoop.sql(spark, SALES, options)
        assert frame.schema.simpleString() == expected.schema.simpleString()
        assert rows_of(frame) == rows_of(expected)
        assert rows_of(frame) == rows_of(expected), "read a second time"


def test_a_frame_can_be_transformed_and_joined(spark):
    with session_unchanged(spark):
        many = qoop.sql(spark, SALES, STAGED).where("sold > 1").groupBy("s_state").count()
        gc.collect()
        other = spark.sql(SALES).where("sold > 1").groupBy("s_state").count()
        assert "In-memory table" in many._jdf.queryExecution().executedPlan().toString()
        assert rows_of(many) == rows_of(other)
        assert many.join(other, ["s_state", "count"]).count() == other.count() > 0
        del many
        gc.collect()


def test_nothing_stays_stored_for_a_frame_of_the_query_as_written(spark, monkeypatch):
    def refused(self, text, last=False):
        if last:
            raise DifferentPlanError("the plan is not equivalent to the query as written")

    monkeypatch.setattr(Verification, "check", refused)
    with session_unchanged(spark):
        before = session_state(spark)["persisted"]
        frame = qoop.sql(spark, SALES, STAGED)
        assert session_state(spark)["persisted"] == before
        assert rows_of(frame) == rows_of(spark.sql(SALES))
        del frame
        gc.collect()


def test_a_failing_callback_does_not_fail_a_query(spark):
    warned = []
    answer = qoop.collect(spark, SALES, replace(STAGED, watch=lambda command: 1 / 0, warn=warned.append))
    assert len(answer.rows) == spark.sql(SALES).count()
    assert "could not show what has happened: ZeroDivisionError" in warned[0]


def test_outputs_of_stages_are_released_with_the_last_frame(spark):
    with session_unchanged(spark):
        before = session_state(spark)["persisted"]
        frame = qoop.sql(spark, SALES, STAGED)
        derived = frame.where("sold > 1")
        del frame
        gc.collect()
        assert session_state(spark)["persisted"] > before
        del derived
        gc.collect()


def test_stored_outputs_are_not_computed_again_where_they_and_their_readers_have_subqueries(spark):
    text = """
    WITH sold AS (
      SELECT category, d_year, count(*) AS n FROM store_sales
        JOIN (SELECT i_item_sk AS sk, upper(i_category) AS category FROM item GROUP BY ALL) ON ss_item_sk = sk
        JOIN date_dim ON ss_sold_date_sk = d_date_sk
      GROUP BY category, d_year
    )
    SELECT one.category, other.n FROM sold one
      JOIN sold other ON one.category = other.category AND one.d_year = other.d_year + 1
      JOIN (SELECT d_year, max(d_moy) AS month FROM date_dim GROUP BY d_year) AS years ON years.d_year = one.d_year
    """
    frame = qoop.sql(spark, text)
    read = Counter(leaf.getClass().getSimpleName() for leaf in leaves(frame._jdf.queryExecution().optimizedPlan()))
    assert read == {"InMemoryRelation": 2, "LogicalRelation": 1}
    assert rows_of(frame) == rows_of(spark.sql(text)) != Counter()


def test_an_answer_cannot_overwrite_what_it_was_read_from(spark, table):
    spark.sql(f"INSERT INTO {table} VALUES ('Books', 1), ('Music', 2)")
    text = f"""
    SELECT i.i_category AS category, s.n FROM {table} s JOIN item i ON i.i_category = s.category
      JOIN store_sales ON ss_item_sk = i_item_sk JOIN date_dim ON ss_sold_date_sk = d_date_sk
    """

    def check():
        answer = qoop.sql(spark, text, STAGED)
        for method in ("insertInto", "saveAsTable"):
            with pytest.raises(AnalysisException, match="OVERWRITE"):
                getattr(answer.write.mode("overwrite"), method)(table)
        assert spark.table(table).count() == 2
        assert "LeftAnti" not in answer._jdf.queryExecution().optimizedPlan().toString()
        assert rows_of(answer) == rows_of(spark.sql(text)) != Counter()

    check()
    gc.collect()
    wait_until(lambda: not session_state(spark)["persisted"])


def test_a_view_of_a_frame_belongs_to_the_users_session(spark):
    qoop.sql(spark, SALES, STAGED).createOrReplaceTempView("sold_by_state")
    gc.collect()
    try:
        assert rows_of(spark.sql("SELECT sum(sold) FROM sold_by_state")) == rows_of(
            spark.sql(f"SELECT sum(sold) FROM ({SALES})")
        )
    finally:
        spark.catalog.dropTempView("sold_by_state")


def test_a_view_outlives_its_frame_if_outputs_are_files(spark, tmp_path):
    options = qoop.Options(cut_policy=CutPolicy(everywhere=True), checkpoint=tmp_path.as_uri())
    qoop.sql(spark, SALES, options).createOrReplaceTempView("sold_by_state")
    gc.collect()
    try:
        assert spark.table("sold_by_state").count() == spark.sql(SALES).count()
    finally:
        spark.catalog.dropTempView("sold_by_state")


def test_rows_are_in_the_order_of_the_query(spark):
    ordered = f"{SALES} ORDER BY pieces DESC, i_category, s_state, d_year LIMIT 7"
    answer = qoop.collect(spark, ordered, STAGED)
    assert answer.rows == spark.sql(ordered).collect()
    assert [name for name, _ in answer.columns] == ["i_category", "s_state", "d_year", "sold", "pieces"]
    assert answer.outcome.counts.stages > 1


def test_duplicate_and_unusual_column_names_are_preserved(spark):
    text = """SELECT i.i_item_sk, ss_item_sk AS i_item_sk, s_store_sk AS `a.b ``c`, 1 + 1
        FROM item i JOIN store_sales ON ss_item_sk = i.i_item_sk JOIN store ON ss_store_sk = s_store_sk"""
    frame = qoop.sql(spark, text, STAGED)
    assert frame.columns == spark.sql(text).columns
    assert rows_of(frame) == rows_of(spark.sql(text))


def test_tables_views_functions_and_variables_of_the_session_can_be_used(spark):
    """Stored tables, temporary views, functions, session variables, the current database."""
    spark.sql("CREATE DATABASE shop")
    spark.sql("USE shop")
    try:
        spark.sql("CREATE TABLE favourites USING parquet AS SELECT i_item_sk AS item FROM item WHERE i_item_sk % 3 = 0")
        spark.sql("CREATE TEMPORARY VIEW dear AS SELECT * FROM item WHERE i_current_price > 1")
        spark.udf.register("twice", lambda value: 2 * value, IntegerType())
        spark.sql("DECLARE VARIABLE threshold INT DEFAULT 20")
        text = """SELECT twice(s_store_sk) AS twice, count(*) AS n FROM favourites
            JOIN dear ON item = i_item_sk
            JOIN store_sales ON ss_item_sk = item
            JOIN store ON s_store_sk = ss_store_sk"""
        for tail in (" GROUP BY s_store_sk", " WHERE ss_quantity > threshold GROUP BY s_store_sk"):
            found = rows_of(qoop.sql(spark, text + tail, STAGED))
            assert found and found == rows_of(spark.sql(text + tail))
    finally:
        spark.sql("DROP TEMPORARY VARIABLE IF EXISTS threshold")
        spark.sql("DROP TEMPORARY FUNCTION IF EXISTS twice")
        spark.catalog.dropTempView("dear")
        spark.sql("USE default")
        spark.sql("DROP DATABASE shop CASCADE")


def test_views_with_their_own_joins_and_grouping_can_be_queried(spark):
    """Planning samples the rows of a simple view, but does not compute one that groups or sorts."""
    spark.sql(f"CREATE TEMPORARY VIEW by_category AS {JOINED}")
    spark.sql("CREATE TEMPORARY VIEW failing AS SELECT raise_error('computed') AS x FROM store ORDER BY 1")
    try:
        text = """SELECT i_item_sk, n, s_state FROM by_category JOIN item ON category = i_category
            JOIN store_sales ON ss_item_sk = i_item_sk JOIN store ON s_store_sk = ss_store_sk"""
        assert rows_of(qoop.sql(spark, text, STAGED)) == rows_of(spark.sql(text))
        assert SparkCatalogue(spark).statistics("failing").rows > 0
    finally:
        spark.catalog.dropTempView("by_category")
        spark.catalog.dropTempView("failing")


def test_a_table_of_other_files_is_sampled_once_until_they_change(spark, monkeypatch, tmp_path):
    monkeypatch.setattr(platformdirs, "user_cache_dir", lambda name: str(tmp_path / name))
    spark.sql("CREATE TABLE other USING orc AS SELECT id AS x FROM range(1000)")
    started = spark.sparkContext._jsc.sc().dagScheduler().nextJobId

    def starts_a_job() -> bool:
        before = started()
        assert SparkCatalogue(spark).statistics("other").rows > 0
        return bool(started() > before)

    try:
        assert [starts_a_job() for _ in range(3)] == [True, False, False]
        spark.sql("INSERT INTO other VALUES (7)")
        assert [starts_a_job() for _ in range(2)] == [True, False]
        monkeypatch.setattr(catalogue, "_sampled", Latest(10))
        assert not starts_a_job(), "stored for other applications"
    finally:
        spark.sql("DROP TABLE other")


def test_a_sample_of_a_table_that_may_have_changed_is_used_for_a_day(spark, monkeypatch, tmp_path):
    monkeypatch.setattr(platformdirs, "user_cache_dir", lambda name: str(tmp_path / name))
    monkeypatch.setattr(catalogue, "_by_spark", lambda frame: made.append(frame) or UNKNOWN)
    made = []
    spark.sql("CREATE TABLE parted USING orc PARTITIONED BY (p) AS SELECT id AS x, id % 2 AS p FROM range(10)")

    def looked_up() -> int:
        monkeypatch.setattr(catalogue, "_sampled", Latest(10))
        SparkCatalogue(spark).statistics("parted")
        return len(made)

    try:
        assert [looked_up() for _ in range(2)] == [1, 1]
        (file,) = tmp_path.glob("qoop/statistics-*/*.json")
        os.utime(file, (time.time() - 90_000, time.time() - 90_000))
        assert [looked_up() for _ in range(2)] == [2, 2]
    finally:
        spark.sql("DROP TABLE parted")


# Statements that store rows.


@pytest.fixture
def table(spark):
    spark.sql("CREATE TABLE stored (category STRING, n BIGINT) USING parquet")
    yield "stored"
    spark.sql("DROP TABLE IF EXISTS stored")


JOINED = """SELECT i_category AS category, count(*) AS n FROM store_sales JOIN item ON ss_item_sk = i_item_sk
    JOIN store ON ss_store_sk = s_store_sk GROUP BY i_category"""


@one_in(2, "call", [qoop.sql, qoop.collect, qoop.execute])
def test_insert_inserts_its_rows_once(spark, table, call):
    expected = rows_of(spark.sql(JOINED))
    assert spark.table(table).count() == 0
    with session_unchanged(spark):
        call(spark, f"INSERT INTO {table} {JOINED}", STAGED)
    assert rows_of(spark.table(table)) == expected
    call(spark, f"INSERT INTO {table} VALUES ('one', 1)", STAGED)
    assert rows_of(spark.table(table)) == expected + Counter([("one", 1)])
    call(spark, f"INSERT OVERWRITE {table} BY NAME SELECT n, category FROM ({JOINED})", STAGED)
    assert rows_of(spark.table(table)) == expected
    call(spark, f"WITH few AS (SELECT * FROM ({JOINED}) LIMIT 1) INSERT INTO {table} SELECT * FROM few", STAGED)
    assert spark.table(table).count() == expected.total() + 1


def test_an_insert_returns_an_empty_frame(spark, table):
    frame = qoop.sql(spark, f"INSERT INTO {table} {JOINED}", STAGED)
    assert (frame.columns, frame.collect()) == ([], [])


def test_create_table_as_select(spark):
    try:
        outcome = qoop.execute(
            spark, f"CREATE TABLE made USING parquet PARTITIONED BY (category) COMMENT 'x' AS {JOINED}", STAGED
        )
        assert outcome.counts.stages > 1
        assert rows_of(spark.sql("SELECT category, n FROM made")) == rows_of(spark.sql(JOINED))
        shown = spark.sql("SHOW CREATE TABLE made").first()[0]
        assert "PARTITIONED BY (category)" in shown and "COMMENT 'x'" in shown
        assert qoop.execute(spark, f"CREATE TABLE IF NOT EXISTS made AS {JOINED}", STAGED).counts.stages == 1
        with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_ALREADY_EXISTS"):
            qoop.execute(spark, f"CREATE TABLE made AS {JOINED}", STAGED)
    finally:
        spark.sql("DROP TABLE IF EXISTS made")


def test_texts_that_are_stored_have_the_collation_of_their_database(spark):
    query = f"SELECT if(n > 1, 'A', 'a') AS t, count(*) AS n FROM ({JOINED}) GROUP BY 1"
    with changed(spark, "spark.sql.collation.schemaLevel.enabled", "true"):
        spark.sql("CREATE DATABASE collated DEFAULT COLLATION UTF8_LCASE")
        try:
            spark.sql(f"CREATE TABLE collated.expected USING parquet AS {query}")
            qoop.execute(spark, f"CREATE TABLE collated.made USING parquet AS {query}", STAGED)
            made, expected = spark.table("collated.made"), spark.table("collated.expected")
            assert made.schema == expected.schema
            assert made.count() == expected.count() == 1
        finally:
            spark.sql("DROP DATABASE collated CASCADE")


def test_an_invalid_insert_fails_before_anything_runs(spark, table):
    watched = []
    options = qoop.Options(cut_policy=CutPolicy(everywhere=True), watch=watched.append)
    with session_unchanged(spark), pytest.raises(AnalysisException, match="INSERT_COLUMN_ARITY_MISMATCH"):
        qoop.execute(spark, f"INSERT INTO {table} SELECT n FROM ({JOINED})", options)
    assert watched == []


def test_a_failed_insert_inserts_no_rows(spark, table):
    with session_unchanged(spark), pytest.raises(QueryFailedError, match="DIVIDE_BY_ZERO"):
        qoop.execute(spark, f"INSERT INTO {table} SELECT 'x', n FROM ({FAILS_IN_THE_MIDDLE})", STAGED)
    assert spark.table(table).count() == 0


@pytest.fixture
def kept(monkeypatch):
    """What is kept before it is stored."""
    frames = []

    def note(frame, name):
        frames.append(frame)
        return PersistedRows(frame, name)

    monkeypatch.setattr(api, "PersistedRows", note)
    return frames


SWITCHED = qoop.Options(rules=Rules(force=True), cut_policy=CutPolicy(everywhere=True))

STORED = {
    "INSERT INTO stored": 1,
    "INSERT OVERWRITE stored": 0,
    "CREATE TABLE made USING parquet PARTITIONED BY (category) AS": 0,
}
"""Statements, and how many rows of before are there after them."""

FIRST, *OTHERS = STORED
EACH = [FIRST, *(pytest.param(one, marks=pytest.mark.matrix) for one in OTHERS)]


def stored_by(spark, statement, options):
    """Run a statement; returns how, and the rows of its table, one of which may have been there before."""
    spark.sql("INSERT INTO stored VALUES ('before', 1)")
    try:
        outcome = qoop.execute(spark, f"{statement} {JOINED}", options)
        return outcome, rows_of(spark.sql(f"SELECT category, n FROM {statement.split()[2]}"))
    finally:
        spark.sql("DROP TABLE IF EXISTS made")


@pytest.mark.parametrize("statement", EACH)
def test_rows_of_a_plan_are_stored_directly(spark, table, kept, tmp_path, statement):
    file = tmp_path / "journal"
    outcome, found = stored_by(spark, statement, replace(SWITCHED, journal=file))
    assert found == rows_of(spark.sql(JOINED)) + Counter({("before", 1): STORED[statement]})
    assert outcome.counts.stages > 1 and outcome.counts.switches > 0 and kept == []
    finished = [one["event"] for one in journal.read(file) if one.get("event", {}).get("type") == "StageFinished"]
    assert finished[-1]["rows"] == spark.sql(JOINED).count()


@pytest.mark.parametrize("statement", EACH)
def test_rows_are_stored_once_if_the_last_stage_of_a_plan_fails(spark, table, kept, monkeypatch, statement):
    """It fails while it writes, having begun to: the statement as written then stores the rows."""
    as_planned = SparkEngine._with_written_names
    failing = "CASE WHEN category = 'Music' THEN 1 DIV (n - n) ELSE 1 END = 1"
    monkeypatch.setattr(SparkEngine, "_with_written_names", lambda self, frame: as_planned(self, frame).where(failing))
    warned = []
    outcome, found = stored_by(spark, statement, replace(STAGED, warn=warned.append))
    assert found == rows_of(spark.sql(JOINED)) + Counter({("before", 1): STORED[statement]})
    assert outcome.counts.failed == 1 and kept == []
    assert any("running the query as written" in line and "DIVIDE_BY_ZERO" in line for line in warned)


def test_a_statement_that_may_have_stored_rows_is_not_repeated(spark, table, monkeypatch):
    def fails_late(statement, rows):
        execute(statement, rows)
        raise RuntimeError("Connection reset")

    execute = StatementAsWritten.execute
    monkeypatch.setattr(StatementAsWritten, "execute", fails_late)
    with pytest.raises(QueryFailedError, match="Connection reset"):
        qoop.execute(spark, f"INSERT INTO stored {JOINED}", STAGED)
    assert rows_of(spark.table(table)) == rows_of(spark.sql(JOINED))


def test_what_the_user_has_chosen_to_commit_files_stores_a_complete_result(spark, table, kept):
    committer = "org.apache.parquet.hadoop.ParquetOutputCommitter"
    with changed(spark, "spark.sql.parquet.output.committer.class", committer):
        qoop.execute(spark, f"INSERT INTO stored {JOINED}", STAGED)
    assert rows_of(spark.table(table)) == rows_of(spark.sql(JOINED))
    assert len(kept) == 1


def test_create_view_works(spark):
    qoop.execute(spark, f"CREATE TEMPORARY VIEW grouped AS {JOINED}", STAGED)
    try:
        assert rows_of(spark.table("grouped")) == rows_of(spark.sql(JOINED))
    finally:
        spark.catalog.dropTempView("grouped")


def test_other_statements_run_once_as_written(spark):
    qoop.sql(spark, "CREATE TABLE plain (a INT) USING parquet")
    assert [row.tableName for row in qoop.collect(spark, "SHOW TABLES LIKE 'plain'").rows] == ["plain"]
    assert [row.col_name for row in qoop.sql(spark, "DESCRIBE TABLE plain").collect()] == ["a"]
    qoop.collect(spark, "DROP TABLE plain")
    assert not spark.catalog.tableExists("plain")
    assert qoop.collect(spark, "VALUES (1), (2)").rows == [(1,), (2,)]


def test_a_script_is_executed_once(spark, table):
    text = f"-- two statements\nBEGIN INSERT INTO {table} VALUES ('a', 7); SELECT count(*) AS rows FROM {table}; END"
    written = sessions.QueryAsWritten(spark, text)
    assert written.is_command
    frames = [written.frame(), written.frame()]
    assert [frame.collect()[0].rows for frame in frames] == [spark.table(table).count()] * 2
    assert not sessions.QueryAsWritten(spark, "SELECT 1 AS begin").is_command


def test_write_returns_the_complete_result(spark, tmp_path):
    place = str(tmp_path / "rows")
    with session_unchanged(spark):
        qoop.write(spark, SALES, STAGED, lambda frame: frame.write.parquet(place))
    assert rows_of(spark.read.parquet(place)) == rows_of(spark.sql(SALES))


def test_a_failed_writer_leaves_the_session_unchanged(spark):
    def refuse(frame):
        raise QoopError("full")

    with session_unchanged(spark), pytest.raises(QoopError, match="full"):
        qoop.write(spark, SALES, STAGED, refuse)


# Cleanup.


@one_in(2, "files", [False, True])
def test_a_query_leaves_the_session_unchanged(spark, tmp_path, files):
    options = qoop.Options(
        cut_policy=CutPolicy(everywhere=True),
        rules=Rules(force=True),
        checkpoint=tmp_path.as_uri() if files else None,
        journal=tmp_path / "journal",
    )
    with session_unchanged(spark):
        assert qoop.collect(spark, SALES, options).outcome.counts.switches > 0
    assert not list(tmp_path.glob("qoop-*"))


@one_in(2, "files", [False, True])
@one_in(2, "call", [qoop.sql, qoop.collect])
def test_a_failed_query_leaves_the_session_unchanged(spark, tmp_path, files, call):
    # An error of the feed occurs while stages run; one of the last stage would occur when the frame is used.
    class FailingFeed:
        def start(self, on_share):
            raise QoopError("no share")

        def close(self):
            pass

    options = qoop.Options(
        cut_policy=CutPolicy(everywhere=True), checkpoint=tmp_path.as_uri() if files else None, feed=FailingFeed
    )
    with session_unchanged(spark), pytest.raises(QoopError, match="no share"):
        call(spark, SALES, options)
    assert not list(tmp_path.glob("qoop-*"))


def test_an_error_of_a_query_is_reported_as_spark_does_on_one_line(spark):
    with session_unchanged(spark), pytest.raises(QueryFailedError, match=r"^\[DIVIDE_BY_ZERO\]") as problem:
        qoop.collect(spark, FAILS_IN_THE_MIDDLE, STAGED)
    assert "\n" not in str(problem.value)


def test_a_frame_cached_by_the_user_stays_cached(spark):
    mine = spark.sql(JOINED).cache()
    mine.count()
    try:
        with session_unchanged(spark):
            qoop.write(spark, JOINED, qoop.Options(replanning=False), lambda frame: frame.count())
        assert mine.storageLevel.useMemory
    finally:
        mine.unpersist(blocking=True)


def test_the_active_session_is_still_the_users(spark):
    qoop.collect(spark, SALES, STAGED)
    assert spark.sparkContext.parallelize([(1, 2)]).toDF(["a", "b"]).sparkSession is spark
    assert SparkSession.getActiveSession()._jsparkSession.equals(spark._jsparkSession)


def test_many_queries_leak_no_threads_or_connections(spark):
    qoop.collect(spark, "SELECT count(*) FROM store")
    gc.collect()
    before, sockets = threading.active_count(), connections(spark)
    for _ in range(30):
        qoop.collect(spark, "SELECT count(*) FROM store")
    gc.collect()
    assert threading.active_count() <= before
    wait_until(lambda: connections(spark) <= sockets + 5)


def connections(spark):
    """The number of JVM threads that serve Python connections; they have Java's default names."""
    threads = spark._jvm.java.lang.Thread.getAllStackTraces().keySet().toArray()
    return sum(bool(re.fullmatch(r"Thread-\d+", thread.getName())) for thread in threads)


# Cancellation.


def has_long_job(spark):
    """Whether a job runs for half a second; between two jobs there is nothing to cancel."""
    before = set(active_jobs(spark))
    threading.Event().wait(0.5)
    return bool(before & set(active_jobs(spark)))


@one_in(2, "how", ["tag", "group", "all", "session"])
def test_cancelling_the_users_jobs_cancels_the_query(spark, slow_views, how):
    context = spark.sparkContext
    watched = []
    options = qoop.Options(cut_policy=CutPolicy(everywhere=True), watch=watched.append)

    def run():
        context.addJobTag("mine")
        context.setJobGroup("group of mine", "a report", interruptOnCancel=True)
        qoop.collect(spark, SLOW, options)

    with session_unchanged(spark):
        thread, errors = in_thread(run)
        wait_until(lambda: has_long_job(spark) and any(isinstance(one, StartStage) for one in watched))
        {
            "tag": lambda: context.cancelJobsWithTag("mine"),
            "group": lambda: context.cancelJobGroup("group of mine"),
            "all": context.cancelAllJobs,
            "session": spark.interruptAll,
        }[how]()
        thread.join(60)
        assert not thread.is_alive()
        (error,) = errors
        assert isinstance(error, QueryFailedError) and "SPARK_JOB_CANCELLED" in str(error)


@one_in(2, "call", [qoop.collect, qoop.sql])
def test_a_query_that_is_cancelled_while_it_is_planned_does_not_run(spark, monkeypatch, call):
    """As a table is sampled by a job."""
    sampling = "SELECT count(*) FROM range(0, 1000000000000, 1, 2) WHERE hash(id) = 3"
    monkeypatch.setattr(SparkCatalogue, "statistics", lambda self, table: spark.sql(sampling).collect())
    started = []
    options = replace(STAGED, watch=started.append)
    with session_unchanged(spark):
        thread, errors = in_thread(lambda: call(spark, JOINED, options))
        wait_until(lambda: has_long_job(spark))
        spark.sparkContext.cancelAllJobs()
        thread.join(60)
        assert not thread.is_alive()
        (error,) = errors
        assert isinstance(error, QueryFailedError) and "SPARK_JOB_CANCELLED" in str(error)
        assert started == []


def test_a_stage_whose_thread_cannot_start_fails_the_query(spark, monkeypatch):
    """PySpark's own part of the thread fails when Spark has stopped meanwhile."""

    def run(thread, run=threading.Thread.run):
        if isinstance(thread, InheritableThread):
            raise AssertionError("no active context")
        run(thread)

    monkeypatch.setattr(threading.Thread, "run", run)
    with session_unchanged(spark), pytest.raises(QueryFailedError, match="Spark has stopped: no active context"):
        qoop.collect(spark, JOINED, STAGED)


def test_planning_counts_towards_the_timeout(spark, slow_views, monkeypatch):
    """By a clock by which planning takes almost all of it."""
    planned = []

    def plan(query, original=SessionQuery._make_plans):
        found = original(query)
        planned.append(query)
        return found

    monkeypatch.setattr(SessionQuery, "_make_plans", plan)
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + 599.5 * len(planned))
    monkeypatch.setattr(session_query, "time", clock)
    with session_unchanged(spark), pytest.raises(QueryFailedError, match="longer than its timeout of 600 s"):
        qoop.collect(spark, SLOW, replace(STAGED, timeout=600.0))


@one_in(2, "statement", ["INSERT OVERWRITE DIRECTORY '{}' USING csv", "WITH w AS (SELECT 1) {}"])
def test_statements_that_spark_executes_at_once_are_stopped(spark, tmp_path, statement):
    rows = "SELECT count(*) FROM range(0, 1000000000000, 1, 2) WHERE hash(id) = 3"
    spark.sql("CREATE TABLE IF NOT EXISTS counted (n BIGINT) USING parquet")
    text = statement.format(tmp_path / "made" if "DIRECTORY" in statement else "INSERT INTO counted") + f" {rows}"
    try:
        with session_unchanged(spark), pytest.raises(QueryFailedError, match=r"longer than its timeout of 0\.5 s"):
            qoop.collect(spark, text, qoop.Options(timeout=0.5))
        assert spark.table("counted").count() == 0 and not (tmp_path / "made/_SUCCESS").exists()
    finally:
        spark.sql("DROP TABLE counted")


@pytest.mark.parametrize(
    "statement", ["SET spark.sql.x.y = 1", "CREATE OR REPLACE TEMPORARY VIEW done AS SELECT 1 AS n"]
)
def test_a_statement_that_is_done_does_not_fail_by_its_timeout(spark, statement):
    try:
        qoop.collect(spark, statement, qoop.Options(timeout=1e-6))
    finally:
        spark.conf.unset("spark.sql.x.y")
        spark.catalog.dropTempView("done")


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan"), float("inf"), 1e10, "5"])
def test_timeouts_out_of_range_are_refused(seconds):
    with pytest.raises(QoopError, match="must be seconds, more than 0 and at most 1e"):
        qoop.Options(timeout=seconds)


@one_in(
    2,
    ("call", "options"),
    [(qoop.sql, STAGED), (qoop.collect, STAGED), (qoop.collect, qoop.Options(replanning=False))],
    ids=["sql", "collect", "as written"],
)
def test_an_interrupted_query_stops_its_work(spark, slow_views, call, options):
    """Ctrl-C in the user's program while it waits for the query."""
    waiting = threading.get_ident()

    def interrupt():
        wait_until(lambda: has_long_job(spark))
        signal.pthread_kill(waiting, signal.SIGINT)

    with session_unchanged(spark):
        thread = threading.Thread(target=interrupt)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            call(spark, SLOW, options)
        thread.join()


class AlarmError(Exception):
    """What a user's signal handler raises."""


def test_an_alarm_of_the_user_stops_a_query_that_is_not_planned(spark, slow_views):
    def ring(number, frame):
        raise AlarmError

    before = signal.signal(signal.SIGALRM, ring)
    try:
        with session_unchanged(spark):
            signal.alarm(3)
            with pytest.raises(AlarmError):
                qoop.collect(spark, SLOW, qoop.Options(replanning=False))
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


# Errors.


def test_invalid_queries_fail_with_the_errors_of_spark(spark):
    with session_unchanged(spark):
        with pytest.raises(ParseException, match=r"near 'item'.* \(line 1, pos 14\)"):
            qoop.sql(spark, "SELECT * FORM item")
        with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
            qoop.sql(spark, "SELECT * FROM itm")
        with pytest.raises(AnalysisException, match=r"Did you mean .*`i_item_sk`"):
            qoop.collect(spark, "SELECT i_item_skk FROM item")


def test_an_error_of_the_planner_does_not_fail_the_query(spark, monkeypatch):
    def broken(*args, **named):
        raise ZeroDivisionError("a defect of the planner")

    monkeypatch.setattr(KnownPlans, "plan", broken)
    answer = qoop.collect(spark, JOINED, STAGED)
    assert Counter(map(tuple, answer.rows)) == rows_of(spark.sql(JOINED))
    assert answer.outcome.one_stage_reason == "the planner failed: ZeroDivisionError: a defect of the planner"


def test_an_unusable_checkpoint_is_an_error_or_the_query_runs_as_written(spark, tmp_path):
    with session_unchanged(spark), pytest.raises(QoopError, match=r"^checkpoint 'nowhere://x': .*scheme"):
        qoop.sql(spark, JOINED, qoop.Options(checkpoint="nowhere://x"))
    (tmp_path / "file").write_text("")
    warned = []
    options = qoop.Options(
        cut_policy=CutPolicy(everywhere=True), checkpoint=(tmp_path / "file").as_uri(), warn=warned.append
    )
    answer = qoop.collect(spark, JOINED, options)
    assert Counter(map(tuple, answer.rows)) == rows_of(spark.sql(JOINED))
    assert any("running the query as written" in line for line in warned)


@one_in(2, "name", ["a[1]", "{a,b}", "a*", "it's 100% a; b#1"])
def test_a_checkpoint_folder_of_any_name(spark, tmp_path, name):
    warned = []
    answer = qoop.collect(spark, JOINED, replace(STAGED, checkpoint=f"file:{tmp_path}/{name}", warn=warned.append))
    assert Counter(map(tuple, answer.rows)) == rows_of(spark.sql(JOINED))
    assert warned == [] and answer.outcome.counts.failed == 0 and answer.outcome.counts.stages > 1


def test_a_checkpoint_must_be_text(tmp_path):
    with pytest.raises(QoopError, match=r"^checkpoint PosixPath.* must be a URL"):
        qoop.Options(checkpoint=tmp_path)


def test_local_parquet_files_are_counted_whatever_their_names_and_without_a_job(spark, tmp_path):
    folder = tmp_path / "it's 100% a; isDirectory #1"
    spark.range(100, numPartitions=2).write.parquet(str(folder))
    rows = "SELECT id, 'x y%20' || id % 7 AS part FROM range(50)"
    spark.sql(f"CREATE TABLE by_text USING parquet PARTITIONED BY (part) AS {rows}")
    spark.read.parquet(str(folder)).createOrReplaceTempView("odd")
    before = spark.sparkContext._jsc.sc().dagScheduler().nextJobId()
    try:
        known = [SparkCatalogue(spark).statistics(table).rows for table in ("odd", "by_text")]
        assert known == [100.0, 50.0]
        assert spark.sparkContext._jsc.sc().dagScheduler().nextJobId() == before
    finally:
        spark.sql("DROP TABLE by_text")
        spark.catalog.dropTempView("odd")


def test_analysed_columns_are_known_to_the_planner_as_to_spark(spark):
    """Of a partition's column the folders say as much."""
    spark.sql("CREATE TABLE by_day (k INT, name STRING, day INT) USING parquet PARTITIONED BY (day)")
    spark.sql("INSERT INTO by_day SELECT id % 10, IF(id < 25, NULL, 'x'), 1 + id % 4 FROM range(100)")
    assert SparkCatalogue(spark).statistics("by_day").columns["day"] == ColumnStatistics(4.0, 0.0, 8.0, 1.0, 4.0)
    spark.sql("ANALYZE TABLE by_day COMPUTE STATISTICS FOR ALL COLUMNS")
    known = SparkCatalogue(spark).statistics("by_day")
    assert known.rows == 100
    assert known.columns["day"] == ColumnStatistics(4.0, 0.0, 8.0, 1.0, 4.0)
    assert known.columns["k"] == ColumnStatistics(10.0, 0.0, 8.0, 0.0, 9.0)
    assert (known.columns["name"].distinct, known.columns["name"].nulls) == (1.0, 0.25)


def test_a_sample_by_spark_leaves_out_what_python_does_not_have(spark, tmp_path):
    values = (
        "date'+12000-01-01' AS day, timestamp'-0100-01-01 00:00:00' AS at, INTERVAL '1' YEAR AS term, array(1) AS list"
    )
    spark.sql(f"SELECT id, {values} FROM range(5)").write.orc(str(tmp_path / "far"))
    spark.read.orc(str(tmp_path / "far")).createOrReplaceTempView("far")
    try:
        known = SparkCatalogue(spark).statistics("far")
        assert known.rows == 5
        assert {name: set(values) for name, values in known.sample.items()} == {
            "id": {0, 1, 2, 3, 4},
            "day": {None},
            "at": {None},
        }
        joined = "SELECT f.id FROM far f JOIN far g USING (id) JOIN far h USING (id)"
        assert qoop.collect(spark, joined, STAGED).outcome.counts.stages > 1
    finally:
        spark.catalog.dropTempView("far")


def test_char_columns_are_compared_as_spark_compares_them(spark):
    """Spark compares `char` with or without padding, depending on the other side, so equality is not transitive."""
    spark.sql("CREATE TABLE fixed (k CHAR(3), n INT) USING parquet")
    for name in ("plain", "other", "fourth"):
        spark.sql(f"CREATE TABLE {name} (k STRING) USING parquet")
    spark.sql("INSERT INTO fixed VALUES ('a', 1), ('b  ', 2)")
    spark.sql("INSERT INTO plain VALUES ('a'), ('a  '), ('b')")
    spark.sql("INSERT INTO other VALUES ('a'), ('a  '), ('b  ')")
    spark.sql("INSERT INTO fourth VALUES ('a  '), ('b'), ('a')")
    text = (
        "SELECT p.k, o.k AS m, f.n FROM fixed f, plain p, other o, fourth q WHERE p.k = f.k AND f.k = o.k AND o.k = q.k"
    )
    assert SparkCatalogue(spark).columns("fixed") == {"k": "char(3)", "n": "int"}
    assert Counter(qoop.collect(spark, text, STAGED).rows) == Counter(spark.sql(text).collect())


def test_rows_of_an_rdd_are_not_computed_to_learn_of_them(spark):
    """A function of the user's makes them, which may take any time."""
    made = spark.sparkContext.accumulator(0)

    def slowly(rows):
        for row in rows:
            made.add(1)
            yield (row, row % 7)

    rows = spark.createDataFrame(spark.sparkContext.parallelize(range(100), 4).mapPartitions(slowly), "k long, v long")
    rows.createOrReplaceTempView("made_here")
    try:
        assert SparkCatalogue(spark).statistics("made_here").rows == UNKNOWN.rows
        assert made.value == 0
        text = "SELECT count(*) AS n FROM made_here JOIN item ON k = i_item_sk JOIN store ON v = s_store_sk"
        assert qoop.collect(spark, text, STAGED).rows == spark.sql(text).collect()
    finally:
        spark.catalog.dropTempView("made_here")


def test_stored_rows_are_read_by_fewer_tasks_than_wrote_them(spark):
    """Each of many partitions with few rows would take a task of every stage that reads them."""
    session = query_session(spark)
    stored = ExecutorCheckpoints(session)
    rows = spark.sparkContext.parallelize([(number, number % 7) for number in range(1000)], 100)
    many = session.createDataFrame(rows, "id long, k long")
    try:
        for view, frame, partitions in (("qoop_a", many, 8), ("qoop_b", many.coalesce(3), 3)):
            assert stored.save(view, frame).rows == 1000
            read = session.table(view)
            assert read.rdd.getNumPartitions() == partitions
            assert read.agg({"id": "sum"}).collect()[0][0] == 499500
        stored.save("qoop_c", many.repartition(50, "k"))
        assert session.table("qoop_c").rdd.getNumPartitions() == 50, "partitioned by values"
    finally:
        stored.release()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"journal": "/no/such/q.journal"}, "no such directory"),
        ({"checkpoint": "nowhere://x"}, "checkpoint 'nowhere://x'"),
        ({}, "spark.qoop.plan 'off'"),
    ],
)
def test_options_are_refused_before_a_statement_is_executed(spark, table, options, said):
    before = spark.table(table).count()
    with changed(spark, "spark.qoop.plan", "off" if not options else "auto"), pytest.raises(QoopError, match=said):
        qoop.sql(spark, f"INSERT INTO {table} VALUES ('a', 2)", qoop.Options(**options))
    assert spark.table(table).count() == before


def test_parameters_are_refused_in_a_sentence(spark):
    for given in ({"d": 1}, {}, [1]):
        with pytest.raises(QoopError, match=r"options .*: must be qoop\.Options; a text has no parameters"):
            qoop.sql(spark, "SELECT :d AS d", given)


def test_jobs_of_stages_have_the_users_description_too(spark):
    spark.sparkContext.setLocalProperty("spark.job.description", "report for sales")
    try:
        qoop.collect(spark, SALES, STAGED)
    finally:
        spark.sparkContext.setLocalProperty("spark.job.description", None)
    jobs = spark.sparkContext._jsc.sc().statusStore().jobsList(None)
    latest = max((jobs.apply(place) for place in range(jobs.size())), key=lambda job: job.jobId())
    assert str(latest.description().get()).startswith("report for sales (qoop-")
