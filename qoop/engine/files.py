"""Outputs of stages as files that outlive executors, in a folder that belongs to one query."""

from dataclasses import dataclass, field
from threading import Lock

from pyspark.sql import DataFrame, SparkSession

from qoop.engine.checkpoints import Kept, number
from qoop.engine.folders import QueryFolder


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
