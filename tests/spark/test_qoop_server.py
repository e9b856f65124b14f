"""`qoop server` with real Spark, asked over its protocol; and its process, which is stopped and killed."""

import time
from collections import Counter

import pytest

import qoop
from qoop.feedback.shares import Shares
from qoop.plans.candidates import CutPolicy
from qoop.replan.decision import Rules
from qoop.replan.events import ShareChanged
from qoop.server.spark import ONE_COLUMN_SHOW_TABLES, SparkApplication
from tests.sampled import one_in
from tests.server_world import Client, World, small  # first: it skips where Thrift is missing
from tests.spark.spark_sessions import active_jobs, wait_until

pytestmark = pytest.mark.integration

SALES = """
SELECT i_category, s_state, d_year, count(*) AS sold, sum(ss_quantity) AS pieces
FROM store_sales
  JOIN item ON ss_item_sk = i_item_sk
  JOIN store ON ss_store_sk = s_store_sk
  JOIN date_dim ON ss_sold_date_sk = d_date_sk
WHERE d_moy < 7
GROUP BY i_category, s_state, d_year
"""

FINISHED, CANCELED, ERROR = 2, 3, 5


class Feed:
    """A share that the test changes."""

    def start(self, emit):
        self.emit = emit
        self.tell(4.0, "the first application has the whole pool")

    def tell(self, slots, reason):
        self.emit(ShareChanged(slots, None, reason, time.time()))

    def close(self):
        pass


@pytest.fixture(scope="module")
def feed():
    return Feed()


@pytest.fixture(scope="module")
def world(spark, feed):
    shares = Shares(feed, None)
    shares.start()
    options = qoop.Options(cut_policy=CutPolicy(everywhere=True), rules=Rules(force=True))
    limits = small(memory_bytes=0, max_page_bytes=50_000)
    with World(limits, backend=SparkApplication(spark, shares, options)).running() as running:
        yield running
    shares.close()


@pytest.fixture
def client(world):
    with Client(world.port) as connected:
        yield connected


def rows_of(client, operation):
    rows = []
    while True:
        columns = client.fetch(operation).results.columns
        values = [next(value for value in vars(column).values() if value is not None) for column in columns]
        if not values[0].values:
            return rows
        rows += zip(*(_with_nulls(value) for value in values), strict=True)


def _with_nulls(column):
    bits = [byte >> bit & 1 for byte in column.nulls for bit in range(8)]
    return [None if place < len(bits) and bits[place] else value for place, value in enumerate(column.values)]


def ask(client, session, text):
    operation = client.execute(session, text).operationHandle
    status = client.until_ended(operation)
    assert status.operationState == FINISHED, status.errorMessage
    return rows_of(client, operation)


def test_rows_are_right_and_the_log_tells_switches_and_the_share(client, spark, feed):
    session = client.open()
    expected = Counter(tuple(row) for row in spark.newSession().sql(SALES).collect())
    lines = (
        "share: 4 slots; the first application has the whole pool",
        "share: 1 slot; half of pool sql since app_17 arrived",
        "chose plan",
        "switched to plan",
    )
    # A query of this size may end before it hears of its new share.
    for _ in range(8):
        feed.tell(4.0, "the first application has the whole pool")
        operation = client.execute(session, SALES).operationHandle
        wait_until(lambda operation=operation: "share: 4 slots" in log_of(client, operation))
        feed.tell(1.0, "half of pool sql since app_17 arrived")
        assert client.until_ended(operation).operationState == FINISHED
        assert Counter(rows_of(client, operation)) == expected
        log = log_of(client, operation)
        if all(line in log for line in lines):
            return
    raise AssertionError(log)


def log_of(client, operation):
    columns = client.fetch(operation, orientation=4, kind=1).results.columns
    return "\n".join(columns[0].stringVal.values) if columns else ""


