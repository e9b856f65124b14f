"""Points over two axes, such as a metric over a parameter; behind them, the level of a third value, as a contour."""

from collections.abc import Sequence
from dataclasses import dataclass

from yarn_plugin.quantities import count
from yarn_plugin.report.axes import Axis, Value
from yarn_plugin.report.figure import LETTER_WIDTH, Key, empty, figure, label_at, line, shorten, svg, tooltip
from yarn_plugin.report.markup import Ids, Markup, tag
from yarn_plugin.report.table import Cell, Column, Figure, Table

LEFT, RIGHT, TOP = 64.0, 12.0, 26.0

CELLS = 24
"""Of the background, along each axis."""

LEVELS = 8
"""Steps of the background's shade."""


@dataclass(frozen=True, slots=True)
class Point:
    """`level`: from 0, the best, to 1; it shades the background around the point. `tone`: a colour; None: grey."""

    name: str
    x: Value
    y: Value
    level: float = 0.0
    tone: int | None = 0
    bold: bool = False
    detail: str = ""


@dataclass(frozen=True, slots=True)
class PlaneChart:
    """Points; with `shaded`, over a background of their levels, each place as the points near it."""

    title: str
    x: Axis
    y: Axis
    points: tuple[Point, ...]
    shaded: bool = False
    legend: tuple[Key, ...] = ()
    width: float = 540.0
    height: float = 220.0

    def html(self, ids: Ids) -> Markup:
        """The chart as HTML."""
        if not self.points:
            return empty(ids, self.title, "No values.")
        return figure(ids, self.title, self.legend, self._draw(ids), self._table())

    def _draw(self, ids: Ids) -> Markup:
        bottom, right = TOP + self.height, self.width - RIGHT
        described = f"{self.y.label} over {self.x.label}, {count(len(self.points), 'point')}."
        points = sorted(self.points, key=lambda one: one.bold)
        return svg(
            ids,
            self.title,
            described,
            bottom + 36,
            *(self._background(bottom, right) if self.shaded else ()),
            *self._axes(bottom, right),
            *(self._point(one, bottom, right) for one in points),
            width=self.width,
        )

    def _axes(self, bottom: float, right: float) -> list[Markup]:
        drawn = []
        for share, name in self.y.marks(4):
            at = bottom - share * self.height
            drawn.append(line(LEFT, at, right, at, "grid"))
            drawn.append(label_at(LEFT - 6, at + 4, shorten(name, LEFT - 8), "tick", "end"))
        marks = self.x.marks(5)
        for share, name in marks:
            at = LEFT + share * (right - LEFT)
            drawn.append(line(at, TOP, at, bottom, "grid"))
            fits = shorten(name, (right - LEFT) / len(marks) - LETTER_WIDTH)
            edge = min(at, self.width - LETTER_WIDTH * len(fits) / 2)
            drawn.append(label_at(edge, bottom + 15, fits, "tick", "middle"))
        drawn.append(label_at((LEFT + right) / 2, bottom + 31, self.x.label, "axis", "middle"))
        drawn.append(label_at(0, 11, self.y.label, "axis"))
        return drawn

    def _point(self, one: Point, bottom: float, right: float) -> Markup:
        x, y = LEFT + self.x.share(one.x) * (right - LEFT), bottom - self.y.share(one.y) * self.height
        told = f"{one.name}\n{self.x.label} {_text(one.x)}\n{self.y.label} {_text(one.y)}"
        style = f"c{one.tone}" if one.tone is not None else "cx"
        text = f"{told}\n{one.detail}" if one.detail else told
        return tag("circle", tooltip(text), cx=x, cy=y, r=6.0 if one.bold else 4.0, class_=f"area {style}")

    def _background(self, bottom: float, right: float) -> list[Markup]:
        places = [(self.x.share(one.x), self.y.share(one.y), one.level) for one in self.points]
        wide, high = (right - LEFT) / CELLS, self.height / CELLS
        drawn = []
        for column in range(CELLS):
            for row in range(CELLS):
                level = _near(places, (column + 0.5) / CELLS, (row + 0.5) / CELLS)
                shade = round((1.0 - level) * LEVELS) / LEVELS
                if shade > 0:
                    x, y = LEFT + column * wide, bottom - (row + 1) * high
                    drawn.append(
                        tag(
                            "rect", x=x, y=y, width=wide, height=high, shape_rendering="crispEdges", class_="block c2",
                            fill_opacity=0.75 * shade,
                        )
                    )  # fmt: skip
        return drawn

    def _table(self) -> Table:
        columns = (Column(""), Column(self.x.label, not self.x.choices), Column(self.y.label, not self.y.choices))
        rows = tuple((one.name, _cell(one.x), _cell(one.y)) for one in self.points)
        return Table(columns, rows, caption=self.title)


def _near(places: Sequence[tuple[float, float, float]], x: float, y: float) -> float:
    """The level of the points around a place, each by the inverse of the squared distance, and a little."""
    weights = [1.0 / ((px - x) ** 2 + (py - y) ** 2 + 0.003) ** 2 for px, py, _ in places]
    return sum(weight * level for weight, (_, _, level) in zip(weights, places, strict=True)) / sum(weights)


def _text(value: Value) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _cell(value: Value) -> Cell:
    is_figure = isinstance(value, int | float) and not isinstance(value, bool)
    return Figure(value, _text(value)) if is_figure else str(value)  # type: ignore[arg-type]
