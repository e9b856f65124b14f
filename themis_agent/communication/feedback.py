"""When to make a plan, replace it, or return to the order of the program (interface C, Syndicate section 4.4.4)."""

import enum
import statistics
import threading
from collections import deque

from themis_agent.communication.capture import Seen

FIRST = 2
"""Before this iteration DDP still arranges its buckets."""

ENOUGH = 8
"""Iterations with the same operations that a plan is made from, and that it is judged by."""

MAX_HELD = 0.05
"""A plan is replaced if its order holds motifs back for more than this part of the iterations."""

MAX_SLOWER = 1.02
"""A plan is withdrawn if its median iteration takes over this many times as long as in the order of the program."""

MAX_PLANS = 4
"""The most plans in a run: what the fourth does not settle, the next will not."""


class Advice(enum.StrEnum):
    """What rank 0 is to do."""

    WAIT = "wait"
    PLAN = "plan"
    IN_ORDER = "in order"


class Feedback:
    """From iterations to advice. Any thread may call its methods."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._recent: deque[Seen] = deque(maxlen=ENOUGH)
        self._in_order_s: float | None = None
        self._plans = 0
        self._settled = False

    def note(self, seen: Seen) -> None:
        """An iteration is over."""
        if seen.number < FIRST:
            return
        with self._lock:
            last = self._recent[-1] if self._recent else None
            if last is not None and (last.version != seen.version or last.operations != seen.operations):
                self._recent.clear()
            self._recent.append(seen)

    def proposed(self, plans: int) -> None:
        """Note the number of plans proposed so far."""
        with self._lock:
            self._plans = plans
            self._recent.clear()

    def advice(self) -> Advice:
        """What to do now."""
        with self._lock:
            if self._settled or len(self._recent) < ENOUGH or not self._recent[-1].operations:
                return Advice.WAIT
            median_s = statistics.median(one.seconds for one in self._recent)
            if not self._recent[-1].version:
                self._in_order_s = median_s
                self._settled = self._plans >= MAX_PLANS
                return Advice.WAIT if self._settled else Advice.PLAN
            if self._in_order_s is not None and median_s > MAX_SLOWER * self._in_order_s:
                self._settled = True
                return Advice.IN_ORDER
            held = statistics.median(one.held_s / one.seconds for one in self._recent if one.seconds > 0)
            return Advice.PLAN if held > MAX_HELD and self._plans < MAX_PLANS else Advice.WAIT
