"""A query exactly as the user wrote it, in the user's own session."""

from pyspark.sql import DataFrame, SparkSession

from qoop.engine.session import columns_of, is_command


class AsWritten:
    """The text and what Spark makes of it.

    Spark reads the text first: what it refuses, it refuses in its own words (raises pyspark.errors.PySparkException).
    A statement that is no query Spark runs at once, and so it is run this once and never again.

    `columns`: names and types of the result.
    """

    def __init__(self, spark: SparkSession, text: str) -> None:
        self.text = text
        self._spark = spark
        self._first = spark.sql(text)
        self.is_command = is_command(self._first)
        self.columns = columns_of(self._first)

    def frame(self) -> DataFrame:
        """The result, to be computed anew; that of a statement that is no query is known."""
        return self._first if self.is_command else self._spark.sql(self.text)


def check_statement(spark: SparkSession, text: str) -> None:
    """Have Spark read a statement without running it: what it would refuse, it refuses before any work is done.

    Raises:
        pyspark.errors.PySparkException: it refuses, with its own words.
    """
    state = spark._jsparkSession.sessionState()
    skip = spark._jvm.org.apache.spark.sql.execution.CommandExecutionMode.SKIP()
    state.executePlan(state.sqlParser().parsePlan(text), skip).assertAnalyzed()
