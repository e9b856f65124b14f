"""Executors up and down with the share, and how many there are."""

import time
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkContext

DECOMMISSION_CONF = {
    "spark.decommission.enabled": "true",
    "spark.storage.decommission.enabled": "true",
    "spark.storage.decommission.rddBlocks.enabled": "true",
    "spark.storage.decommission.shuffleBlocks.enabled": "true",
    # An executor ends after a look that finds nothing more to hand on; by default Spark looks twice a minute.
    "spark.storage.decommission.replicationReattemptInterval": "1s",
    "spark.executor.decommission.killInterval": "25s",
}
"""What Spark must be started with so that an executor that leaves hands on what it keeps, and leaves in time."""


class Executors:
    """The executors of one application on a cluster manager that can add and remove them (YARN).

    Surplus executors are decommissioned: they take no new tasks, hand on cached partitions and shuffle files, and end.
    Of those, the ones go first that keep least.
    """

    def __init__(self, context: SparkContext) -> None:
        self._scala = context._jsc.sc()
        self._jvm: Any = context._jvm
        self._leaving: set[str] = set()

    def adjustable(self) -> bool:
        """Whether executors can be added and removed here; in local mode they cannot."""
        return not self._scala.isLocal()

    def alive(self) -> list[str]:
        """The ids of the executors that are there and not leaving."""
        return [executor for executor in self.present() if executor not in self._leaving]

    def present(self) -> list[str]:
        """The ids of the executors that are there at all."""
        try:
            ids = self._scala.schedulerBackend().getExecutorIds()
        except Py4JError:
            return []
        found = [str(ids.apply(index)) for index in range(ids.length())]
        self._leaving &= set(found)
        return found

    def set(self, target: int) -> None:
        """Have so many executors: ask for missing ones, decommission surplus ones. Returns at once."""
        alive = self.alive()
        empty_map = self._jvm.PythonUtils.toScalaMap({})
        self._scala.requestTotalExecutors(target, 0, empty_map)
        if len(alive) > target:
            self._decommission(self._least_kept(alive)[: len(alive) - target])

    def _decommission(self, leaving: list[str]) -> None:
        info = self._jvm.org.apache.spark.scheduler.ExecutorDecommissionInfo("the share shrank", self._none())
        pairs = self._jvm.java.lang.reflect.Array.newInstance(self._class("scala.Tuple2"), len(leaving))
        for index, executor in enumerate(leaving):
            pairs[index] = self._jvm.scala.Tuple2(executor, info)
        self._leaving |= set(leaving)
        self._scala.schedulerBackend().decommissionExecutors(pairs, False, False)

    def _least_kept(self, executors: list[str]) -> list[str]:
        """Executors by the memory that cached partitions take on them, least first."""
        try:
            summaries = self._scala.statusStore().executorList(True)
            used = {
                str((summary := summaries.apply(index)).id()): summary.memoryUsed() for index in range(summaries.size())
            }
        except Py4JError:
            used = {}
        return sorted(executors, key=lambda executor: (used.get(executor, 0), -int(executor)))

    def _none(self) -> Any:
        return self._jvm.scala.Option.empty()

    def _class(self, name: str) -> Any:
        return self._jvm.java.lang.Class.forName(name)

    def wait(self, target: int, seconds: float) -> bool:
        """Wait until so many executors are there, at most so long."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if len(self.alive()) >= target:
                return True
            time.sleep(0.2)
        return False
