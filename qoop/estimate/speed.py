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
class Line:
    """Runs take `start_s`, and `factor` times as long as at nominal speed."""

    start_s: float = 0.0
    factor: float = 1.0

    def seconds(self, nominal: float) -> float:
        """What a run takes that takes so long at nominal speed."""
        return self.start_s + self.factor * nominal


NOMINAL = Line()


@dataclass(frozen=True, slots=True)
class Speed:
    """What runs of each kind take. `runs`: from how many that is known."""

    cold: Line = NOMINAL
    warm: Line = NOMINAL
    runs: int = 0

    def of(self, is_cold: bool) -> Line:
        """That of a kind of runs."""
        return self.cold if is_cold else self.warm


COLD_FACTOR, TRUST = 4.0, 0.5
"""The factor of cold runs before any was run, and how many runs weigh as much as that.

How much of their time is a start shows only once runs of different lengths have been seen.
"""

FACTORS: tuple[float, ...] = tuple(COLD_FACTOR * 1.3**step for step in range(-8, 12))
"""The factors that are compared for cold runs."""


def speed_of(runs: Iterable[TimedRun]) -> Speed:
    """The speed at which half of the runs were faster than expected, and half slower.

    Without runs of a kind, its factor is that of the other kind.
    """
    known = [run for run in runs if run.seconds > 0 and run.nominal > 0]
    cold, warm = ([run for run in known if run.cold == kind] for kind in (True, False))
    factor = _ratio(warm) if warm else None
    line = _line(cold) if cold else Line(0.0, factor or 1.0)
    return Speed(line, Line(0.0, line.factor if factor is None else factor), len(known))


def _ratio(runs: list[TimedRun]) -> float:
    return min(max(exp(median(log(run.seconds / run.nominal) for run in runs)), MIN_FACTOR), MAX_FACTOR)


def _line(runs: list[TimedRun]) -> Line:
    """The start and the factor from which runs are off by the least factors, summed up."""
    lines = {Line(max(run.seconds - factor * run.nominal, 0.0), factor) for factor in FACTORS for run in runs}
    return min(sorted(lines, key=lambda line: line.factor), key=lambda line: _error(line, runs))


def _error(line: Line, runs: list[TimedRun]) -> float:
    doubt = TRUST * abs(log(line.factor / COLD_FACTOR))
    return doubt + sum(abs(log(run.seconds / line.seconds(run.nominal))) for run in runs)


def at_speed(model: CostModel, factor: float) -> CostModel:
    """The model of a machine on which all takes longer by a factor: plans are as they were to each other."""
    assert set(SECONDS) <= {field.name for field in fields(CostModel)}
    return replace(model, **{name: getattr(model, name) * factor for name in SECONDS})
