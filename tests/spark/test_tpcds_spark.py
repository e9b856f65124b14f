"""All 99 TPC-DS queries on real Spark and DuckDB, at scale 0.1."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.sampled import one_in
from tpcds import data, queries
from tpcds.answers import compare
from tpcds.cli import cli
from tpcds.data import DataSet
from tpcds.errors import EngineError
from tpcds.reference import DuckDbEngine
from tpcds.spark_engine import SparkEngine, spark_session
from yarn_plugin import console

ALL = range(queries.FIRST, queries.LAST + 1)
# Queries on which engines are most likely to differ: CASE over scalar averages, stddev_samp, ranks over quotients,
# roll-ups with NULLs, averages over windows, a rounded tie, set operations, sums over quotients.
DELICATE = [9, 14, 17, 36, 39, 44, 47, 49, 51, 66, 70, 75, 78, 80, 83, 87, 89, 90, 97]


@pytest.fixture(scope="module")
def data_set() -> DataSet:
    return data.open_data(data.ensure(0.1))


@pytest.fixture(scope="module")
def spark(data_set: DataSet) -> Iterator[SparkSession]:
    with spark_session(data_set, "local[2]", {}) as session:
        yield session


@pytest.fixture(scope="module")
def duckdb(data_set: DataSet) -> Iterator[DuckDbEngine]:
    engine = DuckDbEngine(data_set)
    yield engine
    engine.close()


def test_every_query_returns_rows_at_scale_0_1(duckdb: DuckDbEngine) -> None:
    assert [query for query in ALL if not duckdb.run(queries.duckdb_text(query)).rows] == []


def test_every_query_is_valid_spark_sql(spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.ansi.enabled") == "true"
    for query in ALL:
        assert spark.sql(queries.spark_text(query)).columns


@one_in(5, "query", DELICATE)
def test_answers_of_spark_and_duckdb_are_equal(query: int, spark: SparkSession, duckdb: DuckDbEngine) -> None:
    ours, theirs = SparkEngine(spark).run(queries.spark_text(query)), duckdb.run(queries.duckdb_text(query))
    assert ours.rows
    assert compare(ours, theirs) == []


def test_a_failed_query_is_an_error_of_one_line(spark: SparkSession, duckdb: DuckDbEngine) -> None:
    with pytest.raises(EngineError, match=r"^spark: \[DIVIDE_BY_ZERO\] .*$"):
        SparkEngine(spark).run("SELECT 1 / (i_item_sk - i_item_sk) FROM item")
    with pytest.raises(EngineError, match=r"^spark: \[TABLE_OR_VIEW_NOT_FOUND\] .*`nowhere`.*$"):
        SparkEngine(spark).run("SELECT * FROM nowhere")
    with pytest.raises(EngineError, match=r"^duckdb: .*nowhere does not exist"):
        duckdb.run("SELECT * FROM nowhere")


@pytest.mark.matrix
@pytest.mark.timeout(1800)
def test_all_answers_of_spark_and_duckdb_are_equal(tmp_path: Path, spark: SparkSession) -> None:
    arguments = ["run", "--scale", "0.1", "--master", "local[2]", "--json", str(tmp_path / "results.json")]
    assert console.run(cli, "tpcds", arguments) == 0
    totals = json.loads((tmp_path / "results.json").read_text())["totals"]
    assert (totals["queries"], totals["equal_to_duckdb"], totals["non_empty"]) == (99, 99, 99)
