"""What a paper says its figures show, as numbers that simulations have or have not."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Literal

from yarn_plugin.simulation.figures import LATER_S
from yarn_plugin.simulation.paper_figures.intervals import Interval, interval
from yarn_plugin.simulation.paper_figures.record import Record
from yarn_plugin.simulation.paper_figures.specification import (
    Case,
    ClaimSection,
    Measure,
    Paper,
    Pick,
    Point,
    Value,
    moved,
)
from yarn_plugin.simulation.paper_figures.training_case import LIAR

Results = Mapping[Case, Record]
Verdict = Literal["agrees", "not decided", "disagrees"]


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim with what was measured. `paper`: the value that it states, and where. `low`, `high`: the effect is as
    claimed in sign or shape between these. `effects`: of each seed; `is_ratio`: they are ratios."""

    figure: str
    text: str
    paper: str
    low: float
    high: float
    effects: tuple[float, ...]
    is_ratio: bool = True

    @property
    def measured(self) -> Interval:
        """The mean effect and its interval; of ratios, by their logarithms."""
        if not self.is_ratio:
            return interval(self.effects)
        logs = interval([math.log(effect) for effect in self.effects])
        if logs.low is None or logs.high is None:
            return Interval(math.exp(logs.mean), None, None)
        return Interval(math.exp(logs.mean), math.exp(logs.low), math.exp(logs.high))

    @property
    def verdict(self) -> Verdict:
        """Whether the effect is as claimed: decided if there is an interval and all of it lies inside or outside."""
        one = self.measured
        if one.low is None or one.high is None:
            return "not decided"
        if self.low < one.low and one.high < self.high:
            return "agrees"
        return "disagrees" if one.high <= self.low or one.low >= self.high else "not decided"


def claims(paper: Paper, results: Results, seeds: Sequence[int], size: str) -> list[Claim]:
    """The claims of a paper, measured."""
    made = []
    for section in paper.claims:
        for each in paper.points(section.each):
            effects = tuple(
                _effect(paper, section, each, results, paper.base(section.figure, seed, size)) for seed in seeds
            )
            text = section.effect.format(**each)
            is_ratio = section.mean == "geometric"
            made.append(Claim(section.figure, text, section.paper, section.low, section.high, effects, is_ratio))
    return made


def _effect(paper: Paper, section: ClaimSection, each: Mapping[str, Value], results: Results, base: Case) -> float:
    """Of one seed."""

    def value(point: Point, pick: Pick | None) -> float:
        points = list(paper.points({**each, **point}))
        values = [measured(section.measure, results, moved(base, one), base) for one in points]
        match pick:
            case "min":
                return min(values)
            case "max":
                return max(values)
            case "argmin":
                (field,) = point
                return float(points[values.index(min(values))][field])
            case "gain":
                fixed = {name: value for name, value in points[0].items() if name != "policy"}
                beside = measured(section.measure, results, moved(base, fixed), base)
                return math.exp(fmean(math.log(value / beside) for value in values))
        (single,) = values
        return single

    over = 1.0 if section.over is None else value(section.over, section.over_pick)
    return value(section.of, section.pick) / over - section.minus


def measured(measure: Measure, results: Results, case: Case, base: Case) -> float:
    """A measure of a simulation; of some, beside that of the figure's base."""
    if measure in _BESIDE:
        return _BESIDE[measure](results[case], results[base])
    return MEASURES[measure][1](results[case])


def _max_rho(record: Record) -> float:
    return max(app["rho"] for app in record.apps.values())


def _others_s(record: Record) -> float:
    return fmean(app["time_s"] for name, app in record.apps.items() if name != LIAR)


def _rho_of_short(record: Record, base: Record) -> float:
    """The median rho of the shorter half of the applications, by the GPU time that they held in the base."""
    both = record.apps.keys() & base.apps.keys()
    middle = median(base.apps[name]["gpu_s"] for name in both)
    return median(record.apps[name]["rho"] for name in both if base.apps[name]["gpu_s"] <= middle)


def _later(record: Record, base: Record) -> float:
    """How many jobs waited over a minute longer than in the base, private clusters."""
    both = record.apps.keys() & base.apps.keys()
    return float(sum(record.apps[name]["wait_s"] - base.apps[name]["wait_s"] > LATER_S for name in both))


MEASURES: Mapping[str, tuple[str, Callable[[Record], float]]] = {
    "max_rho": ("max rho", _max_rho),
    "gpu_time": ("GPU time, GPU minutes", lambda record: record.figure("gpu_time")),
    "gpu_hours": ("GPU time, GPU hours", lambda record: record.figure("gpu_time") / 60),
    "placement_score": ("placement score", lambda record: record.figure("placement_score")),
    "liar_s": ("time of the liar, s", lambda record: record.apps[LIAR]["time_s"]),
    "others_s": ("mean time of the others, s", _others_s),
    "mean_completion_s": ("mean completion time, s", lambda record: record.figure("mean_completion_s")),
    "progress_spread": ("spread of progress", lambda record: record.figure("progress_spread")),
    "gpus_used": ("GPUs used", lambda record: record.figure("gpus_used")),
    "gpus_saved": ("GPUs saved, as a fraction", lambda record: record.figure("gpus_saved")),
    "performance": ("performance kept, as a fraction", lambda record: record.figure("performance")),
}
"""Measures of one simulation: their names in charts, and what they are."""

_BESIDE: Mapping[str, Callable[[Record, Record], float]] = {"rho_of_short": _rho_of_short, "later": _later}
