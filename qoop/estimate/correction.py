"""Errors of estimates, spread over what may have caused them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Measurement:
    """`error`: the logarithm of true over estimated rows; `involved`: the sources that it may come from."""

    involved: tuple[int, ...]
    error: float


NOISE = 1e-3
"""Standard deviation of a measurement itself: keeps the system solvable when two say the same."""


def corrections(doubts: Sequence[float], measurements: Sequence[Measurement]) -> list[float]:
    """The most likely logarithmic error of each source.

    Sources are independent and normal with mean 0 and standard deviation `doubts`; each measurement is the sum of the
    sources involved. The conditional mean is W A' (A W A' + noise)^-1 b, with W the variances (Gauss-Markov).
    """
    if not measurements or not doubts:
        return [0.0] * len(doubts)
    design = np.zeros((len(measurements), len(doubts)))
    for row, measurement in enumerate(measurements):
        design[row, list(measurement.involved)] = 1.0
    variance = np.asarray(doubts) ** 2
    gain = (design * variance) @ design.T + NOISE**2 * np.eye(len(measurements))
    errors = np.asarray([measurement.error for measurement in measurements])
    result = variance * (design.T @ np.linalg.solve(gain, errors))
    return [float(value) for value in result]
