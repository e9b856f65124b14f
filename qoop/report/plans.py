"""Candidate plans as trees, with the stages that they are cut into."""

from collections.abc import Iterator

from qoop.plans.plan import ROOT
from qoop.report.names import Names
from qoop.report.record import CandidatePlan, JoinOf, QueryRecord
from yarn_plugin.report import Badge, Column, Details, Key, Node, SideBySide, Table, Text, TreeChart
from yarn_plugin.report.figure import COLOURS
from yarn_plugin.report.markup import Block
from yarn_plugin.report.tree import written


def plan_blocks(record: QueryRecord) -> list[Block]:
    """The plan of the start beside that of the end, those between, and all candidates in a table."""
    if not record.opening.plans:
        return []
    names = Names(record)
    followed = [made.decision.plan for made in record.decisions]
    blocks: list[Block] = []
    if not any(plan.trees for plan in record.opening.plans):
        return [Text("There was no choice of join trees: the query runs in one stage.")]
    if followed:
        first, last = followed[0], followed[-1]
        charts = [plan_tree(record, names, first, "at the start" if first != last else "from start to end")]
        if first != last:
            charts.append(plan_tree(record, names, last, "at the end"))
        blocks.append(SideBySide(tuple(charts)))
        if between := [plan for plan in record.plans_in_force if plan not in (first, last)]:
            trees = SideBySide(tuple(plan_tree(record, names, plan, "in between") for plan in between))
            blocks.append(Details("Plans followed in between", (trees,)))
    table = Details(f"All candidate plans ({len(record.opening.plans)})", (_candidates(record, names),))
    return [*blocks, table]


def plan_tree(record: QueryRecord, names: Names, plan: int, when: str) -> TreeChart:
    """A plan as a tree; stages that were run are named as in the Gantt chart and have the colour of their plan."""
    root = tree_of(record.opening.plans[plan], names)
    return TreeChart(f"Plan {plan}, {when}", root, tuple(_legend(root, names)))


def tree_of(plan: CandidatePlan, names: Names) -> Node:
    """The blocks of a plan under the query's result."""
    blocks = {block: _node(tree, block, names) for block, tree in plan.trees.items()}
    top = blocks.pop(ROOT, None)
    inside = tuple(_boxed(block, node, names) for block, node in blocks.items())
    return Node("result", (*inside, *((top,) if top else ())), _colour(ROOT, names), "the query's result")


def _boxed(block: str, node: Node, names: Names) -> Node:
    name = f"{names.short(block)} {names.block(block)}".strip()
    return Node(name, (node,), _colour(block, names), f"all of {names.block(block)}")


def _node(tree: JoinOf | str, block: str, names: Names) -> Node:
    if isinstance(tree, str):
        return Node(tree)
    children = tuple(_node(side, block, names) for side in tree.join)
    if tree.stage is None:
        return Node("", children, detail="join, computed in place")
    short = names.short(tree.stage)
    return Node(
        short or "stage", children, _colour(tree.stage, names), f"stage {short}" if short else "stage, not started"
    )


def _colour(view: str, names: Names) -> int | None:
    plan = names.ran_under.get(view)
    return None if plan is None else names.colours.get(plan)


def _legend(root: Node, names: Names) -> list[Key]:
    boxes = {node.colour for node in _boxes(root)}
    ran = [(plan, colour) for plan, colour in names.colours.items() if colour in boxes]
    keys = [Key(f"ran under plan {plan}", "block", f"c{colour}") for plan, colour in ran if colour < COLOURS]
    if len(keys) < len(ran):
        keys.append(Key("ran under another plan", "block", "cx"))
    return [*keys, Key("not finished", "block", "cx")] if None in boxes else keys


def _boxes(node: Node) -> Iterator[Node]:
    if node.children:
        if node.name:
            yield node
        for child in node.children:
            yield from _boxes(child)


def _candidates(record: QueryRecord, names: Names) -> Table:
    first = record.decisions[0].decision.seconds if record.decisions else ()
    force = set(record.plans_in_force)
    rows = tuple(
        (
            f"plan {number}",
            first[number] if number < len(first) else None,
            len(plan.stages),
            Badge("followed", "good") if number in force else None,
            written(tree_of(plan, names)),
        )
        for number, plan in enumerate(record.opening.plans)
    )
    columns = (
        Column("candidate"),
        Column("first estimate, s", figures=True, digits=2),
        Column("stages", figures=True),
        Column(""),
        Column("join tree: S.. [..] and stage [..] are stages of their own"),
    )
    return Table(columns, rows)
