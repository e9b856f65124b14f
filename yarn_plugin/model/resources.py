"""Vectors of cluster resources."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

MEMORY = "memory-mb"
VCORES = "vcores"
GPU = "yarn.io/gpu"
GPU_MILLI, GPU_MEMORY = "gpu-milli", "gpu-memory-mb"
"""Of a GPU that several share: thousandths of its computing, and its memory in MiB. YARN knows neither."""


@dataclass(frozen=True, slots=True)
class Resources:
    """Amounts by YARN resource name (`memory-mb` in MiB, `vcores`, `yarn.io/gpu`, ...); a missing name is 0.

    Amounts are integers, as in YARN. `amounts` is sorted by name, so equal vectors compare and hash equal.
    """

    amounts: tuple[tuple[str, int], ...] = ()

    @staticmethod
    def of(amounts: Mapping[str, int]) -> "Resources":
        """The vector with these amounts."""
        return Resources(tuple(sorted((name, amount) for name, amount in amounts.items() if amount)))

    def __getitem__(self, name: str) -> int:
        for held, amount in self.amounts:
            if held == name:
                return amount
        return 0

    def __iter__(self) -> Iterator[tuple[str, int]]:
        return iter(self.amounts)

    def __bool__(self) -> bool:
        return bool(self.amounts)

    def names(self) -> frozenset[str]:
        """The resources with an amount above 0."""
        return frozenset(name for name, _ in self.amounts)

    def _zip(self, other: "Resources", combine: Callable[[int, int], int]) -> "Resources":
        mine, theirs = dict(self.amounts), dict(other.amounts)
        return Resources.of({name: combine(mine.get(name, 0), theirs.get(name, 0)) for name in {**mine, **theirs}})

    def __add__(self, other: "Resources") -> "Resources":
        return self._zip(other, lambda a, b: a + b)

    def __sub__(self, other: "Resources") -> "Resources":
        """The difference, never below 0."""
        return self._zip(other, lambda a, b: max(a - b, 0))

    def at_most(self, other: "Resources") -> "Resources":
        """The smaller amount of each resource."""
        return self._zip(other, min)

    def at_least(self, other: "Resources") -> "Resources":
        """The larger amount of each resource."""
        return self._zip(other, max)

    def only(self, names: frozenset[str]) -> "Resources":
        """The vector restricted to these resources."""
        kept = tuple([pair for pair in self.amounts if pair[0] in names])
        return self if len(kept) == len(self.amounts) else Resources(kept)

    def scaled(self, fraction: float) -> "Resources":
        """This fraction of each amount, rounded down: YARN does not allocate parts of a core.

        The tiny addition corrects floating-point results such as 1/3 * 3 < 1.
        """
        # Sorted already.
        scaled = [(name, int(amount * fraction + 1e-6)) for name, amount in self.amounts]
        return Resources(tuple([pair for pair in scaled if pair[1]]))

    def fits(self, capacity: "Resources") -> bool:
        """Whether no amount exceeds the capacity's."""
        return all(amount <= capacity[name] for name, amount in self.amounts)

    def dominant_fraction(self, capacity: "Resources") -> float:
        """The dominant share of `capacity` (QOOP section 2.3.2: the current share of a job).

        Resources that `capacity` lacks are ignored.
        """
        if not self.amounts:
            return 0.0
        held = dict(self.amounts)
        return max([held.get(name, 0) / amount for name, amount in capacity.amounts], default=0.0)

    def as_dict(self) -> dict[str, int]:
        """The amounts by name."""
        return dict(self.amounts)

    def __str__(self) -> str:
        shown = {MEMORY: "MiB", VCORES: "vcores", GPU: "GPUs"}
        return ", ".join(f"{amount} {shown.get(name, name)}" for name, amount in self.amounts) or "nothing"


def total_of(vectors: Iterable[Resources]) -> Resources:
    """The sum of many vectors."""
    found = list(vectors)
    if len(found) == 1:
        return found[0]
    total: dict[str, int] = {}
    for vector in found:
        for name, amount in vector.amounts:
            total[name] = total.get(name, 0) + amount
    return Resources.of(total)
