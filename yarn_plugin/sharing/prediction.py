"""How well slowdowns are predicted, over random splits of known pairs: errors, and what admission by them admits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from yarn_plugin.decide.mechanisms.interference import (
    REGRESSIONS,
    Admission,
    Interference,
    Pair,
    admissible,
    fit,
    is_installed,
    predict,
    score,
)

LEVELS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
"""Confidence: the part of the admitted pairs that is to be within the limit."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """By level, what was admitted, all splits together; by regression, the mean relative error of the time of a step,
    of pairs of kinds that were seen with others (`seen`), and of kinds that were not (`unseen`); how often each
    regression was chosen."""

    admissions: Mapping[float, Admission]
    seen: Mapping[str, float]
    median: Mapping[str, float]
    unseen: Mapping[str, float]
    chosen: Mapping[str, int]


__all__ = ["LEVELS", "Prediction", "is_installed", "over_splits", "with_predictions"]


def with_predictions(known: Interference, limit: float, confidence: float) -> Interference:
    """What is known, with predictions of the other pairs that are admitted: so that at most 1 - `confidence` of these
    exceed the limit.

    Raises:
        ValueError: fewer than two pairs are known.
    """
    actual = known.slowdowns()
    fitted = fit(known.kinds, actual, limit)
    wanted = [(a, b) for a in known.kinds for b in known.kinds if (a, b) not in actual]
    # A pair of which one direction was measured is judged by that one too.
    found = {**fitted.predicts(wanted), **actual}
    at_most = fitted.admits(1 - confidence)
    admitted = [Pair(*pair, found[pair]) for pair in wanted if score(found, pair) <= at_most]
    return Interference(known.kinds, (*known.pairs, *admitted))


def over_splits(
    known: Interference, limit: float = 0.2, splits: int = 20, levels: Sequence[float] = LEVELS, held_out: float = 0.2
) -> Prediction:
    """Hold out a part of the pairs, learn from the others (which choose the regression and the threshold), predict."""
    actual = known.slowdowns()
    both = sorted({(min(pair), max(pair)) for pair in actual})
    admissions = {level: Admission() for level in levels}
    chosen = {one.name: 0 for one in REGRESSIONS}
    errors: dict[str, list[float]] = {one.name: [] for one in REGRESSIONS}
    for seed in range(splits):
        order = np.random.default_rng(seed).permutation(len(both))
        held = {both[index] for index in order[: int(len(both) * held_out)]}
        learned = {pair: value for pair, value in actual.items() if (min(pair), max(pair)) not in held}
        wanted = [pair for pair in actual if (min(pair), max(pair)) in held]
        fitted = fit(known.kinds, learned, limit, seed)
        found = fitted.predicts(wanted)
        for level in levels:
            admissions[level] += admissible(actual, found, limit, fitted.admits(1 - level))
        chosen[fitted.regression] += 1
        for one in REGRESSIONS:
            found = predict(known.kinds, learned, one)(wanted)
            errors[one.name] += [abs(found[pair] - actual[pair]) / (1 + actual[pair]) for pair in found]
    return Prediction(
        admissions,
        {name: float(np.mean(values)) for name, values in errors.items()},
        {name: float(np.median(values)) for name, values in errors.items()},
        {one.name: _of_unseen(known, one.name) for one in REGRESSIONS},
        chosen,
    )


def _of_unseen(known: Interference, name: str) -> float:
    """The error of a kind of which no pair is known, where others of its family are, over all kinds."""
    actual, one = known.slowdowns(), next(one for one in REGRESSIONS if one.name == name)
    errors: list[float] = []
    for kind in known.kinds:
        learned = {pair: value for pair, value in actual.items() if kind not in pair}
        wanted = [pair for pair in actual if pair[0] == kind]
        found = predict(known.kinds, learned, one)(wanted)
        errors += [abs(found[pair] - actual[pair]) / (1 + actual[pair]) for pair in found]
    return float(np.mean(errors)) if errors else float("nan")
