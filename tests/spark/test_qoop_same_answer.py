"""Settings and constructs under which a plan could silently mean something else than the query as written."""

import re
import sys
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from pyspark.errors import AnalysisException, ArithmeticException
from pyspark.sql.datasource import DataSource, DataSourceReader
from pyspark.sql.functions import col, udf

import qoop
from qoop.engine import verification
from qoop.engine.checkpoints import ExecutorCheckpoints
from qoop.engine.session import query_session
from qoop.engine.verification import DifferentPlanError, Verification
from qoop.errors import QoopError
from qoop.plans.candidates import CutPolicy
from tests.sampled import one_in
from tests.spark.spark_sessions import changed, local_session, small_data

pytestmark = pytest.mark.integration

STAGED = qoop.Options(cut_policy=CutPolicy(everywhere=True))


@pytest.fixture(scope="module")
def spark(tmp_path_factory):
    with local_session(tmp_path_factory.mktemp("spark"), small_data()) as session:
        session.sql(
            r"CREATE TEMPORARY VIEW t AS SELECT * FROM "
            r"VALUES (1, 'a1', 10), (2, '\\d', 20), (3, 'x', 30) AS t(id, s, v)"
        )
        session.sql("CREATE TEMPORARY VIEW u AS SELECT * FROM VALUES (1, 5), (2, 6), (3, 7), (3, 8) AS u(id, w)")
        session.sql("CREATE TEMPORARY VIEW w AS SELECT * FROM VALUES (1, 'p'), (2, 'q'), (3, 'r') AS w(id, name)")
        yield session


@contextmanager
def settings(spark, **values):
    """The session with other settings, names without `spark.sql.`."""
    with ExitStack() as stack:
        for name, value in values.items():
            stack.enter_context(changed(spark, f"spark.sql.{name.replace('__', '.')}", value))
        yield


def rows_of(frame):
    """The rows of a frame, whatever their order."""
    return sorted(map(repr, frame.collect()))


def same_answer(spark, text, options=STAGED):
    """The outcome of a query, after its rows were compared with Spark's; both in any order."""
    expected = spark.sql(text)
    answer = qoop.collect(spark, text, options)
    assert answer.columns == [(field.name, field.dataType.simpleString()) for field in expected.schema.fields]
    assert sorted(map(repr, answer.rows)) == rows_of(expected)
    assert answer.rows, "a query without rows shows nothing"
    return answer.outcome


JOINED = "FROM t AS a JOIN u AS b ON a.id = b.id JOIN w AS c ON c.id = b.id"


@one_in(
    2,
    "expression",
    [
        "to_json(named_struct('orderId', a.id))",
        "to_json(struct(a.id AS orderId))",
        "to_json(struct(a.id AS orderId, struct(b.w AS Inner) AS Outer))",
        "map_from_entries(array(struct('Key' AS K, a.v AS V)))",
    ],
)
def test_names_of_fields_keep_their_case(spark, expression):
    same_answer(spark, f"SELECT a.id, {expression} AS x {JOINED}")


def test_numbers_with_suffixes_are_planned(spark):
    numbers = "-2L AS l, 1.50D AS d, CAST(-0.0D AS STRING) AS z, 2.5F AS f, -4S AS s, 3Y AS y"
    outcome = same_answer(spark, f"SELECT a.id, {numbers}, b.w * 1e-1D AS e {JOINED} WHERE a.v > 1.5D AND b.w <> -1L")
    assert outcome.counts.stages > 1, outcome.one_stage_reason


DATED = "(SELECT id, s, v, date_add(DATE '2000-01-01', id) AS d, v > 10 AS big FROM t)"

PLANNED = {
    "a column as a condition": "SELECT a.id FROM {a} AS a {others} WHERE a.big",
    "negated": "SELECT a.id FROM {a} AS a {others} WHERE NOT a.big OR a.id = 3",
    "only that column": "SELECT b.w FROM {a} AS a JOIN u AS b ON a.big JOIN w AS c ON c.id = b.id WHERE a.big",
    "date_sub": """
        SELECT a.id, date_sub(a.d, b.w) AS x FROM {a} AS a {others} WHERE a.d >= date_sub(DATE '2000-02-01', 30)
    """,
    "USING": "SELECT id, v, w FROM {a} AS a JOIN u USING (id) JOIN w USING (id) WHERE id > 1",
    "USING, outer": """
        SELECT id, v, w, name, q FROM {a} AS a JOIN u USING (id) JOIN w USING (id)
          LEFT JOIN (SELECT id, v AS q FROM t) AS x USING (id)
        WHERE id < 3
    """,
    "NATURAL": "SELECT id, w, name FROM {a} AS a NATURAL JOIN u NATURAL JOIN w WHERE id >= 2",
    "USING a grouping": """
        SELECT id, v, n FROM {a} AS a
          JOIN (SELECT id, count(*) AS n FROM u GROUP BY id) AS k USING (id) JOIN w USING (id)
        WHERE id > 1
    """,
    "parentheses": """
        SELECT a.id, w FROM {a} AS a JOIN (u AS b JOIN (w AS c) ON c.id = b.id) ON a.id = b.id WHERE v > 5
    """,
    "parentheses at first": """
        SELECT a.id, c.name, e.v FROM (((t) AS a JOIN u AS b ON a.id = b.id) JOIN w AS c ON c.id = b.id)
          CROSS JOIN (t AS e)
    """,
    "parentheses around all": "SELECT * FROM (t AS a JOIN (u AS b JOIN w AS c ON c.id = b.id) ON c.id < a.id + b.w)",
    "floating-point keys": """
        SELECT b.w, c.name FROM (SELECT CAST(id AS DOUBLE) AS k FROM t) AS a
          JOIN (SELECT CAST(id AS DOUBLE) AS k, w FROM u) AS b ON a.k = b.k
          JOIN (SELECT CAST(id AS DOUBLE) AS k, name FROM w) AS c ON c.k = b.k
        WHERE b.k > 1
    """,
    "alike but for their places": """
        WITH p AS (SELECT id, v FROM t), q AS (SELECT id, v FROM t)
        SELECT q.v, p.v AS z FROM q JOIN p ON p.id = q.id JOIN u AS b ON b.id = p.id
    """,
    "an ordered CTE": """
        WITH s AS (SELECT a.id, b.w FROM {a} AS a {others} ORDER BY a.id DESC, b.w)
        SELECT id + 1 AS i FROM s WHERE w > 5
    """,
    "functions": """
        SELECT instr(a.s, 'a') AS i, log10(a.v) AS l, log2(a.v) AS k, to_unix_timestamp(a.s, 'yyyy') IS NULL AS u,
          unix_date(a.d) AS e, from_utc_timestamp(a.d, 'CET') AS f, to_timestamp('2000-01-01') AS t,
          date('2000-01-02') AS d, to_char(b.w, '99') AS c
        FROM {a} AS a {others} WHERE instr(a.s, 'z') = 0
    """,
}


@one_in(3, "form", PLANNED)
def test_common_forms_are_planned(spark, form):
    others = "JOIN u AS b ON a.id = b.id JOIN w AS c ON c.id = b.id"
    warned = []
    with settings(spark, ansi__enabled="false"):
        text = PLANNED[form].format(a=DATED, others=others)
        outcome = same_answer(spark, text, replace(STAGED, warn=warned.append))
    assert outcome.counts.stages > 1, outcome.one_stage_reason
    assert warned == []


@one_in(
    2,
    "source",
    [
        "t AS a LEFT JOIN (u AS b JOIN w AS c ON c.id = b.id AND b.w > 6) ON a.id = b.id JOIN t AS d ON d.id = a.id",
        "t AS a JOIN (u AS b LEFT JOIN w AS c ON c.id = b.id AND b.w > 6) ON a.id = b.id JOIN t AS d ON d.id = a.id",
        "(t AS a FULL JOIN u AS b ON a.id + 1 = b.id) JOIN (w AS c JOIN t AS d ON c.id = d.id) ON d.id = a.id",
        "t AS a JOIN (u AS b JOIN w AS c USING (id)) ON a.id = b.id JOIN t AS d ON d.id = a.id",
    ],
)
def test_outer_joins_in_parentheses(spark, source):
    same_answer(spark, f"SELECT a.v, b.w, c.name, d.s FROM {source}")


def test_names_of_fields_keep_their_case_in_aggregates(spark):
    same_answer(
        spark, f"SELECT a.id, to_json(sort_array(collect_list(struct(b.w AS lineNo)))) AS x {JOINED} GROUP BY a.id"
    )


