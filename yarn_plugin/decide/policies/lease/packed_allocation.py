"""An allocation of packed GPUs that tells how fast a job would run on the best of those that are left."""

from collections.abc import Sequence
from dataclasses import dataclass

from yarn_plugin.decide.mechanisms.gang_placement import PackedGpus, Reach, Span, slowdown_factor, span_within
from yarn_plugin.decide.policies.lease.allocation import Allocation
from yarn_plugin.decide.policies.lease.gangs import largest_size, next_size
from yarn_plugin.model.gpus import Job, Machine, Slowdown


@dataclass(frozen=True, slots=True)
class Option:
    """GPUs that could be added to a job. `speed`: then, in GPUs without slowdown; `slowdown`: then."""

    gpus: int
    speed: float
    slowdown: float


class PackedAllocation(Allocation):
    """Gives jobs the GPUs that span least."""

    def __init__(self, machines: Sequence[Machine]) -> None:
        self._packed = PackedGpus(machines)
        super().__init__(self._packed)
        self._fresh: dict[tuple[int, int, int, Slowdown], Option | None] = {}
        self._fresh_reach: Reach = (0, 0, 0, 0)

    def speed(self, app: str, job: Job) -> float:
        """Of a job with what it has: its GPUs over the slowdown of what they span."""
        slots = self.slots(app, job)
        return self.size(app, job) / slowdown_factor(job.slowdown, self._packed.span_of(slots)) if slots else 0.0

    def best(self, app: str, job: Job) -> Option | None:
        """The GPUs that make a job fastest, the fewest of those; None if none make it faster."""
        slots = self.slots(app, job)
        if slots:
            return _best(job, self.size(app, job), self.speed(app, job), self._packed.reach(slots))
        reach = self._packed.reach()
        if reach != self._fresh_reach:
            self._fresh, self._fresh_reach = {}, reach
        key = (job.min_gpus, job.max_gpus, job.step_gpus, job.slowdown)
        if key not in self._fresh:
            self._fresh[key] = _best(job, 0, 0.0, reach)
        return self._fresh[key]

    def next_step(self, app: str, job: Job) -> Option | None:
        """The next step that a job can use; None if there is none."""
        now = self.size(app, job)
        larger = next_size(job, now)
        if larger is None:
            return None
        span = span_within(self._packed.reach(self.slots(app, job)), larger - now)
        return None if span is None else _option(job, now, larger, span)


def _best(job: Job, now: int, speed: float, reach: Reach) -> Option | None:
    """Within each span more GPUs are faster: only the largest size within each matters."""
    best = None
    for level, there in enumerate(reach):
        size = largest_size(job, now + there)
        if size > now:
            option = _option(job, now, size, Span(level))
            if option.speed > speed:
                best, speed = option, option.speed
    return best


def _option(job: Job, now: int, size: int, span: Span) -> Option:
    slowdown = slowdown_factor(job.slowdown, span)
    return Option(size - now, size / slowdown, slowdown)
