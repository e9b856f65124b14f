"""What the thesis says its figures show, as numbers that simulations have or have not."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Literal

from yarn_plugin.simulation.themis_figures import plan
from yarn_plugin.simulation.themis_figures.case import LIAR, Case
from yarn_plugin.simulation.themis_figures.intervals import Interval, interval
from yarn_plugin.simulation.themis_figures.record import Record

Results = Mapping[Case, Record]
Verdict = Literal["agrees", "not decided", "disagrees"]
INFINITE = math.inf


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim of the thesis. `paper`: the value that it states, and where. `low`, `high`: the effect is as claimed in
    sign or shape between these. `effects`: of each seed; `is_ratio`: they are ratios."""

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


Effect = Callable[[Callable[[Case], Record], Case], float]
"""The effect of one seed: given the results, and a case of Themis from which the others differ in a field or two."""


def _ratio(field: Callable[[Record], float], other: Mapping[str, object], base: Mapping[str, object]) -> Effect:
    """The field with these fields of the case, divided by the field with those."""

    def effect(result: Callable[[Case], Record], case: Case) -> float:
        return field(result(replace(case, **other))) / field(result(replace(case, **base)))  # type: ignore[arg-type]

    return effect


def _max_rho(record: Record) -> float:
    return record.max_rho


def _gpu_time(record: Record) -> float:
    return record.figures.gpu_time


def _score(record: Record) -> float:
    return record.figures.placement_score


def _best_other(field: Callable[[Record], float], best: Callable[..., float], **fields: object) -> Effect:
    """The best baseline's field, divided by that of Themis."""

    def effect(result: Callable[[Case], Record], case: Case) -> float:
        at = replace(case, **fields)  # type: ignore[arg-type]
        return best(field(result(replace(at, policy=one))) for one in plan.BASELINES) / field(result(at))

    return effect


def _spread_of_gpu_time(result: Callable[[Case], Record], case: Case) -> float:
    times = [_gpu_time(result(replace(case, policy=policy))) for policy in plan.POLICIES]
    return max(times) / min(times) - 1


def _gain_grows(field: Callable[[Record], float]) -> Effect:
    """The mean over the baselines of their disadvantage with network-intensive applications alone, divided by that
    without any."""

    def effect(result: Callable[[Case], Record], case: Case) -> float:
        def gain(share: float) -> float:
            at = replace(case, network_share=share)
            logs = [math.log(field(result(replace(at, policy=one))) / field(result(at))) for one in plan.BASELINES]
            return math.exp(sum(logs) / len(logs))

        return gain(1.0) / gain(0.0)

    return effect


def _liar(result: Callable[[Case], Record], case: Case) -> float:
    lying, honest = (result(replace(case, lie=lie)).apps[LIAR].time_s for lie in (plan.LIES[-1], 0.0))
    return lying / honest


def _truthful(result: Callable[[Case], Record], case: Case) -> float:
    def mean(lie: float) -> float:
        times = [app.time_s for name, app in result(replace(case, lie=lie)).apps.items() if name != LIAR]
        return sum(times) / len(times)

    return mean(plan.LIES[-1]) / mean(0.0)


def _best_f(result: Callable[[Case], Record], case: Case) -> float:
    return min(plan.FS, key=lambda f: _max_rho(result(replace(case, f=f))))


def rho_of_short(result: Callable[[Case], Record], case: Case) -> float:
    """The median rho of the shorter half of the applications under Tiresias, divided by that under Themis."""
    themis, tiresias = result(case).apps, result(replace(case, policy="tiresias")).apps
    both = themis.keys() & tiresias.keys()
    middle = median(themis[name].gpu_s for name in both)
    short = [name for name in both if themis[name].gpu_s <= middle]
    return median(tiresias[name].rho for name in short) / median(themis[name].rho for name in short)


@dataclass(frozen=True, slots=True)
class _Stated:
    figure: str
    text: str
    paper: str
    low: float
    high: float
    effect: Effect
    is_ratio: bool = True