def test_double_quotes_may_mean_identifiers(spark):
    with settings(spark, ansi__enabled="true", ansi__doubleQuotedIdentifiers="true"):
        outcome = same_answer(spark, f'SELECT a."s" AS x, "w" AS "y""z" {JOINED} WHERE "v" > 15')
        assert outcome.counts.stages > 1


def test_double_quotes_may_mean_identifiers_in_statements_that_store_rows(spark):
    with settings(spark, ansi__enabled="true", ansi__doubleQuotedIdentifiers="true"):
        try:
            made = qoop.execute(spark, f'CREATE TABLE quoted USING parquet AS SELECT a.id, "s" AS x {JOINED}', STAGED)
            added = qoop.execute(spark, f'INSERT INTO quoted SELECT a.id + 10, "s" {JOINED}', STAGED)
            assert made.counts.stages > 1 and added.counts.stages > 1
            assert {row.x for row in spark.table("quoted").collect()} == {"a1", r"\d", "x"}
        finally:
            spark.sql("DROP TABLE IF EXISTS quoted")


def test_backslashes_in_strings_may_be_plain_characters(spark):
    with settings(spark, parser__escapedStringLiterals="true"):
        text = rf"""SELECT a.id, a.s, '\n' || a.s AS n, "\t" AS t {JOINED} WHERE a.s RLIKE '\d'"""
        outcome = same_answer(spark, text)
        assert outcome.counts.stages > 1


def test_backslashes_in_strings_that_are_stored_may_be_plain_characters(spark):
    with settings(spark, parser__escapedStringLiterals="true"):
        try:
            text = rf"CREATE TABLE plain USING parquet AS SELECT a.id, '\n' AS x {JOINED}"
            assert qoop.execute(spark, text, STAGED).counts.stages > 1
            assert {row.x for row in spark.table("plain").collect()} == {r"\n"}
        finally:
            spark.sql("DROP TABLE IF EXISTS plain")


@one_in(
    3,
    "text",
    [
        "SELECT x.id, x.A, b.w FROM cased AS x JOIN u AS b ON x.id = b.id JOIN w AS c ON c.id = b.id",
        "SELECT X.a, x.A FROM cased AS x JOIN cased AS X ON x.A = X.A JOIN w AS c ON c.id = x.id WHERE X.a > 10",
        "SELECT x.S.Inner, x.S.inner FROM cased AS x JOIN u AS b ON x.id = b.id JOIN w AS c ON c.id = b.id",
        "WITH q AS (SELECT A AS n, a AS N, id FROM cased) SELECT q.n, q.N, b.w"
        " FROM q JOIN u AS b ON b.id = q.id JOIN w AS c ON c.id = b.id WHERE q.N > 10",
        "SELECT x.a, sum(x.A) AS A, max(b.w) AS a FROM cased AS x JOIN u AS b ON x.id = b.id JOIN w AS c ON c.id = b.id"
        " GROUP BY x.a HAVING sum(x.A) < 0 ORDER BY A",
        "SELECT * FROM cased JOIN u USING (id) JOIN w USING (id)",
    ],
)
def test_names_may_be_case_sensitive(spark, text):
    with settings(spark, caseSensitive="true"):
        spark.sql(
            "CREATE OR REPLACE TEMPORARY VIEW cased AS"
            " SELECT id, v AS a, -v AS A, named_struct('inner', v, 'Inner', -v) AS S FROM t"
        )
        try:
            assert same_answer(spark, text).counts.stages > 1
        finally:
            spark.catalog.dropTempView("cased")


def test_a_name_in_another_case_is_unknown_where_names_are_case_sensitive(spark):
    with settings(spark, caseSensitive="true"), pytest.raises(AnalysisException, match="UNRESOLVED_COLUMN"):
        qoop.sql(spark, f"SELECT a.S {JOINED}", STAGED)


def test_columns_of_a_join_with_using_keep_their_order(spark):
    same_answer(spark, "SELECT * FROM t JOIN u USING (id) JOIN w USING (id)")
    same_answer(spark, "SELECT * FROM w, t JOIN u USING (id) WHERE w.id = t.v / 10")


@one_in(3, "hidden", ["rand()", "uuid()", "monotonically_increasing_id()"])
def test_a_volatile_expression_hidden_in_a_view_is_evaluated_once(spark, hidden):
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW hidden AS SELECT id, {hidden} AS r FROM t")
    try:
        text = "SELECT x.r, u.w FROM hidden AS x JOIN u ON x.id = u.id JOIN w ON w.id = u.id"
        outcome = qoop.collect(spark, text, STAGED).outcome
        assert outcome.counts.stages == 1
    finally:
        spark.catalog.dropTempView("hidden")


def test_a_nondeterministic_function_hidden_in_a_view_is_not_split(spark):
    spark.udf.register("tick", udf(lambda value: value, "int", useArrow=False).asNondeterministic())
    spark.sql("CREATE OR REPLACE TEMPORARY VIEW ticking AS SELECT id, tick(v) AS r FROM t")
    try:
        outcome = same_answer(spark, "SELECT x.r, u.w FROM ticking x JOIN u ON x.id = u.id JOIN w ON w.id = u.id")
        assert outcome.counts.stages == 1
    finally:
        spark.catalog.dropTempView("ticking")
        spark.sql("DROP TEMPORARY FUNCTION tick")


def test_a_plain_query_is_still_split(spark):
    outcome = same_answer(spark, f"SELECT a.s, sum(b.w) AS total, max(c.name) AS name {JOINED} GROUP BY a.s")
    assert outcome.counts.stages > 1


@one_in(
    5,
    "now",
    [
        "current_date",
        "current_date() - 1",
        "curdate()",
        "now()",
        "current_timestamp",
        "date_trunc('day', now())",
        "timestamp_seconds(unix_timestamp())",
        "localtimestamp()",
        "cast(localtimestamp() AS DATE)",
    ],
)
def test_the_current_time_is_the_same_in_all_stages(spark, now):
    text = f"SELECT a.id, {now} >= DATE '2020-01-01' AS late, c.name {JOINED} WHERE {now} > DATE '2019-01-01'"
    assert same_answer(spark, text).counts.stages > 1


def test_the_time_of_day_is_the_same_in_all_stages(spark):
    """Also a literal of a time, which the planner writes again as one."""
    text = f"SELECT a.id, current_time(6) >= TIME '00:00:00' AS late {JOINED} WHERE current_time() >= TIME '00:00:00'"
    assert same_answer(spark, text).counts.stages > 1


def test_the_current_time_hidden_in_a_view_is_read_once(spark):
    spark.sql("CREATE OR REPLACE TEMPORARY VIEW timed AS SELECT id, current_date() AS d FROM t")
    try:
        text = "SELECT x.d > DATE '2020-01-01' AS late FROM timed AS x JOIN u ON x.id = u.id JOIN w ON w.id = u.id"
        warned = []
        answer = qoop.collect(spark, text, replace(STAGED, warn=warned.append))
        assert [row.late for row in answer.rows] == [True] * 4
        assert any("current time" in line for line in warned)
    finally:
        spark.catalog.dropTempView("timed")


@one_in(
    5,
    "part",
    [
        "(SELECT id, v FROM t LIMIT 2)",
        "(SELECT id, v FROM t ORDER BY s OFFSET 1)",
        "(SELECT id, row_number() OVER (ORDER BY v % 10) AS v FROM t)",
        "(SELECT id, sum(v) OVER (ORDER BY v % 10 ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS v FROM t)",
        "(SELECT id, lag(v) OVER (ORDER BY v % 10) AS v FROM t)",
        "(SELECT id, first(v) AS v FROM t GROUP BY id)",
        "(SELECT id, last(v) AS v FROM t GROUP BY id)",
        "(SELECT id, any_value(v) AS v FROM t GROUP BY id)",
        "(SELECT id, collect_list(v) AS v FROM t GROUP BY id)",
        "(SELECT id, collect_set(v) AS v FROM t GROUP BY id)",
        "(SELECT id, array_agg(v) AS v FROM t GROUP BY id)",
        "(SELECT id, string_agg(s, '-') AS v FROM t GROUP BY id)",
        "(SELECT id, mode(v) AS v FROM t GROUP BY id)",
        "(SELECT id, min_by(v, v % 10) AS v FROM t GROUP BY id)",
        "(SELECT id, max_by(v, v % 10) AS v FROM t GROUP BY id)",
        "(SELECT id, percentile_approx(v, 0.5) AS v FROM t GROUP BY id)",
        "(SELECT id, nth_value(v, 1) OVER (ORDER BY v % 10) AS v FROM t)",
        "(SELECT id, ntile(2) OVER (ORDER BY v % 10) AS v FROM t)",
        "(SELECT id, collect_list(v) OVER (ORDER BY v % 10) AS v FROM t)",
        "(SELECT id, first(v) OVER (PARTITION BY id % 2) AS v FROM t)",
        "(SELECT id, v FROM t TABLESAMPLE (50 PERCENT))",
    ],
)
def test_a_part_that_may_have_other_rows_when_computed_again_is_not_split(spark, part):
    text = f"SELECT x.v, u.w FROM {part} AS x JOIN u ON x.id = u.id JOIN w ON w.id = u.id"
    warned = []
    outcome = qoop.collect(spark, text, replace(STAGED, warn=warned.append)).outcome
    assert outcome.one_stage_reason or any("as written" in line for line in warned)
    assert outcome.counts.failed == 0


