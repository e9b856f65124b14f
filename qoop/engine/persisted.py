"""Rows that executors keep for one query. Spark's cache, which `DataFrame.persist` fills, belongs to all queries."""

import threading
import weakref
from collections.abc import Callable, Iterable
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession

from qoop.engine.connection import java_class
from qoop.engine.session import frame_of, java_message

CATALYST = "org.apache.spark.sql.catalyst"

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

    `query`: the frame that computes them. `frame`: reads them, once `partitions` has been called, and computes those
    that are missing. `name`: as Spark shows them.

    Their own plan reads an RDD, not the plan of the query: for Spark, what computes stored rows is a part of the plans
    that read them, as a logical and as a physical plan, so what it describes would double with each stage.
    """

    def __init__(self, query: DataFrame, name: str) -> None:
        jvm: Any = query.sparkSession._jvm
        # As Spark's cache does by default: not serialised in memory.
        level = java_class(jvm, "org.apache.spark.storage.StorageLevel").MEMORY_AND_DISK()
        self.query, self._execution = query, query._jdf.queryExecution()
        self._computed = LateRDD(query.sparkSession)
        read = query.sparkSession._jsparkSession.internalCreateDataFrame(
            self._computed.rdd, self._execution.analyzed().schema(), False
        )
        named = java_class(jvm, "scala.Option").apply(name)
        relation = getattr(java_class(jvm, RELATIONS), "MODULE$").apply(level, read.queryExecution(), named)
        # What is known of single columns; numbers of rows and bytes are counted.
        getattr(relation, "statsOfPlanToCache_$eq")(self._execution.optimizedPlan().stats())
        # With names and nullability as analysed; an optimised plan may have others.
        self._relation = relation.withOutput(self._execution.analyzed().output())
        self.builder = relation.cacheBuilder()
        self.frame = frame_of(query.sparkSession, self._relation)

    def partitions(self) -> Any:
        """Their RDD, after the shuffles before it have been run."""
        self._computed.bind(self._execution.toRdd)
        rows = self.builder.cachedColumnBuffers()
        if rows.getStorageLevel().useDisk():
            return rows
        # The user's program has unpersisted all RDDs: this one would store nothing.
        self.builder.clearCache(False)
        return self.builder.cachedColumnBuffers()

    def size(self) -> Any:
        """Their number and bytes, as Spark's statistics of a plan."""
        return self._relation.newInstance().stats()

    def remove(self) -> None:
        """Have executors remove them.

        Who reads them later computes and stores them again, until no plan reads them and Spark's cleaner removes them.
        """
        self.builder.clearCache(False)


class LateRDD:
    """An RDD of Spark's rows of which it is known only later how they are computed: a plan can read it before.

    Spark has no such RDD. But one that is a union asks for its parts when it is first computed, and an array of them
    can still be filled then.
    """

    def __init__(self, spark: SparkSession) -> None:
        jvm: Any = spark._jvm
        row = java_class(jvm, "java.lang.Class").forName(f"{CATALYST}.InternalRow")
        self._parts = spark.sparkContext._gateway.new_array(java_class(jvm, "org.apache.spark.rdd.RDD"), 1)
        parts = java_class(jvm, "scala.collection.immutable.ArraySeq").unsafeWrapArray(self._parts)
        kind = java_class(jvm, "scala.reflect.ClassTag").apply(row)
        self.rdd = java_class(jvm, "org.apache.spark.rdd.UnionRDD")(spark.sparkContext._jsc.sc(), parts, kind)
        self._is_bound = False

    def bind(self, rdd: Callable[[], Any]) -> None:
        """Compute the rows of this RDD from now on; does nothing if there is one."""
        if not self._is_bound:
            self._parts[0] = rdd()
            self._is_bound = True


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
