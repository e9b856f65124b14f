"""Figures 4.11 and 4.12 of Syndicate on modelled DLRM instances, as `syndicate_figures.toml` declares them."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import Field

from themis_agent.communication.baselines import System, is_kept, outcome
from themis_agent.communication.modelled import draw, model
from themis_agent.communication.search import Candidate, Limits
from yarn_plugin.report import (
    BarChart,
    Column,
    Distribution,
    Page,
    Sample,
    Section,
    Table,
    Text,
)
from yarn_plugin.toml_files import Section as FileSection
from yarn_plugin.toml_files import read_toml, validate

Measure = Literal["iteration_ratio", "idle_percent", "iteration_of_lifo"]
Instance = dict[System, Candidate]


class Parameters(FileSection):
    """Of the instances: see the file."""

    instances: int
    seed: int
    idle: tuple[float, float]
    prefetch_batches: Literal[1]
    steps: int


class Claim(FileSection):
    """A median over the instances. `paper`: what the thesis says. `at_least`: what is expected of it here.
    `paper_within`: quantiles of the instances that are to enclose the paper's value.
    """

    id: str
    text: str
    section: str
    over: System
    measure: Measure
    paper: float | None = None
    at_least: float | None = None
    paper_within: tuple[float, float] | None = None


class Chart(FileSection):
    """`paper`: its values, by system."""

    kind: Literal["bars", "distribution"]
    title: str
    measure: Measure
    paper: dict[System, float] = Field(default={})


class NotAsserted(FileSection):
    """What the thesis shows and is not claimed here, and why."""

    what: str
    why: str


class Specification(FileSection):
    """The file."""

    title: str
    parameters: Parameters
    claims: tuple[Claim, ...]
    charts: tuple[Chart, ...]
    not_asserted: tuple[NotAsserted, ...]


@dataclass(frozen=True, slots=True)
class Checked:
    """A claim with what was found: the median, and the 10th and 90th percentile."""

    claim: Claim
    median: float
    low: float
    high: float

    @property
    def holds(self) -> bool | None:
        """Whether it is as expected; None: nothing is expected."""
        claim = self.claim
        if claim.at_least is None and claim.paper_within is None:
            return None
        enclosed = claim.paper_within is None or claim.paper is None or self.low <= claim.paper <= self.high
        return enclosed and (claim.at_least is None or self.median >= claim.at_least)


def specification() -> Specification:
    """The file of this package."""
    name = "syndicate_figures.toml"
    with resources.as_file(resources.files(__package__) / name) as path:
        return validate(Specification, read_toml(name, Path(path)), name)


def instances(parameters: Parameters, done: Callable[[int], None] = lambda count: None) -> list[Instance]:
    """Draw instances until enough are kept: every system's outcome for each. `done`: is told how many there are."""
    numbers = np.random.default_rng(parameters.seed)
    kept: list[Instance] = []
    limits = Limits(steps=parameters.steps)
    while len(kept) < parameters.instances:
        of = model(draw(numbers))
        lifo = outcome(System.LIFO, of, numbers, limits)
        if is_kept(lifo, parameters.idle):
            steps = np.random.default_rng([parameters.seed, len(kept)])
            found: Instance = {System.LIFO: lifo}
            for one in System:
                if one is not System.LIFO:
                    found[one] = outcome(one, of, steps, limits)
            kept.append(found)
            done(len(kept))
    return kept


def values(measure: Measure, system: System, kept: Sequence[Instance]) -> list[float]:
    """A measure of a system, for each instance."""
    match measure:
        case "iteration_ratio":
            return [one[system].period_s / one[System.SYNDICATE].period_s for one in kept]
        case "iteration_of_lifo":
            return [one[system].period_s / one[System.LIFO].period_s for one in kept]
        case "idle_percent":
            return [100 * one[system].idle for one in kept]


def check(claims: Sequence[Claim], kept: Sequence[Instance]) -> list[Checked]:
    """The claims with what was found."""
    found = []
    for claim in claims:
        all_values = values(claim.measure, claim.over, kept)
        low, high = np.quantile(all_values, claim.paper_within or (0.1, 0.9))
        found.append(Checked(claim, statistics.median(all_values), float(low), float(high)))
    return found


def page(of: Specification, checked: Sequence[Checked], kept: Sequence[Instance]) -> Page:
    """The page."""
    columns = (
        Column("claim"), Column("section"), Column("thesis", True, 2), Column("median", True, 2),
        Column("10th to 90th percentile"), Column("expected"), Column("as expected"),
    )  # fmt: skip
    rows = tuple(
        (
            one.claim.text,
            one.claim.section,
            one.claim.paper,
            one.median,
            f"{one.low:.2f} to {one.high:.2f}",
            "" if one.claim.at_least is None else f"at least {one.claim.at_least}",
            {True: "yes", False: "no", None: ""}[one.holds],
        )
        for one in checked
    )
    idle = of.parameters.idle
    kept_if = (
        f"{len(kept)} instances with {100 * idle[0]:.0f} to {100 * idle[1]:.0f}% idle time under last-in-first-out"
    )
    return Page(
        title=of.title,
        subtitle=f"{kept_if}; everything is simulated",
        sections=(
            Section("Claims", (Table(columns, rows),)),
            Section("Charts", tuple(_chart(chart, kept) for chart in of.charts)),
            Section("Not asserted", tuple(Text(f"{one.what}: {one.why}.") for one in of.not_asserted)),
        ),
    )


def _chart(chart: Chart, kept: Sequence[Instance]) -> BarChart | Distribution:
    if chart.kind == "distribution":
        others = [one for one in System if one is not System.SYNDICATE]
        samples = (Sample(one, tuple(values(chart.measure, one, kept)), place) for place, one in enumerate(others))
        return Distribution(chart.title, "times", tuple(samples))
    medians = tuple((str(one), statistics.median(values(chart.measure, one, kept))) for one in System)
    notes = tuple(f"thesis: {chart.paper[one]:g}" if one in chart.paper else "" for one in System)
    return BarChart(chart.title, "%" if chart.measure == "idle_percent" else "of it", medians, notes, digits=2)
