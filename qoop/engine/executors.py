"""Executors up and down with the share, and how many there are."""

import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

from py4j.protocol import Py4JError
from pyspark import SparkContext

from yarn_plugin.errors import describe

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
    Of those, the ones go first that keep least. Those that have not ended when the share is enforced are ended: else
    YARN takes the excess back from containers of its own choice, and those may be the ones that are to stay.
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
        """The ids of the executors that are there at all.

        Raises:
            Py4JError: Spark does not say; which is not the same as none.
        """
        ids = self._scala.schedulerBackend().getExecutorIds()
        found = [str(ids.apply(index)) for index in range(ids.length())]
        self._leaving &= set(found)
        return found

    def set(self, target: int) -> list[str]:
        """Have so many executors: ask for missing ones, decommission surplus ones. Returns the latter's ids at once."""
        alive = self.alive()
        empty_map = self._jvm.PythonUtils.toScalaMap({})
        self._scala.requestTotalExecutors(target, 0, empty_map)
        if len(alive) <= target:
            return []
        surplus = self._least_kept(alive)[: len(alive) - target]
        self._decommission(surplus)
        return surplus

    def end(self, leaving: list[str]) -> None:
        """End those of these decommissioned executors that are still there, whatever they have not handed on yet."""
        present = set(self.present())
        if late := [executor for executor in leaving if executor in present]:
            # As Spark does after its `killInterval`: the target stays, and lost tasks count as no failures of theirs.
            ids = self._jvm.PythonUtils.toSeq(late)
            self._scala.schedulerBackend().killExecutors(ids, False, False, True)

    def _decommission(self, leaving: list[str]) -> None:
        info = self._jvm.org.apache.spark.scheduler.ExecutorDecommissionInfo("the share shrank", self._none())
        pairs = self._jvm.java.lang.reflect.Array.newInstance(self._class("scala.Tuple2"), len(leaving))
        for index, executor in enumerate(leaving):
            pairs[index] = self._jvm.scala.Tuple2(executor, info)
        self._scala.schedulerBackend().decommissionExecutors(pairs, False, False)
        self._leaving |= set(leaving)

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


class Adjustable(Protocol):
    """Executors whose number can be set."""

    def adjustable(self) -> bool:
        """Whether executors can be added and removed here."""
        ...

    def set(self, target: int) -> list[str]:
        """Have so many executors. Returns the ids of surplus ones, which leave."""
        ...

    def end(self, leaving: list[str]) -> None:
        """End those that have not left yet."""
        ...


FIRST_PAUSE, LONGEST_PAUSE = 0.5, 10.0
"""Seconds until a number of executors is asked for again that could not be asked for."""

LONGEST_GRACE = 3600.0
"""Seconds that an executor has to leave, however far away its deadline is."""


class ExecutorTarget:
    """Asks for the number of executors that was wanted last, in a thread of its own; ends those that leave too late.

    The cluster manager may take minutes to answer, or fail: neither is the query's. What failed is tried again until it
    succeeds or another number is wanted; the first failure in a row is told.

    Args:
        executors: what to adjust.
        warn: takes a line for the user.
    """

    def __init__(self, executors: Adjustable, name: str, warn: Callable[[str], None]) -> None:
        self._executors, self._name, self._warn = executors, name, warn
        self._changed = threading.Condition()
        self._wanted: tuple[int, float] | None = None
        self._closed = False
        self._thread: threading.Thread | None = None
        self._deadlines: list[threading.Timer] = []

    def want(self, target: int, by: float) -> None:
        """Have so many executors, as far as the cluster gives them; surplus ones are gone by a time (seconds since the
        epoch). Returns at once."""
        with self._changed:
            self._wanted = target, by
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=f"{self._name}-executors", daemon=True)
                self._thread.start()
            self._changed.notify()

    def close(self) -> None:
        """Ask for no more. Returns at once."""
        with self._changed:
            self._closed = True
            for deadline in self._deadlines:
                deadline.cancel()
            self._changed.notify()

    def _run(self) -> None:
        failures = 0
        while (wanted := self._next()) is not None:
            try:
                if self._executors.adjustable():
                    self._set(*wanted)
                failures = 0
            except Exception as problem:  # noqa: BLE001 - whatever fails here, the share of the next minute still counts
                self._failed(wanted, problem, failures)
                failures += 1

    def _next(self) -> tuple[int, float] | None:
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._wanted is not None)
            wanted, self._wanted = self._wanted, None
            return None if self._closed else wanted

    def _set(self, target: int, by: float) -> None:
        leaving = self._executors.set(target)
        with self._changed:
            if not leaving or self._closed:
                return
            deadline = threading.Timer(min(max(by - time.time(), 0.0), LONGEST_GRACE), self._end, (leaving,))
            deadline.daemon = True
            self._deadlines = [*(one for one in self._deadlines if one.is_alive()), deadline]
            deadline.start()

    def _end(self, leaving: list[str]) -> None:
        try:
            self._executors.end(leaving)
        except Exception as problem:  # noqa: BLE001 - YARN takes back what is held too long
            if not self._closed:
                self._warn(f"executors that leave could not be ended: {describe(problem)}")

    def _failed(self, wanted: tuple[int, float], problem: Exception, failures: int) -> None:
        with self._changed:
            if self._closed:
                return
            if self._wanted is None:
                self._wanted = wanted
        if failures == 0:
            self._warn(f"{wanted[0]} executors could not be asked for; trying again: {describe(problem)}")
        with self._changed:
            pause = min(FIRST_PAUSE * 2.0 ** min(failures, 10), LONGEST_PAUSE)
            self._changed.wait_for(lambda: self._closed or self._wanted != wanted, timeout=pause)
