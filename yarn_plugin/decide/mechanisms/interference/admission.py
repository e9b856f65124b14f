"""Which pairs may share a GPU by their predicted slowdowns, such that few of those that are admitted exceed the limit.

Split conformal prediction bounds how many of all pairs exceed their bound, and most pairs interfere far too much for
that to say anything of the few that are admitted. So the threshold is chosen on calibration pairs, whose slowdowns are
known and were predicted without them: the greatest with which at most the allowed fraction of the *admitted* exceeds
the limit.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Slowdowns = Mapping[tuple[str, str], float]


@dataclass(frozen=True, slots=True)
class Admission:
    """Of pairs: how many are `admissible` (within the limit), how many were `admitted`, and how many of these are
    `violating`, as their slowdowns exceed the limit."""

    admissible: int = 0
    admitted: int = 0
    violating: int = 0

    def __add__(self, other: "Admission") -> "Admission":
        return Admission(
            self.admissible + other.admissible, self.admitted + other.admitted, self.violating + other.violating
        )

    @property
    def violating_fraction(self) -> float:
        """Of the admitted."""
        return self.violating / self.admitted if self.admitted else 0.0

    @property
    def found_fraction(self) -> float:
        """Of the admissible: how many were admitted."""
        return (self.admitted - self.violating) / self.admissible if self.admissible else 0.0


def score(slowdowns: Slowdowns, pair: tuple[str, str]) -> float:
    """The greater slowdown of a pair's two workers; infinite where one is not known."""
    a, b = pair
    return max(slowdowns.get((a, b), float("inf")), slowdowns.get((b, a), float("inf")))


def admissible(actual: Slowdowns, predicted: Slowdowns, limit: float, at_most: float) -> Admission:
    """What became of the predicted pairs if those with a score of at most a threshold are admitted."""
    pairs = {(min(pair), max(pair)) for pair in predicted}
    admitted = [pair for pair in pairs if score(predicted, pair) <= at_most]
    return Admission(
        sum(score(actual, pair) <= limit for pair in pairs),
        len(admitted),
        sum(score(actual, pair) > limit for pair in admitted),
    )


def threshold(scores: Sequence[tuple[float, bool]], most_violating: float) -> float:
    """The greatest threshold with which at most this fraction of the admitted calibration pairs is violating.

    `scores`: of each, its predicted score and whether it is violating. One more admitted pair is counted as violating,
    as the next one may be. -1 where nothing can be admitted.
    """
    best, violating = -1.0, 0
    ranked = sorted(scores)
    for admitted, (predicted, is_violating) in enumerate(ranked, 1):
        violating += is_violating
        is_last = admitted == len(ranked) or ranked[admitted][0] > predicted
        if is_last and violating + 1 <= most_violating * (admitted + 1):
            best = predicted
    return best
