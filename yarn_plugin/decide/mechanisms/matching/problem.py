"""What is matched: jobs that may run on machines of several kinds (AlloX, section 3.1)."""

from collections.abc import Iterable
from dataclasses import dataclass

from yarn_plugin.errors import BadInputError

LONGEST_S = 1e9
"""The longest time of a job, and until a machine is free: 30 years. Sums of many stay exact enough to compare."""


@dataclass(frozen=True, slots=True)
class MatchingProblem:
    """Jobs without order or preemption, to be matched to machines that run one job after another.

    `times`: for each job, its seconds on a machine of each kind; None where it cannot run. `free_in`: for each kind,
    in how many seconds each of its machines is free; 0 for an idle one. Machines of a kind are alike but for that.
    """

    times: tuple[tuple[float | None, ...], ...]
    free_in: tuple[tuple[float, ...], ...]

    def check(self) -> None:
        """Check the numbers, and that each job can run somewhere.

        Raises:
            BadInputError: a time is not between 0 and `LONGEST_S`, or a job cannot run on any machine.
        """
        for kind, waits in enumerate(self.free_in):
            _check_seconds(f"free_in[{kind}]", waits)
        for job, times in enumerate(self.times):
            if len(times) != len(self.free_in):
                raise BadInputError(f"times[{job}]", times, f"one for each of {len(self.free_in)} kinds of machines")
            _check_seconds(f"times[{job}]", [seconds for seconds in times if seconds is not None])
            if not any(seconds is not None and self.free_in[kind] for kind, seconds in enumerate(times)):
                raise BadInputError(f"times[{job}]", times, "seconds on at least one kind that has machines")


def _check_seconds(field: str, values: Iterable[float]) -> None:
    for seconds in values:
        # Also false for NaN.
        if not 0 <= seconds <= LONGEST_S:
            raise BadInputError(field, seconds, f"seconds from 0 to {LONGEST_S:g}")


@dataclass(frozen=True, slots=True)
class Match:
    """A job on a machine. `machine`: its index within its kind. `position`: counted from the end, so the job runs
    after all with a larger one on the same machine; the last has 1."""

    job: int
    kind: int
    machine: int
    position: int


@dataclass(frozen=True, slots=True)
class Matching:
    """Each job's match, by job. `total_s`: the sum of completion times, in seconds from now. `bound_s`: no schedule
    has a smaller sum; equal to `total_s` if the matching is exact."""

    matches: tuple[Match, ...]
    total_s: float
    bound_s: float

    @property
    def is_exact(self) -> bool:
        """Whether the sum is proven to be the smallest, up to rounding."""
        return self.total_s - self.bound_s <= 1e-9 * max(1.0, self.total_s)

    def first_jobs(self) -> dict[tuple[int, int], int]:
        """The job that each machine (kind, index) starts with: that of the largest position (Algorithm 2, line 8)."""
        first: dict[tuple[int, int], Match] = {}
        for match in self.matches:
            before = first.get((match.kind, match.machine))
            if before is None or match.position > before.position:
                first[match.kind, match.machine] = match
        return {machine: match.job for machine, match in first.items()}