def test_values_are_those_of_sparks_thrift_server(client):
    session = client.open()
    text = """SELECT cast(1.50 AS decimal(10, 2)), timestamp '2020-01-02 03:04:05.678', date '2020-01-02', X'6162',
      array(1, null, 3), map('k', 1.5D), named_struct('a', 'x', 'b', array(timestamp '2020-01-02 03:04:05')),
      array(X'6162'), array(interval '1-2' year to month), interval '1' year, interval '-3 04:05:06.7' day to second,
      interval '90' minute, float(1.1), tinyint(1), smallint(2), 3, 4L, 1.5D, true, null, 'caf\u00e9',
      cast(null AS int), cast(null AS array<int>), cast(null AS struct<a: int>), make_interval(1, 2),
      parse_json('{"a":1}')"""
    assert ask(client, session, text) == [
        (
            *("1.50", "2020-01-02 03:04:05.678", "2020-01-02", b"ab", "[1,null,3]", '{"k":1.5}'),
            *('{"a":"x","b":[2020-01-02 03:04:05]}', "[ab]", "[1-2]", "1-0", "-3 04:05:06.700000000"),
            *("0 01:30:00.000000000", 1.1, 1, 2, 3, 4, 1.5, True, None, "caf\u00e9", None, None, None),
            *("1 years 2 months", '{"a":1}'),
        )
    ]


@pytest.mark.parametrize(
    ("text", "state", "start"),
    [
        ("SELECT id / 0 FROM range(3)", "22012", "[DIVIDE_BY_ZERO]"),
        ("SELECT * FROM nowhere", "42P01", "[TABLE_OR_VIEW_NOT_FOUND]"),
        ("SELEC 1", "42601", "[PARSE_SYNTAX_ERROR]"),
        ("SELECT raise_error('no')", "P0001", "[USER_RAISED_EXCEPTION]"),
    ],
)
def test_errors_have_sparks_class_and_sqlstate(client, text, state, start):
    status = client.until_ended(client.execute(client.open(), text).operationHandle)
    assert (status.operationState, status.sqlState) == (ERROR, state)
    assert status.errorMessage.startswith(start)


def test_many_rows_arrive_in_order_from_the_disk(client, world):
    session = client.open()
    rows = ask(client, session, "SELECT id, 'x' FROM range(0, 30000, 1, 8) ORDER BY id DESC")
    assert rows == [(number, "x") for number in range(29999, -1, -1)]
    client.call("CloseSession", sessionHandle=session)
    assert world.room.used == (0, 0)


@one_in(2, "wait", [0.0, 0.3, 1.5])
def test_a_cancelled_statement_leaves_no_task(client, spark, wait):
    session = client.open()
    text = "SELECT count(*) FROM range(0, 1000000000000, 1, 4) WHERE rand() > 0.5"
    operation = client.execute(session, text).operationHandle
    time.sleep(wait)
    client.call("CancelOperation", operationHandle=operation)
    assert client.until_ended(operation).operationState == CANCELED
    time.sleep(0.3)
    wait_until(lambda: not active_jobs(spark))
    assert ask(client, session, "SELECT 1") == [(1,)]


def test_sessions_have_views_and_settings_of_their_own(client):
    ours, other = (
        client.open(),
        client.open(**{"set:hiveconf:spark.sql.ansi.enabled": "false", "use:database": "sales"}),
    )
    assert other is None, "no such database"
    other = client.open(**{"set:hiveconf:spark.sql.ansi.enabled": "false"})
    assert ask(client, ours, "CREATE TEMPORARY VIEW mine AS SELECT 1 AS a") == []
    assert ask(client, ours, "SELECT * FROM mine") == [(1,)]
    assert client.until_ended(client.execute(other, "SELECT * FROM mine").operationHandle).sqlState == "42P01"
    assert ask(client, other, "SELECT 1 / 0") == [(None,)]
    assert (
        ask(client, ours, "CREATE TABLE kept USING parquet AS SELECT i_category, count(*) AS n FROM item GROUP BY 1")
        == []
    )
    assert ask(client, other, "SELECT sum(n) FROM kept") == ask(client, other, "SELECT count(*) FROM item")
    assert ("default", "kept", False) in ask(client, other, "SHOW TABLES")
    assert ask(client, other, f"SET {ONE_COLUMN_SHOW_TABLES}=true") == [(ONE_COLUMN_SHOW_TABLES, "true")]
    assert ("kept",) in ask(client, other, "SHOW TABLES")
    ask(client, ours, "DROP TABLE kept")


