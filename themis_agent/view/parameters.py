"""What parameters do: importances, parallel coordinates, slices and a contour, of the trials that have reported."""

import json
import math
import warnings
from collections.abc import Iterator

from themis_agent.agent.state import TrialState
from themis_agent.dimensions import AnyDimension, CategoricalDimension
from themis_agent.local.progress import status
from themis_agent.view.snapshot import Snapshot
from yarn_plugin.report import (
    Axis,
    BarChart,
    Key,
    ParallelChart,
    PlaneChart,
    Point,
    SideBySide,
    Strand,
    Text,
    axis_of,
)
from yarn_plugin.report.markup import Block

MAX_LINES = 300
"""Trials that are drawn: the best."""

MAX_SLICES = 8
"""Parameters with a slice: the first, or the most important ones."""

MIN_TRIALS = 4
"""With fewer, importances say nothing."""


def parameters(shown: Snapshot) -> Iterator[Block]:
    """The section."""
    trials = [one for one in shown.ranked() if one.loss is not None and one.fate != "failed"][:MAX_LINES]
    if len(trials) < 2:
        yield Text("Not enough trials have reported yet.", "muted")
        return
    important = importances(shown, trials)
    names = sorted(shown.app.space, key=lambda name: -important.get(name, 0.0))
    if important:
        bars = tuple((name, share) for name, share in important.items())
        yield BarChart("Importance of parameters for being among the best tenth", "share of 1", bars, digits=2)
    left_out = [name for name in shown.app.space if name not in important]
    if important and left_out:
        yield Text(f"No importance of {', '.join(left_out)}, as not all trials have it.", "muted")
    yield _parallel(shown, trials, names)
    slices = [_slice(shown, trials, name) for name in names[:MAX_SLICES]]
    for number in range(0, len(slices), 2):
        yield SideBySide(tuple(slices[number : number + 2]))
    if len(names) > 1:
        yield from _contour(shown, trials, names[0], names[1])
    yield Text("Each trial counts with its last metric, also one that was stopped early.", "muted")


def importances(shown: Snapshot, trials: list[TrialState]) -> dict[str, float]:
    """The importance of each parameter that all trials have, the largest first (PED-ANOVA: Watanabe, Bansal and Hutter,
    IJCAI 2023); none if there are too few trials, or all have the same metric."""
    if len(trials) < MIN_TRIALS or len({one.loss for one in trials}) < 2:
        return {}
    # Optuna takes most of a second to import.
    import optuna

    from themis_agent.parameter_draws import distributions

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        study = optuna.create_study()
        for trial in trials:
            known = _known(shown, trial)
            drawn_from = distributions(shown.app.space, known)
            study.add_trial(optuna.create_trial(params=known, distributions=drawn_from, value=trial.loss))
        evaluator = optuna.importance.PedAnovaImportanceEvaluator()
        everywhere = [name for name in shown.app.space if all(name in values(one) for one in trials)]
        try:
            found = optuna.importance.get_param_importances(study, evaluator=evaluator, params=everywhere)
        except ValueError:
            return {}
    return {name: share for name, share in found.items() if not math.isnan(share)}


def values(trial: TrialState) -> dict[str, bool | int | float | str]:
    """The parameters of a trial."""
    found: dict[str, bool | int | float | str] = json.loads(trial.parameters or "{}")
    return found


def _known(shown: Snapshot, trial: TrialState) -> dict[str, bool | int | float | str]:
    return {name: value for name, value in values(trial).items() if name in shown.app.space}


def _axis(name: str, dimension: AnyDimension) -> Axis:
    if isinstance(dimension, CategoricalDimension):
        return Axis(name, choices=tuple(map(str, dimension.choices)))
    return Axis(name, float(dimension.low), float(dimension.high), dimension.log)


def _metric_axis(shown: Snapshot, trials: list[TrialState]) -> Axis:
    return axis_of(shown.app.metric, [_metric(shown, one) for one in trials])


def _metric(shown: Snapshot, trial: TrialState) -> float:
    return shown.state.metric(trial) or 0.0


def _parallel(shown: Snapshot, trials: list[TrialState], names: list[str]) -> ParallelChart:
    best = shown.state.best
    axes = (*(_axis(name, shown.app.space[name]) for name in names), _metric_axis(shown, trials))
    strands = []
    for place, trial in enumerate(trials):
        known = values(trial)
        strands.append(
            Strand(
                trial.id,
                (*(known.get(name) for name in names), _metric(shown, trial)),
                1.0 - place / len(trials),
                best is not None and trial.id == best.id,
                status(trial),
            )
        )
    legend = (Key("the best", "line", "c3"), Key("others: the better, the stronger", "line", "c0"))
    return ParallelChart("Parameters and metric of each trial", axes, tuple(strands), legend)


def _slice(shown: Snapshot, trials: list[TrialState], name: str) -> PlaneChart:
    best = shown.state.best
    points = tuple(
        Point(
            one.id,
            values(one)[name],
            _metric(shown, one),
            tone=3 if best is not None and one.id == best.id else 0,
            bold=best is not None and one.id == best.id,
            detail=status(one),
        )
        for one in trials
        if name in values(one)
    )
    axis = _axis(name, shown.app.space[name])
    return PlaneChart(f"{shown.app.metric} over {name}", axis, _metric_axis(shown, trials), points)


def _contour(shown: Snapshot, trials: list[TrialState], first: str, second: str) -> Iterator[Block]:
    best = shown.state.best
    both = [one for one in trials if first in values(one) and second in values(one)]
    points = tuple(
        Point(
            one.id,
            values(one)[first],
            values(one)[second],
            place / max(len(both) - 1, 1),
            3 if best is not None and one.id == best.id else 0,
            best is not None and one.id == best.id,
            f"{shown.app.metric} {_metric(shown, one):.4g}",
        )
        for place, one in enumerate(both)
    )
    if len(points) >= MIN_TRIALS:
        x, y = _axis(first, shown.app.space[first]), _axis(second, shown.app.space[second])
        legend = (Key("better trials are near", "block", "c2"), Key("the best", "block", "c3"))
        title = f"{shown.app.metric} over {first} and {second}, by rank"
        yield PlaneChart(title, x, y, points, shaded=True, legend=legend, width=1100.0, height=300.0)
