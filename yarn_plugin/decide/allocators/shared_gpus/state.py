"""What the allocator keeps, what it is told, and what it hands to the worker process."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from yarn_plugin.decide.mechanisms.interference import Pair
from yarn_plugin.decide.mechanisms.packing import Job, Limits
from yarn_plugin.errors import BadInputError

Learned = Mapping[str, Mapping[str, Mapping[str, float]]]
"""By application: see `mechanisms.interference`."""


@dataclass(frozen=True, slots=True)
class Slowdown:
    """A worker of an application, the pod `member` of its `job`, is slowed down by those that it shares its GPU with:
    by 0.2 if its steps take 1.2 times their time alone."""

    slowdown: float
    job: str = ""
    member: int = 0

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            BadInputError: one is out of range.
        """
        if not 0 <= self.slowdown <= 1000:
            raise BadInputError("slowdown", self.slowdown, "must be a number from 0 to 1000: 0.2 is 1.2 times the time")
        if self.member < 0:
            raise BadInputError("member", self.member, "must be at least 0")


@dataclass(frozen=True, slots=True)
class WaitingJobs:
    """What the worker process packs. `jobs`: by claim's name; `pairs`: of their kinds."""

    jobs: tuple[Job, ...]
    pairs: tuple[Pair, ...]
    limits: Limits


@dataclass(frozen=True, slots=True)
class Packed:
    """For each GPU, the names of its workers' claims."""

    gpus: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class SharedGpusState:
    """`resting`: workers that are not placed, by name, until when; None: until their claim is revised. `learned`: the
    slowdowns that applications measured. `moved_at`: when workers were moved last; `round`: of the last problem,
    `is_solving`: its result is still wanted."""

    counter: int = 0
    resting: Mapping[str, float | None] = field(default_factory=dict)
    learned: Learned = field(default_factory=dict)
    moved_at: float | None = None
    round: int = 0
    is_solving: bool = False
