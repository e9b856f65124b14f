"""Where outputs of finished stages are stored: on the executors, or as Parquet files."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock
from typing import Protocol

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql.functions import count, lit
from pyspark.sql.types import StructType

from qoop.as_written.causes import Construct, Unsupported
from qoop.engine.catalogue import DECLARED
from qoop.engine.connection import java_class
from qoop.engine.executors import usual_slots
from qoop.engine.failures import was_cancelled
from qoop.engine.folders import QueryFolder, taken_literally
from qoop.engine.jobs import settings_of
from qoop.engine.persisted import PersistedRows, declared_as, filtered_by_rows, remove_all, remove_with
from qoop.engine.prepared import StageViews
from qoop.engine.pruning import bytes_of_texts, with_rows_in_plan
from qoop.engine.scala import as_float, items, sequence
from qoop.engine.session import frame_of, is_on
from qoop.engine.unfinished import (
    UNCHANGED,
    Unfinished,
    UnfinishedOutputs,
    Versions,
    stored_bytes,
    stored_partitions,
)
from qoop.engine.verification import DifferentPlanError
from qoop.estimate.cost import IN_PLAN_BYTES, IN_PLAN_ROWS

FILE_CHECK_S = 30.0
"""Seconds between checks of stored files: each asks the file system, and only people delete them."""

PARQUET = "org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat"
"""Spark's reader of Parquet that can be told which columns are never NULL, whichever one the user has chosen."""

TASKS_PER_SLOT, TASK_BYTES = 4, 16 * 1024 * 1024
"""How many tasks a slot is given at least to read stored rows, and how many bytes each of them may read more."""

COUNT_TIMEOUT_S = 2.0
"""Seconds to wait for the row count of what was written."""


@dataclass(frozen=True, slots=True)
class StoredOutput:
    """The size of a stored output."""

    rows: float
    bytes: float


class Checkpoints(Protocol):
    """Stores stage outputs. Called from several threads, one per stage.

    `views`: those that read them.
    """

    views: StageViews

    def save(self, view: str, frame: DataFrame, whole: bool = False, versions: Versions = UNCHANGED) -> StoredOutput:
        """Compute a frame, store it, and make it readable as `view`.

        `whole`: lost parts must never be computed again by themselves. `versions`: those of the outputs that it reads;
        what was kept of a computation that read others is not used.
        """
        ...

    def stopped(self, view: str) -> float:
        """Called when `save` was cancelled: the fraction of the output that is kept, for `save` to compute the rest."""
        ...

    def growing(self, least_rows: float) -> dict[str, tuple[float, float]]:
        """The rows that are stored of each output that is being computed, and the fraction of its partitions.

        Only of outputs of which so many rows are stored.
        """
        ...

    def stored_bytes(self) -> float:
        """The bytes that all outputs take; 0 if none is being computed."""
        ...

    def complete_bytes(self) -> float:
        """The bytes that complete outputs took when they were stored. Asks nothing of Spark."""
        ...

    def lost_views(self, suspected: bool = False) -> dict[str, str]:
        """The views that must be computed again because too much of them was lost, with the reason.

        `suspected`: a stage has failed as if something were lost, so this check must not be put off.
        """
        ...

    def release(self) -> None:
        """Delete everything stored."""
        ...

    def release_with(self, owner: object) -> None:
        """Delete everything stored when `owner` is garbage-collected."""
        ...


@dataclass(frozen=True, slots=True)
class _Stored:
    """The rows of an output, with their bytes, and the id and the number of partitions of their RDD."""

    rows: PersistedRows
    bytes: float
    identity: int
    partitions: int
    whole: bool


