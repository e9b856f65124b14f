"""Where the output of finished stages is kept: here on the executors; `files` keeps them as files."""

import threading
import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Protocol

from py4j.protocol import Py4JJavaError
from pyspark import SparkContext, StorageLevel
from pyspark.sql import DataFrame, SparkSession

from qoop.engine.folders import QueryFolder
from qoop.engine.session import in_session_of


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

    def release_with(self, owner: object) -> None:
        """Let go of everything when the owner is gone and nobody can ask for it any more."""
        ...


@dataclass
class OnExecutors:
    """Keeps outputs in the executors' memory, on their disks where that is short.

    When executors die Spark computes what was on them anew as it is read, from the stage's own inputs: an answer is
    never wrong, only later. Decommissioned executors hand their part on first.
    """

    session: SparkSession
    warn: Callable[[str], None] = lambda line: None
    _frames: dict[str, tuple[DataFrame, int, int]] = field(default_factory=dict)
    _own: list[Any] = field(default_factory=list)
    _lock: Lock = field(default_factory=Lock)
    _released: bool = False

    LOST_PART = 0.25
    """The fraction of partitions whose loss is worth telling the planner."""

    def keep(self, view: str, frame: DataFrame, attempt: int) -> Kept:
        """Compute a frame and persist it; where it was kept before, only what is gone is computed again."""
        with self._lock:
            known = self._frames.get(view)
        if known is not None:
            # Read again: a frame remembers what was kept of it when it was first computed.
            frame = in_session_of(self.session, known[0])
        own = persist(frame)
        try:
            relation = frame._jdf.queryExecution().withCachedData()
            batches = relation.cacheBuilder().cachedColumnBuffers()
            # One job that builds every partition; counting rows would need a second one with a shuffle.
            batches.count()
        except BaseException:
            # A stage that was stopped or has failed leaves nothing behind, not even half of it.
            if own:
                unpersist(frame._jdf)
            raise
        self._note(view, frame, batches, own)
        frame.createOrReplaceTempView(view)
        size = relation.stats()
        if size.rowCount().isDefined():
            return Kept(view, number(size.rowCount().get()), number(size.sizeInBytes()))
        # Partitions were computed twice, as executors went meanwhile: then Spark has no count of its own.
        return Kept(view, float(frame.count()), _stored_bytes(self.session.sparkContext, batches.id()))

    def _note(self, view: str, frame: DataFrame, batches: Any, own: bool) -> None:
        with self._lock:
            self._frames[view] = (frame, batches.id(), batches.getNumPartitions())
            if own:
                self._own.append(frame._jdf)
        if self._released:
            # The query ended while this stage could not be stopped.
            self.release()

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
            own, self._own, self._frames, self._released = self._own, [], {}, True
        problem = unpersist_all(own)
        if problem is not None:
            raise problem

    def release_with(self, owner: object) -> None:
        """Unpersist when the owner is collected. A view or an RDD made of it is then computed anew when it is read."""
        with self._lock:
            own, self._own = self._own, []
        if own:
            unpersist_with(owner, own, self.warn)


@dataclass
class AsFiles:
    """Keeps outputs as Parquet files under a folder that every executor reaches; they outlive executors.

    Each attempt, of stages that failed and of stages that were stopped, writes into a folder of its own: what a stage
    that was given up still writes, nobody reads.
    """

    session: SparkSession
    folder: QueryFolder
    _paths: dict[str, str] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)
    _written: int = 0

    def keep(self, view: str, frame: DataFrame, attempt: int) -> Kept:
        """Compute a frame and write it."""
        self.folder.begin()
        with self._lock:
            self._written += 1
            path = f"{self.folder.path}/{view}/attempt-{self._written}"
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
        return {view: f"{path} is gone" for view, path in paths.items() if not self.folder.has(f"{path}/_SUCCESS")}

    def release(self) -> None:
        """Delete the query's folder."""
        self.folder.delete()

    def release_with(self, owner: object) -> None:
        """The files stay until the application ends: a view made of the owner needs them when the owner is gone."""


def persist(frame: DataFrame) -> bool:
    """Keep a frame on the executors; False when somebody has kept the same before: then it is theirs to let go."""
    level = frame.storageLevel
    if level.useMemory or level.useDisk:
        return False
    frame.persist(StorageLevel.MEMORY_AND_DISK)
    return True


def unpersist(frame: Any) -> None:
    """Let go of what the executors keep of a frame (Java's), without waiting."""
    frame.unpersist(False)


def unpersist_all(frames: Iterable[Any]) -> Exception | None:
    """Let go of every frame (Java's), whatever becomes of the others; returns the first failure."""
    first: Exception | None = None
    for frame in frames:
        try:
            unpersist(frame)
        except Exception as problem:  # noqa: BLE001 - one that fails must not keep the others
            first = first or problem
    return first


def unpersist_with(owner: object, frames: list[Any], warn: Callable[[str], None] = lambda line: None) -> None:
    """Let go of frames (Java's) when the owner is collected.

    In a thread of its own: the owner may be collected in the middle of a call to Java, in which none other can be made.
    """

    def let_go() -> None:
        problem = unpersist_all(frames)
        # Where Java itself does not answer Spark has stopped, and nothing is kept any more.
        if isinstance(problem, Py4JJavaError):
            warn(f"what a query kept on executors could not be let go: {problem.java_exception}")

    def collected() -> None:
        threading.Thread(target=let_go, name="qoop-unpersist", daemon=True).start()

    weakref.finalize(owner, collected).atexit = False


def number(value: Any) -> float:
    """A number of Scala's, whatever Py4J made of it."""
    return float(str(value))


def _stored_partitions(context: SparkContext) -> dict[int, int]:
    """For each persisted RDD of which anything is stored: how many partitions are."""
    return {info.id(): info.numCachedPartitions() for info in context._jsc.sc().getRDDStorageInfo()}


def _stored_bytes(context: SparkContext, identity: int) -> float:
    """What is stored of a persisted RDD, in memory and on disks."""
    stored = [info for info in context._jsc.sc().getRDDStorageInfo() if info.id() == identity]
    return float(sum(info.memSize() + info.diskSize() for info in stored))
