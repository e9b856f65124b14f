"""TPC-DS as tables of Spark's catalogue: fact tables partitioned by date, all columns analysed.

Both are made once for a data set and kept beside it, in folders named by its fingerprint. What is partitioned is as
large as the data set; an in-memory catalogue loses its statistics with its session, so those of `ANALYZE TABLE` are
kept and given to the catalogue of each session.
"""

from contextlib import closing
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tpcds.data import DataSet
from tpcds.generator import TABLES
from yarn_plugin.console import out

DATES = {
    "store_sales": "ss_sold_date_sk",
    "catalog_sales": "cs_sold_date_sk",
    "web_sales": "ws_sold_date_sk",
    "inventory": "inv_date_sk",
    "store_returns": "sr_returned_date_sk",
    "catalog_returns": "cr_returned_date_sk",
    "web_returns": "wr_returned_date_sk",
}
"""The fact tables, and the columns that they are partitioned by."""


def create_tables(spark: SparkSession, opened: DataSet, partitioned: bool, analysed: bool) -> None:
    """Replace the temporary views of a data set by tables; the first time this may take as long as the queries."""
    columns = {table: str(spark.table(table)._jdf.schema().toDDL()) for table in TABLES}
    for table in TABLES:
        spark.catalog.dropTempView(table)
        _create(spark, table, columns[table], opened.table(table))
    # Statistics of partitioned tables are the same: the order of rows affects no count, minimum or sketch. Only the
    # files' sizes differ, which the cost-based optimiser does not use if it knows rows and widths.
    statistics = {table: _analysed(spark, opened, table) for table in TABLES} if analysed else {}
    if partitioned:
        for table, date in DATES.items():
            folder = _by_date(spark, opened, table, date)
            spark.sql(f"DROP TABLE {table}")
            _create(spark, table, columns[table], folder, f"PARTITIONED BY ({date})")
            spark.sql(f"MSCK REPAIR TABLE {table}")
    for table, known in statistics.items():
        _catalog(spark).alterTableStats(_identifier(spark, table), known)


def _create(spark: SparkSession, table: str, columns: str, folder: Path, clause: str = "") -> None:
    spark.sql(f"CREATE TABLE {table} ({columns}) USING parquet {clause} LOCATION '{folder.as_uri()}'")


def _by_date(spark: SparkSession, opened: DataSet, table: str, date: str) -> Path:
    """The folder of a table in partitions, one file each; written if missing."""
    folder = _beside(opened, "by-date") / table
    # Spark writes this file last.
    if not (folder / "_SUCCESS").exists():
        out.print(f"  {table} is written in partitions by {date}, once")
        rows = spark.table(table).repartition(8, date)
        rows.write.partitionBy(date).mode("overwrite").parquet(str(folder))
    return folder


def _analysed(spark: SparkSession, opened: DataSet, table: str) -> Any:
    """The statistics of a table, as Spark's catalogue has them; it is analysed if that has not been done."""
    # Objects of Spark's own, as Java serialises them: of one version of Spark.
    path = _beside(opened, f"statistics-{spark.version}") / table
    java: Any = spark._jvm.java.io  # type: ignore[union-attr]
    if not path.exists():
        out.print(f"  {table} is analysed, once")
        spark.sql(f"ANALYZE TABLE {table} COMPUTE STATISTICS FOR ALL COLUMNS")
        path.parent.mkdir(exist_ok=True)
        draft = path.with_suffix(".draft")
        with closing(java.ObjectOutputStream(java.FileOutputStream(str(draft)))) as stream:
            stream.writeObject(_catalog(spark).getTableMetadata(_identifier(spark, table)).stats())
        draft.rename(path)
    with closing(java.ObjectInputStream(java.FileInputStream(str(path)))) as stream:
        return stream.readObject()


def _beside(opened: DataSet, kind: str) -> Path:
    return opened.path.with_name(f"{opened.path.name}-{opened.fingerprint()}-{kind}")


def _catalog(spark: SparkSession) -> Any:
    return spark._jsparkSession.sessionState().catalog()


def _identifier(spark: SparkSession, table: str) -> Any:
    return spark._jsparkSession.sessionState().sqlParser().parseTableIdentifier(table)
