"""The candidate plans of a query: combinations of join trees for its blocks, cut into stages."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from qoop.plans.effort import Effort
from qoop.plans.graph import JoinGraph, RelationSet, size
from qoop.plans.plan import BlockPlan, Plan, PlanShape, Query, cuts_where
from qoop.plans.trees import Join, JoinCost, Leaf, Tree, best_trees, joins, shape, tree_as_written, tree_of

MAX_CANDIDATES = 64
"""How many plans are retained for replanning, besides those of earlier runs."""


@dataclass(frozen=True, slots=True)
class CutPolicy:
    """Where stages are cut. `large_rows`: rows from which an input counts as large. `everywhere`: cut at every join."""

    large_rows: float = 80_000.0
    everywhere: bool = False


class RowEstimates(Protocol):
    """Estimated rows of sets of relations, and their doubt: the standard deviation of the logarithm."""

    def rows(self, relations: RelationSet) -> float:
        """Rows of the join of a set of relations."""
        ...

    def uncertainty(self, relations: RelationSet) -> float:
        """How uncertain they are."""
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

    Raises:
        CannotSplitError: the query has too many joins to compare their orders.
    """
    effort = Effort()
    parts = {
        block: _parts(query.blocks[block].graph, [view(block) for view in views], cut_policy, effort)
        for block in query.planned
    }
    return _combined(query, parts, max_plans)


def _parts(
    graph: JoinGraph | None, views: list[tuple[JoinCost, RowEstimates]], cut_policy: CutPolicy, effort: Effort
) -> list[BlockPlan]:
    """Ways to compute one block, best first, alternating between the views."""
    assert graph is not None
    beam = beam_for(len(graph.relations))
    ranked = [[one.tree for one in best_trees(graph, cost, beam, effort=effort)] for cost, _ in views]
    ranked[-1].append(tree_as_written(graph))
    found: dict[object, BlockPlan] = {}
    for place in range(max(len(trees) for trees in ranked)):
        for trees in ranked:
            if place < len(trees):
                tree = trees[place]
                found.setdefault(shape(tree), BlockPlan(tree, _cuts(tree, views[0][1], cut_policy)))
    return list(found.values())


def beam_for(relations: int) -> int:
    """How many forests a search retains: fewer for many relations, since each then has more joins to compare."""
    if relations <= 12:
        return 32
    return max(1, min(12, 4800 // relations**2))


def _cuts(tree: Tree, rows: RowEstimates, cut_policy: CutPolicy) -> frozenset[RelationSet]:
    """Cut where two large inputs meet; small dimensions stay in one stage with the relation they are joined to."""
    if cut_policy.everywhere:
        return _cut_everywhere(tree)

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


def with_fewer_stages(plans: Sequence[Plan], rows: Mapping[str, RowEstimates]) -> list[Plan]:
    """The plans, and ways to run the query in fewer stages; the query as written is the last.

    Of the most promising plan: in one piece, cut once where the doubt is largest, and, if it is cut at all, everywhere.
    """
    query, best = plans[0].query, plans[0].block_plans
    made = [Plan(query, {name: BlockPlan(part.tree, frozenset()) for name, part in best.items()})]
    cuts = [(rows[name].uncertainty(cut), name, cut) for name, part in best.items() for cut in part.cuts]
    if cuts:
        _, block, cut = max(cuts)
        made.append(Plan(query, {**made[0].block_plans, block: BlockPlan(best[block].tree, frozenset({cut}))}))
        everywhere = {name: BlockPlan(part.tree, _cut_everywhere(part.tree)) for name, part in best.items()}
        made.append(Plan(query, everywhere))
    found = {plan.key: plan for plan in (*plans, *made)}
    return [*found.values(), as_written(query)]


def plan_of(query: Query, recorded: PlanShape) -> Plan | None:
    """The plan of a shape; None if the query has none, such as a record of another version."""
    parts = {}
    for name, joined, cut in recorded:
        graph = query.blocks[name].graph if name in query.planned else None
        if graph is None or not graph.bit.keys() >= {alias for aliases in (*joined, *cut) for alias in aliases}:
            return None
        tree, cuts = tree_of(map(graph.set_of, joined)), frozenset(map(graph.set_of, cut))
        if tree is None or tree.relations != graph.all_relations or not cuts <= shape(tree) - {tree.relations}:
            return None
        parts[name] = BlockPlan(tree, cuts)
    return Plan(query, parts) if parts.keys() == set(query.planned) else None


def as_written(query: Query) -> Plan:
    """The query as written: Spark joins its tables in the order of the text."""
    graphs = {name: query.blocks[name].graph for name in query.planned}
    trees = {name: tree_as_written(graph) for name, graph in graphs.items() if graph is not None}
    return Plan(query, {name: BlockPlan(tree, frozenset()) for name, tree in trees.items()}, as_written=True)


def _cut_everywhere(tree: Tree) -> frozenset[RelationSet]:
    return cuts_where(tree, lambda part, other: True)
