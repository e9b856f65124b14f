"""Spark's runtime filters in a Spark session: where they act, and that nobody else notices."""

import platformdirs
import pytest

import qoop
from qoop import api, session_query
from qoop.engine import session as engine_session
from qoop.engine.runtime_filters import FILTERED, MADE_OF
from qoop.estimate.gate import Gate
from qoop.run.runs_here import RunsHere
from tests.spark.spark_sessions import local_session, session_state, small_data

pytestmark = pytest.mark.integration

TEXT = "SELECT count(*) AS n, sum(a.v) AS s FROM a JOIN b ON a.k = b.k WHERE b.v < 20"
EXPECTED = [(20, sum(3 * k for k in range(20)))]
FILTER = "might_contain"


@pytest.fixture(scope="module")
def spark(tmp_path_factory):
    folder = tmp_path_factory.mktemp("filters")
    with local_session(folder, small_data()) as session:
        session.conf.unset("spark.qoop.plan")
        session.conf.set("spark.sql.autoBroadcastJoinThreshold", "100000")
        for name, factor in (("a", 3), ("b", 1)):
            path = str(folder / name)
            rows = session.range(0, 200_000, 1, 2).selectExpr("id AS k", f"id * {factor} AS v", "uuid() AS t")
            rows.write.parquet(path)
            session.read.parquet(path).createOrReplaceTempView(name)
        yield session


@pytest.fixture(autouse=True)
def no_earlier_runs(monkeypatch, tmp_path):
    monkeypatch.setattr(platformdirs, "user_cache_dir", lambda name: str(tmp_path / name))
    monkeypatch.setattr(session_query, "_runs_here", RunsHere())


def plans(spark):
    """Spark's descriptions of the plans of all queries."""
    store = spark._jsparkSession.sharedState().statusStore()
    found = store.executionsList()
    return [str(found.apply(place).physicalPlanDescription()) for place in range(found.size())]


def run(spark, **options):
    """The rows of the query, and whether a filter was used."""
    before = len(plans(spark))
    answer = qoop.collect(spark, TEXT, qoop.Options(gate=Gate(gain=0.0), guard=None, **options))
    assert [tuple(row) for row in answer.rows] == EXPECTED
    return any(FILTER in plan for plan in plans(spark)[before:])


def test_runtime_filters_act_in_plans_and_in_the_query_as_written_and_in_no_other_session(spark, monkeypatch):
    state = session_state(spark)
    assert run(spark), "as written, in one piece, as that is as fast"
    assert run(spark, plan="always"), "in stages"
    assert session_state(spark) == state, "with the settings that SET shows"
    before = len(plans(spark))
    assert [tuple(row) for row in spark.sql(TEXT).collect()] == EXPECTED
    assert not any(FILTER in plan for plan in plans(spark)[before:]), "what Spark runs alone has none"
    assert not run(spark, plan="never"), "nor has a query that is not to be planned"


@pytest.mark.parametrize("name", [FILTERED, MADE_OF])
def test_they_are_left_to_a_user_who_has_set_one(spark, name):
    given = spark.conf.get(name)
    spark.conf.set(name, given)
    try:
        assert not run(spark)
        assert spark.conf.get(name) == given
    finally:
        spark.conf.unset(name)


def test_a_session_with_tags_computes_the_query_as_written_itself(spark):
    """A copy would not be interrupted by them."""
    spark.addTag("mine")
    try:
        assert not run(spark)
    finally:
        spark.removeTag("mine")


def test_a_query_that_runs_out_of_memory_is_tried_again_without_them(spark, monkeypatch):
    made = engine_session.QueryAsWritten.frame
    tried = []

    def failing(written):
        tried.append(made(written))
        if len(tried) == 1:
            raise RuntimeError("Not enough memory to build and broadcast the table")
        return tried[-1]

    monkeypatch.setattr(engine_session.QueryAsWritten, "frame", failing)
    assert not run(spark)
    copy, again = (frame.sparkSession for frame in tried)
    assert copy.conf.get(FILTERED) == again.conf.get(FILTERED) == spark.conf.get(FILTERED)
    assert again._jsparkSession.equals(spark._jsparkSession)


def test_rows_that_are_written_to_files_and_nothing_else_are_filtered(spark, tmp_path):
    options = qoop.Options(gate=Gate(gain=0.0), guard=None)
    sessions = []

    def store(frame):
        sessions.append(frame.sparkSession._jsparkSession)
        frame.write.parquet(str(tmp_path / f"rows-{len(sessions)}"))

    for only_writes in (True, False):
        before = len(plans(spark))
        api.write(spark, TEXT, options, store, lambda place: None, only_writes=only_writes)
        assert any(FILTER in plan for plan in plans(spark)[before:]) == only_writes
        rows = spark.read.parquet(str(tmp_path / f"rows-{len(sessions)}")).collect()
        assert [tuple(row) for row in rows] == EXPECTED
    assert [session.equals(spark._jsparkSession) for session in sessions] == [False, True]


def test_a_frame_of_the_user_is_in_the_users_session(spark):
    frame = qoop.sql(spark, TEXT, qoop.Options(gate=Gate(gain=0.0), guard=None))
    assert frame.sparkSession._jsparkSession.equals(spark._jsparkSession)
    assert [tuple(row) for row in frame.collect()] == EXPECTED
