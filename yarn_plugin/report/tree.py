"""Tree charts: the root to the left, the leaves in a column to the right."""

from collections.abc import Iterator
from dataclasses import dataclass

from yarn_plugin.report.figure import LETTER_WIDTH, WIDTH, Key, colour, figure, label_at, svg, tooltip
from yarn_plugin.report.markup import Ids, Markup, tag
from yarn_plugin.report.table import Column, Table

LEAF, STEP, WIDE_LETTER = 21.0, 62.0, 7.3


@dataclass(frozen=True, slots=True)
class Node:
    """A node; an inner node with a `name` is drawn as a box, without one as a plain fork."""

    name: str
    children: tuple["Node", ...] = ()
    colour: int | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Placed:
    """A node with its position."""

    node: Node
    depth: int
    y: float
    children: tuple["Placed", ...]


@dataclass(frozen=True, slots=True)
class TreeChart:
    """A tree. `legend`: what the colours mean."""

    title: str
    root: Node
    legend: tuple[Key, ...] = ()
    width: float = WIDTH / 2

    def html(self, ids: Ids) -> Markup:
        """The tree as HTML."""
        text = format_tree(self.root)
        rows = tuple(
            (depth, node.name or "join", format_tree(node)) for node, depth in _nodes(self.root) if node.children
        )
        columns = (Column("depth", numeric=True), Column("node"), Column("of"))
        data = Table(columns, rows, caption=self.title, empty=f"One node: {text}.")
        return figure(ids, self.title, self.legend, self._draw(ids, text), data)

    def _draw(self, ids: Ids, text: str) -> Markup:
        leaves = sum(not node.children for node, _ in _nodes(self.root))
        levels = max(depth for _, depth in _nodes(self.root))
        longest = max((len(node.name) for node, _ in _nodes(self.root) if not node.children), default=0)
        root_width = _box_width(self.root) / 2 if self.root.children else 0.0
        step = min(STEP, max(24.0, (self.width - longest * WIDE_LETTER - root_width - 16) / max(levels, 1)))
        placed, _ = _place(self.root, 0, 0)
        left = 4 + root_width
        parts = list(self._parts(placed, step, left, left + step * levels))
        return svg(ids, self.title, f"{text}.", leaves * LEAF + 8, *parts, width=self.width)

    def _parts(self, placed: Placed, step: float, left: float, leaves: float) -> Iterator[Markup]:
        """The drawn parts: lines first, so that boxes cover their ends."""
        lines = tag("path", d="".join(_lines(placed, step, left, leaves)), class_="branch")
        yield lines
        yield from self._nodes(placed, step, left, leaves)

    def _nodes(self, placed: Placed, step: float, left: float, leaves: float) -> Iterator[Markup]:
        node, x = placed.node, left + step * placed.depth
        for child in placed.children:
            yield from self._nodes(child, step, left, leaves)
        if not placed.children:
            yield tag("g", tooltip(node.detail or node.name), label_at(leaves + 4, placed.y + 4, node.name, "row"))
        elif node.name:
            width = _box_width(node)
            box = tag("rect", x=x - width / 2, y=placed.y - 8, width=width, height=16, rx=3, class_="block")
            name = label_at(x, placed.y + 4, node.name, "on", "middle")
            yield tag("g", tooltip(node.detail or node.name), box, name, class_=f"run {colour(node.colour)}")
        else:
            yield tag("circle", tooltip(node.detail or "join"), cx=x, cy=placed.y, r=3, class_="fork")


def format_tree(node: Node) -> str:
    """A tree in one line: joins in parentheses, the children of a named node in brackets after its name."""
    if not node.children:
        return node.name
    inside = " ⋈ ".join(map(format_tree, node.children))
    return f"{node.name} [{inside}]" if node.name else f"({inside})"


def _nodes(node: Node, depth: int = 0) -> Iterator[tuple[Node, int]]:
    yield node, depth
    for child in node.children:
        yield from _nodes(child, depth + 1)


def _place(node: Node, depth: int, leaves: int) -> tuple[Placed, int]:
    """The node with its position, and the number of leaves above the next one."""
    if not node.children:
        return Placed(node, depth, 4 + LEAF * (leaves + 0.5), ()), leaves + 1
    children = []
    for child in node.children:
        placed, leaves = _place(child, depth + 1, leaves)
        children.append(placed)
    middle = (children[0].y + children[-1].y) / 2
    return Placed(node, depth, middle, tuple(children)), leaves


def _lines(placed: Placed, step: float, left: float, leaves: float) -> Iterator[str]:
    x = left + step * placed.depth
    for child in placed.children:
        end = left + step * child.depth if child.children else leaves
        yield f"M{x:g} {placed.y:g}V{child.y:g}H{end:g}"
        yield from _lines(child, step, left, leaves)


def _box_width(node: Node) -> float:
    return len(node.name) * LETTER_WIDTH + 12
