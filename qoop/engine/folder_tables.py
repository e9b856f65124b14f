"""Tables of a local folder (`--tables`) in a Spark session."""

from collections.abc import Mapping
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from qoop.engine.folders import taken_literally
from qoop.errors import QoopError
from qoop.parsing.render import quoted
from qoop.tables.formats import Format, StoredTable
from qoop.tables.text_files import options_of

NO_DELTA = (
    "is a Delta table, and Delta is not loaded: give --packages io.delta:delta-spark_4.0_2.13:4.4.0 with Spark 4.0 "
    "(4.1, 4.2 likewise; there is none for Spark 4.3 yet), or export the table as Parquet"
)


def view_table(spark: SparkSession, name: str, table: StoredTable) -> None:
    """Make a temporary view of a table.

    Raises:
        QoopError: it is a Delta table, which this Spark cannot read.
        pyspark.errors.PySparkException, Py4JError: Spark cannot read it.
    """
    read_table(spark, name, table).createOrReplaceTempView(quoted(name))


def read_table(spark: SparkSession, name: str, table: StoredTable) -> DataFrame:
    """The rows of a table; see `view_table` for errors."""
    source = source_of(table)
    try:
        return spark.read.format(source["source"]).options(**options_of(table)).load(source["path"])
    except (PySparkException, Py4JJavaError) as problem:
        if table.format is not Format.DELTA or not _is_missing(problem):
            raise
        raise QoopError(f"table {name!r}: {NO_DELTA}") from None


def source_of(table: StoredTable) -> Mapping[str, str]:
    """The format and the URL of a table, for Spark."""
    # Without the scheme Spark would look in the default file system, on a cluster usually HDFS.
    return {"source": table.format.value, "path": f"file://{taken_literally(str(table.path.absolute()))}"}


def _is_missing(problem: Any) -> bool:
    """Whether Spark has not found the classes of a format, or has found those of another version."""
    if isinstance(problem, AnalysisException) and problem.getCondition() == "DATA_SOURCE_NOT_FOUND":
        return True
    text = str(problem)
    return any(sign in text for sign in ("DATA_SOURCE_NOT_FOUND", "ClassNotFound", "NoSuchMethodError", "NoClassDef"))