@dataclass
class ExecutorCheckpoints:
    """Keeps outputs in the executors' memory, or on their disks when memory is short.

    `in_plan`: the rows of small ones are put into the plans of their readers, which then prune partitions of tables.

    If an executor dies, Spark recomputes its partitions from the stage's inputs when they are read, so that the answer
    may be late. Of an output that is stored `whole`, whose recomputed partitions might not fit those that others have
    read, Spark forgets the inputs: reading a lost partition fails, and the stage is run again. Decommissioned executors
    migrate their partitions first.
    """

    session: SparkSession
    warn: Callable[[str], None] = lambda line: None
    in_plan: bool = False
    views: StageViews = field(default_factory=StageViews)
    _stored: dict[str, _Stored] = field(default_factory=dict)
    _computing: dict[str, Unfinished] = field(default_factory=dict)
    _unfinished: UnfinishedOutputs = field(default_factory=UnfinishedOutputs)
    _lock: Lock = field(default_factory=Lock)
    _released: bool = False

    MIN_LOST_FRACTION = 0.25
    """The fraction of partitions from which on a loss is reported to the planner."""

    def save(self, view: str, frame: DataFrame, whole: bool = False, versions: Versions = UNCHANGED) -> StoredOutput:
        """Compute a frame and keep its rows; of a view that was stored before only lost partitions are computed.

        Of one that was cancelled, and is computed in the same way again, only those that are not stored. A view that is
        stored `whole` is computed anew: those who still read it fail.
        """
        known = self._known_rows(view, frame)
        rows = known or self._unfinished_rows(view, frame, versions) or PersistedRows(frame, view)
        output = None
        try:
            with settings_of(frame.sparkSession):
                batches = rows.partitions()
                # Already now, so that Spark can analyse the next stage meanwhile.
                self.views.define(view, rows.frame)
                # From now on a partition is stored as soon as its task ends.
                output = Unfinished(rows, batches.id(), batches.getNumPartitions(), versions)
                with self._lock:
                    self._computing[view] = output
                if whole:
                    batches.localCheckpoint()
                # One job that builds every partition; counting rows would need a second one with a shuffle.
                batches.count()
                stored = self._measured(view, rows, batches.id())
                readable = rows.frame
                if self.in_plan and _is_small(stored):
                    readable = with_rows_in_plan(self.session, rows.frame)
                else:
                    readable = _in_fewer_partitions(rows, stored, batches.getNumPartitions())
        except BaseException as problem:
            if known is None and not whole and output is not None and was_cancelled(problem):
                self._keep(view, output)
            elif known is None:
                rows.remove()
            raise
        finally:
            with self._lock:
                self._computing.pop(view, None)
        self._note(view, _Stored(rows, stored.bytes, batches.id(), batches.getNumPartitions(), whole))
        if readable is not rows.frame:
            self.views.define(view, readable)
        return stored

    def growing(self, least_rows: float) -> dict[str, tuple[float, float]]:
        """As Spark counts them when a task ends."""
        with self._lock:
            computing = dict(self._computing)
        found = ((view, output.progress(least_rows)) for view, output in computing.items())
        return {view: progress for view, progress in found if progress is not None}

    def stored_bytes(self) -> float:
        """In memory and on disk, with what is kept of cancelled ones."""
        with self._lock:
            if not self._computing:
                return 0.0
            ours = {one.identity for one in self._stored.values()} | {one.identity for one in self._computing.values()}
        return stored_bytes(self.session.sparkContext, ours | self._unfinished.identities())

    def complete_bytes(self) -> float:
        """In memory and on disk."""
        with self._lock:
            return sum(one.bytes for one in self._stored.values())

    def stopped(self, view: str) -> float:
        """The fraction of partitions that stays stored; what is not worth it, or too large, is removed."""
        kept = self._unfinished.kept(view, self.session.sparkContext)
        output = None if kept else self._unfinished.take(view)
        if output is not None:
            output.rows.remove()
        return kept

    def _known_rows(self, view: str, query: DataFrame) -> PersistedRows | None:
        """The rows that were stored as a view before; None if all must be computed anew.

        So they must if the present plan computes them in another way: that is the one compared with the query.
        """
        with self._lock:
            known = self._stored.get(view)
        if known is None:
            return None
        if not known.whole and known.rows.are_of(query):
            return known.rows
        with self._lock:
            self._stored.pop(view, None)
        known.rows.remove()
        return None

    def _unfinished_rows(self, view: str, query: DataFrame, versions: Versions) -> PersistedRows | None:
        """The rows of which a part is stored that is a part of this output too; those of another one are removed."""
        output = self._unfinished.take(view)
        if output is None:
            return None
        try:
            if output.is_part_of(query, versions):
                output.remove_uncertain()
                return output.rows
        except BaseException:
            output.rows.remove()
            raise
        output.rows.remove()
        return None

    def _keep(self, view: str, output: Unfinished) -> None:
        self._unfinished.add(view, output)
        if self._released:
            self.release()

    def _measured(self, view: str, rows: PersistedRows, identity: int) -> StoredOutput:
        size = rows.size()
        if size.rowCount().isDefined():
            return StoredOutput(as_float(size.rowCount().get()), as_float(size.sizeInBytes()))
        # Spark has no count if partitions were computed twice because executors were lost meanwhile.
        return StoredOutput(float(rows.frame.count()), stored_bytes(self.session.sparkContext, {identity}))

    def _note(self, view: str, stored: _Stored) -> None:
        with self._lock:
            self._stored[view] = stored
        if self._released:
            # The query ended before this stage could be stopped.
            self.release()

    def lost_views(self, suspected: bool = False) -> dict[str, str]:
        """The views that lost a quarter or more of their partitions with executors; any, if stored whole."""
        with self._lock:
            outputs = dict(self._stored)
        if not outputs and not self._unfinished:
            return {}
        stored = stored_partitions(self.session.sparkContext)
        found = self._unfinished.lost_views(stored, self.MIN_LOST_FRACTION)
        for view, kept in outputs.items():
            gone = kept.partitions - stored.get(kept.identity, 0)
            if gone > 0 and (kept.whole or gone >= self.MIN_LOST_FRACTION * kept.partitions):
                found[view] = f"{gone} of {kept.partitions} partitions were lost with their executors"
        return found

    def release(self) -> None:
        """Remove everything."""
        problem = remove_all([*(output.rows for output in self._taken()), *self._unfinished.clear()])
        self.views.drop(self.session)
        if problem is not None:
            raise problem

    def release_with(self, owner: object) -> None:
        """Remove everything when `owner` is garbage-collected. Views, and plans with other owners, compute it again.

        What is stored `whole` cannot be: Spark removes it, as any RDD that is persisted, when no plan reads it.
        """
        remove_all(self._unfinished.clear())
        self.views.drop(self.session)
        if stored := [output.rows for output in self._taken() if not output.whole]:
            remove_with(owner, stored, self.warn)

    def _taken(self) -> list[_Stored]:
        """The complete outputs, which from now on are the caller's."""
        with self._lock:
            stored, self._stored, self._released = self._stored, {}, True
        return list(stored.values())


