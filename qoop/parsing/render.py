"""Generate the SQL of a plan's stages."""

import re
from collections.abc import Collection, Mapping

from qoop.parsing.joins import CORE, Core
from qoop.parsing.query import QueryText
from qoop.parsing.spark_sql import DIALECT
from qoop.plans.graph import JoinGraph, Relation, RelationSet, members
from qoop.plans.plan import BLOCK_RESULT, PREFIX, RESULT, Plan, StageId, view_name
from qoop.plans.predicate import Column
from qoop.plans.trees import Join, Leaf, Tree

WORD = re.compile(r"\w+")

FILTERED = f"{PREFIX}_source"
"""The name of a relation below its filters, which no block has (no two underscores in a row), and no stage's view."""


def stage_query(text: QueryText, plan: Plan, stage: StageId, inputs: Collection[StageId]) -> str:
    """The SQL of a stage over tables and the outputs of `inputs`; blocks computed inside it become CTEs."""
    inside = {fragment.block for fragment in plan.content(stage, frozenset(inputs)).fragments[1:]}
    body = _block_query(text, plan, stage, inputs)
    definitions = ", ".join(
        f"{quoted(name)} AS ({_block_query(text, plan, StageId(name, BLOCK_RESULT), inputs)})"
        for name in text.query.blocks
        if name in inside
    )
    return f"WITH {definitions} {body}" if definitions else body


def plan_query(text: QueryText, plan: Plan) -> str:
    """The SQL of a whole plan as one text: its stages, each defined before those that read it."""
    definitions: dict[str, str] = {}
    done: list[StageId] = []
    for stage in plan.stages():
        definitions[view_name(stage)] = stage_query(text, plan, stage, done)
        done.append(stage)
    return composed(definitions.pop(view_name(RESULT)), definitions)


def composed(query: str, definitions: Mapping[str, str]) -> str:
    """A stage's query as one text: each view that it reads, directly or not, is replaced by its definition."""
    found: dict[str, str] = {}
    started: set[str] = set()

    def define(text: str) -> None:
        words = set(WORD.findall(text))
        for view in sorted(definitions.keys() & words - started):
            started.add(view)
            define(definitions[view])
            found[view] = definitions[view]

    define(query)
    if not found:
        return query
    views = ", ".join(f"{quoted(view)} AS ({definition})" for view, definition in found.items())
    return f"WITH {views} SELECT * FROM ({query})"


def views_read(query: str, views: Collection[str]) -> set[str]:
    """Those of these views whose names occur in a stage's query."""
    return set(views).intersection(WORD.findall(query)) if views else set()


def _block_query(text: QueryText, plan: Plan, stage: StageId, inputs: Collection[StageId]) -> str:
    tree = plan.stage_tree(stage)
    if tree is None:
        return text.texts[stage.block]
    core = text.cores[stage.block]
    views = {made.relations: view_name(made) for made in inputs if made.block == stage.block and made != stage}
    if stage.relations == BLOCK_RESULT:
        return block_query(core, tree, views)
    return join_query(core.graph, tree, views)


def join_query(graph: JoinGraph, tree: Tree, views: Mapping[RelationSet, str]) -> str:
    """The SQL of the join of a tree; selects exactly the columns that are read after it.

    `views`: existing outputs, by their relations; each replaces the part of the tree that it covers.
    """
    columns = ", ".join(quoted(column.output) for column in graph.outputs(tree.relations)) or "1 AS `any`"
    return f"SELECT {columns} FROM {_source(graph, tree, views, top=True)}"


def block_query(core: Core, tree: Tree, views: Mapping[RelationSet, str]) -> str:
    """The SQL of a whole block: the SELECT around its core, over the core joined as in the tree."""
    text = str(core.rest.sql(DIALECT))
    return text.replace(f"FROM {CORE}", f"FROM {_source(core.graph, tree, views, top=True)}", 1)


def _source(graph: JoinGraph, tree: Tree, views: Mapping[RelationSet, str], top: bool = False) -> str:
    if tree.relations in views:
        return quoted(views[tree.relations])
    if isinstance(tree, Leaf):
        return leaf_query(graph, graph.relations[next(members(tree.relations))])
    # A left-joined relation is on the right, whatever its side of the tree.
    sides = sorted((tree.left, tree.right), key=lambda side: side.relations in graph.optional)
    left, right = (_source(graph, side, views) for side in sides)
    if sides[1].relations in graph.optional:
        on = graph.relations[next(members(sides[1].relations))].on
        text = f"{left} LEFT JOIN {right} ON {' AND '.join(f'({predicate.sql})' for predicate in on)}"
    else:
        conditions = _conditions(graph, tree)
        text = f"{left} JOIN {right} ON {conditions}" if conditions else f"{left} CROSS JOIN {right}"
    return text if top else f"({text})"


def _conditions(graph: JoinGraph, join: Join) -> str:
    left, right = join.left.relations, join.right.relations
    pairs = [
        (graph.representative(columns, left), graph.representative(columns, right))
        for columns in graph.joining_classes(left, right)
    ]
    equal = [f"{quoted(one.output)} = {quoted(other.output)}" for one, other in pairs]
    return " AND ".join([*equal, *(f"({predicate.sql})" for predicate in graph.joining_predicates(left, right))])


def leaf_query(graph: JoinGraph, relation: Relation) -> str:
    """The subquery of a relation: its filters, and its columns under their output names."""
    bit = graph.bit[relation.alias]
    renamed = ", ".join(f"{quoted(name)} AS {quoted(Column(relation.alias, name).output)}" for name in relation.columns)
    source = quoted(relation.source) if relation.is_block else relation.source
    text = f"SELECT {renamed or '1 AS `any`'} FROM {source} AS {quoted(relation.alias)}"
    if relation.filters:
        columns = ", ".join(quoted(column.output) for column in graph.outputs(bit)) or "1 AS `any`"
        conditions = " AND ".join(f"({predicate.sql})" for predicate in relation.filters)
        # Without a name for it, Spark would read `WHERE (x)`, a condition that is just a column, as one.
        text = f"SELECT {columns} FROM ({text}) AS {quoted(FILTERED)} WHERE {conditions}"
    return f"({text})"


def quoted(name: str) -> str:
    """A name in backticks."""
    return "`" + name.replace("`", "``") + "`"
