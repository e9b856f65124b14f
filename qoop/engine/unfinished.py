"""What stays stored of outputs whose stages were cancelled, so that they can be resumed.

Spark stores each partition as its task ends, and a cancelled job leaves those stored: the next one computes only the
others.
"""

import re
import time
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from threading import Lock
from types import MappingProxyType
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import DataFrame

from qoop.engine.connection import java_class
from qoop.engine.persisted import PersistedRows
from qoop.engine.scala import as_float, items

MAX_FRACTION = 0.5
"""The fraction of the executors' storage that unfinished outputs of a query may take."""

REMOVAL_TIMEOUT_S = 1.0
"""Seconds to wait until executors have removed partitions; one that is still there is read."""

Versions = Mapping[str, int]
"""The version of each stored output that a stage reads, if it has several."""

_COUNTED = re.compile(r"(\d+)=\((\d+),\d+\)")
"""A partition with its rows and bytes, as a Java map of Spark's pairs is written."""

UNCHANGED: Versions = MappingProxyType({})
"""No output has several versions."""


@dataclass(frozen=True, slots=True)
class Unfinished:
    """Rows of which some partitions are stored, with the id and the number of partitions of their RDD.

    `versions`: those of the outputs that they are made from.
    """

    rows: PersistedRows
    identity: int
    partitions: int
    versions: Versions

    def is_part_of(self, query: DataFrame, versions: Versions) -> bool:
        """Whether its partitions are those of a query, and were made from the same inputs."""
        return self.versions == versions and self.rows.are_of(query)

    def finished(self) -> set[int]:
        """The partitions whose tasks succeeded. A task that was stopped as it ended may have stored one more.

        Raises:
            py4j.protocol.Py4JError: this version of Spark does not tell.
        """
        return set(self._counted_rows())

    def progress(self, least_rows: float) -> tuple[float, float] | None:
        """The rows that are stored, and the fraction of the partitions; None if there are fewer rows, or none can be
        counted in this version of Spark."""
        try:
            counted = self._counted_rows()
        except Py4JError:
            return None
        rows = float(sum(counted.values()))
        return (rows, len(counted) / max(self.partitions, 1)) if counted and rows >= least_rows else None

    def _counted_rows(self) -> dict[int, int]:
        """The rows of each partition whose task succeeded; none if Spark counts them no longer.

        Read from one text, as tasks that end between two calls would be counted in one of them.
        """
        number = self.rows.builder.materializationAccumulatorId()
        jvm: Any = self.rows.query.sparkSession._jvm
        found = java_class(jvm, "org.apache.spark.util.AccumulatorContext").get(number)
        if not found.isDefined():
            return {}
        return {int(partition): int(rows) for partition, rows in _COUNTED.findall(str(found.get().value().toString()))}

    def remove_uncertain(self) -> None:
        """Remove the partitions whose tasks did not succeed: Spark would not know their sizes."""
        context, finished = self.rows.query.sparkSession.sparkContext, self.finished()
        if stored_partitions(context).get(self.identity, 0) <= len(finished):
            return
        master = block_managers(context)
        block = java_class(context._jvm, "org.apache.spark.storage.RDDBlockId")
        for partition in range(self.partitions):
            if partition not in finished:
                master.removeBlock(block(self.identity, partition))
        deadline = time.monotonic() + REMOVAL_TIMEOUT_S
        while stored_partitions(context).get(self.identity, 0) > len(finished) and time.monotonic() < deadline:
            time.sleep(0.01)


@dataclass
class UnfinishedOutputs:
    """The unfinished outputs of a query, by view. Called from several threads, one per stage."""

    _outputs: dict[str, Unfinished] = field(default_factory=dict)
    _kept: dict[str, int] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def add(self, view: str, output: Unfinished) -> None:
        """Add an output whose computation was cancelled."""
        with self._lock:
            self._outputs[view] = output

    def take(self, view: str) -> Unfinished | None:
        """Take out the unfinished output of a view."""
        with self._lock:
            self._kept.pop(view, None)
            return self._outputs.pop(view, None)

    def kept(self, view: str, context: SparkContext) -> float:
        """The fraction of an output's partitions that is stored; 0 if it is not known, or takes too much room."""
        with self._lock:
            outputs = dict(self._outputs)
        output = outputs.get(view)
        if output is None:
            return 0.0
        try:
            finished = len(output.finished())
        except Py4JError:
            return 0.0
        if not is_affordable(
            stored_bytes(context, {one.identity for one in outputs.values()}), storage_memory(context)
        ):
            return 0.0
        with self._lock:
            self._kept[view] = finished
        return finished / max(output.partitions, 1)

    def lost_views(self, stored: Mapping[int, int], min_lost_fraction: float) -> dict[str, str]:
        """The views of which executors took much of what was kept with them."""
        with self._lock:
            kept = {view: (self._outputs[view], count) for view, count in self._kept.items()}
        found = {view: (count - stored.get(output.identity, 0), count) for view, (output, count) in kept.items()}
        return {
            view: f"{gone} of {count} partitions that were kept were lost with their executors"
            for view, (gone, count) in found.items()
            if gone > 0 and gone >= min_lost_fraction * count
        }

    def identities(self) -> set[int]:
        """The ids of their RDDs."""
        with self._lock:
            return {output.identity for output in self._outputs.values()}

    def clear(self) -> list[PersistedRows]:
        """Take out all; returns their rows."""
        with self._lock:
            outputs, self._outputs, self._kept = self._outputs, {}, {}
        return [output.rows for output in outputs.values()]

    def __bool__(self) -> bool:
        return bool(self._outputs)


def storage_memory(context: SparkContext) -> float:
    """The bytes of memory in which executors can store partitions."""
    status = context._jsc.sc().getExecutorMemoryStatus()
    return sum(as_float(one._1()) for one in items(status.values().toSeq()))


def is_affordable(size: float, capacity: float) -> bool:
    """Whether unfinished outputs of this size may stay stored on executors that store `capacity` bytes in memory.

    More would be written to disks, and push out finished outputs, for a stage that may never be resumed.
    """
    return size <= MAX_FRACTION * capacity


def block_managers(context: SparkContext) -> Any:
    """Spark's master of the executors' block managers (BlockManagerMaster).

    By its field: Py4J looks at all methods of a class to call one, and those of SparkEnv need a class that PySpark's
    own Spark does not have.
    """
    environment = java_class(context._jvm, "java.lang.Class").forName("org.apache.spark.SparkEnv")
    field = environment.getDeclaredField("blockManager")
    field.setAccessible(True)
    return field.get(context._jsc.sc().env()).master()


def stored_partitions(context: SparkContext) -> dict[int, int]:
    """The number of stored partitions of each persisted RDD that has any."""
    return {info.id(): info.numCachedPartitions() for info in context._jsc.sc().getRDDStorageInfo()}


def stored_bytes(context: SparkContext, identities: Set[int]) -> float:
    """The stored bytes of persisted RDDs, in memory and on disk."""
    stored = [info for info in context._jsc.sc().getRDDStorageInfo() if info.id() in identities]
    return float(sum(info.memSize() + info.diskSize() for info in stored))
