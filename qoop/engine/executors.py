"""Executors of a Spark application: counted, added, decommissioned and removed."""

import re
import threading
import time
from collections.abc import Callable
from math import inf
from typing import Any, Protocol, cast
from weakref import WeakKeyDictionary

from py4j.protocol import Py4JError
from pyspark import SparkContext

from qoop.computed_once import computed_once
from qoop.engine.scala import items
from yarn_plugin.errors import describe
from yarn_plugin.quantities import count

DECOMMISSION_CONF = {
    "spark.decommission.enabled": "true",
    "spark.storage.decommission.enabled": "true",
    "spark.storage.decommission.rddBlocks.enabled": "true",
    "spark.storage.decommission.shuffleBlocks.enabled": "true",
    # An executor exits after a check that finds nothing left to migrate; by default Spark checks twice a minute.
    "spark.storage.decommission.replicationReattemptInterval": "1s",
    "spark.executor.decommission.killInterval": "25s",
}
"""Spark properties with which a decommissioned executor migrates its blocks and exits before the deadline."""


LOCAL = re.compile(r"local(?:$|\[)")
"""The masters with which Spark has no executors but this process."""


UNLIMITED = 2**31 - 1
"""The number of executors by which Spark means any."""


def slots_within(context: SparkContext, told: float | None) -> float:
    """The slots to plan with when a query begins: those that it was told, or the usual ones.

    In local mode no more than there are: their number never changes.
    """
    wanted = told or usual_slots(context)
    return min(wanted, _local_slots(context)) if LOCAL.match(context.master) else wanted


_known_slots: WeakKeyDictionary[SparkContext, float] = WeakKeyDictionary()


def _local_slots(context: SparkContext) -> float:
    """The slots of this process; infinite if that is not known."""
    if context not in _known_slots:
        try:
            _known_slots[context] = Executors(context).slots()
        except (Py4JError, AttributeError):
            return inf
    return _known_slots[context]


def usual_slots(context: SparkContext) -> float:
    """How many tasks of an application may run at the same time, as far as that is known when a query begins."""
    # Not `getConf`, which copies each property.
    conf, now = context._conf, float(context.defaultParallelism)
    if conf.get("spark.dynamicAllocation.enabled", "false").lower() != "true" or context.master.startswith("local"):
        return now
    # At first it has few executors, and more as soon as there are tasks for them.
    most, cores = conf.get("spark.dynamicAllocation.maxExecutors", ""), conf.get("spark.executor.cores", "")
    if not (most.isdigit() and 0 < int(most) < UNLIMITED):
        return now
    if not cores.isdigit() and context.master != "yarn":
        return now
    tasks = int(cores or 1) // int(conf.get("spark.task.cpus", "1"))
    return max(now, float(int(most) * max(tasks, 1)))


class Executors:
    """The executors of one application on a cluster manager that can add and remove them (YARN).

    Surplus executors are decommissioned, those with the least cached data first: they take no new tasks, migrate cached
    partitions and shuffle files, and exit. Those that have not exited when the share is enforced are killed: otherwise
    YARN would preempt containers of its own choice, possibly executors that are to stay.
    """

    def __init__(self, context: SparkContext) -> None:
        self._context, self._jvm = context, cast(Any, context._jvm)
        self._decommissioned: set[str] = set()

    def is_adjustable(self) -> bool:
        """Whether executors can be added and removed; not in local mode."""
        return not LOCAL.match(self._context.master)

    @computed_once
    def _scala(self) -> Any:
        return self._context._jsc.sc()

    def active(self) -> list[str]:
        """The ids of the registered executors that are not being decommissioned."""
        return [executor for executor in self.registered() if executor not in self._decommissioned]

    def registered(self) -> list[str]:
        """The ids of all registered executors.

        Raises:
            Py4JError: Spark does not answer, which must not be taken for no executors.
        """
        found = [str(one) for one in items(self._scala.schedulerBackend().getExecutorIds())]
        self._decommissioned &= set(found)
        return found

    def count(self) -> int:
        """How many executors are registered; in local mode one, which is this process.

        Raises:
            Py4JError: Spark does not answer.
        """
        if not self.is_adjustable():
            return 1
        return int(self._scala.schedulerBackend().getExecutorIds().size())

    def slots(self) -> float:
        """How many tasks can run at the same time on the executors that are not being decommissioned.

        Raises:
            Py4JError: Spark does not answer.
        """
        return float(self._scala.maxNumConcurrentTasks(self._profile))

    @computed_once
    def _profile(self) -> Any:
        return self._scala.resourceProfileManager().defaultResourceProfile()

    def set_target(self, target: int) -> list[str]:
        """Request missing executors or decommission surplus ones. Returns the ids of the latter, without waiting."""
        active = self.active()
        empty_map = self._jvm.PythonUtils.toScalaMap({})
        self._scala.requestTotalExecutors(target, 0, empty_map)
        if len(active) <= target:
            return []
        surplus = self._by_cached_memory(active)[: len(active) - target]
        self._decommission(surplus)
        return surplus

    def kill(self, leaving: list[str]) -> None:
        """Kill those of these decommissioned executors that have not exited, even if they have not migrated all."""
        registered = set(self.registered())
        if overdue := [executor for executor in leaving if executor in registered]:
            # As Spark does after its `killInterval`: keep the target, and do not count lost tasks as failures.
            ids = self._jvm.PythonUtils.toSeq(overdue)
            self._scala.schedulerBackend().killExecutors(ids, False, False, True)

    def _decommission(self, leaving: list[str]) -> None:
        jvm = self._jvm
        info = jvm.org.apache.spark.scheduler.ExecutorDecommissionInfo("the share shrank", jvm.scala.Option.empty())
        pairs = jvm.java.lang.reflect.Array.newInstance(jvm.java.lang.Class.forName("scala.Tuple2"), len(leaving))
        for index, executor in enumerate(leaving):
            pairs[index] = jvm.scala.Tuple2(executor, info)
        self._scala.schedulerBackend().decommissionExecutors(pairs, False, False)
        self._decommissioned |= set(leaving)

    def _by_cached_memory(self, executors: list[str]) -> list[str]:
        """Executors by the memory of their cached partitions, ascending."""
        try:
            summaries = self._scala.statusStore().executorList(True)
            used = {str(summary.id()): summary.memoryUsed() for summary in items(summaries)}
        except Py4JError:
            used = {}
        return sorted(executors, key=lambda executor: (used.get(executor, 0), -int(executor)))


