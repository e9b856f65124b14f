"""The parts of every chart: title, legend, drawing with a description, axes, and a table of the values."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from yarn_plugin.quantities import number
from yarn_plugin.report.markup import Ids, Markup, tag
from yarn_plugin.report.table import Table

WIDTH = 1100.0
"""The width of every drawing; the page scales it down to its own."""

COLOURS = 6
"""The number of distinct colours of the style; further ones are grey."""

LETTER_WIDTH = 6.6
"""The approximate width of a letter in a drawing."""

RIGHT = 14.0
"""Space to the right of a plot."""


def colour(number: int | None) -> str:
    """The style class of a colour; grey for None and for numbers beyond the distinct colours."""
    return f"c{number}" if number is not None and 0 <= number < COLOURS else "cx"


@dataclass(frozen=True, slots=True)
class Span:
    """An interval on a time axis, in seconds."""

    start: float
    end: float


def ticks(low: float, high: float, max_count: int) -> list[float]:
    """Round numbers from `low` to `high` at round distances, about `max_count` of them at most."""
    if not high > low:
        return [low]
    rough = (high - low) / max(max_count, 1)
    power = 10.0 ** math.floor(math.log10(rough))
    steps = (1, 2, 2.5, 5, 10) if power >= 10 else (1, 2, 5, 10)
    step = next(step * power for step in steps if step * power >= rough * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(place * step, 12) for place in range(first, last + 1)]


def labels(marks: Sequence[float], factor: float = 1.0) -> list[str]:
    """The labels of an axis, all with the decimals that the finest needs."""
    shown = [round(factor * mark, 9) for mark in marks]
    digits = max((len(f"{value:.9f}".rstrip("0").partition(".")[2]) for value in shown), default=0)
    return [number(value, digits) for value in shown]


def ceiling(value: float, max_ticks: int) -> float:
    """The smallest round number, not below `value`, with which an axis of about `max_ticks` ticks can end."""
    if not value > 0:
        return 1.0
    step = ticks(0.0, value, max_ticks)
    apart = step[1] - step[0] if len(step) > 1 else value
    return math.ceil(value / apart - 1e-9) * apart


@dataclass(frozen=True, slots=True)
class Scale:
    """Maps values to positions on a drawing."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """The position of a value; values beyond the ends are at the ends."""
        if self.high <= self.low:
            return self.start
        share = (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)


Shape = Literal["block", "faint", "line", "dashed", "thread", "dot", "ring", "cross", "diamond", "triangle", "again"]


@dataclass(frozen=True, slots=True)
class Key:
    """An entry of a legend."""

    label: str
    shape: Shape
    style: str


def figure(ids: Ids, title: str, legend: Sequence[Key], drawing: Markup, data: Table) -> Markup:
    """A chart as HTML."""
    name = ids.new("figure")
    keys = tag("ul", *(tag("li", _sample(key), key.label) for key in legend), class_="legend") if legend else None
    return tag(
        "figure",
        tag("figcaption", title, id=name),
        keys,
        tag("div", drawing, class_="scroll", tabindex="0", role="group", aria_label=f"{title}: drawing"),
        tag("details", tag("summary", "Values as a table"), data.html(ids), class_="data"),
        aria_labelledby=name,
    )


def empty(ids: Ids, title: str, why: str) -> Markup:
    """A chart without data, and why."""
    name = ids.new("figure")
    return tag("figure", tag("figcaption", title, id=name), tag("p", why, class_="muted"), aria_labelledby=name)


def svg(ids: Ids, title: str, description: str, height: float, *parts: str | None, width: float = WIDTH) -> Markup:
    """A drawing, with a title and a description for screen readers."""
    named, described = ids.new("name"), ids.new("description")
    return tag(
        "svg",
        tag("title", title, id=named),
        tag("desc", description, id=described),
        *parts,
        viewBox=f"0 0 {width:g} {height:g}",
        role="img",
        aria_labelledby=named,
        aria_describedby=described,
        style=f"min-width:{min(width, 760.0):g}px;max-width:{width * 1.15:.0f}px",
    )


def tooltip(text: str) -> Markup:
    """The tooltip of the element that contains it."""
    return tag("title", text)


def label_at(x: float, y: float, text: str, style: str = "", anchor: str = "start") -> Markup:
    """A line of text in a drawing."""
    return tag("text", text, x=x, y=y, class_=style or None, text_anchor=None if anchor == "start" else anchor)


def line(x1: float, y1: float, x2: float, y2: float, style: str) -> Markup:
    """A straight line in a drawing."""
    return tag("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=style)


def shorten(text: str, width: float) -> str:
    """A text that fits a width, shortened in the middle, where names differ least."""
    limit = int(width / LETTER_WIDTH)
    if len(text) <= limit:
        return text
    if limit < 5:
        return text[: max(limit, 1)]
    front = (limit - 1) * 2 // 3
    return f"{text[:front]}…{text[front + 1 - limit :]}"


def x_axis(scale: Scale, top: float, bottom: float, label: str) -> Markup:
    """Vertical grid lines with their values and unit below."""
    marks = ticks(scale.low, scale.high, 10)
    lines = (line(scale(mark), top, scale(mark), bottom, "grid") for mark in marks)
    names = (
        # The last one may be at the edge of the drawing.
        label_at(min(scale(mark), WIDTH - LETTER_WIDTH * len(name) / 2), bottom + 15, name, "tick", "middle")
        for mark, name in zip(marks, labels(marks), strict=True)
    )
    return tag("g", *lines, *names, label_at((scale.start + scale.end) / 2, bottom + 31, label, "axis", "middle"))


def y_axis(scale: Scale, left: float, right: float, label: str, percent: bool = False) -> Markup:
    """Horizontal grid lines with their values to the left, and the unit above."""
    marks = ticks(scale.low, scale.high, 4)
    lines = (line(left, scale(mark), right, scale(mark), "grid") for mark in marks)
    names = (
        label_at(left - 6, scale(mark) + 4, f"{name} %" if percent else name, "tick", "end")
        for mark, name in zip(marks, labels(marks, 100.0 if percent else 1.0), strict=True)
    )
    return tag("g", *lines, *names, label_at(0, 11, label, "axis"))


def shape(kind: Shape, x: float, y: float, style: str, *inside: str | None) -> Markup:
    """A small symbol around a point."""
    match kind:
        case "dot" | "ring":
            return tag("circle", *inside, cx=x, cy=y, r=4.5, class_=f"sign {kind} {style}")
        case "cross":
            return tag("path", *inside, d=f"M{x - 4:g} {y - 4:g}l8 8m0 -8l-8 8", class_=f"sign cross {style}")
        case "diamond":
            return tag("path", *inside, d=f"M{x:g} {y - 6:g}l6 6l-6 6l-6 -6z", class_=f"sign diamond {style}")
        case "triangle":
            return tag("path", *inside, d=f"M{x - 4:g} {y - 5:g}l9 5l-9 5z", class_=f"sign triangle {style}")
        case "again":
            return tag(
                "path", *inside, d=f"M{x + 4:g} {y - 2:g}a4.6 4.6 0 1 0 .3 3.5m.3 -7v4h-4", class_=f"sign {style}"
            )
        case "block" | "faint":
            return tag("rect", *inside, x=x - 8, y=y - 5, width=16, height=10, rx=2, class_=f"{kind} {style}")
        case "line" | "dashed" | "thread":
            return tag("path", *inside, d=f"M{x - 9:g} {y:g}h18", class_=f"{kind} {style}")


def _sample(key: Key) -> Markup:
    drawn = shape(key.shape, 10, 7, key.style)
    return tag("svg", drawn, viewBox="0 0 20 14", width=20, height=14, aria_hidden="true")
