"""A simulation that has run, and its colour beside others."""

from dataclasses import dataclass

from yarn_plugin.report.figure import COLOURS
from yarn_plugin.simulation.outcome import Outcome


@dataclass(frozen=True, slots=True)
class Result:
    """A simulation of a workload. `policy`: None: as in the cluster file. `wall_s`: how long it took."""

    policy: str | None
    seed: int
    outcome: Outcome
    wall_s: float

    @property
    def name(self) -> str:
        """What tells it from others of the workload."""
        return f"{self.policy}, seed {self.seed}"


def colour(place: int) -> int | None:
    """Of a series, by its place; None: grey."""
    return place if place < COLOURS else None