@one_in(
    2,
    "part",
    [
        "(SELECT id, rank() OVER (ORDER BY v) AS v FROM t)",
        "(SELECT id, max(v) OVER (PARTITION BY id) AS v FROM t)",
        "(SELECT id, sum(sum(v)) OVER (ORDER BY id ROWS UNBOUNDED PRECEDING) AS v FROM t GROUP BY id)",
    ],
)
def test_a_window_that_leaves_nothing_open_is_split(spark, part):
    text = f"SELECT x.v, u.w FROM {part} AS x JOIN u ON x.id = u.id JOIN w ON w.id = u.id ORDER BY x.v, u.w LIMIT 3"
    assert same_answer(spark, text).counts.stages > 1


def test_the_current_user_is_the_same_in_all_stages(spark):
    text = f"SELECT a.id, current_user() AS one, session_user() AS two, c.name {JOINED} WHERE user() <> 'nobody'"
    assert same_answer(spark, text).counts.stages > 1


def test_a_python_data_source_is_read_by_one_stage(spark, monkeypatch):
    # Spark's Python processes need pyarrow for it.
    monkeypatch.setattr(spark.sparkContext, "pythonExec", sys.executable)

    # In the test, so that Spark's Python processes need not import this module.
    class Ticks(DataSource):
        """Rows with the time at which they are read."""

        @classmethod
        def name(cls):
            return "ticks"

        def schema(self):
            return "id int, at double"

        def reader(self, schema):
            class Reader(DataSourceReader):
                def read(self, partition):
                    import time

                    yield from ((number, time.time()) for number in (1, 2, 3))

            return Reader()

    spark.dataSource.register(Ticks)
    spark.read.format("ticks").load().createOrReplaceTempView("ticks")
    try:
        text = "SELECT x.at, u.w FROM ticks AS x JOIN u ON x.id = u.id JOIN w ON w.id = u.id"
        outcome = qoop.collect(spark, text, STAGED).outcome
        assert outcome.counts.stages == 1 and "not read by a list of files" in (outcome.one_stage_reason or "")
    finally:
        spark.catalog.dropTempView("ticks")


@pytest.mark.parametrize(
    "call", [qoop.sql, qoop.collect, qoop.execute, lambda spark, text: qoop.write(spark, text, None, print)]
)
def test_spark_connect_is_refused_with_a_sentence(call):
    connected = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    with pytest.raises(QoopError, match="spark: is a Spark Connect session; qoop needs Spark's driver in this process"):
        call(connected, "SELECT 1")


def test_without_threads_of_its_own_stages_would_lack_settings(spark, monkeypatch):
    monkeypatch.setenv("PYSPARK_PIN_THREAD", "false")
    with pytest.raises(QoopError, match=r"PYSPARK_PIN_THREAD: is not true; .*; unset it"):
        qoop.collect(spark, "SELECT 1")


DATES = "from_json(s, 'd date', map('dateFormat', 'yyyy-MM-dd')).d"
"""Read by each task as spark.sql.legacy.timeParserPolicy says; otherwise NULL."""


@pytest.fixture
def texts(spark):
    """A view of dates that only the older parser reads."""
    spark.sql("""CREATE OR REPLACE TEMPORARY VIEW texts AS
        SELECT id % 3 AS id, concat('{"d":"2020-1-', id % 3 + 1, '"}') AS s FROM range(0, 12, 1, 2)""")
    yield
    spark.catalog.dropTempView("texts")


@one_in(
    2,
    "grouped",
    [
        f"SELECT {DATES} AS d, count(*) AS n FROM texts GROUP BY {DATES}",
        f"SELECT {DATES.replace('s,', 'max(s),')} AS d, count(*) AS n FROM texts GROUP BY id",
        f"SELECT {DATES} AS d, 1 AS n FROM texts WHERE id < 2",
    ],
    ids=["before the shuffle", "after the shuffle", "without a shuffle"],
)
def test_settings_that_tasks_read_hold_in_stages(spark, texts, grouped):
    with settings(spark, legacy__timeParserPolicy="LEGACY"):
        stages = query_session(spark)
        before = stages.sparkContext._jsc.sc().getLocalProperties()
        outputs = ExecutorCheckpoints(stages)
        outputs.save("kept", stages.sql(grouped))
        try:
            rows = stages.table("kept").collect()
            assert sorted(rows) == sorted(spark.sql(grouped).collect())
            assert all(row.d is not None for row in rows)
        finally:
            outputs.release()
        assert stages.sparkContext._jsc.sc().getLocalProperties() == before


def test_settings_that_tasks_read_hold_in_rows_that_are_stored(spark, texts):
    stored = []
    text = f"SELECT {DATES} AS d, count(*) AS n FROM texts GROUP BY {DATES}"
    with settings(spark, legacy__timeParserPolicy="LEGACY"):
        qoop.write(spark, text, None, lambda frame: stored.extend(frame.collect()))
        assert sorted(stored) == sorted(spark.sql(text).collect())
        assert len(stored) == 3


@one_in(
    2,
    ("setting", "value"),
    [
        ("parquet__outputTimestampType", "TIMESTAMP_MILLIS"),
        ("parquet__datetimeRebaseModeInWrite", "LEGACY"),
        ("parquet__datetimeRebaseModeInWrite", "EXCEPTION"),
        ("sources__default", "csv"),
    ],
)
def test_outputs_in_files_are_read_as_they_were(spark, tmp_path, setting, value):
    days = (
        "date'1582-10-03' + CAST(id AS int) AS day, timestamp'1500-01-01 00:00:00.123456' + make_dt_interval(id) AS at"
    )
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW old AS SELECT id, {days} FROM range(20)")
    text = "SELECT a.day, a.at, b.day, b.at, c.day, c.at FROM old a JOIN old b USING (id) JOIN old c USING (id)"
    try:
        with settings(spark, **{setting: value}):
            outcome = same_answer(spark, text, replace(STAGED, checkpoint=tmp_path.as_uri()))
    finally:
        spark.catalog.dropTempView("old")
    assert outcome.counts.stages > 1, outcome.one_stage_reason


@pytest.fixture
def measured(spark, tmp_path):
    """Values of which Spark's bounds of stored rows leave some out: NaN, and prefixes of collated text."""
    values = "IF(id % 4 = 1, double('NaN'), id) AS x, IF(id % 4 = 1, 'Aa', 'ab') COLLATE UNICODE AS name"
    spark.sql(f"SELECT id % 4 AS id, {values} FROM range(16)").write.parquet(str(tmp_path / "measured"))
    spark.read.parquet(str(tmp_path / "measured")).createOrReplaceTempView("measured")
    yield
    spark.catalog.dropTempView("measured")


GROUPED = """
WITH s AS (SELECT a.id, max({value}) AS m FROM measured a JOIN t ON a.id = t.id GROUP BY a.id)
SELECT s1.id, s1.m, s2.m FROM s s1 JOIN s s2 ON s1.id = s2.id JOIN w ON w.id = s1.id WHERE {kept}
"""


@one_in(
    4,
    ("value", "kept"),
    [
        ("a.x", "s1.m >= 100"),
        ("a.x", "s1.m = double('NaN')"),
        ("a.x", "NOT s1.m BETWEEN 0 AND 1000"),
        ("CAST(a.x AS float)", "s1.m >= 100"),
        ("a.name", "startswith(s1.m, 'a')"),
    ],
)
def test_filters_of_stored_outputs_keep_what_spark_keeps_of_rows(spark, measured, value, kept):
    outcome = same_answer(spark, GROUPED.format(value=value, kept=kept))
    assert outcome.counts.stages > 1, outcome.one_stage_reason


def test_filters_of_a_result_that_is_stored_keep_what_spark_keeps_of_rows(spark, measured):
    stored = []
    text = "SELECT id, x, name, x FROM measured"
    qoop.write(
        spark, text, None, lambda frame: stored.extend(frame.toDF("a", "b", "c", "d").where("b > 100").collect())
    )
    assert len(stored) == 4


