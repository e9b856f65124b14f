"""Queries whose plan or share changes, or whose stages or stored outputs are lost, give the same answer."""

import shutil
import threading
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql.types import IntegerType

import qoop
from qoop.engine import spark_engine
from qoop.engine.checkpoints import ExecutorCheckpoints
from qoop.engine.persisted import PersistedRows, define_view, remove_all
from qoop.engine.scala import items
from qoop.engine.session import QueryAsWritten, query_session
from qoop.engine.spark_engine import SparkEngine
from qoop.errors import QoopError, QueryFailedError
from qoop.feedback import profile
from qoop.plans.candidates import CutPolicy
from qoop.plans.plan import RESULT, StageId
from qoop.replan import machine
from qoop.replan.causes import NewShare
from qoop.replan.commands import StartStage
from qoop.replan.decision import Rules
from qoop.replan.events import (
    CheckpointLost,
    ExecutorsChanged,
    QueryCancelled,
    StageCancelled,
    StageFailed,
    StageFinished,
    StageGrew,
    TasksRan,
)
from qoop.run import journal
from tests.sampled import one_in
from tests.spark.query_journal import check_query_journal
from tests.spark.spark_sessions import (
    active_jobs,
    local_session,
    remove_stored_rows,
    session_unchanged,
    small_data,
    unpersist_all_rdds,
    wait_until,
)
from tpcds import data, queries

pytestmark = pytest.mark.integration

EVERYWHERE = CutPolicy(everywhere=True)

SALES = """
SELECT i_category, s_state, d_year, hd_dep_count, count(*) AS sold, sum(ss_quantity) AS pieces
FROM store_sales
  JOIN item ON ss_item_sk = i_item_sk
  JOIN store ON ss_store_sk = s_store_sk
  JOIN date_dim ON ss_sold_date_sk = d_date_sk
  JOIN household_demographics ON ss_hdemo_sk = hd_demo_sk
GROUP BY i_category, s_state, d_year, hd_dep_count
"""


@pytest.fixture(scope="module")
def spark(tmp_path_factory):
    with local_session(tmp_path_factory.mktemp("spark"), small_data()) as session:
        yield session


@pytest.fixture(scope="module")
def sales(spark):
    return Counter(map(tuple, spark.sql(SALES).collect()))


def rows_of(answer):
    return Counter(map(tuple, answer.rows))


# Switches.


@pytest.mark.parametrize("files", [False, True])
def test_a_switch_after_every_stage_changes_no_answer(spark, sales, tmp_path, files):
    options = qoop.Options(
        rules=Rules(force=True),
        cut_policy=EVERYWHERE,
        journal=tmp_path / "journal",
        checkpoint=(tmp_path / "outputs").as_uri() if files else None,
    )
    with session_unchanged(spark):
        answer = qoop.collect(spark, SALES, options)
    assert rows_of(answer) == sales
    counts = answer.outcome.counts
    assert answer.outcome.join_trees > 1 and min(counts.stages, counts.switches, counts.reused) > 1
    assert (counts.failed, counts.lost) == (0, 0)
    records = journal.read(tmp_path / "journal")
    check_query_journal(records)
    finished = [one for one in records if one["kind"] == "input" and one["event"]["type"] == "StageFinished"]
    assert len(finished) == counts.stages


def test_a_tpcds_query_of_eight_joins_switched_after_every_stage(spark):
    """At scale 0.1, since the query finds no rows at scale 0.01."""
    tenth = data.open_data(data.ensure(0.1))
    session = spark.newSession()
    for table in ("store_sales", "store_returns", "catalog_sales", "date_dim", "store", "item"):
        session.read.parquet(str(tenth.table(table))).createOrReplaceTempView(table)
    text = queries.spark_text(17)
    options = qoop.Options(rules=Rules(force=True), cut_policy=EVERYWHERE)
    with session_unchanged(spark):
        answer = qoop.collect(session, text, options)
    assert answer.rows == session.sql(text).collect() != []
    assert min(answer.outcome.counts.switches, answer.outcome.counts.reused) > 0


