"""GPU models of different speed: which GPUs of a set an application uses, and how fast its jobs are there.

A gang is as fast as its slowest GPU. An application uses the GPUs of its fastest models, down to some model; all its
jobs run as on the slowest of those; slower GPUs stay idle. It takes whichever limit is best: with none, slow GPUs would
hold up fast ones.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property

from yarn_plugin.model import gpus
from yarn_plugin.model.gpus import Job, speed_on

Models = tuple[int, ...]
"""Kinds of models by rank, the fastest is 0: the models of one rank are as fast as each other for every job."""

ALIKE: Models = (0,)
"""Where models do not matter."""


class Speeds:
    """How fast each job is on each model: 1 where its profile names no speed.

    Models are ranked by the work that is done on one in a second, if all jobs run on one.
    """

    def __init__(self, jobs: Sequence[Job]) -> None:
        self._jobs = tuple(jobs) if any(job.speeds for job in jobs) else ()
        self._common: dict[Models, float | None] = {}

    @property
    def matter(self) -> bool:
        """Whether any job names a speed."""
        return bool(self._jobs)

    @cached_property
    def _ranks(self) -> dict[str, int]:
        """The rank of each model that a job names, and of "" for all others."""
        models = {"", *(model for job in self._jobs for model, _ in job.speeds)}
        ranked = sorted({self._order(model) for model in models})
        return {model: ranked.index(self._order(model)) for model in models}

    def _order(self, model: str) -> tuple[float, tuple[float, ...]]:
        """The time of all work on GPUs of a model, and the speed of each job."""
        speeds = tuple(speed_on(job.speeds, model) for job in self._jobs)
        work_s = sum(
            job.iterations_left * job.iteration_s / speed for job, speed in zip(self._jobs, speeds, strict=True)
        )
        return work_s, tuple(-speed for speed in speeds)

    def rank(self, model: str) -> int:
        """The rank of a model."""
        return self._ranks.get(model, self._ranks[""]) if self._jobs else 0

    def limits(self, ranks: Iterable[int]) -> list[Models]:
        """What may be used of GPUs of these ranks: those of the fastest, of the two fastest, and so on."""
        present = sorted(set(ranks))
        return [tuple(present[: count + 1]) for count in range(len(present))] or [ALIKE]

    def of(self, job: Job, used: Models) -> float:
        """How fast a job is if it may run on any of these."""
        return self._slowest(job.speeds, used)

    def common(self, used: Models) -> float | None:
        """The speed of every job there, if it is the same for all."""
        if used not in self._common:
            speeds = {self._slowest(profile, used) for profile in {job.speeds for job in self._jobs}}
            self._common[used] = speeds.pop() if len(speeds) == 1 else None
        return self._common[used]

    def _slowest(self, profile: gpus.Speeds, used: Models) -> float:
        return min([speed_on(profile, model) for model, rank in self._ranks.items() if rank in used], default=1.0)

    def scaled(self, jobs: Iterable[Job], used: Models) -> tuple[Job, ...]:
        """Jobs with the time of an iteration that they take there."""
        return tuple(replace(job, iteration_s=job.iteration_s / self.of(job, used), speeds=()) for job in jobs)