def test_settings_that_plans_read_hold_in_stages_without_a_shuffle(spark, texts):
    day = "to_timestamp(concat('2020-1-', id + 1), 'yyyy-MM-dd')"
    text = f"""
        WITH e AS (SELECT id, {day} AS d FROM texts UNION ALL SELECT id, {day} FROM texts WHERE id > 1)
        SELECT e1.id, e1.d, e2.d, count(*) FROM e e1 JOIN e e2 ON e1.id = e2.id JOIN w ON w.id = e1.id GROUP BY 1, 2, 3
    """
    with settings(spark, ansi__enabled="false", legacy__timeParserPolicy="LEGACY"):
        outcome = same_answer(spark, text)
        assert all(row[1] is not None for row in spark.sql(text).collect())
    assert outcome.counts.stages > 1, outcome.one_stage_reason


def test_a_view_that_reads_one_with_the_name_of_a_stage_is_not_split(spark):
    spark.sql("CREATE OR REPLACE TEMPORARY VIEW qoop_s AS SELECT id, w + 1000 AS w FROM u")
    spark.sql("CREATE OR REPLACE TEMPORARY VIEW behind AS SELECT id, w FROM qoop_s")
    try:
        text = (
            "WITH s AS (SELECT id, count(*) AS w FROM u GROUP BY id) SELECT a.id, b.w, c.w FROM s a JOIN s b USING (id)"
        )
        outcome = same_answer(spark, f"{text} LEFT JOIN behind c ON c.id = a.id")
        assert "temporary view qoop_s: names that start with qoop_ are reserved" in outcome.one_stage_reason
    finally:
        spark.catalog.dropTempView("behind")
        spark.catalog.dropTempView("qoop_s")


@one_in(
    2,
    ("value", "read"),
    [
        ("{}", "{}"),
        ("named_struct('Of', named_struct('d', {}))", "{}.Of.d"),
        ("IF(a.k > 0, named_struct('d', {}), NULL)", "{}.d"),
    ],
)
def test_filters_of_outputs_in_files_take_negative_zero_for_zero(spark, tmp_path, value, read):
    spark.sql(
        "CREATE OR REPLACE TEMPORARY VIEW owed AS SELECT id AS k, IF(id % 3 = 0, 5D, 0D) AS d FROM range(0, 500, 1, 1)"
    )
    text = f"""
        WITH b AS (SELECT a.k, {value.format("-1 * sum(a.d)")} AS s FROM owed a JOIN owed o ON a.k = o.k GROUP BY a.k)
        SELECT count(*), min(x.k), max({read.format("y.s")})
        FROM b x JOIN b y ON x.k = y.k JOIN owed z ON z.k = x.k WHERE {read.format("x.s")} = 0
    """
    try:
        with settings(spark, shuffle__partitions="1"):
            outcome = same_answer(spark, text, replace(STAGED, checkpoint=tmp_path.as_uri()))
    finally:
        spark.catalog.dropTempView("owed")
    assert outcome.counts.stages > 1, outcome.one_stage_reason


def test_stored_outputs_keep_what_is_declared_of_collated_text(spark):
    spark.sql("CREATE TABLE short (id INT, c CHAR(3) COLLATE UTF8_LCASE) USING parquet")
    spark.sql("CREATE TABLE long (c CHAR(6) COLLATE UTF8_LCASE, v INT) USING parquet")
    spark.sql("INSERT INTO short VALUES (1, 'ab'), (2, 'CD'), (3, 'x')")
    spark.sql("INSERT INTO long VALUES ('AB', 1), ('cd', 2), ('q', 3)")
    try:
        outcome = same_answer(
            spark, "SELECT s.id, l.v, w.name FROM short s JOIN w ON s.id = w.id JOIN long l ON s.c = l.c"
        )
    finally:
        spark.sql("DROP TABLE short")
        spark.sql("DROP TABLE long")
    assert outcome.counts.stages > 1, outcome.one_stage_reason


@one_in(2, "text", ["'now'", "' now'", "concat('n', 'ow')", "lower('NOW')"])
def test_a_text_that_stands_for_the_moment_is_not_split(spark, text):
    text = f"""
        WITH s AS (
            SELECT a.id, CAST({text} AS TIMESTAMP) AS t, count(*) AS n FROM t a JOIN u b ON a.id = b.id GROUP BY a.id
        )
        SELECT max(timestampdiff(MINUTE, x.t, CAST({text} AS TIMESTAMP))) AS minutes
        FROM s x JOIN s y ON x.id = y.id JOIN w ON w.id = x.id
    """
    warned = []
    outcome = same_answer(spark, text, replace(STAGED, warn=warned.append))
    reasons = " ".join([*warned, outcome.one_stage_reason or ""])
    assert re.search("a text that (may stand|stands) for the current .* has another value each time", reasons)


@one_in(
    4,
    "others",
    [
        "s y ON x.k <=> y.k",
        "s y ON x.p.k <=> y.p.k",
        "s y ON coalesce(x.k, NULL) <=> coalesce(y.k, NULL)",
        "(SELECT k, n FROM s INTERSECT SELECT k, n FROM s) y ON x.n = y.n",
        "(SELECT coalesce(k, NULL) AS k, n FROM s INTERSECT SELECT p.k, n FROM s) y ON x.n = y.n",
    ],
)
def test_rows_are_not_found_by_a_stored_column_without_a_type(spark, others):
    text = f"""
        WITH s AS (
            SELECT NULL AS k, named_struct('k', NULL) AS p, count(*) AS n
            FROM t a JOIN u b ON a.id = b.id GROUP BY a.id % 3
        )
        SELECT count(*) AS n, max(x.n) AS most FROM s x JOIN {others} JOIN w ON w.id >= x.n
    """
    warned = []
    same_answer(spark, text, replace(STAGED, warn=warned.append))
    assert "a stored column of type void" in " ".join(warned)


def test_a_literal_that_stands_for_the_moment_is_not_split(spark):
    text = f"SELECT a.v, DATE 'today' AS today {JOINED} WHERE b.w < 100"
    assert "stands for the current date" in (same_answer(spark, text).one_stage_reason or "")


def test_plans_are_compared_again_after_midnight(spark, monkeypatch):
    """Views with DATE 'today' have another literal then."""
    spark.sql("CREATE TEMPORARY VIEW dated AS SELECT id, DATE '2026-01-01' AS day FROM w")
    text = "SELECT a.v, c.day FROM t a JOIN u b ON a.id = b.id JOIN dated c ON c.id = b.id"
    now = datetime(2026, 1, 1, 23, 50, tzinfo=UTC).timestamp()
    monkeypatch.setattr(verification.time, "time", lambda: now)
    try:
        compared = Verification(spark.sql(text), query_session(spark))
        compared.check(text)
        compared._session.sql("CREATE OR REPLACE TEMPORARY VIEW dated AS SELECT id, DATE '2026-01-02' AS day FROM w")
        compared.check(text, last=True)
        now += 600
        with pytest.raises(DifferentPlanError, match="could not be shown to be equivalent"):
            compared.check(text, last=True)
    finally:
        spark.catalog.dropTempView("dated")


@pytest.fixture(scope="module")
def edges(spark, tmp_path_factory):
    """Tables with values that Spark's optimiser takes for others."""
    tables = {
        "one": "SELECT 1L AS id, 'Straße' AS s, 16777217 AS n, 0.0D AS d, TIMESTAMP '2024-02-29 00:00:00' AS at",
        "zeros": "SELECT * FROM VALUES (1L, 0.0D), (2L, -0.0D) AS z(id, d)",
        "letters": "SELECT id, s COLLATE UTF8_LCASE AS s FROM VALUES (1L, 'A'), (2L, 'a') AS l(id, s)",
        "ids": "SELECT * FROM VALUES (1L), (2L) AS i(id)",
        "pairs": "SELECT * FROM VALUES (1L, 10, 0), (2L, 0, 10) AS p(id, a, b)",
        "clocks": "SELECT * FROM VALUES (1L, TIMESTAMP '2020-11-01 08:30:00Z'), (2L, TIMESTAMP '2020-11-01 09:30:00Z') "
        "AS c(id, at)",
        "debts": "SELECT 1L AS id, -5 AS i, 2147483647 AS many",
        "trimmed": "SELECT id, s COLLATE UTF8_BINARY_RTRIM AS s FROM VALUES (1L, 'a'), (2L, 'a ') AS r(id, s)",
        "parts": "SELECT id, named_struct('d', d) AS st, array(d) AS many FROM zeros",
        "below": "SELECT id, -0.0D AS d FROM range(100)",
        "hundred": "SELECT id FROM range(100)",
        "wide": "SELECT id, s COLLATE UNICODE_CI AS s FROM VALUES (1L, '\uff11'), (2L, '1') AS w(id, s)",
        "dots": "SELECT id, s COLLATE UTF8_LCASE AS s FROM VALUES (1L, '\u0130'), (2L, 'i\u0307') AS d(id, s)",
        "months": "SELECT * FROM VALUES (1L, DATE '2024-01-31', DATE '2024-01-31'), "
        "(2L, DATE '2024-03-31', DATE '2024-01-31') AS m(id, x, y)",
        "long_s": "SELECT 1L AS id, '\u017fap' COLLATE UTF8_LCASE AS s",
    }
    for name, query in tables.items():
        place = str(tmp_path_factory.mktemp("edges") / name)
        spark.sql(query).coalesce(1).write.parquet(place)
        spark.read.parquet(place).createOrReplaceTempView(name)
    yield
    for name in tables:
        spark.catalog.dropTempView(name)