@dataclass
class FileCheckpoints:
    """Writes outputs as Parquet files to a folder that all executors reach; they outlive executors.

    Each attempt writes to a folder of its own, so that what a cancelled or failed attempt still writes is never read.
    `in_plan`: as for `ExecutorCheckpoints`.
    """

    session: SparkSession
    folder: QueryFolder
    in_plan: bool = False
    views: StageViews = field(default_factory=StageViews)
    _paths: dict[str, str] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)
    _written: int = 0
    _next_check: float = 0.0

    def save(self, view: str, frame: DataFrame, whole: bool = False, versions: Versions = UNCHANGED) -> StoredOutput:
        """Compute a frame and write it to files.

        Raises:
            DifferentPlanError: its rows are in an order, in which files are not read.
        """
        if _is_ordered(frame):
            raise DifferentPlanError(Unsupported(Construct.INNER_ORDER))
        self.folder.create()
        with self._lock:
            self._written += 1
            path = f"{self.folder.path}/{view}/output-{self._written}"
        counted, rows = counting(frame)
        try:
            counted.write.mode("overwrite").parquet(path)
        finally:
            self.folder.delete_again()
        # Whatever the session's settings say of its own files, a lost part must never read as no rows.
        reader = self.session.read.option("ignoreMissingFiles", False).option("ignoreCorruptFiles", False)
        read = reader.schema(_unpadded(frame.schema)).format(PARQUET).load(taken_literally(path))
        read = _declared_like(_nullable_like(read, frame), frame)
        # Not every way to commit files leaves a mark.
        mark = f"{path}/_SUCCESS"
        with self._lock:
            self._paths[view] = mark if self.folder.exists(mark) else path
        size = as_float(read._jdf.queryExecution().optimizedPlan().stats().sizeInBytes())
        written = rows()
        stored = StoredOutput(float(read.count()) if written is None else written, size)
        readable = filtered_by_rows(read)
        if self.in_plan and _is_small(stored) and bytes_of_texts(read) <= IN_PLAN_BYTES:
            readable = with_rows_in_plan(self.session, readable)
        self.views.define(view, readable)
        return stored

    def growing(self, least_rows: float) -> dict[str, tuple[float, float]]:
        """Nothing: Spark counts the rows of files when all are written."""
        return {}

    def stored_bytes(self) -> float:
        """Not known until files are complete; their file system has limits of its own."""
        return 0.0

    def complete_bytes(self) -> float:
        """None of the executors'."""
        return 0.0

    def stopped(self, view: str) -> float:
        """Nothing is kept: Spark deletes the files of a job that did not end."""
        return 0.0

    def lost_views(self, suspected: bool = False) -> dict[str, str]:
        """The views whose files no longer exist; looked for once in a while only, unless a loss is suspected."""
        with self._lock:
            now = time.monotonic()
            if not suspected and now < self._next_check:
                return {}
            self._next_check = now + FILE_CHECK_S
            paths = dict(self._paths)
        return {view: f"{path} no longer exists" for view, path in paths.items() if not self.folder.exists(path)}

    def release(self) -> None:
        """Delete the query's folder."""
        self.folder.delete()

    def release_with(self, owner: object) -> None:
        """Do nothing: a view made from `owner` may outlive it, so the files stay until the application ends."""


