"""How much kinds of training slow each other down on one GPU: what is known, and what is learned meanwhile."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from yarn_plugin.errors import BadInputError


@dataclass(frozen=True, slots=True)
class Profile:
    """What is known of a kind of training that ran alone. `numbers`: measurements by name, positive ones as logarithms
    where they span magnitudes; `family`: alike kinds, such as those of one network."""

    numbers: Mapping[str, float] = field(default_factory=dict)
    family: str = ""


@dataclass(frozen=True, slots=True)
class Pair:
    """The slowdown of a worker of `kind` beside one of kind `beside`: 0.2 if a step takes 1.2 times as long."""

    kind: str
    beside: str
    slowdown: float


@dataclass(frozen=True, slots=True)
class Interference:
    """`kinds`: those that are known, by name. `pairs`: measured or predicted. A pair that is in neither direction, or
    in one only, may not share a GPU."""

    kinds: Mapping[str, Profile] = field(default_factory=dict)
    pairs: tuple[Pair, ...] = ()

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            BadInputError: a slowdown is no number of at least 0, a pair is of an unknown kind, or it is there twice.
        """
        seen = set()
        for index, pair in enumerate(self.pairs):
            for name in ("kind", "beside"):
                if getattr(pair, name) not in self.kinds:
                    raise BadInputError(f"pairs.{index}.{name}", getattr(pair, name), "must be one of kinds")
            if not 0 <= pair.slowdown < math.inf:
                raise BadInputError(f"pairs.{index}.slowdown", pair.slowdown, "must be a number of at least 0")
            if (pair.kind, pair.beside) in seen:
                raise BadInputError(f"pairs.{index}", f"{pair.kind} beside {pair.beside}", "must be there once")
            seen.add((pair.kind, pair.beside))

    def slowdowns(self) -> dict[tuple[str, str], float]:
        """The slowdowns by kind and neighbour."""
        return {(pair.kind, pair.beside): pair.slowdown for pair in self.pairs}


Learned = Mapping[str, Mapping[str, float]]
"""Slowdowns of kinds beside others, learned from workers that run together."""


def learn(
    learned: Learned,
    kind: str,
    beside: Iterable[str],
    slowdown: float,
    known: Mapping[tuple[str, str], float],
    old: float,
) -> dict[str, dict[str, float]]:
    """What is learned from the measured slowdown of a worker beside others: an exponentially weighted moving average,
    in which what was believed so far has the weight `old` (OJPP, equation 18). With several others, whose slowdowns
    add, the measurement is divided as they were believed to slow it down."""
    others = list(beside)
    renewed = {name: dict(values) for name, values in learned.items()}
    mine = renewed.setdefault(kind, {})
    believed = [mine.get(other, known.get((kind, other), slowdown / len(others))) for other in others]
    total = sum(believed)
    for other, before in zip(others, believed, strict=True):
        share = slowdown * before / total if total else slowdown / len(others)
        mine[other] = old * before + (1 - old) * share
    return renewed
