"""A simulation that has run, of whatever kind, and how several of them are drawn side by side."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from yarn_plugin.quantities import number
from yarn_plugin.report import Distribution, Sample
from yarn_plugin.report.figure import COLOURS
from yarn_plugin.simulation.outcome import Outcome, quantile

MAX_POINTS = 400
"""Points in a chart over time."""

SHOWN_QUANTILE = 0.99
"""Larger values are shown as this quantile in a distribution, as outliers would squeeze the rest of it."""


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


def thinned(points: Iterable[tuple[float, float]], until: float) -> tuple[tuple[float, float], ...]:
    """Points of a chart over time; of more than `MAX_POINTS`, the largest value of an interval each."""
    every = list(points)
    width = until / MAX_POINTS if len(every) > MAX_POINTS else 0.0
    largest: dict[float, float] = {}
    for at, value in every:
        start = at // width * width if width else at
        largest[start] = max(largest.get(start, value), value)
    return tuple(largest.items())


def distribution(
    title: str,
    unit: str,
    values: Mapping[str, Sequence[float]],
    goal: tuple[float, str] | None = None,
    is_clipped: bool = False,
) -> Distribution:
    """How the values of each series are distributed."""
    every = [value for of_one in values.values() for value in of_one]
    if is_clipped and len(every) > 1 / (1 - SHOWN_QUANTILE):
        highest = quantile(every, SHOWN_QUANTILE)
        title = f"{title} (the top 1 % is clipped to {number(highest)})"
        values = {name: [min(value, highest) for value in of_one] for name, of_one in values.items()}
    samples = tuple(Sample(name, tuple(of_one), colour(place)) for place, (name, of_one) in enumerate(values.items()))
    return Distribution(title, unit, samples, goal)
