"""The candidate plans of a query: several join trees for each block, several ways to cut them, all together."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from qoop.plans.graph import JoinGraph, RelationSet, size
from qoop.plans.plan import BlockPlan, Plan, Query, cuts_where
from qoop.plans.trees import Join, JoinCost, Leaf, Tree, best_trees, joins, shape, tree_as_written

MAX_CANDIDATES = 64
"""How many plans are kept for replanning."""


@dataclass(frozen=True, slots=True)
class CutPolicy:
    """Where stages are cut: `large`: rows from which a join input counts as large; `every`: everywhere (tests)."""

    large: float = 80_000.0
    every: bool = False


class Rows(Protocol):
    """Estimated rows of sets of relations."""

    def rows(self, relations: RelationSet) -> float:
        """Rows of the join of a set."""
        ...


def candidates(
    query: Query,
    views: Iterable[Callable[[str], tuple[JoinCost, Rows]]],
    cutting: CutPolicy,
    most: int = MAX_CANDIDATES,
) -> list[Plan]:
    """Plans of a query, those that look best first.

    Args:
        views: ways to see the costs: as estimated, and as they would be if doubtful joins were much larger or smaller;
            each gives, for a block, the cost of a join and the rows of a set. What is best under any of them is kept,
            so that a good plan is at hand when the truth comes out.
        most: how many plans at most.
    """
    parts = {
        block: _parts(query.blocks[block].graph, [view(block) for view in views], cutting) for block in query.planned
    }
    return _combined(query, parts, most)


def _parts(graph: JoinGraph | None, views: list[tuple[JoinCost, Rows]], cutting: CutPolicy) -> list[BlockPlan]:
    """The ways to compute one block, best first, taking turns between the views."""
    assert graph is not None
    beam = 32 if len(graph.relations) <= 12 else 12
    ranked = [[(one.tree, rows) for one in best_trees(graph, cost, beam)] for cost, rows in views]
    ranked[-1].append((tree_as_written(graph), views[0][1]))
    found: dict[object, BlockPlan] = {}
    for place in range(max(len(trees) for trees in ranked)):
        for trees in ranked:
            if place < len(trees):
                tree, _ = trees[place]
                found.setdefault(shape(tree), BlockPlan(tree, _cuts(tree, views[0][1], cutting)))
    return list(found.values())


def _cuts(tree: Tree, rows: Rows, cutting: CutPolicy) -> frozenset[RelationSet]:
    """Cut where two large inputs meet: small dimensions stay with what they are joined to, as one pipeline."""
    if cutting.every:
        return cuts_where(tree, lambda part, other: True)

    def is_large(tree: Tree) -> bool:
        return isinstance(tree, Join) or rows.rows(tree.relations) > cutting.large

    return cuts_where(tree, lambda part, other: is_large(other) and _does_much(part, rows, cutting))


def _does_much(part: Join, rows: Rows, cutting: CutPolicy) -> bool:
    """Whether a part has something large in it: a join of small dimensions is not worth a stage."""
    return any(rows.rows(leaf) > cutting.large for leaf in _leaves(part))


def _leaves(tree: Tree) -> Iterable[RelationSet]:
    for join in joins(tree):
        for side in (join.left, join.right):
            if isinstance(side, Leaf):
                yield side.relations


def _combined(query: Query, parts: Mapping[str, list[BlockPlan]], most: int) -> list[Plan]:
    """The best of each block together, then each block's others in turn, larger blocks first."""
    best = {block: ways[0] for block, ways in parts.items()}
    plans = {(plan := Plan(query, best)).key: plan}
    graphs = {block: query.blocks[block].graph for block in parts}
    order = sorted(parts, key=lambda block: -size(graph.all_relations) if (graph := graphs[block]) else 0)
    place = 1
    while len(plans) < most and any(place < len(ways) for ways in parts.values()):
        for block in order:
            if place < len(parts[block]) and len(plans) < most:
                plan = Plan(query, {**best, block: parts[block][place]})
                plans.setdefault(plan.key, plan)
        place += 1
    return list(plans.values())
