"""What AlloX keeps from one event to the next, and what the worker process is given."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from yarn_plugin.decide.allocators.allox.sampling import Samples
from yarn_plugin.decide.mechanisms.allox import Job
from yarn_plugin.decide.mechanisms.long_run_progress import LongRun


@dataclass(frozen=True, slots=True)
class Queue:
    """What the worker process matches: the arguments of `choose_starts`."""

    jobs: tuple[Job, ...]
    free_in: tuple[tuple[float, ...], ...]
    progress: Mapping[str, float]
    alpha: float
    overdue: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Running:
    """A job that runs. `value`: what it adds to its user's progress. `ends_at`: when it is expected to end. `job`: its
    claim, as text; `started_at`: seconds; both are not known of jobs that an earlier release started."""

    user: str
    kind: int
    value: float
    ends_at: float
    job: str = ""
    started_at: float | None = None


@dataclass(frozen=True, slots=True)
class AlloxState:
    """`running`: by lease. `resting`: claims that are not tried, by job, until when; None: until they are revised.

    `round`, `is_solving`: the last problem that the worker process was given, and whether its result is still wanted.
    `long_run`: of users. `samples`: what is measured, and what of it now.
    """

    counter: int = 0
    running: Mapping[str, Running] = field(default_factory=dict)
    resting: Mapping[str, float | None] = field(default_factory=dict)
    round: int = 0
    is_solving: bool = False
    long_run: LongRun = field(default_factory=LongRun)
    samples: Samples = field(default_factory=Samples)
