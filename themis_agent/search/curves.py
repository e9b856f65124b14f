"""Extrapolation of a loss curve: where it may end, and when it may reach a target.

The curves are loss(k) = a + b (k + 1)^-c with b >= 0. For a few exponents c the least squares are linear; every
exponent that explains the losses about as well as the best one is possible.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

EXPONENTS = (0.125, 0.25, 0.5, 1.0, 2.0)
ABOUT_AS_WELL = 1.5
"""A curve is possible if its root mean square error is at most so many times that of the best."""
MIN_LOSSES = 4
"""Fewer losses than this say nothing."""


@dataclass(frozen=True, slots=True)
class Curve:
    """loss(k) = a + b (k + 1)^-c; `error`: root mean square."""

    a: float
    b: float
    c: float
    error: float

    def loss(self, iteration: float) -> float:
        """The loss at an iteration."""
        return self.a + self.b * math.pow(iteration + 1.0, -self.c)

    def reaches(self, target: float) -> float:
        """The first iteration with a loss of at most `target`; infinite if there is none."""
        if self.loss(0.0) <= target:
            return 0.0
        if self.a >= target:
            return math.inf
        try:
            return math.pow(self.b / (target - self.a), 1.0 / self.c) - 1.0
        except OverflowError:
            return math.inf


def possible_curves(losses: Sequence[tuple[float, float]]) -> tuple[Curve, ...]:
    """The curves that explain these (iteration, loss) pairs; none if there are too few finite ones."""
    finite = [(iteration, loss) for iteration, loss in losses if math.isfinite(loss)]
    if len(finite) < MIN_LOSSES:
        return ()
    at, loss = np.array(finite).T
    fitted = [_fit(at, loss, exponent) for exponent in EXPONENTS]
    best = min(curve.error for curve in fitted)
    tiny = 1e-9 * float(np.abs(loss).max())
    return tuple(curve for curve in fitted if curve.error <= ABOUT_AS_WELL * best + tiny)


@dataclass(frozen=True, slots=True)
class Line:
    """loss(k) = start + slope k, with slope <= 0."""

    start: float
    slope: float

    def loss(self, iteration: float) -> float:
        """The loss at an iteration."""
        return self.start + self.slope * iteration


def trend(losses: Sequence[tuple[float, float]]) -> Line:
    """The least squares through the latest half of these (iteration, loss) pairs, at least `MIN_LOSSES` finite ones.

    Losses that fall ever faster, as the power curves do not, may go on as they do now; rising ones count as constant.
    """
    finite = [(iteration, loss) for iteration, loss in losses if math.isfinite(loss)]
    at, loss = np.array(finite[-max(len(finite) // 2, MIN_LOSSES) :]).T
    spread = at - at.mean()
    variance = float((spread**2).sum())
    slope = min(float((spread * loss).sum()) / variance, 0.0) if variance > 0.0 else 0.0
    return Line(float(loss.mean() - slope * at.mean()), slope)


def _fit(at: np.ndarray, loss: np.ndarray, exponent: float) -> Curve:
    """Least squares; a rising curve is taken for a constant one."""
    x = (at + 1.0) ** -exponent
    spread = x - x.mean()
    variance = float((spread**2).sum())
    slope = max(float((spread * loss).sum()) / variance, 0.0) if variance > 0.0 else 0.0
    constant = float(loss.mean() - slope * x.mean())
    return Curve(constant, slope, exponent, float(np.sqrt(((loss - constant - slope * x) ** 2).mean())))
