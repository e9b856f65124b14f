"""How a query is run: what a program chooses, with what is usual."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import get_args

from qoop.as_written.decide import PlanWhen
from qoop.errors import QoopError
from qoop.estimate.cost import CostModel
from qoop.estimate.gate import Gate
from qoop.estimate.guard import Guard
from qoop.plans.candidates import CutPolicy
from qoop.replan.commands import Command
from qoop.replan.completion import Completion
from qoop.replan.decision import Rules
from qoop.replan.events import Event
from qoop.run.query_run import Feed

PLAN_WANTED = "must be auto, always or never"

MAX_TIMEOUT_S = 1e9
"""The longest timeout in seconds, as timers take no longer ones."""

CHECKPOINT_WANTED = "must be a URL that all nodes reach, such as hdfs:///user/ME/qoop"


@dataclass(frozen=True)
class Options:
    """How a query is run.

    Args:
        feed: makes the source of a share that may change; by default it does not.
        slots: the share in slots when the query begins; by default the session's default parallelism, or with dynamic
            allocation the slots of the most executors that it may have, if they are limited.
        confirm: tells the arbiter that the query holds no more than a share, by its number.
        expect: tells the arbiter when the query is expected to finish.
        rules: when to switch plans.
        cut_policy: where plans are cut into stages.
        model: the cost of a stage. Here and in `gate` what is broadcast is what the session would broadcast
            (`spark.sql.autoBroadcastJoinThreshold`), unless they have another size.
        checkpoint: a URL that all nodes reach, to store stage outputs as files; by default they are on the executors.
        journal: a file to record events and decisions in.
        warn: takes a warning, one line; called from several threads.
        watch: called with every event of `qoop.replan.events` (a stage finished, the share changed and why), and then
            with the commands of `qoop.replan.commands` that follow from it.
        plan: "always": plan every query, and cut it into stages wherever large inputs meet. "auto": run it as written
            if Spark is expected to end it before planning could pay off (`gate`), or if no plan is expected to win; cut
            it only where that costs little. "never": run it as written, in one stage. By default the session's
            `spark.qoop.plan`, or "auto". With `rules.force` or `cut_policy.everywhere`, "auto" is "always".
        gate: when a query is worth planning.
        guard: when a query runs as written because its earlier planned runs were slower; None: no runs are recorded.
        replanning: False: as `plan="never"`.
        timeout: seconds after which the query, with its planning, is stopped and fails; by default it may run for ever.

    Raises:
        QoopError: `slots`, `plan` or the timeout is not one of the values above, or the checkpoint is no text or empty.
    """

    feed: Callable[[], Feed] | None = None
    slots: float | None = None
    confirm: Callable[[int], None] = lambda seq: None
    expect: Callable[[Completion], None] = lambda completion: None
    rules: Rules = field(default_factory=Rules)
    cut_policy: CutPolicy = field(default_factory=CutPolicy)
    model: CostModel = field(default_factory=CostModel)
    checkpoint: str | None = None
    journal: str | Path | None = None
    warn: Callable[[str], None] = lambda line: None
    watch: Callable[[Event | Command], None] = lambda told: None
    plan: PlanWhen | None = None
    gate: Gate = field(default_factory=Gate)
    guard: Guard | None = field(default_factory=Guard)
    replanning: bool = True
    timeout: float | None = None

    def __post_init__(self) -> None:
        seconds, url, slots = self.timeout, self.checkpoint, self.slots
        if slots is not None and not (isinstance(slots, int | float) and 0.0 < slots < math.inf):
            raise QoopError(f"slots {slots!r}: must be a number above 0")
        if self.plan is not None and self.plan not in get_args(PlanWhen):
            raise QoopError(f"plan {self.plan!r}: {PLAN_WANTED}")
        if seconds is not None and not (isinstance(seconds, int | float) and 0.0 < seconds <= MAX_TIMEOUT_S):
            raise QoopError(f"timeout {seconds!r}: must be seconds, more than 0 and at most {MAX_TIMEOUT_S:g}")
        if url is not None and not (isinstance(url, str) and url.strip()):
            raise QoopError(f"checkpoint {self.checkpoint!r}: {CHECKPOINT_WANTED}")
