"""Generate workloads from a seed: arrival times, kinds and sizes of applications."""

import math
from collections.abc import Mapping
from random import Random
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, TypeAdapter, ValidationError, model_validator

from yarn_plugin.toml_files import FileError, Section, invalid_fields

DAY = 86_400.0


class Lognormal(Section):
    """A lognormal distribution: `median`, and `sigma`, the standard deviation of the logarithm."""

    RENAMED: ClassVar = {"whole": "integer"}

    distribution: Literal["lognormal"]
    median: float = Field(gt=0, le=1e15)
    sigma: float = Field(ge=0, le=10)
    min: float | None = None
    max: float | None = None
    integer: bool = False

    def draw(self, random: Random) -> float:
        """Draw a value."""
        return self.median * math.exp(random.gauss(0.0, self.sigma))


class Pareto(Section):
    """A Pareto distribution: values from `scale` up; the larger `shape`, the lighter the tail."""

    RENAMED: ClassVar = {"whole": "integer", "least": "scale"}

    distribution: Literal["pareto"]
    scale: float = Field(gt=0, le=1e15)
    shape: float = Field(ge=0.1, le=100)
    min: float | None = None
    max: float | None = None
    integer: bool = False

    def draw(self, random: Random) -> float:
        """Draw a value."""
        return self.scale * random.paretovariate(self.shape)


class Uniform(Section):
    """A uniform distribution from `low` to `high`."""

    RENAMED: ClassVar = {"whole": "integer"}

    distribution: Literal["uniform"]
    low: float
    high: float
    min: float | None = None
    max: float | None = None
    integer: bool = False

    def draw(self, random: Random) -> float:
        """Draw a value."""
        return random.uniform(self.low, self.high)


class Choice(Section):
    """One of several values, with optional weights."""

    distribution: Literal["choice"]
    values: list[Any] = Field(min_length=1)
    weights: list[Annotated[float, Field(ge=0, le=1e15)]] | None = None

    @model_validator(mode="after")
    def _one_weight_each(self) -> Self:
        if self.weights is not None and len(self.weights) != len(self.values):
            raise ValueError(f"weights: must be as many as values, {len(self.values)}, not {len(self.weights)}")
        if self.weights is not None and not any(self.weights):
            raise ValueError("weights: at least one must be above 0")
        return self


class Mix(Section):
    """A class of generated applications. `weight`: its weight in the mix. `application`: fields, each a value or a
    distribution. `variants`: sets of further fields; each gives a copy of every application with the same random draws,
    to compare them."""

    RENAMED: ClassVar = {"of": "weight"}

    weight: float = Field(default=1.0, gt=0, le=1e15)
    application: dict[str, Any]
    variants: tuple[dict[str, Any], ...] = ()


class GenerateSection(Section):
    """A number of applications over a period.

    `arrivals`: `poisson` (independent), `uniform` (evenly spaced), `diurnal` (a Poisson process whose rate follows the
    time of day: `peak` times the mean at `peak_at_s`). `users`: number of users, assigned at random.
    """

    RENAMED: ClassVar = {"over_s": "duration_s"}

    count: int = Field(ge=1, le=1_000_000)
    duration_s: float = Field(default=DAY, gt=0, le=366 * DAY)
    arrivals: Literal["poisson", "uniform", "diurnal"] = "poisson"
    peak: float = Field(default=1.8, ge=1, le=2)
    peak_at_s: float = Field(default=14 * 3600.0, ge=0, le=DAY)
    users: int = Field(default=10, ge=1, le=100_000)
    mix: list[Mix] = Field(min_length=1)


_DISTRIBUTION: TypeAdapter[Lognormal | Pareto | Uniform | Choice] = TypeAdapter(
    Annotated[Lognormal | Pareto | Uniform | Choice, Field(discriminator="distribution")]
)


def generate_applications(section: GenerateSection, seed: int, where: str) -> list[dict[str, Any]]:
    """The fields of the applications that a section describes; the same for the same seed.

    Raises:
        FileError: a distribution is invalid.
    """
    random = Random(f"{seed}/arrivals")
    times = sorted(_arrivals(section, random))
    weights = [mix.weight for mix in section.mix]
    applications: list[dict[str, Any]] = []
    for number, at in enumerate(times):
        own = Random(f"{seed}/application/{number}")
        place = own.choices(range(len(weights)), weights)[0]
        mix, user = section.mix[place], f"user{own.randrange(section.users) + 1}"
        fields = {"user": user, **mix.application, "arrival_s": round(at, 3)}
        application = draw_fields(fields, own, f"{where}, generate.mix #{place + 1}")
        applications += [{**application, "seed": number, **variant} for variant in mix.variants] or [application]
    return applications


def draw_fields(fields: Mapping[str, Any], random: Random, where: str) -> dict[str, Any]:
    """An application's fields with each distribution replaced by a value drawn from it.

    Raises:
        FileError: a distribution is invalid.
    """
    return {name: _draw(name, value, random, where) for name, value in fields.items()}


def _draw(name: str, value: Any, random: Random, where: str) -> Any:
    if not isinstance(value, Mapping) or "distribution" not in value:
        return value
    try:
        distribution = _DISTRIBUTION.validate_python(value)
    except ValidationError as problem:
        raise FileError(f"{where}, {name}: {invalid_fields(problem, value)}") from None
    if isinstance(distribution, Choice):
        return random.choices(distribution.values, distribution.weights)[0]
    amount = distribution.draw(random)
    amount = max(amount, distribution.min) if distribution.min is not None else amount
    amount = min(amount, distribution.max) if distribution.max is not None else amount
    return round(amount) if distribution.integer else round(amount, 6)


def _arrivals(section: GenerateSection, random: Random) -> list[float]:
    count, over = section.count, section.duration_s
    match section.arrivals:
        case "uniform":
            return [over * number / count for number in range(count)]
        case "poisson":
            # Given their number, the times of a Poisson process are independent and uniform.
            return [random.uniform(0.0, over) for _ in range(count)]
        case "diurnal":
            return [_diurnal_time(section, random) for _ in range(count)]


def _diurnal_time(section: GenerateSection, random: Random) -> float:
    """An arrival time whose density follows the time of day, drawn by rejection sampling."""
    while True:
        at = random.uniform(0.0, section.duration_s)
        rate = 1.0 + (section.peak - 1.0) * math.cos(2 * math.pi * (at - section.peak_at_s) / DAY)
        if random.uniform(0.0, section.peak) <= rate:
            return at