# Shares.


def test_a_share_profile_triggers_new_decisions(spark, sales, tmp_path):
    file = tmp_path / "profile.csv"
    file.write_text("seconds,slots\n0,2\n0.3,1\n")
    options = qoop.Options(feed=lambda: profile.ProfileFeed(profile.read_profile(file)), cut_policy=EVERYWHERE)
    with session_unchanged(spark):
        answer = qoop.collect(spark, SALES, options)
    assert rows_of(answer) == sales
    first, *others = answer.outcome.decisions
    assert (first.slots, first.cause) == (2, NewShare(None, 2, "the first share is 2 slots", ("profile",)))
    assert [
        one.slots
        for one in others
        if one.cause == NewShare(2, 1, "the profile sets 1 slot from 0.3 s on", ("profile",))
    ] == [1]
    assert others[-1].slots == 1


def test_a_fixed_share_does_not_change(spark, sales):
    with session_unchanged(spark):
        answer = qoop.collect(spark, SALES, qoop.Options(feed=lambda: profile.fixed_share(1), cut_policy=EVERYWHERE))
    assert rows_of(answer) == sales
    assert {one.slots for one in answer.outcome.decisions} == {1}


def test_without_a_feed_the_share_is_the_sessions_cores(spark):
    with session_unchanged(spark):
        answer = qoop.collect(spark, SALES, qoop.Options(cut_policy=EVERYWHERE))
    assert {one.slots for one in answer.outcome.decisions} == {2}


# Cancelled stages.


class EngineWithEvents:
    """An engine on the real session, and the events that it reports of stages."""

    def __init__(self, spark):
        self.events, self.results = [], []
        session = query_session(spark)
        self.checkpoints = ExecutorCheckpoints(session)
        written = QueryAsWritten(spark, "SELECT 1 AS one")
        self.engine = SparkEngine(session, "watched", written, self.checkpoints, self._take, self._note)

    def _take(self, frame):
        self.results.append(frame.collect())
        return len(self.results[-1]), self.results[-1]

    def _note(self, event):
        # When executors and tasks are asked for depends on the time.
        if not isinstance(event, ExecutorsChanged | TasksRan):
            self.events.append(event)

    def wait(self, kind, count=1):
        wait_until(lambda: sum(isinstance(event, kind) for event in self.events) >= count, lambda: str(self.events))

    def close(self):
        self.engine.close()
        self.checkpoints.release()


@pytest.fixture
def watched(spark):
    with session_unchanged(spark):
        made = EngineWithEvents(spark)
        yield made
        made.close()


ONE, TWO = StageId("qoop_result", 3), StageId("qoop_result", 12)


@pytest.fixture
def slow(spark, tmp_path):
    """A query that runs for minutes and whose tasks append to a file for each row."""
    marks = tmp_path / "marks"

    def mark(value):
        import time

        time.sleep(0.01)
        with marks.open("a") as file:
            file.write("x")
        return value

    spark.udf.register("mark", mark, IntegerType())
    yield marks, "SELECT mark(i_item_sk) AS item FROM item CROSS JOIN store_sales"
    spark.sql("DROP TEMPORARY FUNCTION mark")


def test_a_stage_that_is_cancelled_in_its_shuffle_is_reported_as_that_while_others_are_in_sparks_cache(
    spark, slow, watched
):
    marks, text = slow
    cached = spark.sql("SELECT i_item_sk AS item FROM item UNION SELECT ss_item_sk FROM store_sales").cache()
    cached.count()
    watched.engine.start(ONE, f"SELECT item FROM ({text}) UNION SELECT ss_item_sk FROM store_sales ORDER BY 1", "one")
    wait_until(lambda: marks.exists() and marks.stat().st_size > 10)
    watched.engine.cancel((ONE,))
    watched.wait(StageCancelled)
    assert watched.events == [StageCancelled(ONE)]
    assert cached.storageLevel.useMemory
    cached.unpersist(blocking=True)


