"""The candidate plans of a query: combinations of join trees for its blocks, cut into stages."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from qoop.plans.graph import JoinGraph, RelationSet, size
from qoop.plans.plan import BlockPlan, Plan, Query, cuts_where
from qoop.plans.trees import Join, JoinCost, Leaf, Tree, best_trees, joins, shape, tree_as_written

MAX_CANDIDATES = 64
"""How many plans are retained for replanning."""


@dataclass(frozen=True, slots=True)
class CutPolicy:
    """Where stages are cut. `large_rows`: rows from which an input counts as large. `everywhere`: cut at every join."""

    large_rows: float = 80_000.0
    everywhere: bool = False


class RowEstimates(Protocol):
    """Estimated rows of sets of relations."""

    def rows(self, relations: RelationSet) -> float:
        """Rows of the join of a set of relations."""
        ...


def candidates(
    query: Query,
    views: Iterable[Callable[[str], tuple[JoinCost, RowEstimates]]],
    cut_policy: CutPolicy,
    max_plans: int = MAX_CANDIDATES,
) -> list[Plan]:
    """The candidate plans of a query, most promising first.

    Args:
        views: alternative estimates: as expected, and with uncertain joins much larger or smaller; each returns, for a
            block, the cost of a join and the rows of a set. The best trees under each are retained, so that a good plan
            is available whatever row counts are measured.
        max_plans: how many plans to return at most.
    """
    parts = {
        block: _parts(query.blocks[block].graph, [view(block) for view in views], cut_policy) for block in query.planned
    }
    return _combined(query, parts, max_plans)


def _parts(
    graph: JoinGraph | None, views: list[tuple[JoinCost, RowEstimates]], cut_policy: CutPolicy
) -> list[BlockPlan]:
    """Ways to compute one block, best first, alternating between the views."""
    assert graph is not None
    beam = 32 if len(graph.relations) <= 12 else 12
    ranked = [[(one.tree, rows) for one in best_trees(graph, cost, beam)] for cost, rows in views]
    ranked[-1].append((tree_as_written(graph), views[0][1]))
    found: dict[object, BlockPlan] = {}
    for place in range(max(len(trees) for trees in ranked)):
        for trees in ranked:
            if place < len(trees):
                tree, _ = trees[place]
                found.setdefault(shape(tree), BlockPlan(tree, _cuts(tree, views[0][1], cut_policy)))
    return list(found.values())


def _cuts(tree: Tree, rows: RowEstimates, cut_policy: CutPolicy) -> frozenset[RelationSet]:
    """Cut where two large inputs meet; small dimensions stay in one stage with the relation they are joined to."""
    if cut_policy.everywhere:
        return cuts_where(tree, lambda part, other: True)

    def is_large(tree: Tree) -> bool:
        return isinstance(tree, Join) or rows.rows(tree.relations) > cut_policy.large_rows

    return cuts_where(tree, lambda part, other: is_large(other) and _reads_large(part, rows, cut_policy))


def _reads_large(part: Join, rows: RowEstimates, cut_policy: CutPolicy) -> bool:
    """Whether a subtree reads a large relation: a join of small dimensions is not worth a stage."""
    return any(rows.rows(leaf) > cut_policy.large_rows for leaf in _leaves(part))


def _leaves(tree: Tree) -> Iterable[RelationSet]:
    for join in joins(tree):
        for side in (join.left, join.right):
            if isinstance(side, Leaf):
                yield side.relations


def _combined(query: Query, parts: Mapping[str, list[BlockPlan]], max_plans: int) -> list[Plan]:
    """Combine the best ways of all blocks, then vary one block at a time, blocks with most relations first."""
    best = {block: ways[0] for block, ways in parts.items()}
    plans = {(plan := Plan(query, best)).key: plan}
    graphs = {block: query.blocks[block].graph for block in parts}
    order = sorted(parts, key=lambda block: -size(graph.all_relations) if (graph := graphs[block]) else 0)
    place = 1
    while len(plans) < max_plans and any(place < len(ways) for ways in parts.values()):
        for block in order:
            if place < len(parts[block]) and len(plans) < max_plans:
                plan = Plan(query, {**best, block: parts[block][place]})
                plans.setdefault(plan.key, plan)
        place += 1
    return list(plans.values())