TWICE = "SELECT 1 AS part, {read} AS x FROM p UNION ALL SELECT 2, {read} FROM p"
COUNTED = "SELECT {key}, count(*) AS n FROM {table} a JOIN ids USING (id) GROUP BY {key}"
BOTH = "SELECT 1 AS part, {read} FROM {rows} UNION ALL SELECT 2, {read} FROM {rows}"
BELOW = "WITH p AS (SELECT DISTINCT a.id, d FROM below a JOIN hundred r ON a.id = r.id) "
FOUND = (
    "SELECT 1 AS part, id AS x FROM p WHERE {found} UNION ALL SELECT 2, id FROM p WHERE {found} UNION ALL SELECT 3, 0"
)
NESTED = (
    "WITH g AS (SELECT DISTINCT a.id, a.d FROM zeros a JOIN ids i ON a.id = i.id), "
    "h AS (SELECT id, max(d) AS m FROM g GROUP BY id) "
)
ZEROS = "SELECT z.d FROM zeros z JOIN ids i ON z.id = i.id JOIN ids k ON k.id = i.id"


@one_in(
    6,
    "text",
    [
        f"WITH p AS (SELECT upper(s) AS u FROM one JOIN ids USING (id)) {TWICE.format(read='lower(u)')}",
        f"WITH p AS (SELECT upper(max(s)) AS u FROM one JOIN ids USING (id)) {TWICE.format(read='lower(u)')}",
        "WITH p AS (SELECT id, upper(s) AS u FROM one JOIN ids USING (id) UNION ALL SELECT id, s FROM one) "
        "SELECT lower(x.u) AS l FROM p x JOIN p y USING (id) JOIN ids USING (id)",
        f"WITH p AS (SELECT CAST(n AS FLOAT) AS f FROM one JOIN ids USING (id)) {TWICE.format(read='DOUBLE(f)')}",
        "WITH p AS (SELECT date_format(at, 'MM-dd') AS t FROM one JOIN ids USING (id)) "
        + TWICE.format(read="date_format(try_to_timestamp(t, 'MM-dd'), 'MM-dd')"),
        "SELECT STRING(b.d) AS x, STRING(c.d) AS y FROM one a JOIN zeros b ON a.d = b.d JOIN zeros c ON a.d = c.d "
        "WHERE STRING(a.d) = '0.0'",
        f"WITH g AS ({COUNTED.format(key='d', table='zeros')}), p AS (SELECT n FROM g WHERE STRING(d) = '-0.0') "
        + TWICE.format(read="n"),
        f"WITH g AS ({COUNTED.format(key='s', table='letters')}), "
        f"p AS (SELECT n FROM g WHERE s COLLATE UTF8_BINARY = 'A') {TWICE.format(read='n')}",
        f"{ZEROS} EXCEPT {ZEROS} WHERE STRING(z.d) = '-0.0'",
        "SELECT x.a AS b FROM pairs x JOIN ids i ON x.id = i.id "
        "EXCEPT SELECT x.a AS b FROM pairs x JOIN ids i ON x.id = i.id WHERE x.b > 1",
        "WITH p AS (SELECT upper(s) AS u FROM one JOIN ids USING (id)) " + TWICE.format(read="u ILIKE 'strasse'"),
        f"WITH p AS (SELECT array(upper(s)) AS u FROM one JOIN ids USING (id)) {TWICE.format(read='lower(u[0])')}",
        "WITH p AS (SELECT named_struct('u', upper(s)) AS st FROM one JOIN ids USING (id)) "
        + TWICE.format(read="lower(p.st.u)"),
        "WITH p AS (SELECT get(array(upper(s)), 0) AS u FROM one JOIN ids USING (id)) " + TWICE.format(read="lower(u)"),
        "WITH p AS (SELECT array(named_struct('u', upper(s))) AS a FROM one JOIN ids USING (id)) "
        + TWICE.format(read="lower(a.u[0])"),
        "WITH p AS (SELECT nvl2(id, upper(s), NULL) AS u FROM one JOIN ids USING (id)) "
        + TWICE.format(read="lower(u)"),
        "WITH p AS (SELECT try_add(i, 2147483647) AS t, i FROM debts JOIN ids USING (id)) "
        + TWICE.format(read="try_add(t, i + 6)"),
        "WITH p AS (SELECT try_add(many, 1) AS t, i FROM debts JOIN ids USING (id)) " + TWICE.format(read="t + i"),
        "WITH g AS (SELECT DISTINCT min(a.d) AS m FROM zeros a JOIN ids USING (id) GROUP BY id), "
        "p AS (SELECT min(STRING(m)) AS s FROM g) " + TWICE.format(read="s"),
        "WITH g AS (SELECT a.d FROM zeros a JOIN ids USING (id) UNION SELECT abs(d) FROM zeros JOIN ids USING (id)), "
        "p AS (SELECT min(STRING(d)) AS s FROM g) " + TWICE.format(read="s"),
        f"WITH g AS ({COUNTED.format(key='s', table='trimmed')}), p AS (SELECT n FROM g WHERE rpad(s, 3, 'x') = 'a x') "
        + TWICE.format(read="n"),
        "WITH p AS (SELECT DISTINCT a.id, a.d = 0.0D AS z FROM below a JOIN hundred r ON a.id = r.id) "
        + FOUND.format(found="z"),
        BELOW + FOUND.format(found="(d = 0.0D) = true"),
        "WITH p AS (SELECT DISTINCT b.id, STRING(a.d) = '0.0' AS z FROM one a JOIN zeros b ON a.d = b.d) "
        + FOUND.format(found="z"),
        "WITH p AS (SELECT try_to_timestamp(date_format(at, 'MM-dd'), 'MM-dd') AS t FROM one JOIN ids USING (id) "
        "UNION ALL SELECT try_to_timestamp(s, 'MM-dd') FROM one JOIN ids USING (id)) "
        + TWICE.format(read="date_format(t, 'MM-dd')"),
        "SELECT i.id, b.id AS bid FROM (SELECT * FROM VALUES (1L, 0.0D) AS m(id, d)) a JOIN ids i ON a.id = i.id "
        "JOIN below b ON a.d = b.d WHERE a.d = 0.0 UNION ALL SELECT 0, 0",
        f"WITH p AS (SELECT array(FLOAT(n)) AS u FROM one JOIN ids USING (id)) {TWICE.format(read='DOUBLE(u[0])')}",
        "WITH p AS (SELECT try_add(i, 2147483647) AS t FROM debts JOIN ids USING (id)) "
        + TWICE.format(read="try_add(t, 1)"),
        "WITH g AS (SELECT DISTINCT d FROM zeros a JOIN ids USING (id)), p AS (SELECT min(STRING(d)) AS m FROM g) "
        + TWICE.format(read="m"),
        "WITH g AS (SELECT DISTINCT s FROM letters a JOIN ids USING (id)), "
        "p AS (SELECT count(DISTINCT s COLLATE UTF8_BINARY) AS n FROM g) " + TWICE.format(read="n"),
        f"WITH g AS ({COUNTED.format(key='st', table='parts')}), p AS (SELECT n FROM g WHERE STRING(st) = '{{-0.0}}') "
        + TWICE.format(read="n"),
        f"WITH g AS ({COUNTED.format(key='a.st.d', table='parts')}), p AS (SELECT n FROM g WHERE STRING(d) = '-0.0') "
        + TWICE.format(read="n"),
        f"WITH g AS ({COUNTED.format(key='many', table='parts')}), "
        f"p AS (SELECT n FROM g WHERE STRING(many[0]) = '-0.0') {TWICE.format(read='n')}",
        "SELECT STRING(b.d) AS x, STRING(c.d) AS y FROM (SELECT st.d AS d FROM parts WHERE id = 1) a "
        "JOIN (SELECT st.d AS d FROM parts) b ON a.d = b.d JOIN (SELECT st.d AS d FROM parts) c ON a.d = c.d "
        "WHERE STRING(a.d) = '0.0'",
        NESTED + "SELECT h.id, STRING(h.m) AS t FROM h JOIN g ON h.id = g.id ORDER BY h.id",
        NESTED + "SELECT h.id, STRING(h.m) AS t, count(*) OVER () AS n FROM h JOIN g ON h.id = g.id",
        NESTED + "SELECT h.id FROM h JOIN g ON h.id = g.id ORDER BY STRING(h.m), h.id LIMIT 1",
        NESTED + "SELECT STRING(h.m) AS t, count(*) AS n FROM h JOIN g ON h.id = g.id GROUP BY ROLLUP (STRING(h.m))",
        "(SELECT x.a AS b FROM pairs x JOIN ids i ON x.id = i.id JOIN ids k ON k.id = i.id "
        "UNION ALL SELECT v FROM (SELECT * FROM VALUES (1) AS n(v) WHERE false)) "
        "EXCEPT SELECT x.a AS b FROM pairs x JOIN ids i ON x.id = i.id JOIN ids k ON k.id = i.id WHERE x.b > 1",
        "WITH g AS (SELECT DISTINCT a.s FROM wide a JOIN ids i ON a.id = i.id) "
        "SELECT 1 AS part, count(*) AS n FROM g WHERE TRY_CAST(s AS INT) = 1 "
        "UNION ALL SELECT 2, count(*) FROM g WHERE TRY_CAST(s AS INT) IS NULL",
        "WITH g AS (SELECT DISTINCT a.s FROM dots a JOIN ids i ON a.id = i.id) "
        "SELECT 1 AS part, count(*) AS n FROM g WHERE s LIKE '_' UNION ALL SELECT 2, count(*) FROM g WHERE s LIKE '__'",
        "WITH p AS (SELECT a.s, 's%' COLLATE UTF8_LCASE AS pat FROM long_s a JOIN ids i ON a.id = i.id) "
        + TWICE.format(read="s LIKE pat"),
        BELOW + FOUND.format(found="d >= DOUBLE('0')"),
        BELOW + FOUND.format(found="d >= (SELECT max(d) FROM zeros)"),
        "SELECT i.id, b.id AS bid FROM one a JOIN ids i ON a.id = i.id JOIN below b ON a.d = b.d WHERE a.d = '0' "
        "UNION ALL SELECT 0, 0",
        "WITH p AS (SELECT concat(array(x.a), array(x.b)) AS c FROM pairs x JOIN ids i ON x.id = i.id) "
        + TWICE.format(read="concat(STRING(c), '!')"),
        "SELECT b.id, p.id AS pid FROM below b JOIN hundred r ON b.id = r.id JOIN pairs p ON b.d >= p.b WHERE p.b = 0 "
        "UNION ALL SELECT 0, 0",
        "SELECT a.id, 1 AS x FROM below a JOIN hundred r ON a.id = r.id JOIN (SELECT DISTINCT 0.0D AS z FROM ids) c "
        "ON a.d = c.z UNION ALL SELECT 0, 0",
        "WITH p AS (SELECT STRING(a.d) AS t, count(*) AS n FROM zeros a JOIN zeros c ON a.d = c.d GROUP BY ALL) "
        + BOTH.format(read="n", rows="p WHERE t = '0.0'"),
        "WITH p AS (SELECT z.d, STRING(z.d) AS t FROM zeros z JOIN ids i ON z.id = i.id "
        "UNION ALL SELECT z.d, STRING(z.d) FROM zeros z JOIN ids i ON z.id = i.id) "
        + BOTH.format(read="c.id", rows="p JOIN zeros c ON p.d = c.d WHERE p.t = '0.0'"),
        "WITH p AS (SELECT b.d, b.t FROM ids i JOIN ids j ON i.id = j.id "
        "LEFT JOIN (SELECT id, d, STRING(d) AS t FROM zeros) b ON b.id = i.id) "
        "SELECT p.t, c.id FROM p JOIN zeros c ON p.d = c.d WHERE p.t = '0.0'",
        "WITH p AS (SELECT (SELECT upper(a.s)) AS u FROM one a JOIN ids i ON a.id = i.id) "
        + TWICE.format(read="lower(u)"),
        BELOW + FOUND.format(found="(SELECT p.d = 0.0D)"),
        "SELECT STRING(b.d) AS x, STRING(c.d) AS y FROM one a JOIN zeros b ON a.d = b.d JOIN zeros c ON a.d = c.d "
        "WHERE (SELECT STRING(a.d)) = '0.0'",
        "WITH g AS (SELECT DISTINCT -months_between(e.x, e.y) AS m FROM months e JOIN ids i ON e.id = i.id), "
        "p AS (SELECT m FROM g WHERE STRING(m) = '-0.0') " + BOTH.format(read="count(*) AS n", rows="p"),
        "WITH p AS (SELECT x.d AS d1, x.d = y.d AS e FROM zeros x JOIN zeros y ON x.id + y.id > 0 "
        "UNION ALL SELECT x.d, x.d = y.d FROM zeros x JOIN zeros y ON x.id + y.id > 0) "
        + BOTH.format(read="count(*) AS n", rows="p WHERE e AND STRING(d1) = '0.0'"),
    ],
)
def test_what_sparks_optimiser_changes_is_as_in_one_piece(spark, edges, text):
    same_answer(spark, text)


