"""Cumulative distributions: for each value, the fraction of all values that are at most as large."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from yarn_plugin.quantities import count, number
from yarn_plugin.report.figure import (
    RIGHT,
    WIDTH,
    Key,
    Scale,
    ceiling,
    colour,
    empty,
    figure,
    label_at,
    svg,
    tooltip,
    x_axis,
    y_axis,
)
from yarn_plugin.report.markup import Ids, Markup, tag
from yarn_plugin.report.table import Cell, Column, Table

GUTTER = 56.0
QUANTILES = (0.0, 0.5, 0.9, 0.95, 0.99, 1.0)


@dataclass(frozen=True, slots=True)
class Sample:
    """Values of one kind, in any order."""

    name: str
    values: tuple[float, ...]
    colour: int | None = 0


@dataclass(frozen=True, slots=True)
class Distribution:
    """Cumulative distributions side by side. `goal`: a value to stay below, and its name."""

    title: str
    unit: str
    samples: tuple[Sample, ...]
    goal: tuple[float, str] | None = None
    height: float = 200.0

    def html(self, ids: Ids) -> Markup:
        """The chart as HTML."""
        known = [one for one in self.samples if one.values]
        if not known:
            return empty(ids, self.title, "No values.")
        description = f"In {self.unit}. " + "; ".join(
            f"{one.name}: {count(len(one.values), 'value')}, median {number(quantile(one.values, 0.5))}, "
            f"95th percentile {number(quantile(one.values, 0.95))}, highest {number(max(one.values))}"
            for one in known
        )
        legend = [Key(one.name, "line", colour(one.colour)) for one in known]
        return figure(ids, self.title, legend, self._draw(ids, description + ".", known), self._table(known))

    def _draw(self, ids: Ids, description: str, known: Sequence[Sample]) -> Markup:
        top, bottom = 26.0, 26.0 + self.height
        highest = max([max(one.values) for one in known] + ([self.goal[0]] if self.goal else []))
        lowest = min(0.0, min(min(one.values) for one in known))
        across = Scale(lowest, ceiling(highest, 10), GUTTER, WIDTH - RIGHT)
        up = Scale(0.0, 1.0, bottom, top)
        return svg(
            ids,
            self.title,
            description,
            bottom + 38,
            y_axis(up, GUTTER, WIDTH - RIGHT, "fraction of values up to x", percent=True),
            x_axis(across, top, bottom, self.unit),
            self._goal(across, top, bottom),
            *(
                tag("path", tooltip(one.name), d=_steps(one, across, up), class_=f"line {colour(one.colour)}")
                for one in known
            ),
        )

    def _goal(self, across: Scale, top: float, bottom: float) -> Markup | None:
        if self.goal is None:
            return None
        value, name = self.goal
        x = across(value)
        path = tag("path", d=f"M{x:g} {top:g}V{bottom:g}", class_="limit")
        right = x > (across.start + across.end) / 2
        return tag(
            "g", path, label_at(x - 5 if right else x + 5, bottom - 8, name, "tick", "end" if right else "start")
        )

    def _table(self, known: Sequence[Sample]) -> Table:
        columns = (Column(""), Column("values", True), *(Column(_named(one), numeric=True) for one in QUANTILES))
        rows = tuple(map(_row, known))
        return Table(columns, rows, caption=f"{self.title} ({self.unit})")


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest value such that at least this share of the values are at most as large."""
    ordered = sorted(values)
    return ordered[max(math.ceil(share * len(ordered)) - 1, 0)]


def _row(sample: Sample) -> tuple[Cell, ...]:
    return (sample.name, len(sample.values), *(quantile(sample.values, share) for share in QUANTILES))


def _steps(sample: Sample, across: Scale, up: Scale) -> str:
    ordered = sorted(sample.values)
    path = [f"M{across(ordered[0]):.1f} {up(0.0):.1f}"]
    for place, value in enumerate(ordered, 1):
        path.append(f"H{across(value):.1f}V{up(place / len(ordered)):.1f}")
    return "".join(path) + f"H{across.end:.1f}"


def _named(share: float) -> str:
    return {0.0: "lowest", 1.0: "highest", 0.5: "median"}.get(share, f"{100 * share:.0f}th percentile")
