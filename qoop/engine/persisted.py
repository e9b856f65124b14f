"""Rows that executors keep for one query. Spark's cache, which `DataFrame.persist` fills, belongs to all queries."""

import threading
import weakref
from collections.abc import Callable, Iterable
from typing import Any
from uuid import uuid4

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame

from qoop.engine.connection import java_class
from qoop.engine.session import frame_of, java_message

CATALYST, TYPES = "org.apache.spark.sql.catalyst", "org.apache.spark.sql.types.DataTypes"

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

    `query`: the frame that computes them. `frame`: reads them, and computes those that are missing.
    """

    def __init__(self, query: DataFrame) -> None:
        jvm: Any = query.sparkSession._jvm
        # As Spark's cache does by default: not serialised in memory.
        level = java_class(jvm, "org.apache.spark.storage.StorageLevel").MEMORY_AND_DISK()
        execution = _unlike_others(query)._jdf.queryExecution()
        unnamed = java_class(jvm, "scala.Option").empty()
        relation = getattr(java_class(jvm, RELATIONS), "MODULE$").apply(level, execution, unnamed)
        self.query = query
        # With names and nullability as analysed; an optimised plan may have others.
        self._relation = relation.withOutput(execution.analyzed().output())
        self.builder = relation.cacheBuilder()
        self.frame = frame_of(query.sparkSession, self._relation)

    def partitions(self) -> Any:
        """Their RDD. Computing it runs the shuffles before it."""
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


def _unlike_others(query: DataFrame) -> DataFrame:
    """The frame with a condition that no other has; it is always true, and Spark drops it as it optimises the plan.

    If the shuffles of stored rows fail or are cancelled, Spark computes again whatever in its cache contains an equal
    plan. It would fail with an error of its own if the plan was not analysed.
    """
    jvm: Any = query.sparkSession._jvm
    text = java_class(jvm, "org.apache.spark.unsafe.types.UTF8String").fromString(uuid4().hex)
    literal = java_class(jvm, f"{CATALYST}.expressions.Literal")(text, java_class(jvm, TYPES).StringType)
    condition = java_class(jvm, f"{CATALYST}.expressions.IsNotNull")(literal)
    plan = java_class(jvm, f"{CATALYST}.plans.logical.Filter")(condition, query._jdf.queryExecution().analyzed())
    return frame_of(query.sparkSession, plan)


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