def _stated() -> Sequence[_Stated]:
    """All claims, in the order of the figures."""
    found = []
    for figure in ("3.9", "3.10"):
        found += [
            _Stated(figure, f"max rho, {one} / Themis", "2.2 to 3.25 (3.6.2)", 1.0, INFINITE,
                    _ratio(_max_rho, {"policy": one}, {}))
            for one in plan.BASELINES
        ]  # fmt: skip
    short, long_ = {"lease_s": plan.LEASES_S[0]}, {"lease_s": plan.LEASES_S[-1]}
    return [
        *found,
        _Stated("3.11", "GPU time, most / least of all policies - 1", "similar (3.6.2)", -1.0, 0.05,
                _spread_of_gpu_time, is_ratio=False),
        _Stated("3.12", "GPU time, gandiva / Themis", "1.048 (3.6.2)", 1.0, INFINITE,
                _ratio(_gpu_time, {"policy": "gandiva"}, {})),
        _Stated("3.12", "GPU time, slaq / Themis", "about 2.5 or 3.5 (\"outperforms by 250%\", 3.6.2)", 1.0, INFINITE,
                _ratio(_gpu_time, {"policy": "slaq"}, {})),
        _Stated("3.13", "placement score, best other / Themis", "Themis best, below 1 (3.6.2.1)", 0.0, 1.0 + 1e-9,
                _best_other(_score, max)),
        *(_Stated("3.14", f"max rho at {part}x contention, best other / Themis",
                  "above 1; SRSF close (3.6.2.2)", 1.0, INFINITE, _best_other(_max_rho, min, part=part))
          for part in plan.PARTS),
        _Stated("3.15", "max rho, all network-intensive, best other / Themis", "1.24 to 1.77 (3.6.3)", 1.0, INFINITE,
                _best_other(_max_rho, min, network_share=1.0)),
        _Stated("3.16", "GPU time, all network-intensive, gandiva / Themis", "1.081 (3.6.3)", 1.0, INFINITE,
                _ratio(_gpu_time, {"policy": "gandiva", "network_share": 1.0}, {"network_share": 1.0})),
        _Stated("3.16", "mean gain in GPU time, all / none network-intensive", "grows, above 1 (3.6.3)", 1.0, INFINITE,
                _gain_grows(_gpu_time)),
        _Stated("3.17", "max rho, errors up to 20% / none", "1.108 (3.6.3)", 0.0, 1.2,
                _ratio(_max_rho, {"error": plan.ERRORS[-1]}, {"error": 0.0})),
        _Stated("3.18", "time of the liar, X = 100% / honest", "above 1: worse beyond X = 34% (3.6.3)", 1.0, INFINITE,
                _liar),
        _Stated("3.18", "mean time of the others, X = 100% / honest", "below 1: better (3.6.3)", 0.0, 1.0, _truthful),
        _Stated("3.19", "f with the lowest max rho, lease 10 min", "0.8 (3.6.4)", 0.5, 0.99, _best_f, is_ratio=False),
        _Stated("3.19", "max rho, f = 0 / f = 0.8", "above 1 (3.6.4)", 1.0, INFINITE,
                _ratio(_max_rho, {"f": 0.0}, {})),
        _Stated("3.19", "max rho, f = 1 / f = 0.8", "about 1.5 (3.6.4)", 1.0, INFINITE,
                _ratio(_max_rho, {"f": 1.0}, {})),
        _Stated("3.19", "max rho, lease 40 min / 10 min", "above 1 (3.6.4)", 1.0, INFINITE,
                _ratio(_max_rho, long_, short)),
        _Stated("3.19", "GPU time, f = 1 / f = 0", "above 1 (3.6.4)", 1.0, INFINITE,
                _ratio(_gpu_time, {"f": 1.0}, {"f": 0.0})),
        _Stated("3.19", "GPU time, lease 10 min / 40 min", "above 1 (3.6.4)", 1.0, INFINITE,
                _ratio(_gpu_time, short, long_)),
        _Stated("table 3.5", "median rho of short applications, tiresias / Themis",
                "about 1.6: 1.9 / 1.2 (table 3.5)", 1.0, INFINITE, rho_of_short),
    ]  # fmt: skip


def claims(results: Results, figures: Sequence[str], seeds: Sequence[int], size: str) -> list[Claim]:
    """The claims of these figures."""
    found = []
    for one in _stated():
        if one.figure in figures:
            effects = tuple(one.effect(results.__getitem__, plan.base(one.figure, seed, size)) for seed in seeds)
            found.append(Claim(one.figure, one.text, one.paper, one.low, one.high, effects, one.is_ratio))
    return found