def test_the_catalogue_is_listed(client):
    session = client.open()
    listed = client.call("GetTables", sessionHandle=session, schemaName="default", tableName="item%").operationHandle
    assert [row[:4] for row in rows_of(client, listed)] == [("", "default", "item", "TABLE")]
    listed = client.call("GetColumns", sessionHandle=session, tableName="item", columnName="i_item_sk").operationHandle
    assert [(row[3], row[5]) for row in rows_of(client, listed)] == [("i_item_sk", "INT")]
    listed = client.call("GetFunctions", sessionHandle=session, functionName="abs").operationHandle
    assert [row[2] for row in rows_of(client, listed)] == ["abs"]


def test_a_session_cannot_take_its_jobs_from_their_group_or_pool(client, spark):
    session = client.open(**{"spark.job.interruptOnCancel": "false"})
    for setting in ("spark.jobGroup.id=mine", "spark.scheduler.pool=session-1"):
        ask(client, session, f"SET {setting}")
    text = "SELECT count(*) FROM range(0, 1000000000000, 1, 4) WHERE rand() > 0.5"
    operation = client.execute(session, text).operationHandle
    wait_until(lambda: active_jobs(spark))
    client.call("CancelOperation", operationHandle=operation)
    assert client.until_ended(operation).operationState == CANCELED
    wait_until(lambda: not active_jobs(spark))


def sleeping(tasks, milliseconds):
    """A query with so many tasks that sleep, and a last one."""
    sleep = f"java_method('java.lang.Thread', 'sleep', {milliseconds}L)"
    return f"SELECT count(*) FROM range(0, {tasks}, 1, {tasks}) WHERE {sleep} <> ''"


def test_statements_of_a_session_get_slots_in_the_order_of_their_start(client, spark):
    """The last stage of the first does not wait for the first stages of those that started later."""
    session, ended = client.open(), []
    operations = [client.execute(session, sleeping(40, 150)).operationHandle]
    wait_until(lambda: active_jobs(spark))
    operations += [client.execute(session, sleeping(8, 150)).operationHandle for _ in range(5)]
    for operation in operations:
        status = client.until_ended(operation)
        assert status.operationState == FINISHED, status.errorMessage
        ended.append(status.operationCompleted)
    assert ended[-1] - ended[0] > 1000, ended
    wait_until(lambda: "session" not in pools(spark))


def pools(spark):
    """The names of the pools of Spark's scheduler."""
    queue = spark.sparkContext._jsc.sc().taskScheduler().rootPool().schedulableQueue()
    return [pool.name() for pool in queue.toArray()]


def test_more_sessions_than_slots_all_get_some(client, spark):
    sessions = [client.open() for _ in range(4)]
    began = 1000 * time.time()
    operations = [client.execute(session, sleeping(30, 50)).operationHandle for session in sessions]
    took = [client.until_ended(operation).operationCompleted - began for operation in operations]
    assert min(took) > 0.75 * max(took), took
    wait_until(lambda: "session" not in pools(spark))


def test_a_broken_view_hides_no_other_tables_columns(client):
    session = client.open()
    ask(client, session, "CREATE TABLE gone USING parquet AS SELECT 1 AS a")
    ask(client, session, "CREATE VIEW broken AS SELECT a FROM gone")
    ask(client, session, "DROP TABLE gone")
    listed = client.call("GetColumns", sessionHandle=session, columnName="i_item_sk").operationHandle
    assert [row[3] for row in rows_of(client, listed)] == ["i_item_sk"]
    ask(client, session, "DROP VIEW broken")
