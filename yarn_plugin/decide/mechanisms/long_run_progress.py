"""Long-run progress of users: AlloX (section 3.3) is fair at each moment, and at an alpha near 1 to nobody.

While jobs of a user wait, the user's lag grows by a second each second, less what the user's progress is of a fair one
(one of so many users with jobs); it is never below 0, and 0 without waiting jobs. A user whose lag reaches the patience
is overdue. Overdue users start a job each before all others, in turn: the one that has started none for longest first.

The bound: a user whose jobs can run on m machines of a pool with n users, where no job runs for longer than p, waits
with nothing running for at most

    patience + ceil(n / m) * p.

For the lag of a user with nothing running grows by a second each second. Once overdue, the user stays so until a job
starts, and each of the n - 1 others starts at most one before. All m machines are given up within p, again and again.
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True)
class LongRun:
    """`at`: until when it is counted, in seconds. `lags`: seconds, of users whose jobs wait. `started_at`: when each
    user last started a job."""

    at: float = 0.0
    lags: Mapping[str, float] = field(default_factory=dict)
    started_at: Mapping[str, float] = field(default_factory=dict)

    def advanced(self, at: float, progress: Mapping[str, float], waiting: Collection[str]) -> "LongRun":
        """At a later time, if nothing changed in between. `progress`: of the users with jobs until then, as in section
        3.3.2; `waiting`: those with waiting jobs from then on."""
        passed = max(at - self.at, 0.0)
        # Users whose jobs did not wait until now have waited for nothing yet.
        lags = {
            user: max(self.lags[user] + passed * (1.0 - len(progress) * progress.get(user, 0.0)), 0.0)
            if user in self.lags
            else 0.0
            for user in waiting
        }
        started_at = {user: since for user, since in self.started_at.items() if user in progress}
        return LongRun(at, lags, started_at)

    def started(self, users: Collection[str]) -> "LongRun":
        """These users start jobs now."""
        return replace(self, started_at={**self.started_at, **dict.fromkeys(users, self.at)}) if users else self

    def overdue(self, patience_s: float) -> tuple[str, ...]:
        """The users whose lag has reached the patience, in the order in which they start jobs."""
        # A little less: a sum of many parts of a second.
        overdue = [user for user, lag in self.lags.items() if lag >= patience_s - 1e-6]
        return tuple(sorted(overdue, key=lambda user: (self.started_at.get(user, -math.inf), user)))

    def next_overdue(self, patience_s: float, progress: Mapping[str, float], waiting: Collection[str]) -> float | None:
        """When the next user becomes overdue, if nothing changes before."""
        due = [
            self.at + (patience_s - self.lags.get(user, 0.0)) / rate
            for user in waiting
            if (rate := 1.0 - len(progress) * progress.get(user, 0.0)) > 0
            and self.lags.get(user, 0.0) < patience_s - 1e-6
        ]
        return min(due, default=None)


def longest_wait_s(patience_s: float, users: int, machines: int, longest_job_s: float) -> float:
    """The bound (see the module)."""
    return patience_s + math.ceil(users / machines) * longest_job_s