def _nullable_like(read: DataFrame, frame: DataFrame) -> DataFrame:
    """What is read of a frame's files, nullable where the frame is: for Spark all columns in files are."""
    relation = read._jdf.queryExecution().analyzed()
    columns = items(frame._jdf.queryExecution().analyzed().output())
    output = [
        column.withDataType(like.dataType()).withNullability(like.nullable())
        for column, like in zip(items(relation.output()), columns, strict=True)
    ]
    session = read.sparkSession
    rest = sequence(session._jvm, output), relation.catalogTable(), relation.isStreaming(), relation.stream()
    return frame_of(session, relation.copy(relation.relation(), *rest))


def _is_ordered(frame: DataFrame) -> bool:
    """Whether the rows of a frame, or of what it reads, are sorted."""
    patterns = java_class(frame.sparkSession._jvm, "org.apache.spark.sql.catalyst.trees.TreePattern")
    return bool(frame._jdf.queryExecution().analyzed().containsPattern(patterns.SORT()))


def _unpadded(schema: StructType) -> StructType:
    """The schema without lengths of CHAR: by these Spark pads what it reads of files.

    They are those of the columns' names only, as those of the first part of a UNION, whose other parts have others.
    """
    unpadded = StructType()
    for one in schema.fields:
        metadata = {key: value for key, value in one.metadata.items() if key != DECLARED}
        unpadded.add(one.name, one.dataType, one.nullable, metadata)
    return unpadded


def _declared_like(read: DataFrame, frame: DataFrame) -> DataFrame:
    """What is read of a frame's files, with the lengths of CHAR, by which Spark pads what they are compared with."""
    fields = frame.schema.fields
    return declared_as(read, fields) if any(DECLARED in field.metadata for field in fields) else read


def _in_fewer_partitions(rows: PersistedRows, stored: StoredOutput, partitions: int) -> DataFrame:
    """What reads stored rows; of many partitions with few rows in each, several by one task.

    They are those of the scan that the stage began with. Each takes a task of every stage that reads them, and adaptive
    execution merges partitions of shuffles only.
    """
    session = rows.query.sparkSession
    if rows.tasks is None:
        # Once, so that what reads them stays the same plan.
        wanted = max(TASKS_PER_SLOT * usual_slots(session.sparkContext), stored.bytes / TASK_BYTES)
        # With its cost-based optimiser Spark knows columns of stored rows, not of merged partitions.
        are_kept = partitions <= 2 * wanted or rows.is_arranged or is_on(session, "spark.sql.cbo.enabled")
        rows.tasks = partitions if are_kept else math.ceil(wanted)
    return rows.frame if rows.tasks >= partitions else rows.frame.coalesce(rows.tasks)


def _is_small(stored: StoredOutput) -> bool:
    """Whether its rows may be a part of plans."""
    return stored.rows <= IN_PLAN_ROWS and stored.bytes <= IN_PLAN_BYTES


def counting(frame: DataFrame) -> tuple[DataFrame, Callable[[], float | None]]:
    """The frame, which counts its rows when it is first computed; then the count, None if Spark does not report it."""
    observation = Observation()
    counted = frame.observe(observation, count(lit(1)).alias("rows"))

    def rows() -> float | None:
        # Not `observation.get`, which waits for ever for an event that an overloaded Spark may have dropped.
        deadline = time.monotonic() + COUNT_TIMEOUT_S
        try:
            known = observation._jo.future()
            while not known.isCompleted():
                if time.monotonic() > deadline:
                    return None
                time.sleep(0.002)
            return float(known.value().get().get().getLong(0))
        except Py4JError:
            return None

    return counted, rows