def test_joins_in_views_are_not_computed_each_with_each(spark):
    spark.sql("CREATE TEMPORARY VIEW many AS SELECT id AS k, id AS j FROM range(200000)")
    spark.sql(
        "CREATE TEMPORARY VIEW listed AS SELECT a.k, c.j FROM many a, many b, many c WHERE a.k = c.k AND b.j = c.j"
    )
    text = """
        SELECT l.k, u.w FROM listed AS l JOIN t ON l.k = t.id JOIN u ON u.id = t.id
        WHERE t.id IN (SELECT a.k FROM many a, many b, many c WHERE a.k = c.k AND b.j = c.j)
    """
    try:
        assert not same_answer(spark, text, replace(STAGED, timeout=120)).given_up
    finally:
        spark.catalog.dropTempView("listed")
        spark.catalog.dropTempView("many")


@pytest.mark.parametrize("plan", ["always", "auto"])
def test_joins_without_a_condition_may_be_refused(spark, plan):
    text = "SELECT a.id, b.w, c.name FROM t AS a, u AS b JOIN w AS c ON b.id = c.id"
    with settings(spark, crossJoin__enabled="false"):
        with pytest.raises(AnalysisException, match="CROSS JOIN"):
            spark.sql(text).collect()
        with pytest.raises(QoopError, match="CROSS JOIN"):
            qoop.collect(spark, text, qoop.Options(plan=plan))
        same_answer(spark, text.replace("t AS a, u", "t AS a CROSS JOIN u"))


def test_an_hour_that_occurs_twice_is_found_as_in_one_piece(spark, edges):
    made = "SELECT id, CAST(at AS TIMESTAMP_NTZ) AS n FROM clocks JOIN ids USING (id)"
    text = f"WITH p AS ({made}) " + FOUND.format(found="n = TIMESTAMP_NTZ '2020-11-01 01:30:00'")
    with settings(spark, session__timeZone="America/Los_Angeles"):
        assert same_answer(spark, text).given_up
    with settings(spark, session__timeZone="UTC"):
        assert not same_answer(spark, text).given_up


def test_constants_that_are_too_large_together_are_added_as_in_one_piece(spark, edges):
    made = "SELECT try_add(i, 2147483647) AS t FROM debts JOIN ids USING (id)"
    with settings(spark, ansi__enabled="false"):
        same_answer(spark, f"WITH p AS ({made}) {TWICE.format(read='t + 1')}")
    text = f"WITH p AS ({made.replace('try_add(i, 2147483647)', 'i + 2147483647')}) {TWICE.format(read='t + 1')}"
    with pytest.raises(ArithmeticException):
        spark.sql(text).collect()
    with pytest.raises(QoopError, match="overflow"):
        qoop.collect(spark, text, STAGED)


def test_keys_of_maps_that_are_equal_are_as_in_one_piece(spark, edges):
    text = f"WITH p AS (SELECT map(id, 'a', 1L, 'b') AS m FROM one JOIN ids USING (id)) {TWICE.format(read='m[1]')}"
    with settings(spark, mapKeyDedupPolicy="LAST_WIN"):
        same_answer(spark, text)
        same_answer(spark, text.replace("m[1]", "size(m)"))