class AdjustableExecutors(Protocol):
    """Executors whose number can be set; see `Executors`."""

    def is_adjustable(self) -> bool:
        """Whether executors can be added and removed."""
        ...

    def set_target(self, target: int) -> list[str]:
        """Set the number of executors. Returns the ids of surplus ones, which are decommissioned."""
        ...

    def kill(self, leaving: list[str]) -> None:
        """Kill those that have not exited."""
        ...


FIRST_PAUSE_S, MAX_PAUSE_S = 0.5, 10.0
"""Seconds between retries, doubled each time."""

MAX_GRACE_S = 3600.0
"""Upper limit in seconds of the time that a decommissioned executor has to exit."""


class ExecutorTarget:
    """Requests the latest target from the cluster manager in a thread of its own; kills executors that exit too late.

    The cluster manager may take minutes to answer, or fail, and the query must not wait for it. A failed request is
    retried until it succeeds or the target changes; the first failure in a row is reported.

    Args:
        executors: the executors to adjust.
        warn: prints a line for the user.
    """

    def __init__(self, executors: AdjustableExecutors, name: str, warn: Callable[[str], None]) -> None:
        self._executors, self._name, self._warn = executors, name, warn
        self._changed = threading.Condition()
        self._wanted: tuple[int, float] | None = None
        self._closed = False
        self._thread: threading.Thread | None = None
        self._deadlines: list[threading.Timer] = []

    def set(self, target: int, by: float) -> None:
        """Set the target; surplus executors must be gone at `by` (seconds since the epoch). Returns immediately."""
        with self._changed:
            self._wanted = target, by
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=f"{self._name}-executors", daemon=True)
                self._thread.start()
            self._changed.notify()

    def close(self) -> None:
        """Stop requesting. Returns immediately."""
        with self._changed:
            self._closed = True
            for deadline in self._deadlines:
                deadline.cancel()
            self._changed.notify()

    def _run(self) -> None:
        failures = 0
        while (wanted := self._next()) is not None:
            try:
                if self._executors.is_adjustable():
                    self._adjust(*wanted)
                failures = 0
            except Exception as problem:  # noqa: BLE001 - any failure is retried; the thread must survive
                self._retry_later(wanted, problem, failures)
                failures += 1

    def _next(self) -> tuple[int, float] | None:
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._wanted is not None)
            wanted, self._wanted = self._wanted, None
            return None if self._closed else wanted

    def _adjust(self, target: int, by: float) -> None:
        leaving = self._executors.set_target(target)
        with self._changed:
            if not leaving or self._closed:
                return
            deadline = threading.Timer(min(max(by - time.time(), 0.0), MAX_GRACE_S), self._kill, (leaving,))
            deadline.daemon = True
            self._deadlines = [*(timer for timer in self._deadlines if timer.is_alive()), deadline]
            deadline.start()

    def _kill(self, leaving: list[str]) -> None:
        try:
            self._executors.kill(leaving)
        except Exception as problem:  # noqa: BLE001 - YARN preempts what is held too long
            if not self._closed:
                self._warn(f"could not kill decommissioned executors: {describe(problem)}")

    def _retry_later(self, wanted: tuple[int, float], problem: Exception, failures: int) -> None:
        with self._changed:
            if self._closed:
                return
            if self._wanted is None:
                self._wanted = wanted
        if failures == 0:
            self._warn(f"could not request {count(wanted[0], 'executor')}; retrying: {describe(problem)}")
        with self._changed:
            pause = min(FIRST_PAUSE_S * 2.0 ** min(failures, 10), MAX_PAUSE_S)
            self._changed.wait_for(lambda: self._closed or self._wanted != wanted, timeout=pause)