def test_a_cancelled_stage_stops_and_the_others_continue(spark, slow, watched):
    marks, text = slow
    watched.engine.start(ONE, text, "one")
    wait_until(lambda: marks.exists() and marks.stat().st_size > 10)
    watched.engine.start(TWO, "SELECT count(*) AS n FROM item", "two")
    watched.engine.cancel((ONE,))
    watched.wait(StageCancelled)
    watched.wait(StageFinished)
    assert {type(event): event.stage for event in watched.events} == {StageCancelled: ONE, StageFinished: TWO}
    wait_until(lambda: not active_jobs(spark))
    wait_until(lambda: unchanged(marks))
    watched.engine.start(RESULT, "SELECT 1 AS one", None)
    watched.wait(StageFinished, 2)
    assert watched.results == [[(1,)]]


@pytest.fixture
def gate(spark, tmp_path):
    """A function that, while a file exists, waits for numbers from 80 on."""
    closed = tmp_path / "closed"
    closed.touch()

    def wait(number):
        import time

        while number >= 80 and closed.exists():
            time.sleep(0.01)
        return number

    spark.udf.register("waiting", wait, "long")
    yield closed
    spark.sql("DROP TEMPORARY FUNCTION waiting")


SCAN = "SELECT id, waiting(id) AS x FROM range(0, 120, 1, 12)"

JOIN = "SELECT r.id, waiting(r.id) AS x, k.id AS k FROM range(0, 120, 1, 12) AS r JOIN range(3) AS k ON k.id = r.id % 3"

GROUPS = "SELECT x % 7 AS id, count(*) AS x FROM (" + SCAN + ") GROUP BY x % 7"


def finished_tasks(spark):
    tracker = spark.sparkContext.statusTracker()
    stages = (tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds())
    return sum(stage.numCompletedTasks for stage in stages if stage)


def records_read(spark, tag):
    """The records that the tasks of the last job under a tag have read; a stored partition counts as one record."""
    scala = spark.sparkContext._jsc.sc()
    stages = scala.statusStore().job(max(scala.statusTracker().getJobIdsForTag(tag))).stageIds()
    attempts = [scala.statusStore().lastStageAttempt(stages.apply(index)) for index in range(stages.size())]
    return sum(attempt.inputRecords() for attempt in attempts)


def test_a_running_stage_reports_how_many_rows_it_has(spark, gate, watched, monkeypatch):
    monkeypatch.setattr(spark_engine, "MIN_GROWTH_ROWS", 50.0)
    watched.engine.start(ONE, SCAN, "one")
    watched.wait(StageGrew)
    gate.unlink()
    watched.wait(StageFinished)
    grown = [event for event in watched.events if isinstance(event, StageGrew)]
    assert all(one.rows == pytest.approx(120 * one.finished) for one in grown)
    assert 50 <= grown[0].rows <= 80


def cancelled_at_two_thirds(spark, watched, text):
    """Cancel a stage when 8 of its 12 partitions are stored; returns the event."""
    watched.engine.start(ONE, text, "one")
    wait_until(lambda: finished_tasks(spark) == 8)
    watched.engine.cancel((ONE,))
    watched.wait(StageCancelled)
    wait_until(lambda: not active_jobs(spark))
    return watched.events[-1]


@pytest.mark.parametrize("text", [SCAN, pytest.param(JOIN, marks=pytest.mark.matrix)])
def test_a_cancelled_stage_is_resumed_where_it_stopped(spark, gate, watched, text):
    stopped = cancelled_at_two_thirds(spark, watched, text)
    assert (stopped.stage, stopped.kept) == (ONE, pytest.approx(8 / 12))
    gate.unlink()
    watched.engine.start(ONE, text, "one")
    watched.wait(StageFinished)
    read = records_read(spark, "watched-2")
    watched.engine.start(RESULT, "SELECT CAST(sum(x) AS int) AS s FROM one", None)
    watched.wait(StageFinished, 2)
    expected = spark.sql(text.replace("waiting(", "(")).selectExpr("count(*)", "CAST(sum(x) AS int)").first()
    assert (watched.events[-2].rows, watched.results[0][0][0]) == tuple(expected)
    rows_of_four_partitions, stored_partitions = 40, 8
    assert rows_of_four_partitions <= read <= rows_of_four_partitions + stored_partitions


