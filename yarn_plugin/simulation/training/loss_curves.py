"""Loss curves drawn from a seed as the Themis authors' simulator draws them: normalised to fall from 1 to 0."""

import math

from yarn_plugin.model.loss import SublinearLoss, SuperlinearLoss

_MULTIPLIER, _MASK = 0x5DEECE66D, (1 << 48) - 1


def random_sublinear(iterations: int, seed: int) -> SublinearLoss:
    """1 / (a k^2 + b k + c) + d with a, b drawn from (0, 1)."""
    a, b = java_doubles(seed, 2)
    growth = a * iterations * iterations + b * iterations
    return SublinearLoss(a, b, 1 / (1 + 1 / growth), -1 / growth)


def random_superlinear(iterations: int, seed: int) -> SuperlinearLoss:
    """u^(k - b) + c with u drawn from (0, 1)."""
    (u,) = java_doubles(seed, 1)
    last = u**iterations
    c = last / (last - 1)
    return SuperlinearLoss(u, -math.log(1 - c) / math.log(u), c)


def java_doubles(seed: int, count: int) -> list[float]:
    """The first results of `nextDouble` of a `java.util.Random` with this seed, by its documented recurrence."""
    state = (seed ^ _MULTIPLIER) & _MASK
    drawn = []
    for _ in range(count):
        high, state = _bits(state, 26)
        low, state = _bits(state, 27)
        drawn.append(((high << 27) + low) / (1 << 53))
    return drawn


def _bits(state: int, bits: int) -> tuple[int, int]:
    state = (state * _MULTIPLIER + 0xB) & _MASK
    return state >> (48 - bits), state
