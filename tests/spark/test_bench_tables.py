"""Tables of the overhead benchmark: partitioned and analysed once, and known to the catalogue of each session."""

import pytest

from tests.bench import catalogue_tables
from tests.bench.catalogue_tables import create_tables
from tests.spark.spark_sessions import local_session, small_data
from tpcds.data import DataSet

pytestmark = pytest.mark.integration

FACT, OTHER = "store_sales", "reason"


@pytest.fixture
def spark(tmp_path):
    with local_session(tmp_path, small_data()) as session:
        yield session


@pytest.fixture
def small(spark, tmp_path, monkeypatch):
    """Two tables, the fact table with ten rows on two dates and two on none."""
    monkeypatch.setattr(catalogue_tables, "TABLES", (FACT, OTHER))
    monkeypatch.setattr(catalogue_tables, "DATES", {FACT: "ss_sold_date_sk"})
    day = "CASE WHEN id < 10 THEN CAST(id % 2 AS INT) END AS ss_sold_date_sk"
    spark.sql(f"SELECT {day}, id AS ss_ticket_number FROM range(12)").write.parquet(str(tmp_path / "data" / FACT))
    spark.sql("SELECT id AS r_reason_sk FROM range(3)").write.parquet(str(tmp_path / "data" / OTHER))
    return DataSet(tmp_path / "data", None)


def created(spark, small):
    for table in (FACT, OTHER):
        spark.sql(f"DROP TABLE IF EXISTS {table}")
        spark.read.parquet(str(small.table(table))).createOrReplaceTempView(table)
    create_tables(spark, small, partitioned=True, analysed=True)


def estimated_rows(spark, text):
    return int(spark.sql(text)._jdf.queryExecution().optimizedPlan().stats().rowCount().get())


def test_partitions_and_statistics_are_made_once_and_known_each_time(spark, small, capsys):
    spark.conf.set("spark.sql.cbo.enabled", "true")
    created(spark, small)
    assert capsys.readouterr().out.split("\n")[:-1] == [
        f"  {FACT} is analysed, once",
        f"  {OTHER} is analysed, once",
        f"  {FACT} is written in partitions by ss_sold_date_sk, once",
    ]
    created(spark, small)
    assert capsys.readouterr().out == ""
    assert spark.sql(f"SHOW PARTITIONS {FACT}").count() == 3
    assert sorted(row[0] for row in spark.sql(f"SELECT ss_ticket_number FROM {FACT}").collect()) == list(range(12))
    assert estimated_rows(spark, f"SELECT * FROM {FACT}") == 12
    # Half of them: there are two distinct values.
    assert estimated_rows(spark, f"SELECT * FROM {FACT} WHERE ss_sold_date_sk = 1") == 6
    assert estimated_rows(spark, f"SELECT DISTINCT r_reason_sk FROM {OTHER}") == 3