@one_in(2, "change", ["another text", "another version of an input"])
def test_what_a_cancelled_stage_stored_is_not_used_for_another_output(spark, gate, watched, change):
    cancelled_at_two_thirds(spark, watched, SCAN)
    gate.unlink()
    text = SCAN
    if change == "another text":
        text = SCAN.replace("id,", "id + 1 AS id,")
    else:
        watched.engine._versions["range"] = 1
    watched.engine.start(ONE, text, "one")
    watched.wait(StageFinished)
    assert records_read(spark, "watched-2") == 120


@pytest.mark.matrix
def test_nothing_is_kept_of_a_stage_cancelled_in_its_shuffle(spark, gate, watched):
    assert cancelled_at_two_thirds(spark, watched, GROUPS) == StageCancelled(ONE)
    gate.unlink()
    watched.engine.start(ONE, GROUPS, "one")
    watched.wait(StageFinished)
    watched.engine.start(RESULT, "SELECT CAST(sum(x) AS int) AS n FROM one", None)
    watched.wait(StageFinished, 2)
    assert watched.results == [[(120,)]]


@pytest.mark.parametrize("text", [pytest.param(SCAN, marks=pytest.mark.matrix), GROUPS])
def test_a_stage_that_computes_the_same_as_a_cancelled_one_goes_on(spark, gate, watched, text):
    watched.engine.start(ONE, text, "one")
    wait_until(lambda: finished_tasks(spark) == 8)
    watched.engine.start(TWO, f"SELECT id + 1 AS id, x FROM ({text})", "two")
    threading.Event().wait(1.0)
    watched.engine.cancel((ONE,))
    # Not only after the other one has come to an end.
    watched.wait(StageCancelled)
    gate.unlink()
    wait_until(lambda: len(watched.events) == 2)
    assert [type(event) for event in watched.events] == [StageCancelled, StageFinished], watched.events


def unchanged(file: Path):
    """Whether nothing is written to a file for a second."""
    before = file.stat().st_size
    threading.Event().wait(1.0)
    return file.stat().st_size == before


def test_a_stage_can_be_cancelled_before_it_has_a_job(watched):
    for number in range(10):
        watched.engine.start(ONE, "SELECT count(*) AS n FROM store_sales GROUP BY ss_item_sk", "one")
        watched.engine.cancel((ONE,))
        wait_until(lambda number=number: len(watched.events) == number + 1)
    # A stage may have finished before it could be cancelled.
    assert {type(event) for event in watched.events} <= {StageCancelled, StageFinished}
    watched.engine.cancel((ONE,))
    assert watched.events[-1] == StageCancelled(ONE)


def test_closing_an_engine_cancels_running_stages(spark, slow, watched):
    marks, text = slow
    watched.engine.start(ONE, text, "one")
    wait_until(lambda: marks.exists())
    watched.close()
    assert watched.events == [StageCancelled(ONE)]
    wait_until(lambda: not active_jobs(spark))


def test_a_failed_stage_reports_its_error(spark, watched):
    watched.engine.start(ONE, "SELECT 1 / (i_item_sk - i_item_sk) AS x FROM item", "one")
    watched.wait(StageFailed)
    (failed,) = watched.events
    assert not failed.retry and failed.error.startswith("[DIVIDE_BY_ZERO]") and "\n" not in failed.error
    assert not any(isinstance(event, QueryCancelled) for event in watched.events)


# Lost outputs.


def losing(lose, options):
    """Options with which outputs are lost just before a stage reads them; `lost` contains that stage."""
    lost = []

    def watch(command):
        if isinstance(command, StartStage) and command.inputs and not lost:
            lost.append(command.stage)
            lose()

    return lost, qoop.Options(**{**options, "watch": watch})


