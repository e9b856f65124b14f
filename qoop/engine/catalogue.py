"""Tables as the user's Spark session knows them: their columns, and statistics of them."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from qoop.engine.checkpoints import number
from qoop.estimate.statistics import ColumnStatistics, TableStatistics, Value, distinct_values
from qoop.parsing.spark_sql import Types
from qoop.tables.statistics import cached_statistics

SAMPLE_ROWS = 1000

DECLARED = "__CHAR_VARCHAR_TYPE_STRING"
"""Where Spark keeps that a column is `char(n)` or `varchar(n)`, which it shows as a string."""

COSTLY = {"Aggregate", "Join", "Sort", "Window", "Distinct", "Intersect", "Except", "Repartition", "BatchEvalPython"}
"""What Spark does to all rows before it gives the first."""


class SparkCatalogue:
    """Looks tables up in a session. Each table is asked for once in the life of this object."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._frames: dict[str, DataFrame | None] = {}
        self._statistics: dict[str, TableStatistics] = {}

    def columns(self, table: str) -> Types | None:
        """The columns of a table or view; None when there is none of this name."""
        frame = self._frame(table)
        if frame is None:
            return None
        return {
            field.name.lower(): field.metadata.get(DECLARED, field.dataType.simpleString())
            for field in frame.schema.fields
        }

    def statistics(self, table: str) -> TableStatistics:
        """The statistics of a table: from its Parquet files where it is plain files at hand, else from Spark."""
        known = self._statistics.get(table)
        if known is None:
            frame = self._frame(table)
            assert frame is not None
            files = _plain_parquet(frame)
            known = cached_statistics(files) if files else _by_spark(frame)
            self._statistics[table] = known
        return known

    def _frame(self, table: str) -> DataFrame | None:
        if table not in self._frames:
            try:
                self._frames[table] = self._spark.table(table)
            except AnalysisException:
                self._frames[table] = None
        return self._frames[table]


@contextmanager
def on_this_machine() -> Iterator[SparkCatalogue]:
    """The catalogue that a session of the user's own would have, read by a small one on this machine."""
    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    try:
        yield SparkCatalogue(spark)
    finally:
        spark.stop()


def _plain_parquet(frame: DataFrame) -> list[Path]:
    """The Parquet files that a frame is all of; empty when it is something else, or not on this machine's disks."""
    plan = frame._jdf.queryExecution().optimizedPlan()
    if plan.getClass().getSimpleName() != "LogicalRelation":
        return []
    urls = [urlsplit(url) for url in frame.inputFiles()]
    if not urls or any(url.scheme not in ("file", "") for url in urls):
        return []
    files = [Path(unquote(url.path)) for url in urls]
    return files if all(file.suffix == ".parquet" and file.exists() for file in files) else []


def _by_spark(frame: DataFrame) -> TableStatistics:
    """What the catalogue knows of a table's size, and a first batch of its rows."""
    known = frame._jdf.queryExecution().optimizedPlan().stats()
    size = number(known.sizeInBytes())
    sampled = _is_plain(frame)
    rows = frame.limit(SAMPLE_ROWS).collect() if sampled else []
    width = 8.0 * max(len(frame.columns), 1)
    count = _row_count(known)
    if count is None:
        all_seen = sampled and len(rows) < SAMPLE_ROWS
        count = float(len(rows)) if all_seen else max(size / width, float(SAMPLE_ROWS))
    sample = {name.lower(): tuple(_plain(row[index]) for row in rows) for index, name in enumerate(frame.columns)}
    columns = {name: ColumnStatistics(distinct_values(values, count, None)) for name, values in sample.items()}
    return TableStatistics(count, min(size, count * width * 4), columns, sample)


def _is_plain(frame: DataFrame) -> bool:
    """Whether some rows cost little: of a view that sorts, groups or joins they may cost as much as all."""
    plans = [frame._jdf.queryExecution().optimizedPlan()]
    while plans:
        plan = plans.pop()
        children = plan.children()
        if str(plan.nodeName()).split()[0] in COSTLY:
            return False
        plans += [children.apply(index) for index in range(children.size())]
    return True


def _row_count(known: Any) -> float | None:
    try:
        return number(known.rowCount().get())
    except Py4JError:
        return None


def _plain(value: Any) -> Value:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return float(value) if hasattr(value, "as_tuple") else str(value)
