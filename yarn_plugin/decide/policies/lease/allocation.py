"""The GPUs that a policy has given to jobs so far, within one decision."""

from collections.abc import Iterable

from yarn_plugin.decide.mechanisms.gang_placement import Choice, ListedGpus, PackedGpus, combined
from yarn_plugin.decide.policies.lease.gangs import largest_size, next_size
from yarn_plugin.decide.policies.leasing import Assignment
from yarn_plugin.model.gpus import Job


class Allocation:
    """Gives free GPUs to jobs, in sizes that they can use. `gpus`: the free GPUs, which are taken from it."""

    def __init__(self, gpus: ListedGpus | PackedGpus) -> None:
        self._gpus = gpus
        self._given: dict[tuple[str, str], Choice] = {}

    @property
    def free(self) -> int:
        """How many GPUs are free."""
        return self._gpus.total

    def size(self, app: str, job: Job) -> int:
        """How many GPUs a job has: held and given."""
        return _count(job.held) + _count(self._given.get((app, job.id), ()))

    def slots(self, app: str, job: Job) -> set[str]:
        """The slots in which a job has GPUs."""
        return {slot for slot, _ in job.held} | {slot for slot, _ in self._given.get((app, job.id), ())}

    def fill(self, app: str, job: Job) -> int:
        """Give a job as many GPUs as it can use and there are; how many it got."""
        now = self.size(app, job)
        return self.give(app, job, max(largest_size(job, now + self.free) - now, 0))

    def step(self, app: str, job: Job) -> int:
        """Give a job the next step that it can use, if there are as many GPUs; how many it got."""
        now = self.size(app, job)
        larger = next_size(job, now)
        return self.give(app, job, larger - now) if larger is not None and larger - now <= self.free else 0

    def give(self, app: str, job: Job, gpus: int) -> int:
        """Give a job so many GPUs, at most `free`; how many it got."""
        if gpus:
            taken = self._gpus.take(gpus, self.slots(app, job))
            self._given.setdefault((app, job.id), []).extend(taken)
        return gpus

    def assignments(self) -> tuple[Assignment, ...]:
        """What was given, sorted by application and job."""
        return tuple(Assignment(app, job, combined(self._given[app, job])) for app, job in sorted(self._given))


def _count(gpus: Iterable[tuple[str, int]]) -> int:
    return sum([number for _, number in gpus])