def test_deleted_output_files_are_computed_again(spark, sales, tmp_path):
    outputs = tmp_path / "outputs"
    journal_file = tmp_path / "journal"

    def delete():
        for folder in outputs.glob("qoop-*/qoop_*"):
            shutil.rmtree(folder)

    given = {"cut_policy": EVERYWHERE, "checkpoint": outputs.as_uri(), "journal": journal_file}
    lost, options = losing(delete, given)
    with session_unchanged(spark):
        answer = qoop.collect(spark, SALES, options)
    assert lost and rows_of(answer) == sales
    assert answer.outcome.counts.lost + answer.outcome.counts.failed > 0
    check_query_journal(journal.read(journal_file))
    assert list(outputs.iterdir()) == []


@one_in(2, "lose", [remove_stored_rows, unpersist_all_rdds])
def test_lost_rows_are_computed_again(spark, sales, tmp_path, lose):
    given = {"cut_policy": EVERYWHERE, "journal": tmp_path / "journal"}
    lost, options = losing(lambda: lose(spark), given)
    with session_unchanged(spark):
        answer = qoop.collect(spark, SALES, options)
    assert lost and rows_of(answer) == sales
    check_query_journal(journal.read(tmp_path / "journal"))


def replaced_view(spark):
    """Another session replaces a view of the name by which the query reads a table."""
    other = spark.newSession()
    for rows in (1, 2):
        other.range(rows).createOrReplaceTempView("store_sales")


def uncached_table(spark):
    """The user no longer needs a table in Spark's cache."""
    spark.table("item").cache().count()
    spark.catalog.uncacheTable("item")


@one_in(2, "change", [replaced_view, uncached_table, lambda spark: spark.catalog.clearCache()])
def test_what_spark_drops_from_its_cache_is_no_stage_output(spark, sales, change):
    seen, options = losing(lambda: change(spark), {"cut_policy": EVERYWHERE})
    with session_unchanged(spark):
        answer = qoop.collect(spark, SALES, options)
    assert seen and rows_of(answer) == sales
    assert answer.outcome.counts.lost == answer.outcome.counts.failed == 0


def test_a_view_that_is_defined_anew_drops_no_frames_of_queries_with_a_view_of_its_name(spark):
    with session_unchanged(spark):
        one, other = query_session(spark), query_session(spark)
        define_view("stage_1", one.range(3).toDF("x"))
        read = one.sql("SELECT x + 1 AS y FROM stage_1").cache()
        assert read.count() == 3
        for rows in (5, 6):
            define_view("stage_1", other.range(rows).toDF("x"))
            assert other.sql("SELECT * FROM stage_1").count() == rows
        assert read.storageLevel.useMemory
        read.unpersist(blocking=True)


def test_rows_are_stored_with_the_names_and_types_of_their_query(spark):
    session = query_session(spark)
    text = "SELECT ss_item_sk AS Item, CAST(NULL AS INT) AS none, coalesce(ss_quantity, 0) AS `n 1` FROM store_sales"
    query = session.sql(text)
    rows = PersistedRows(query, "kept")
    with session_unchanged(spark):
        rows.partitions()
        assert rows.frame.schema == query.schema
        define_view("kept", rows.frame)
        both = session.sql("SELECT one.item FROM kept one JOIN kept other ON one.item = other.ITEM LIMIT 1")
        assert both.columns == ["item"] and both.count() == 1
        rows.remove()


def test_stored_rows_stay_partitioned_and_sorted(spark):
    """So the next stage need not shuffle or sort them again."""
    session = query_session(spark)
    with session_unchanged(spark):
        rows = PersistedRows(session.sql("SELECT id % 7 AS k, count(*) AS n FROM range(100) GROUP BY k"), "kept")
        assert rows.partitions().count() > 0
        define_view("kept", rows.frame)
        again = session.sql("SELECT k, sum(n) AS n FROM kept GROUP BY k")
        assert sum(row.n for row in again.collect()) == 100
        assert "Exchange" not in str(again._jdf.queryExecution().executedPlan().toString())
        rows.remove()


