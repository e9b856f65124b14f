"""Join trees over the relations of one graph, and a beam search for many good ones."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from qoop.plans.effort import Effort
from qoop.plans.graph import JoinGraph, RelationSet, members


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


class _Pair(NamedTuple):
    """Two trees of a forest that an equality connects, in the order of the forest, and the cost of joining them."""

    cost: float
    left: Tree
    right: Tree


@dataclass(frozen=True, slots=True)
class _Forest:
    """Trees that cover a graph.

    `sets`: the relations of each. `shape`: those of all their joins. `pairs`: every join that can be next.
    """

    parts: tuple[Tree, ...]
    cost: float
    sets: frozenset[RelationSet]
    shape: frozenset[RelationSet]
    pairs: list[_Pair]


class _Step(NamedTuple):
    """A forest in which two trees are to be joined, and its cost then."""

    cost: float
    forest: _Forest
    pair: _Pair


def best_trees(
    graph: JoinGraph, cost: JoinCost, beam: int = 32, alternatives: int = 3, effort: Effort | None = None
) -> list[RankedTree]:
    """Find cheap join trees by a bottom-up beam search: each step extends every forest by each possible join.

    Cross joins occur only between connected components, which are joined last. The search does not distinguish the two
    sides of a join. Deterministic.

    Args:
        cost: the cost of one join.
        beam: how many forests, counting those over the same sets of relations once, survive a step.
        alternatives: how many forests over the same sets survive, so that the trees found differ inside too.
        effort: the work that the search may take.

    Raises:
        CannotSplitError: it would take more.
    """
    search = _Search(graph, cost, beam, alternatives, effort or Effort())
    ranked = [search.trees(part) for part in graph.components()]
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


class _Search:
    """A beam search for the trees of a connected part of a graph; see `best_trees`."""

    def __init__(self, graph: JoinGraph, cost: JoinCost, beam: int, alternatives: int, effort: Effort) -> None:
        self._graph, self._cost, self._beam, self._alternatives = graph, cost, beam, alternatives
        self._effort = effort
        self._known: dict[tuple[RelationSet, RelationSet], float] = {}

    def trees(self, part: RelationSet) -> list[RankedTree]:
        """The trees found, cheapest first."""
        leaves = tuple(Leaf(1 << i) for i in members(part))
        pairs = [pair for place, leaf in enumerate(leaves) for pair in self._pairs(leaves[:place], leaf)]
        forests = [_Forest(leaves, 0.0, frozenset(leaf.relations for leaf in leaves), frozenset(), pairs)]
        for _ in range(len(leaves) - 1):
            forests = self._best([step for forest in forests for step in _steps(forest)])
        ranked = sorted(forests, key=lambda forest: forest.cost)
        return [RankedTree(forest.parts[0], forest.cost) for forest in ranked]

    def _pairs(self, others: Sequence[Tree], tree: Tree) -> list[_Pair]:
        """A tree with each of the others that it can be joined with."""
        reach = self._graph.reach(tree.relations)
        can_join = self._graph.can_join
        near = [one for one in others if one.relations & reach and can_join(one.relations, tree.relations)]
        return [_Pair(self._cost_of(tree.relations, other.relations), other, tree) for other in near]

    def _cost_of(self, one: RelationSet, other: RelationSet) -> float:
        known = self._known.get((one, other))
        if known is None:
            # The more relations, the longer an estimate takes.
            self._effort.spend(len(self._graph.relations))
            known = self._known[one, other] = self._cost(one, other)
        return known

    def _best(self, steps: list[_Step]) -> list[_Forest]:
        """The cheapest forests: of at most `beam` different sets of trees, at most `alternatives` each.

        Complete trees all cover the same set, so of them `beam` are retained.
        """
        self._effort.spend(len(steps))
        retained: dict[frozenset[RelationSet], list[_Forest]] = {}
        unions: set[RelationSet] = set()
        for step in sorted(steps, key=lambda step: step.cost):
            before, (_, left, right) = step.forest, step.pair
            union = left.relations | right.relations
            if len(retained) == self._beam and union not in unions:
                continue
            sets = before.sets - {left.relations, right.relations} | {union}
            same = retained.get(sets)
            if same is None:
                if len(retained) == self._beam:
                    continue
                same = retained[sets] = []
                unions |= sets
            joins_of = before.shape | {union}
            limit = self._beam if len(sets) == 1 else self._alternatives
            if len(same) < limit and all(other.shape != joins_of for other in same):
                same.append(self._after(step, sets, joins_of))
        return [forest for same in retained.values() for forest in same]

    def _after(self, step: _Step, sets: frozenset[RelationSet], joins_of: frozenset[RelationSet]) -> _Forest:
        """The forest after a step."""
        before, (_, left, right) = step.forest, step.pair
        tree = joined(left, right)
        others = tuple(part for part in before.parts if not part.relations & tree.relations)
        untouched = [pair for pair in before.pairs if not (pair.left.relations | pair.right.relations) & tree.relations]
        pairs = untouched + self._pairs(others, tree)
        return _Forest((*others, tree), step.cost, sets, joins_of, pairs)


def _steps(forest: _Forest) -> Iterator[_Step]:
    """Every way to extend a forest by one join."""
    return (_Step(forest.cost + pair.cost, forest, pair) for pair in forest.pairs)
