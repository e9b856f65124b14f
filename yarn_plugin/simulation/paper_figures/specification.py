"""A paper's figures as its file has them: what is simulated for each, how it is drawn, what the paper claims of it, and
within which bounds that holds.

A point is a table of fields in which simulations differ from their figure's `base`, such as { policy = "tiresias" }. A
list of values, or the name of one of the file's `[sets]`, stands for a simulation with each of them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from itertools import product
from math import inf
from tomllib import loads
from typing import Any, Literal

from pydantic import Field

from yarn_plugin.simulation.paper_figures.job_case import JobCase, JobSize
from yarn_plugin.simulation.paper_figures.queue_case import QueueCase, QueueSize
from yarn_plugin.simulation.paper_figures.training_case import TrainingCase, TrainingSize
from yarn_plugin.toml_files import Section

PAPERS = ("themis", "hived", "allox", "sharing")

Case = TrainingCase | JobCase | QueueCase
"""A simulation."""

Value = str | int | float
Point = dict[str, Value | tuple[Value, ...]]

Measure = Literal[
    "max_rho", "gpu_time", "gpu_hours", "placement_score", "liar_s", "others_s", "rho_of_short",
    "later", "mean_completion_s", "progress_spread",
    "gpus_saved", "gpus_used", "performance",
]  # fmt: skip


class ChartSection(Section):
    """A chart or a table; `kind` names one of the modules `charts` and `training_charts`.

    `measure`: what is drawn, a mean over seeds; `values`: which figure of the applications or jobs is distributed,
    larger ones than `clip` as `clip`. `by`, `series`: one field and its values; `label`: the format of those of `by`,
    `labels`: the names of the series.
    """

    kind: str
    title: str = ""
    measure: Measure | None = None
    values: str | None = None
    unit: str = ""
    clip: float | None = None
    by: Point = Field(default={})
    label: str = "{}"
    x_label: str = ""
    series: Point = Field(default={})
    labels: tuple[str, ...] = ()


class FigureSection(Section):
    """A figure or table. `title`: what it shows. `not_reproduced`: why there is nothing to simulate. `says`: what the
    paper says of it that is no claim. `base`: the simulation from which others differ; `runs`: what is simulated."""

    number: str
    title: str
    not_reproduced: str = ""
    says: str = ""
    base: dict[str, Value] = Field(default={})
    runs: tuple[Point, ...] = ()
    charts: tuple[ChartSection, ...] = ()

    @property
    def name(self) -> str:
        """With the word for what it is."""
        return f"Figure {self.number}" if self.number[0].isdigit() else self.number.capitalize()


Pick = Literal["min", "max", "argmin", "gain"]
"""How several simulations make one value: the least or largest; the value of the field at which it is least; or the
geometric mean, divided by the value of the `base` at that point."""


class ClaimSection(Section):
    """A claim. `measure` at the point `of`, divided by that at `over` if it is given, less `minus`; as claimed in sign
    or shape between `low` and `high`. `each`: the claim is one for each of these points, at which both are taken; their
    values may be named in `effect`. `paper`: what it states, and where. `mean`: over seeds; of ratios, by their
    logarithms."""

    figure: str
    effect: str
    paper: str
    measure: Measure
    of: Point = Field(default={})
    pick: Pick | None = None
    over: Point | None = None
    over_pick: Pick | None = None
    each: Point = Field(default={})
    minus: float = 0.0
    mean: Literal["geometric", "arithmetic"] = "geometric"
    low: float = -inf
    high: float = inf


class ToldSection(Section):
    """What is told, not asserted."""

    effect: str
    why: str


class Paper(Section):
    """A paper. `note`: how its measurements differ from what is simulated. `sizes`: of the simulations, the first by
    default. `sets`: names for values of points."""

    title: str
    note: str = ""
    sizes: dict[str, TrainingSize | JobSize | QueueSize] = Field(min_length=1)
    sets: dict[str, tuple[Value, ...]] = Field(default={})
    figures: tuple[FigureSection, ...] = Field(min_length=1)
    claims: tuple[ClaimSection, ...] = Field(min_length=1)
    told: tuple[ToldSection, ...] = ()

    @property
    def numbers(self) -> tuple[str, ...]:
        """Of its figures and tables, in order."""
        return tuple(figure.number for figure in self.figures)

    def only(self, numbers: Sequence[str]) -> "Paper":
        """The same with these figures alone."""
        return self.model_copy(
            update={
                "figures": tuple(one for one in self.figures if one.number in numbers),
                "claims": tuple(one for one in self.claims if one.figure in numbers),
            }
        )

    def base(self, number: str, seed: int, size: str) -> Case:
        """The simulation from which the others of a figure differ."""
        figure = next(one for one in self.figures if one.number == number)
        its, fields = self.sizes[size], dict[str, Any](figure.base)
        match its:
            case TrainingSize():
                return TrainingCase(seed, its, **fields)
            case JobSize():
                return JobCase(seed, its, **fields)
            case QueueSize():
                return QueueCase(seed, its, **fields)

    def cases(self, seeds: Sequence[int], size: str) -> list[Case]:
        """All simulations, each once: all of the first seed first."""
        found = (
            moved(self.base(figure.number, seed, size), point)
            for seed in seeds
            for figure in self.figures
            for run in figure.runs
            for point in self.points(run)
        )
        return list(dict.fromkeys(found))

    def points(self, point: Point) -> Iterator[dict[str, Value]]:
        """The single points that a point stands for: all combinations."""
        for values in product(*map(self.listed, point.values())):
            yield dict(zip(point, values, strict=True))

    def listed(self, value: Value | tuple[Value, ...]) -> tuple[Value, ...]:
        """The values that a value stands for."""
        if isinstance(value, tuple):
            return value
        return self.sets.get(value, (value,)) if isinstance(value, str) else (value,)


def moved(case: Case, point: Mapping[str, Value]) -> Case:
    """The case at a point."""
    return replace(case, **dict[str, Any](point))


def read(name: str) -> Paper:
    """A paper of `PAPERS`."""
    return Paper.model_validate(loads(files(__package__).joinpath(f"{name}.toml").read_text()))
