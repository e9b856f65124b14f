"""Partitions that Spark skips as no row of a small join input matches them: cutting that input off must not cost it."""

import math

import pytest

import qoop
from qoop import session_query
from qoop.engine.catalogue import SparkCatalogue
from qoop.engine.pruning import bytes_of_texts
from qoop.estimate.statistics import ColumnStatistics
from qoop.plans.candidates import CutPolicy
from qoop.replan.commands import StartStage
from tests.spark.spark_sessions import local_session, session_unchanged, small_data

pytestmark = pytest.mark.integration

TEXT = """SELECT sum(facts.id) AS s, count(facts.k) AS n FROM facts
    JOIN days ON facts.day = days.day JOIN months ON days.month = months.month WHERE months.name = 'm2'"""


@pytest.fixture(scope="module")
def spark(tmp_path_factory):
    with local_session(tmp_path_factory.mktemp("spark"), small_data()) as session:
        session.sql(
            "CREATE TABLE facts USING parquet PARTITIONED BY (day) AS SELECT id, id % 97 AS k, id % 20 AS day"
            " FROM range(20000)"
        )
        session.sql("CREATE TABLE days USING parquet AS SELECT id AS day, id % 5 AS month FROM range(20)")
        session.sql("CREATE TABLE months USING parquet AS SELECT id AS month, concat('m', id) AS name FROM range(5)")
        yield session
        for table in ("facts", "days", "months"):
            session.sql(f"DROP TABLE {table}")


def executed(frame):
    """The rows of a frame, and the plan that Spark chose in the end."""
    rows = [tuple(row) for row in frame.collect()]
    return rows, str(frame._jdf.queryExecution().executedPlan().toString())


def test_outputs_in_files_are_a_part_of_plans_only_if_their_texts_are_short(spark):
    texts = spark.sql(
        "SELECT id AS a, if(id < 5, repeat('x', 100000), NULL) AS a, CAST('yz' AS BINARY) AS b FROM range(9)"
    )
    assert bytes_of_texts(texts) == 5 * 100000 + 9 * 2
    assert bytes_of_texts(spark.range(9)) == bytes_of_texts(texts.limit(0)) == 0.0
    assert bytes_of_texts(spark.sql("SELECT array(id) AS a FROM range(9)")) == math.inf


@pytest.mark.parametrize(
    ("stored", "pruning"),
    [
        ("executors", True),
        pytest.param("executors", False, marks=pytest.mark.matrix),
        pytest.param("files", True, marks=pytest.mark.matrix),
    ],
)
def test_a_small_output_prunes_partitions(spark, monkeypatch, tmp_path, stored, pruning):
    if not pruning:
        monkeypatch.setattr(session_query, "reads_partitions", lambda written: False)
    expected, _ = executed(spark.sql(TEXT))
    commands = []
    options = qoop.Options(
        cut_policy=CutPolicy(everywhere=True),
        watch=commands.append,
        checkpoint=tmp_path.as_uri() if stored == "files" else None,
    )
    rows, plan = executed(qoop.sql(spark, TEXT, options))
    assert rows == expected
    assert sum(isinstance(command, StartStage) for command in commands) == 2
    assert ("dynamicpruning" in plan.lower()) == pruning


def test_tables_that_a_subquery_lists_prune_partitions(spark):
    """Spark does not prune for a CROSS JOIN, even if WHERE has an equality of both sides."""
    text = """SELECT count(*) AS n FROM days AS o, months WHERE o.month = months.month AND EXISTS (
        SELECT * FROM facts, days WHERE facts.day = days.day AND days.month = 2 AND facts.k = o.day)"""
    expected, written = executed(spark.sql(text))
    commands = []
    rows, plan = executed(qoop.sql(spark, text, qoop.Options(watch=commands.append)))
    assert rows == expected and any(isinstance(command, StartStage) for command in commands)
    assert "dynamicpruning" in written.lower() and "dynamicpruning" in plan.lower()


@pytest.mark.matrix
def test_a_query_that_prunes_leaves_nothing_behind(spark):
    with session_unchanged(spark):
        answer = qoop.collect(spark, TEXT, qoop.Options(cut_policy=CutPolicy(everywhere=True)))
    assert [tuple(row) for row in answer.rows] == executed(spark.sql(TEXT))[0]


def test_the_planner_knows_the_partitions_of_a_table(spark):
    known = SparkCatalogue(spark).statistics("facts")
    assert known.partitioned_by == {"day"} and known.rows == pytest.approx(20_000, rel=0.01)
    assert known.columns["day"] == ColumnStatistics(distinct=20.0, low=0.0, high=19.0)
    assert "day" not in known.sample and known.sampled > 0
    assert SparkCatalogue(spark).statistics("days").partitioned_by == frozenset()