def test_what_a_function_of_the_users_returns_is_given_to_another_one_as_it_is(spark, edges):
    spark.udf.register("plus", lambda number: number + 1)
    spark.udf.register("doubled", lambda value: value * 2)
    text = f"WITH p AS (SELECT plus(i) AS u FROM debts JOIN ids USING (id)) {TWICE.format(read='doubled(u)')}"
    same_answer(spark, text)


def test_rows_are_put_into_sessions_as_in_one_piece(spark):
    """Spark filters rows by a filter of their sessions, so which rows are in one depends on that."""
    times = "VALUES (1, TIMESTAMP '2024-01-01 00:00:00'), (1, TIMESTAMP '2024-01-01 00:04:00')"
    late = "w.start >= TIMESTAMP '2024-01-01 00:03:00'"
    text = f"""
        WITH q AS (
            SELECT e.id, session_window(e.at, '5 minutes') AS w, count(*) AS n
            FROM (SELECT * FROM {times} AS e(id, at)) e JOIN u ON e.id = u.id
            GROUP BY e.id, session_window(e.at, '5 minutes')
        )
        SELECT a.n, b.n AS m FROM q a JOIN q b ON a.id = b.id JOIN w AS c ON c.id = a.id WHERE a.{late} AND b.{late}
        UNION ALL SELECT 0, 0
    """
    same_answer(spark, text)


@one_in(
    2,
    ("expression", "why"),
    [
        ("CAST(TIME '12:30:00' AS TIMESTAMP_NTZ)", "current date"),
        ("CAST('12:30' AS TIMESTAMP)", "has another value each time"),
        ("hex(X'41') || a.s", "binary literal"),
        ("CASE WHEN a.id < 1 THEN 0 ELSE " * 11 + "1" + " END" * 11, "CASEs are nested"),
    ],
)
def test_expressions_that_cannot_be_compared(spark, expression, why):
    warned = []
    outcome = same_answer(spark, f"SELECT a.id, {expression} AS x {JOINED}", replace(STAGED, warn=warned.append))
    assert why in " ".join([*warned, outcome.one_stage_reason or ""])


def test_cases_may_be_nested(spark):
    nested = "CASE WHEN a.id < 1 THEN 0 ELSE " * 9 + "1" + " END" * 9
    outcome = same_answer(spark, f"SELECT a.id, {nested} AS x, TIME '12:30:00' AS t {JOINED} WHERE {nested} = 1")
    assert outcome.counts.stages > 1 and not outcome.given_up


def test_an_error_of_a_users_function_is_not_taken_for_one_of_the_cluster(spark, tmp_path):
    def refused(value):
        with (tmp_path / "called").open("a") as file:
            file.write("x")
        raise OSError("Connection refused")

    spark.udf.register("refused", refused, "int")
    for options in (qoop.Options(plan="never"), STAGED):
        (tmp_path / "called").write_text("")
        with pytest.raises(QoopError, match="Connection refused"):
            qoop.collect(spark, f"SELECT refused(a.v) AS x {JOINED} WHERE a.id = 1", options)
        # Of a plan once more as written.
        assert len((tmp_path / "called").read_text()) <= 2
    with pytest.raises(QoopError, match="Could not read"):
        qoop.collect(spark, f"SELECT raise_error('Could not read') AS x {JOINED}", qoop.Options(plan="never"))


@one_in(
    2,
    "condition",
    [
        "round(a.d, 1) * 2 + 1 < 5 AND b.d IS NOT NULL AND c.d < 2D AND abs(a.d - b.d) < 0.1",
        "a.d <=> b.d AND int(a.d) < 1 AND nvl(a.d, 1) < 1 AND if(isnan(a.d), 0, a.d) < 1 AND b.id < 3",
        "CASE WHEN a.d > 1 THEN b.d ELSE c.d END < 1 AND greatest(a.d, b.d) < 1 AND a.d IN (SELECT d FROM zeros)",
    ],
)
def test_filters_that_take_equal_numbers_for_the_same_are_split(spark, edges, condition):
    joined = "one a JOIN zeros b ON a.d = b.d JOIN zeros c ON c.d = b.d"
    outcome = same_answer(spark, f"SELECT a.s, b.id, c.id AS other FROM {joined} WHERE {condition}")
    assert outcome.counts.stages > 1, outcome.one_stage_reason


def test_numbers_in_variants_keep_their_types_in_files(spark, files, tmp_path):
    place = str(tmp_path / "variants")
    made = spark.sql("SELECT id, parse_json(j) AS v FROM VALUES (1, '{\"x\":1}'), (2, '{\"x\":2.5}') AS t(id, j)")
    made.coalesce(1).write.parquet(place)
    spark.read.parquet(place).createOrReplaceTempView("variants")
    text = "SELECT a.id, schema_of_variant(a.v) AS s FROM variants a JOIN u ON a.id = u.id JOIN w ON w.id = a.id"
    try:
        same_answer(spark, text, replace(STAGED, checkpoint=files))
    finally:
        spark.catalog.dropTempView("variants")


@pytest.fixture
def files(spark, tmp_path):
    """A checkpoint folder."""
    return (tmp_path / "outputs").as_uri()


def test_columns_of_a_frame_are_found_by_the_names_of_tables(spark):
    spark.sql("CREATE TABLE kept USING parquet AS SELECT * FROM u")
    kept = spark.table("kept")
    text = """
        SELECT a.*, b.*, named_struct('s', 'another') AS a FROM t AS a JOIN kept AS b ON a.id = b.id JOIN w USING (id)
    """
    try:
        frame, expected = qoop.sql(spark, text, STAGED), spark.sql(text)
        for read in (
            lambda one: one.select("a.s"),
            lambda one: one.selectExpr("b.*", "a.v"),
            lambda one: one.where("b.w > 5"),
            lambda one: one.drop(col("b.id")),
            lambda one: one.drop(kept.id, kept.w),
            lambda one: one.where(kept.w > 5).select(kept.w, "a.v"),
        ):
            assert sorted(map(repr, read(frame).collect())) == sorted(map(repr, read(expected).collect()))
            assert read(frame).columns == read(expected).columns
    finally:
        spark.sql("DROP TABLE kept")


def test_a_column_that_is_selected_twice_is_one_column(spark):
    text = f"SELECT a.v, b.w, a.v, b.id, b.w + 1 AS x, b.w, a.V {JOINED}"
    frame, expected = qoop.sql(spark, text, STAGED), spark.sql(text)
    for read in (lambda one: one.select("v"), lambda one: one.where("w > 5"), lambda one: one.orderBy("v", "w", "x")):
        assert rows_of(read(frame)) == rows_of(read(expected))
        assert read(frame).columns == read(expected).columns


def test_a_column_of_a_frame_that_is_selected_twice_is_one_column(spark):
    """Also where the last stage reads the frame, whose columns have the same identities in all sessions."""
    spark.createDataFrame([(1, 10), (2, 20)], "id long, v long").createOrReplaceTempView("ends")
    text = "SELECT a.id, a.v, b.v AS bv, a.v FROM ends a JOIN u ON a.id = u.id JOIN ends b ON b.id = u.w - 4"
    try:
        frame, expected = qoop.sql(spark, text, STAGED), spark.sql(text)
        assert rows_of(frame.select("v")) == rows_of(expected.select("v")) == ["Row(v=10)", "Row(v=20)"]
    finally:
        spark.catalog.dropTempView("ends")


@one_in(2, "printed", ["1g", "300", "0"])
def test_columns_of_two_readers_of_a_table_are_not_mixed_up(spark, printed):
    """Filters that hold of one are not taken to hold of the other, also if Spark prints only a part of plans."""
    spark.sql("SELECT id, v % 20 AS v FROM t").createOrReplaceTempView("twice")
    text = """
        SELECT b.id, a.id, a.v, b.v FROM twice AS a JOIN u ON a.id = u.id JOIN twice AS b ON b.id <= a.id
        WHERE b.id > 1 AND a.v < 30
    """
    try:
        with settings(spark, maxPlanStringLength=printed):
            for options in (STAGED, qoop.Options(plan="always")):
                frame, expected = qoop.sql(spark, text, options), spark.sql(text)
                for condition in ("a.id > 1", "b.id > 1", "a.id > 2", "b.id < 3", "a.v = 0", "b.v < 20"):
                    rows = [sorted(map(repr, one.where(condition).collect())) for one in (frame, expected)]
                    assert rows[0] == rows[1]
    finally:
        spark.catalog.dropTempView("twice")


