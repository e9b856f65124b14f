"""Where the output of finished stages is kept: on the executors, or as files that outlive them."""

from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Protocol

from pyspark import SparkContext, StorageLevel
from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class Kept:
    """A kept output: its view, and its size."""

    view: str
    rows: float
    bytes: float


class Checkpoints(Protocol):
    """A way to keep outputs. Used by several threads, one stage each."""

    def keep(self, view: str, frame: DataFrame, attempt: int) -> Kept:
        """Compute a frame, keep it, and make it readable as `view`."""
        ...

    def lost(self) -> dict[str, str]:
        """The views of which so much is gone that they are to be computed again, and why."""
        ...

    def release(self) -> None:
        """Let go of everything."""
        ...


@dataclass
class OnExecutors:
    """Keeps outputs in the executors' memory, on their disks where that is short.

    When executors die Spark computes what was on them anew as it is read, from the stage's own inputs: an answer is
    never wrong, only later. Decommissioned executors hand their part on first.
    """

    session: SparkSession
    _frames: dict[str, tuple[DataFrame, int, int]] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    LOST_PART = 0.25
    """The fraction of partitions whose loss is worth telling the planner."""

    def keep(self, view: str, frame: DataFrame, attempt: int) -> Kept:
        """Compute a frame and persist it; where it was kept before, only what is gone is computed again."""
        with self._lock:
            known = self._frames.get(view)
        if known is not None:
            frame = known[0]
        frame.persist(StorageLevel.MEMORY_AND_DISK)
        relation = frame._jdf.queryExecution().withCachedData()
        batches = relation.cacheBuilder().cachedColumnBuffers()
        # One job that builds every partition; counting rows would need a second one with a shuffle.
        batches.count()
        with self._lock:
            self._frames[view] = (frame, batches.id(), batches.getNumPartitions())
        frame.createOrReplaceTempView(view)
        known_size = relation.stats()
        return Kept(view, number(known_size.rowCount().get()), number(known_size.sizeInBytes()))

    def lost(self) -> dict[str, str]:
        """The views of which executors took a quarter or more with them."""
        with self._lock:
            frames = dict(self._frames)
        stored = _stored_partitions(self.session.sparkContext)
        found: dict[str, str] = {}
        for view, (_, identity, total) in frames.items():
            gone = total - stored.get(identity, 0)
            if gone > 0 and gone >= self.LOST_PART * total:
                found[view] = f"{gone} of {total} partitions went with their executors"
        return found

    def release(self) -> None:
        """Unpersist everything, without waiting."""
        with self._lock:
            frames, self._frames = dict(self._frames), {}
        for frame, *_ in frames.values():
            frame.unpersist(blocking=False)


@dataclass
class AsFiles:
    """Keeps outputs as Parquet files under a folder that every executor reaches; they outlive executors.

    Each attempt writes into a folder of its own: what a stage that was given up still writes, nobody reads.
    """

    session: SparkSession
    folder: str
    _paths: dict[str, str] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def keep(self, view: str, frame: DataFrame, attempt: int) -> Kept:
        """Compute a frame and write it."""
        path = f"{self.folder}/{view}/attempt-{attempt}"
        frame.write.mode("overwrite").parquet(path)
        read = self.session.read.schema(frame.schema).parquet(path)
        with self._lock:
            self._paths[view] = path
        read.createOrReplaceTempView(view)
        size = number(read._jdf.queryExecution().optimizedPlan().stats().sizeInBytes())
        return Kept(view, float(read.count()), size)

    def lost(self) -> dict[str, str]:
        """The views whose files are gone."""
        with self._lock:
            paths = dict(self._paths)
        return {view: f"{path} is gone" for view, path in paths.items() if not _exists(self.session, path)}

    def release(self) -> None:
        """Delete the query's folder."""
        _file_system(self.session, self.folder).delete(_hadoop_path(self.session, self.folder), True)


def number(value: Any) -> float:
    """A number of Scala's, whatever Py4J made of it."""
    return float(str(value))


def _stored_partitions(context: SparkContext) -> dict[int, int]:
    """For each persisted RDD of which anything is stored: how many partitions are."""
    return {info.id(): info.numCachedPartitions() for info in context._jsc.sc().getRDDStorageInfo()}


def _exists(session: SparkSession, path: str) -> bool:
    return bool(_file_system(session, path).exists(_hadoop_path(session, path + "/_SUCCESS")))


def _file_system(session: SparkSession, path: str) -> Any:
    configuration = session._jsparkSession.sessionState().newHadoopConf()
    return _hadoop_path(session, path).getFileSystem(configuration)


def _hadoop_path(session: SparkSession, path: str) -> Any:
    return session.sparkContext._jvm.org.apache.hadoop.fs.Path(path)
