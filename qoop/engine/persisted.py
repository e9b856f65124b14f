"""Rows that executors keep for one query. Spark's cache, which `DataFrame.persist` fills, belongs to all queries."""

import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.functions import coalesce, concat, lit, nanvl
from pyspark.sql.types import DataType, DoubleType, FloatType, StringType, StructField, StructType

from qoop.engine.connection import java_class
from qoop.engine.failures import java_message
from qoop.engine.session import CATALYST, frame_of

RELEASE = "qoop-release"
"""The name of threads that remove rows which nothing reads any more."""

RELATIONS = "org.apache.spark.sql.execution.columnar.InMemoryRelation$"


class PersistedRows:
    """The rows of a frame, which executors keep in memory, or on disk, once they have been computed.

    Spark stores them as those of a cached frame, but does not know them in its cache: there it would use them for any
    plan that contains an equal one, such as the user's own queries, which fail if the stage that computes them is
    cancelled; compute them again, of newer files, when any session writes to a table that they were read from; drop
    them when any session replaces a view of a name that they were read by; and drop them only after all other cached
    frames have finished their shuffles.

    `query`: the frame that computes them. `name`: as Spark shows them. `tasks`: by how many tasks they are read; None
    if that is not decided.

    They are stored as the rows of an RDD, not of the query: Spark describes a plan together with the plans that have
    computed the stored rows it reads, twice each, so descriptions would double with each stage.
    """

    def __init__(self, query: DataFrame, name: str) -> None:
        self.query, self._name = query, name
        self.tasks: int | None = None
        self._relation: Any = None
        self._frame: DataFrame | None = None

    def partitions(self) -> Any:
        """Their RDD, after the shuffles before it have been run. From then on `frame` and `builder` exist."""
        if self._relation is None:
            self._relation = _relation(self.query, self._name)
            self._frame = filtered_by_rows(frame_of(self.query.sparkSession, self._relation))
        rows = self.builder.cachedColumnBuffers()
        if rows.getStorageLevel().useDisk():
            return rows
        # The user's program has unpersisted all RDDs: this one would store nothing.
        self.builder.clearCache(False)
        return self.builder.cachedColumnBuffers()

    @property
    def frame(self) -> DataFrame:
        """Reads them, and computes those that are missing."""
        assert self._frame is not None, "their partitions are not known"
        return self._frame

    @property
    def builder(self) -> Any:
        """What stores them for Spark."""
        return self._relation.cacheBuilder()

    @property
    def is_arranged(self) -> bool:
        """Whether they are partitioned by values, or sorted, which saves those who read them a shuffle or a sort."""
        plan = self.builder.cachedPlan()
        partitioning = str(plan.outputPartitioning().getClass().getSimpleName())
        return partitioning != "UnknownPartitioning" or not plan.outputOrdering().isEmpty()

    def are_of(self, query: DataFrame) -> bool:
        """Whether a query computes them in the same way."""
        ours, others = (one._jdf.queryExecution().normalized() for one in (self.query, query))
        return bool(ours.sameResult(others))

    def size(self) -> Any:
        """Their number and bytes, as Spark's statistics of a plan."""
        return self._relation.newInstance().stats()

    def remove(self) -> None:
        """Have executors remove them.

        Who reads them later computes and stores them again, until no plan reads them and Spark's cleaner removes them.
        """
        if self._relation is not None:
            self.builder.clearCache(False)


def _relation(query: DataFrame, name: str) -> Any:
    """What Spark reads stored rows by, after it has run the shuffles of the query that computes them."""
    jvm: Any = query.sparkSession._jvm
    execution = query._jdf.queryExecution()
    # As Spark's cache does by default: not serialised in memory.
    level = java_class(jvm, "org.apache.spark.storage.StorageLevel").MEMORY_AND_DISK()
    named = java_class(jvm, "scala.Option").apply(name)
    computed = frame_of(query.sparkSession, _rows(query, execution))._jdf.queryExecution()
    relation = getattr(java_class(jvm, RELATIONS), "MODULE$").apply(level, computed, named)
    # What is known of single columns; numbers of rows and bytes are counted.
    getattr(relation, "statsOfPlanToCache_$eq")(execution.optimizedPlan().stats())
    # With names and nullability as analysed; an optimised plan may have others.
    return relation.withOutput(execution.analyzed().output())


