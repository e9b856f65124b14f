"""How long the tasks of running stages have run: Spark itself adds up those that have ended."""

from collections.abc import Mapping

from pyspark import SparkContext

SAMPLE_INTERVAL_S, REPORT_INTERVAL_S = 1.0, 4.0
"""Seconds between samples of how many tasks of each stage run, and between reports of how long they have run."""


def running_tasks(context: SparkContext, tag: str) -> int:
    """How many tasks under a tag run now; 0 if that cannot be known."""
    try:
        scala = context._jsc.sc()
        active = set(scala.statusTracker().getActiveJobIds()) & set(scala.statusTracker().getJobIdsForTag(tag))
        return sum(int(scala.statusStore().job(job).numActiveTasks()) for job in active)
    except Exception:  # noqa: BLE001 - a stage must not fail because it cannot be measured
        return 0


class TaskSamples:
    """How long the tasks of each stage have run, from samples of how many run.

    `due_at`: when to take the next sample, in seconds of the monotonic clock.
    """

    def __init__(self) -> None:
        self.due_at = 0.0
        self._taken_at: float | None = None
        self._reported_at: float | None = None
        self._core_seconds: dict[str, float] = {}

    def add(self, now: float, tasks: Mapping[str, int]) -> dict[str, float]:
        """Add a sample: how many tasks of each stage run, by its tag. Returns their core seconds until now."""
        elapsed = now - self._taken_at if self._taken_at is not None else 0.0
        before = self._core_seconds
        self._core_seconds = {
            tag: before[tag] + count * elapsed if tag in before else 0.0 for tag, count in tasks.items()
        }
        self._taken_at, self.due_at = now, now + SAMPLE_INTERVAL_S
        return self._core_seconds

    def are_to_report(self, now: float) -> bool:
        """Whether it is time for a report; if so, the next one is due an interval later."""
        if self._reported_at is None:
            self._reported_at = now
        if now - self._reported_at < REPORT_INTERVAL_S:
            return False
        self._reported_at = now
        return True
