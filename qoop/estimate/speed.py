"""How much longer queries take on a machine than at nominal speed, learned from their runs."""

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from math import exp, log
from statistics import median

from qoop.estimate.cost import CostModel

MIN_FACTOR, MAX_FACTOR = 0.1, 100.0
"""Limits of a factor: others are no speed of a machine."""

SECONDS: tuple[str, ...] = (
    *("scan_row", "scan_value", "file_seconds", "probe_row", "build_row", "result_row", "group_row"),
    *("shuffle_row", "shuffle_byte", "read_byte", "write_byte"),
    *("stage_seconds", "exchange_seconds", "concurrent_seconds"),
)
"""The costs of the model that are times."""


@dataclass(frozen=True, slots=True)
class TimedRun:
    """A run to its end: the seconds that its first plan takes at nominal speed, and those that it took.

    `cold`: it was the first of its application, in which Spark compiles code and executors start.
    """

    nominal: float
    seconds: float
    cold: bool


@dataclass(frozen=True, slots=True)
class Speed:
    """`cold`, `warm`: by how much runs take longer than at nominal speed. `runs`: from how many that is known."""

    cold: float = 1.0
    warm: float = 1.0
    runs: int = 0

    def factor(self, is_cold: bool) -> float:
        """The factor of a run."""
        return self.cold if is_cold else self.warm


def speed_of(runs: Iterable[TimedRun]) -> Speed:
    """The speed at which half of the runs were faster than expected, and half slower.

    Without runs of a kind, its factor is that of the other kind.
    """
    known = [(run.cold, log(run.seconds / run.nominal)) for run in runs if run.seconds > 0 and run.nominal > 0]
    both = {kind: [ratio for cold, ratio in known if cold == kind] for kind in (True, False)}
    cold, warm = (_factor(both[kind] or both[not kind]) for kind in (True, False))
    return Speed(cold, warm, len(known))


def _factor(ratios: list[float]) -> float:
    return min(max(exp(median(ratios)), MIN_FACTOR), MAX_FACTOR) if ratios else 1.0


def at_speed(model: CostModel, factor: float) -> CostModel:
    """The model of a machine on which all takes longer by a factor: plans are as they were to each other."""
    assert set(SECONDS) <= {field.name for field in fields(CostModel)}
    return replace(model, **{name: getattr(model, name) * factor for name in SECONDS})
