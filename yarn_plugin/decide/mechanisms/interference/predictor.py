"""Predicting how much kinds of training slow each other down from how they ran alone (OJPP, section 4.5).

As in the paper, several regressions are tried and the one with the least error is kept; the error is that of pairs that
were left out. What is predicted is the logarithm of the factor by which a step takes longer. A kind without a profile,
or of a family that no known pair has, is not predicted: it may not share a GPU until it is measured.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from yarn_plugin.decide.mechanisms.interference.admission import score, threshold
from yarn_plugin.decide.mechanisms.interference.known import Profile

Floats = NDArray[np.float64]
Slowdowns = Mapping[tuple[str, str], float]

FOLDS = 5
"""Into how many parts the known pairs are split: each is predicted from the others."""


def is_installed() -> bool:
    """Whether scikit-learn can be imported (extra `sharing`)."""
    try:
        import sklearn  # noqa: F401
    except ImportError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class Regression:
    """A way to predict. `make`: an estimator of scikit-learn that has not learned anything."""

    name: str
    make: Callable[[], Any]


def _linear() -> Any:
    from sklearn.linear_model import Ridge

    return Ridge(1.0)


def _support_vectors() -> Any:
    from sklearn.svm import SVR

    return SVR(C=10.0, gamma=0.03, epsilon=0.02)


def _tree() -> Any:
    from sklearn.tree import DecisionTreeRegressor

    return DecisionTreeRegressor(min_samples_leaf=3, random_state=0)


def _neighbours() -> Any:
    from sklearn.neighbors import KNeighborsRegressor

    return KNeighborsRegressor(5, weights="distance")


REGRESSIONS = (
    Regression("linear", _linear),
    Regression("SVR", _support_vectors),
    Regression("tree", _tree),
    Regression("kNN", _neighbours),
)
"""Those that the paper tries."""


@dataclass(frozen=True, slots=True)
class Predictor:
    """What `fit` learned. `errors`: by regression, the mean of |predicted - actual| / actual of the time of a step, of
    pairs that were left out. `scores`: of the calibration pairs, see `threshold`."""

    regression: str
    errors: Mapping[str, float]
    scores: tuple[tuple[float, bool], ...]
    predicts: Callable[[Iterable[tuple[str, str]]], dict[tuple[str, str], float]]

    def admits(self, most_violating: float = 0.05) -> float:
        """Pairs whose score is at most this may share a GPU."""
        return threshold(self.scores, most_violating)


def fit(
    profiles: Mapping[str, Profile],
    slowdowns: Slowdowns,
    limit: float,
    seed: int = 0,
    regressions: Sequence[Regression] = REGRESSIONS,
) -> Predictor:
    """Learn from measured pairs: choose the regression with the least error. `limit`: of slowdowns, which few of the
    admitted pairs are to exceed.

    Raises:
        ValueError: fewer than two pairs are known.
    """
    known = sorted(pair for pair in slowdowns if pair[0] in profiles and pair[1] in profiles)
    folds = _folds(known, seed)
    left_out = {one.name: _left_out(profiles, slowdowns, folds, one) for one in regressions}
    errors = {
        name: float(np.mean([abs(found[pair] - slowdowns[pair]) / (1 + slowdowns[pair]) for pair in found]))
        for name, found in left_out.items()
    }
    best = min(regressions, key=lambda one: errors[one.name])
    found = left_out[best.name]
    pairs = sorted({(min(pair), max(pair)) for pair in found})
    scores = [(score(found, pair), score(slowdowns, pair) > limit) for pair in pairs]
    learned = predict(profiles, {pair: slowdowns[pair] for pair in known}, best)
    return Predictor(best.name, errors, tuple(scores), learned)


def predict(
    profiles: Mapping[str, Profile], slowdowns: Slowdowns, regression: Regression
) -> Callable[[Iterable[tuple[str, str]]], dict[tuple[str, str], float]]:
    """A function that predicts slowdowns of pairs, learned from these."""
    features = _Features(profiles, {kind for pair in slowdowns for kind in pair})
    pairs = sorted(slowdowns)
    rows = features.of(pairs)
    middle, spread = rows.mean(axis=0), rows.std(axis=0)
    spread[spread == 0] = 1.0
    estimator = regression.make()
    estimator.fit((rows - middle) / spread, np.log1p([slowdowns[pair] for pair in pairs]))

    def predicts(wanted: Iterable[tuple[str, str]]) -> dict[tuple[str, str], float]:
        usable = [pair for pair in wanted if features.knows(pair[0]) and features.knows(pair[1])]
        if not usable:
            return {}
        values = np.maximum(np.expm1(estimator.predict((features.of(usable) - middle) / spread)), 0.0)
        return {pair: float(value) for pair, value in zip(usable, values, strict=True)}

    return predicts


class _Features:
    """Kinds as rows of numbers: what was measured of them alone, and one column for each family."""

    def __init__(self, profiles: Mapping[str, Profile], kinds: Iterable[str]) -> None:
        self._profiles = profiles
        seen = [profiles[kind] for kind in sorted(kinds)]
        self._numbers = sorted({name for one in seen for name in one.numbers})
        self._families = sorted({one.family for one in seen})

    def knows(self, kind: str) -> bool:
        """Whether a kind has a profile, of a family that was seen."""
        one = self._profiles.get(kind)
        return one is not None and one.family in self._families

    def of(self, pairs: Sequence[tuple[str, str]]) -> Floats:
        """A row for each pair: of the kind, of the one beside it, and the difference of their numbers."""
        count = len(self._numbers)
        rows = {kind: self._row(kind) for pair in pairs for kind in pair}
        return np.array([[*rows[a], *rows[b], *(rows[a][:count] - rows[b][:count])] for a, b in pairs])

    def _row(self, kind: str) -> Floats:
        one = self._profiles[kind]
        numbers = [one.numbers.get(name, 0.0) for name in self._numbers]
        return np.array([*numbers, *(float(one.family == family) for family in self._families)])


def _folds(pairs: Sequence[tuple[str, str]], seed: int) -> list[list[tuple[str, str]]]:
    """The pairs in parts; both directions of one are in the same part."""
    both = sorted({(min(pair), max(pair)) for pair in pairs})
    # In an order that depends on the names and the seed alone.
    both.sort(key=lambda pair: sha256(repr((seed, pair)).encode()).digest())
    part = {pair: number % FOLDS for number, pair in enumerate(both)}
    return [[pair for pair in pairs if part[min(pair), max(pair)] == fold] for fold in range(FOLDS)]


def _left_out(
    profiles: Mapping[str, Profile], slowdowns: Slowdowns, folds: Sequence[Sequence[tuple[str, str]]], one: Regression
) -> dict[tuple[str, str], float]:
    """The slowdown of each pair, predicted from the other folds."""
    found: dict[tuple[str, str], float] = {}
    for fold in folds:
        others = {pair: slowdowns[pair] for part in folds if part is not fold for pair in part}
        if fold and others:
            found |= predict(profiles, others, one)(fold)
    if not found:
        raise ValueError("fewer than two pairs are known")
    return found
