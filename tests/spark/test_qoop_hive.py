"""Hive's functions and tables, which Spark runs without knowing what they do, are left to the query as written."""

import pytest
from pyspark.sql import SparkSession

import qoop
from qoop.plans.candidates import CutPolicy

pytestmark = [pytest.mark.integration, pytest.mark.matrix]

STAGED = qoop.Options(cut_policy=CutPolicy(everywhere=True))


@pytest.fixture(scope="module")
def spark(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hive")
    settings = {
        "spark.ui.enabled": "false",
        "spark.sql.catalogImplementation": "hive",
        "spark.sql.warehouse.dir": (folder / "warehouse").as_uri(),
        "spark.sql.shuffle.partitions": "1",
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder}/metastore;create=true",
        "spark.hadoop.hive.exec.scratchdir": str(folder / "scratch"),
    }
    builder = SparkSession.builder.master("local[1]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    for name in ("t", "u", "w"):
        session.sql(f"SELECT id, id * 10 AS {name}v, 'x' AS s FROM range(5)").createOrReplaceTempView(name)
    session.sql("CREATE TEMPORARY FUNCTION shout AS 'org.apache.hadoop.hive.ql.udf.generic.GenericUDFUpper'")
    session.sql("CREATE TEMPORARY FUNCTION total AS 'org.apache.hadoop.hive.ql.udf.generic.GenericUDAFSum'")
    session.sql("CREATE TABLE lines STORED AS TEXTFILE AS SELECT id, tv FROM t")
    yield session
    session.stop()


@pytest.mark.parametrize(
    "text",
    [
        "SELECT shout(t.s) AS s, uv FROM t JOIN u ON t.id = u.id JOIN w ON w.id = u.id",
        "SELECT x.n, uv FROM (SELECT id, total(tv) AS n FROM t GROUP BY id) AS x JOIN u ON x.id = u.id"
        " JOIN w ON w.id = u.id",
        "SELECT lines.tv, uv FROM lines JOIN u ON lines.id = u.id JOIN w ON w.id = u.id",
    ],
)
def test_hive_is_left_to_the_query_as_written(spark, text):
    warned = []
    answer = qoop.collect(spark, text, qoop.Options(cut_policy=STAGED.cut_policy, warn=warned.append))
    assert sorted(answer.rows) == sorted(spark.sql(text).collect()) and len(answer.rows) == 5
    assert answer.outcome.one_stage_reason or any("as written" in line for line in warned)