def _rows(query: DataFrame, execution: Any) -> Any:
    """A plan of the RDD that computes a query, which is partitioned and sorted as its plan has turned out."""
    jvm: Any = query.sparkSession._jvm
    rdd = execution.toRdd()
    plan = execution.executedPlan()
    if str(plan.getClass().getSimpleName()) == "AdaptiveSparkPlanExec":
        plan = plan.executedPlan()
    none, session = java_class(jvm, "scala.Option").empty(), query.sparkSession._jsparkSession
    of_rdd = java_class(jvm, "org.apache.spark.sql.execution.LogicalRDD")
    partitioned = plan.outputPartitioning(), plan.outputOrdering()
    try:
        return of_rdd(plan.output(), rdd, *partitioned, False, none, session, none, none, False)
    except Py4JError:
        # Other versions of Spark have other parameters; without any, later stages may shuffle more.
        return session.internalCreateDataFrame(rdd, execution.analyzed().schema(), False).queryExecution().analyzed()


def filtered_by_rows(frame: DataFrame) -> DataFrame:
    """The frame, of which Spark does not skip stored batches, or parts of files, where it would skip too many.

    Of each column of a batch Spark keeps the lowest and the highest value. Those of floating-point columns leave NaN
    out, although it is larger than all numbers; and collated text may start with something that is not between what its
    bounds start with. In dictionaries of Parquet files 0.0 is not -0.0. Filters on expressions that return their
    arguments are applied to rows alone.
    """
    fields = frame.schema.fields
    if all(_has_right_bounds(field.dataType) for field in fields):
        return frame
    return declared_as(frame, fields, lambda column, field: _without_bounds(column, field, frame.sparkSession))


def declared_as(
    frame: DataFrame,
    fields: Sequence[StructField],
    change: Callable[[Column, StructField], Column] = lambda column, field: column,
) -> DataFrame:
    """The frame's columns, changed, with the names and metadata of these fields.

    Among the metadata is the declared type of CHAR, by which Spark pads what a column is compared with.
    """
    # By numbers: several columns may have one name.
    numbered = frame.toDF(*map(str, range(len(fields))))
    columns = [
        change(numbered[str(index)], field).alias(field.name, metadata=field.metadata)
        for index, field in enumerate(fields)
    ]
    return numbered.select(columns)


def _has_right_bounds(kind: DataType) -> bool:
    if isinstance(kind, StructType):
        return all(_has_right_bounds(field.dataType) for field in kind.fields)
    is_collated = isinstance(kind, StringType) and kind != StringType()
    return not is_collated and not isinstance(kind, FloatType | DoubleType)


def _without_bounds(column: Column, field: StructField, session: SparkSession) -> Column:
    """An expression that returns the column, if Spark must not compare filters with its bounds."""
    if _has_right_bounds(field.dataType):
        return column
    if isinstance(field.dataType, StringType):
        return concat(column, lit(""))
    if not isinstance(field.dataType, StructType):
        return nanvl(column, column)
    return coalesce(column, column) if field.nullable else _known_not_null(column, session)


def _known_not_null(column: Column, session: SparkSession) -> Column:
    """The column, in an expression that says that it is not NULL, which Spark keeps: it simplifies most others."""
    columns = java_class(session._jvm, "org.apache.spark.sql.classic.ExpressionUtils")
    known = java_class(session._jvm, f"{CATALYST}.expressions.KnownNotNull")
    return Column(columns.column(known(columns.expression(column._jc))))


def define_view(view: str, frame: DataFrame) -> None:
    """Let a temporary view read a frame from now on.

    A view of that name is dropped before, by a method that changes nothing else: when Spark replaces a view, it also
    drops the cached frames that read one of its name, in all sessions, such as a result that the user has cached; and
    stages of all queries are named alike.
    """
    frame.sparkSession._jsparkSession.sessionState().catalog().dropTempView(view)
    frame.createOrReplaceTempView(view)


def remove_all(persisted: Iterable[PersistedRows]) -> Exception | None:
    """Remove all rows, even if some cannot be; returns the first failure."""
    first: Exception | None = None
    for rows in persisted:
        try:
            rows.remove()
        except Exception as problem:  # noqa: BLE001 - one failure must not stop the others
            first = first or problem
    return first


def remove_with(owner: object, persisted: list[PersistedRows], warn: Callable[[str], None] = lambda line: None) -> None:
    """Remove rows when `owner` is garbage-collected.

    In a thread of its own: the owner may be collected during a call to Java, when no other call can be made.
    """

    def release() -> None:
        problem = remove_all(persisted)
        # If the JVM does not respond, Spark has stopped and nothing is stored any more.
        if isinstance(problem, Py4JJavaError):
            warn(f"stage outputs could not be released: {java_message(problem)}")

    def on_collected() -> None:
        threading.Thread(target=release, name=RELEASE, daemon=True).start()

    weakref.finalize(owner, on_collected).atexit = False
