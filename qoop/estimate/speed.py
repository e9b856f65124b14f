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
    """What runs of a kind take: `start_s`, plus `factor` times their seconds at nominal speed."""

    start_s: float = 0.0
    factor: float = 1.0

    def seconds(self, nominal: float) -> float:
        """What a run takes whose time at nominal speed is `nominal`."""
        return self.start_s + self.factor * nominal


NOMINAL = Line()


@dataclass(frozen=True, slots=True)
class Speed:
    """How long runs of each kind take, learned from so many `runs`."""

    cold: Line = NOMINAL
    warm: Line = NOMINAL
    runs: int = 0

    def of(self, is_cold: bool) -> Line:
        """The line of a kind of runs."""
        return self.cold if is_cold else self.warm


COLD_FACTOR, PRIOR_RUNS = 4.0, 0.5
"""The prior of the factor of cold runs, and how many runs it weighs as much as.

Runs of one length do not show how much of their time is the start, so a fit needs a prior.
"""

FACTORS: tuple[float, ...] = tuple(COLD_FACTOR * 1.3**step for step in range(-8, 12))
"""The factors that the fit of cold runs tries."""


def speed_of(runs: Iterable[TimedRun]) -> Speed:
    """The speed of a machine: of warm runs, the median factor; of cold ones, the line that fits them best.

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
    """The line with the least error that passes through a run, as a least absolute deviation does."""
    lines = {Line(max(run.seconds - factor * run.nominal, 0.0), factor) for factor in FACTORS for run in runs}
    return min(sorted(lines, key=lambda line: line.factor), key=lambda line: _error(line, runs))


def _error(line: Line, runs: list[TimedRun]) -> float:
    """The sum of the absolute errors of a line, in logarithms, and of its factor's distance from the prior."""
    prior = PRIOR_RUNS * abs(log(line.factor / COLD_FACTOR))
    return prior + sum(abs(log(run.seconds / line.seconds(run.nominal))) for run in runs)


def at_speed(model: CostModel, factor: float) -> CostModel:
    """The model of a machine on which all takes longer by a factor: plans are as they were to each other."""
    assert set(SECONDS) <= {field.name for field in fields(CostModel)}
    return replace(model, **{name: getattr(model, name) * factor for name in SECONDS})
