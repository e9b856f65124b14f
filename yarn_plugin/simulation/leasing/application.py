"""The interface of training applications in virtual time: a package's own pure core, asked by the simulator.

The simulator runs the jobs: it knows their true speed and what they have done. The application decides: it answers the
questions of the pool's controller, divides the GPUs that it holds among its jobs, and says when a job has run enough.
A package offers its applications under the entry-point group `yarn_plugin.simulated_training`: a name, and an object
that satisfies `TrainingKind`. An application keeps this contract:

1. Time and progress come as arguments, randomness from the seed: no clock, no threads.
2. The same calls in the same order give the same answers.
3. `goals` shrinks to nothing in the end, or the simulation does not end.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Any, Protocol

from yarn_plugin.errors import BadInputError
from yarn_plugin.model.gpus import Gpus, Machine
from yarn_plugin.simulation.leasing.job import Profile
from yarn_plugin.validation import one_of

GROUP = "yarn_plugin.simulated_training"


@dataclass(frozen=True, slots=True)
class JobProgress:
    """A job as its application can observe it. `done`: iterations. `attained_gpu_s`: GPU seconds so far."""

    job: str
    done: float
    attained_gpu_s: float
    held: Gpus


@dataclass(frozen=True, slots=True)
class Goal:
    """A job may run until it has done `iterations` in all; it is sped up as `profile` says in truth."""

    job: str
    iterations: float
    profile: Profile


class TrainingApplication(Protocol):
    """An application from its arrival to its end."""

    def goals(self) -> Sequence[Goal]:
        """The jobs that may run now. Without any, the application has finished."""
        ...

    def reached(self, at: float, job: str) -> None:
        """A job has done its goal's iterations; `goals` is read again afterwards."""
        ...

    def answer(self, at: float, question: Any, jobs: Sequence[JobProgress]) -> object | None:
        """The answer to a message of the pool's controller (an `EstimateRequest` or a `GpuOffer`); None: no answer.

        `jobs`: those of `goals`, in the same order; the same object as last time if nothing has changed.
        """
        ...

    def divide(self, at: float, held: tuple[Machine, ...], jobs: Sequence[JobProgress]) -> Sequence[tuple[str, Gpus]]:
        """Which of the GPUs that it holds each job runs on; jobs left out wait."""
        ...


@dataclass(frozen=True, slots=True)
class Beliefs:
    """How far an application's estimates are from the truth.

    `error`: its numbers of iterations and its slowdowns are off by up to this fraction, drawn once per application
    (Themis, thesis, section 3.6.3, error analysis). `lie`: by which fraction it exaggerates slowdowns in its bids
    (section 3.6.3, truth-telling).
    """

    error: float = 0.0
    lie: float = 0.0


class TrainingKind(Protocol):
    """Makes applications. `gpus`: of the pool. `app`: as the workload describes it."""

    def application(
        self, app: Any, machines: tuple[Machine, ...], arrived_at: float, beliefs: Beliefs, seed: str
    ) -> TrainingApplication:
        """An application that arrives at a time, on a pool with these machines."""
        ...


def installed_kind(name: str = "themis") -> TrainingKind:
    """The kind of training applications with this name.

    Raises:
        BadInputError: no installed package offers it.
    """
    points = {point.name: point for point in entry_points(group=GROUP)}
    if name not in points:
        raise BadInputError(
            "simulated application", name, f"not installed; {one_of(points, name) if points else 'none is'}"
        )
    kind: TrainingKind = points[name].load()
    return kind