def test_what_is_declared_of_columns_is_stored_with_them(spark):
    spark.sql("CREATE TABLE m (name VARCHAR(7) COMMENT 'the key', id BIGINT COMMENT 'a number') USING parquet")
    spark.sql("INSERT INTO m VALUES ('p', 1), ('q', 2)")
    spark.sql("CREATE TABLE n (name VARCHAR(7), id BIGINT) USING parquet")
    spark.sql("INSERT INTO n VALUES ('p', 1), ('q', 2)")
    text = "SELECT name, m.id, u.w FROM m JOIN n USING (name) JOIN u ON u.id = m.id JOIN w USING (name)"
    try:
        assert qoop.execute(spark, f"CREATE TABLE made USING parquet AS {text}", STAGED).counts.stages > 1
        spark.sql(f"CREATE TABLE expected USING parquet AS {text}")
        assert spark.sql("DESCRIBE made").collect() == spark.sql("DESCRIBE expected").collect()
    finally:
        for table in ("m", "n", "made", "expected"):
            spark.sql(f"DROP TABLE IF EXISTS {table}")


def test_outputs_in_files_may_be_null_only_where_those_of_the_query_may(spark, files):
    text = """
        WITH d AS (SELECT b.id, count(*) AS n, array(count(*)) AS a, map('k', named_struct('n', count(*))) AS m
                   FROM t JOIN u AS b ON t.id = b.id GROUP BY b.id)
        SELECT x.id, x.n, x.a, x.m, y.n AS o FROM d AS x JOIN d AS y ON x.id = y.id JOIN w ON w.id = x.id
    """
    outcome = same_answer(spark, text, replace(STAGED, checkpoint=files))
    assert outcome.counts.stages > 1, outcome.one_stage_reason
    frame = qoop.sql(spark, text, replace(STAGED, checkpoint=files))
    assert frame.schema == spark.sql(text).schema
    assert not frame.schema["n"].nullable and not frame.schema["a"].dataType.containsNull


def test_outputs_in_files_have_the_lengths_of_char_that_their_columns_have(spark, files):
    """In a UNION they are those of the first part, whatever the others have."""
    spark.sql("CREATE TABLE five (id INT, c CHAR(5)) USING parquet")
    spark.sql("CREATE TABLE three (id INT, c CHAR(3)) USING parquet")
    spark.sql("INSERT INTO five VALUES (1, 'a'), (2, 'b')")
    spark.sql("INSERT INTO three VALUES (1, 'x'), (3, 'y')")
    text = """
        WITH m AS (SELECT id, c FROM five UNION ALL SELECT id, c FROM three)
        SELECT x.c, length(x.c) AS l, y.c = 'x' AS found, count(*) AS n
        FROM m x JOIN m y ON x.id = y.id JOIN w ON w.id = x.id GROUP BY 1, 2, 3
    """
    options = replace(STAGED, checkpoint=files)
    try:
        assert same_answer(spark, text, options).counts.stages > 1
        assert qoop.sql(spark, text, options).schema == spark.sql(text).schema
    finally:
        spark.sql("DROP TABLE five")
        spark.sql("DROP TABLE three")


def test_the_order_of_rows_that_others_read_is_not_lost_in_files(spark, files):
    text = """
        WITH s AS (
            SELECT a.id, b.id AS w, if(b.id > 300, repeat(sha2(string(b.id), 512), 2), '') AS p
            FROM range(400) a JOIN range(400) b ON a.id = b.id ORDER BY b.id
        )
        SELECT s.id, s.w, (SELECT max(length(x.p)) FROM s x) AS m FROM s LIMIT 3
    """
    with settings(spark, adaptive__coalescePartitions__enabled="false", shuffle__partitions="4"):
        assert [row.w for row in qoop.collect(spark, text, replace(STAGED, checkpoint=files)).rows] == [0, 1, 2]


def test_outputs_in_files_are_read_alike_whichever_reader_the_user_has_chosen(spark, files):
    text, options = f"SELECT a.id, b.w {JOINED}", replace(STAGED, checkpoint=files)
    with settings(spark, sources__useV1SourceList=""):
        assert same_answer(spark, text, options).counts.stages > 1
        assert qoop.sql(spark, text, options).schema == spark.sql(text).schema


def test_views_may_mean_what_the_settings_of_the_session_say(spark):
    spark.sql(
        "CREATE VIEW nested AS WITH t AS (SELECT 1 AS k), o AS (WITH t AS (SELECT 2 AS k) SELECT * FROM t) TABLE o"
    )
    try:
        for follows in ("true", "false"):
            with settings(spark, legacy__useCurrentConfigsForView=follows):
                same_answer(spark, "SELECT v.k, u.w, w.name FROM nested v JOIN u ON v.k = u.id JOIN w ON w.id = v.k")
    finally:
        spark.sql("DROP VIEW nested")


def test_conditions_that_fail_stay_behind_those_that_guard_them(spark):
    """A stage that fails would be run as written; the last one of a frame cannot."""
    text = """
        WITH d AS (SELECT t.id, t.s, t.v FROM t JOIN u ON t.id = u.id)
        SELECT d.id, w.name FROM d JOIN w ON d.id = w.id
        WHERE d.v = 77 OR d.s <> '5' OR (d.id > 0 AND CAST(d.s AS INT) > 5)
    """
    rows = qoop.sql(spark, text, qoop.Options(plan="always")).collect()
    assert sorted(map(repr, rows)) == sorted(map(repr, spark.sql(text).collect()))


def test_what_is_encrypted_has_another_value_each_time(spark):
    text = f"SELECT a.id, length(aes_encrypt(a.s, '0000111122223333')) AS e {JOINED}"
    outcome = same_answer(spark, text)
    assert outcome.stopped_planning


def test_conditions_with_functions_of_the_users_filter_tables_before_they_are_joined(spark):
    spark.udf.register("half", lambda value: value // 2, "int")
    conditions = "half(a.v) > 5 AND pmod(b.w, 2) = 1 AND half(a.v) > b.w"
    outcome = same_answer(spark, f"SELECT a.id, b.w {JOINED} WHERE {conditions}")
    assert outcome.counts.stages > 1 and not outcome.given_up


def test_tables_are_joined_by_functions_of_the_users(spark):
    spark.udf.register("half", lambda value: value // 2, "int")
    spark.udf.register("third", lambda value: value // 3, "int")
    text = "SELECT a.id, b.w, c.name FROM t AS a JOIN u AS b ON half(a.id) = third(b.w) - 1 JOIN w AS c ON c.id = b.id"
    outcome = same_answer(spark, text)
    assert outcome.counts.stages > 1 and not outcome.given_up


def test_columns_that_nothing_reads_are_left_out(spark):
    tables = "t AS a JOIN u AS b ON a.id = b.id JOIN w AS c ON c.id = b.id"
    joined = f"WITH j AS (SELECT a.*, b.w, c.name, a.v + 1 AS n FROM {tables})"
    counted = same_answer(spark, f"{joined} SELECT x.id, count(*) FROM j AS x JOIN j AS y ON x.w = y.w GROUP BY x.id")
    assert counted.counts.stages > 1 and not counted.given_up
    for read in (
        "SELECT count(*) AS n FROM j JOIN j AS k ON true",
        "SELECT j.name FROM j WHERE EXISTS (SELECT * FROM j AS k WHERE k.w > j.w)",
        "SELECT struct(j.*) AS s, k.s AS t FROM j JOIN j AS k USING (id)",
        "SELECT id, w FROM j NATURAL JOIN (SELECT id, s FROM j GROUP BY ALL) ORDER BY ALL",
        "SELECT * FROM (SELECT name, w FROM j) PIVOT (sum(w) FOR name IN ('p', 'q'))",
    ):
        same_answer(spark, f"{joined} {read}")


def test_maps_are_keys_whatever_the_order_of_their_entries(spark):
    spark.sql(
        "CREATE OR REPLACE TEMPORARY VIEW maps AS SELECT * FROM "
        "VALUES (1, map('a', 1, 'b', 2)), (1, map('b', 2, 'a', 1)), (2, map('c', 3)) AS maps(id, m)"
    )
    grouped = "WITH q AS (SELECT maps.m, count(*) AS n FROM maps JOIN u ON maps.id = u.id GROUP BY maps.m)"
    for key in ("map_keys(q.m)[0] = 'a'", "CAST(q.m AS STRING) LIKE '{a%'"):
        outcome = same_answer(spark, f"{grouped} SELECT q.n, w.name FROM q JOIN w ON q.n = w.id WHERE {key}")
        assert outcome.stopped_planning
