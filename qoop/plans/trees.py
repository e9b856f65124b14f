"""Join trees over the relations of one graph, and a beam search for many good ones."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from qoop.plans.graph import JoinGraph, RelationSet


@dataclass(frozen=True, slots=True)
class Join:
    """A join of two subtrees; `relations` is the union of theirs."""

    left: "Tree"
    right: "Tree"
    relations: RelationSet


@dataclass(frozen=True, slots=True)
class Leaf:
    """One relation with its filters."""

    relations: RelationSet


Tree = Leaf | Join


def joined(left: Tree, right: Tree) -> Join:
    """The join of two trees."""
    return Join(left, right, left.relations | right.relations)


def left_deep(relations: int) -> Tree:
    """Relations 0, 1, 2, ... joined one after the other."""
    tree: Tree = Leaf(1)
    for i in range(1, relations):
        tree = joined(tree, Leaf(1 << i))
    return tree


def nodes(tree: Tree) -> Iterator[Tree]:
    """The nodes of a tree in post-order."""
    if isinstance(tree, Join):
        yield from nodes(tree.left)
        yield from nodes(tree.right)
    yield tree


def joins(tree: Tree) -> Iterator[Join]:
    """The joins of a tree in post-order."""
    for node in nodes(tree):
        if isinstance(node, Join):
            yield node


def shape(tree: Tree) -> frozenset[RelationSet]:
    """The sets of relations that a tree joins; equal for trees that differ only in the sides of joins."""
    return frozenset(join.relations for join in joins(tree))


def tree_of(sets: Iterable[RelationSet]) -> Tree | None:
    """The tree that joins these sets of relations, any two of which are nested or disjoint; None if there is none."""
    ordered = sorted(set(sets), key=lambda one: one.bit_count())
    parts: dict[RelationSet, Tree] = {}
    for whole in ordered:
        inside = {one: tree for one, tree in parts.items() if one & whole}
        covered = sum(inside)
        rest = whole & ~covered
        leaves = [Leaf(1 << i) for i in range(rest.bit_length()) if rest >> i & 1]
        if covered | whole != whole or len(inside) + len(leaves) != 2:
            return None
        left, right = sorted((*inside.values(), *leaves), key=lambda tree: tree.relations)
        parts = {one: tree for one, tree in parts.items() if one not in inside} | {whole: joined(left, right)}
    return next(iter(parts.values())) if len(parts) == 1 else None


JoinCost = Callable[[RelationSet, RelationSet], float]
"""The cost of joining two sets of relations; it depends on the sets alone."""


@dataclass(frozen=True, slots=True)
class RankedTree:
    """A tree and its cost, the sum over its joins."""

    tree: Tree
    cost: float


@dataclass(frozen=True, slots=True)
class _Forest:
    """Trees that cover a graph. `sets`: the relations of each; `shape`: those of all their joins."""

    parts: tuple[Tree, ...]
    cost: float
    sets: frozenset[RelationSet]
    shape: frozenset[RelationSet]


class _Step(NamedTuple):
    """A forest in which trees number `left` < `right` are to be joined, and its cost then."""

    cost: float
    forest: _Forest
    left: int
    right: int


def best_trees(graph: JoinGraph, cost: JoinCost, beam: int = 32, alternatives: int = 3) -> list[RankedTree]:
    """Find cheap join trees by a bottom-up beam search: each step extends every forest by each possible join.

    Cross joins occur only between connected components, which are joined last. The search does not distinguish the two
    sides of a join. Deterministic.

    Args:
        cost: the cost of one join.
        beam: how many forests, counting those over the same sets of relations once, survive a step.
        alternatives: how many forests over the same sets survive, so that the trees found differ inside too.
    """
    ranked = [_search(graph, part, cost, beam, alternatives) for part in graph.components()]
    result = ranked[0]
    for others in ranked[1:]:
        best = others[0]
        result = [RankedTree(joined(one.tree, best.tree), one.cost + best.cost) for one in result]
    return result


def tree_as_written(graph: JoinGraph) -> Tree:
    """The left-deep tree in the order of the text, avoiding cross joins."""
    parts: list[Tree] = [Leaf(1 << i) for i in range(len(graph.relations))]
    tree, parts = parts[0], parts[1:]
    while parts:
        reach = graph.reach(tree.relations)
        following = next((part for part in parts if part.relations & reach), parts[0])
        parts.remove(following)
        tree = joined(tree, following)
    return tree


def _search(graph: JoinGraph, part: RelationSet, cost: JoinCost, beam: int, alternatives: int) -> list[RankedTree]:
    leaves = tuple(Leaf(1 << i) for i in range(len(graph.relations)) if part >> i & 1)
    forests = [_Forest(leaves, 0.0, frozenset(leaf.relations for leaf in leaves), frozenset())]
    for _ in range(len(leaves) - 1):
        forests = _best(_steps(graph, forests, cost), beam, alternatives)
    ranked = sorted(forests, key=lambda forest: forest.cost)
    return [RankedTree(forest.parts[0], forest.cost) for forest in ranked]


def _steps(graph: JoinGraph, forests: list[_Forest], cost: JoinCost) -> list[_Step]:
    """Every way to extend a forest by one join."""
    found: list[_Step] = []
    known: dict[tuple[RelationSet, RelationSet], float] = {}
    for forest in forests:
        reaches = [graph.reach(part.relations) for part in forest.parts]
        for i, one in enumerate(forest.parts):
            for j in range(i):
                other = forest.parts[j]
                if not reaches[i] & other.relations:
                    continue
                pair = (one.relations, other.relations)
                price = known.get(pair)
                if price is None:
                    price = known[pair] = cost(*pair)
                found.append(_Step(forest.cost + price, forest, j, i))
    return found


def _best(steps: list[_Step], beam: int, alternatives: int) -> list[_Forest]:
    """The cheapest forests: of at most `beam` different sets of trees, at most `alternatives` each.

    Complete trees all cover the same set, so of them `beam` are retained.
    """
    retained: dict[frozenset[RelationSet], list[_Forest]] = {}
    for step in sorted(steps, key=lambda step: step.cost):
        before, (_, _, i, j) = step.forest, step
        left, right = before.parts[i], before.parts[j]
        union = left.relations | right.relations
        sets = before.sets - {left.relations, right.relations} | {union}
        same = retained.get(sets)
        if same is None:
            if len(retained) == beam:
                continue
            same = retained[sets] = []
        joins_of = before.shape | {union}
        limit = beam if len(sets) == 1 else alternatives
        if len(same) < limit and all(other.shape != joins_of for other in same):
            rest = (*before.parts[:i], *before.parts[i + 1 : j], *before.parts[j + 1 :])
            same.append(_Forest((*rest, joined(left, right)), step.cost, sets, joins_of))
    return [forest for same in retained.values() for forest in same]