def test_what_spark_writes_of_a_plan_does_not_grow_with_the_stages_before(spark):
    """With all that computed its stored rows, as a logical and a physical plan, it would double with each stage."""
    session, stored = query_session(spark), []
    frame, sizes = session.range(4).selectExpr("id", "1L AS n"), []
    with session_unchanged(spark):
        for stage in range(12):
            rows = PersistedRows(frame, f"stage_{stage}")
            stored.append(rows)
            assert rows.partitions().count() > 0
            define_view(f"stage_{stage}", rows.frame)
            frame = session.sql(
                f"SELECT one.id, sum(one.n + other.n) AS n FROM stage_{stage} one JOIN stage_{stage} other USING (id) "
                "GROUP BY one.id"
            )
            execution = frame._jdf.queryExecution()
            sizes.append((len(str(execution)), len(execution.analyzed().toJSON()), len(descriptions(spark)[-1])))
        assert Counter(map(tuple, frame.collect())) == Counter({(number, 2**12): 1 for number in range(4)})
        assert remove_all(stored) is None
    assert all(last <= 1.1 * first for first, last in zip(sizes[1], sizes[-1], strict=True))


def descriptions(spark):
    """The plans that Spark has described in its UI."""
    store = spark._jsparkSession.sharedState().statusStore()
    return [one.physicalPlanDescription() for one in items(store.executionsList())]


def test_a_lost_output_is_reported_once_and_stored_again(spark, watched):
    text = "SELECT /*+ REPARTITION(6) */ ss_item_sk, count(*) AS n FROM store_sales GROUP BY ss_item_sk"
    watched.engine.start(ONE, text, "one")
    watched.wait(StageFinished)
    remove_stored_rows(spark)
    watched.wait(CheckpointLost)
    watched.engine.start(ONE, text, "one")
    watched.wait(StageFinished, 2)
    threading.Event().wait(1.0)
    assert [type(event) for event in watched.events] == [StageFinished, CheckpointLost, StageFinished]
    rows = {event.rows for event in watched.events if isinstance(event, StageFinished)}
    assert rows == {float(spark.sql(text).count())}


@one_in(2, "files", [False, True])
def test_the_journal_records_the_failure_of_a_query(spark, tmp_path, files):
    options = qoop.Options(
        cut_policy=EVERYWHERE,
        journal=tmp_path / "journal",
        checkpoint=(tmp_path / "outputs").as_uri() if files else None,
    )
    text = SALES.replace("count(*)", "sum(1 / (ss_quantity - ss_quantity))")
    with session_unchanged(spark), pytest.raises(QueryFailedError, match=r"^\[DIVIDE_BY_ZERO\]"):
        qoop.collect(spark, text, options)
    records = journal.read(tmp_path / "journal")
    kinds = [one["event"]["type"] for one in records if one["kind"] == "input"]
    assert kinds.count("StageFailed") == 2, "as planned, then as written"
    assert records[-1]["commands"][-1]["type"] == "Fail"


def test_an_error_of_the_planner_during_a_query_does_not_fail_it(spark, sales, monkeypatch):
    calls = []

    def step(state, at, event):
        calls.append(event)
        if isinstance(event, StageFinished) and state.phase == "running":
            raise KeyError("a defect of the planner")
        return machine.step(state, at, event)

    monkeypatch.setattr("qoop.run.query_run.step", step)
    warned = []
    with session_unchanged(spark):
        answer = qoop.collect(spark, SALES, qoop.Options(cut_policy=EVERYWHERE, warn=warned.append))
    assert rows_of(answer) == sales
    assert warned == [
        "replanning stopped, running the query as written: the planner failed: KeyError: 'a defect of the planner'"
    ]


def test_a_journal_replaces_an_earlier_one_but_no_other_file(spark, tmp_path):
    text = "SELECT count(*) FROM item"
    for _ in range(2):
        qoop.collect(spark, text, qoop.Options(journal=tmp_path / "journal"))
        check_query_journal(journal.read(tmp_path / "journal"))
    notes = tmp_path / "notes.txt"
    notes.write_text("my notes")
    with session_unchanged(spark), pytest.raises(QoopError, match="not a query journal"):
        qoop.collect(spark, text, qoop.Options(journal=notes))
    assert notes.read_text() == "my notes"
