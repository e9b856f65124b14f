"""Candidate plans as trees, with their stages."""

from collections.abc import Iterator

from qoop.plans.plan import ROOT
from qoop.report.names import Names
from qoop.report.record import CandidatePlan, JoinNode, QueryRecord
from yarn_plugin.report import Badge, Column, Details, Key, Node, SideBySide, Table, Text, TreeChart
from yarn_plugin.report.figure import COLOURS
from yarn_plugin.report.markup import Block
from yarn_plugin.report.tree import format_tree


def plan_blocks(record: QueryRecord) -> list[Block]:
    """The first and the last plan side by side, those in between, and a table of all candidates."""
    if not record.header.plans:
        return []
    names = Names(record)
    chosen = [timed.decision.plan for timed in record.decisions]
    blocks: list[Block] = []
    if not any(plan.trees for plan in record.header.plans):
        return [Text("Every plan is a single stage, so there is no join tree to choose.")]
    if chosen:
        first, last = chosen[0], chosen[-1]
        charts = [plan_tree(record, names, first, "at the start" if first != last else "from start to end")]
        if first != last:
            charts.append(plan_tree(record, names, last, "at the end"))
        blocks.append(SideBySide(tuple(charts)))
        if between := [plan for plan in record.plans_used if plan not in (first, last)]:
            trees = SideBySide(tuple(plan_tree(record, names, plan, "in between") for plan in between))
            blocks.append(Details("Plans used in between", (trees,)))
    table = Details(f"All candidate plans ({len(record.header.plans)})", (_candidates(record, names),))
    return [*blocks, table]


def plan_tree(record: QueryRecord, names: Names, plan: int, when: str) -> TreeChart:
    """A plan as a tree; stages that ran have their name from the Gantt chart and the colour of their plan."""
    root = tree_of(record.header.plans[plan], names)
    return TreeChart(f"Plan {plan}, {when}", root, tuple(_legend(root, names)))


def tree_of(plan: CandidatePlan, names: Names) -> Node:
    """The blocks of a plan, below the result of the query."""
    blocks = {block: _node(tree, block, names) for block, tree in plan.trees.items()}
    top = blocks.pop(ROOT, None)
    inside = tuple(_boxed(block, node, names) for block, node in blocks.items())
    return Node("result", (*inside, *((top,) if top else ())), _colour(ROOT, names), "the query's result")


def _boxed(block: str, node: Node, names: Names) -> Node:
    name = f"{names.short(block)} {names.block(block)}".strip()
    return Node(name, (node,), _colour(block, names), f"all of {names.block(block)}")


def _node(tree: JoinNode | str, block: str, names: Names) -> Node:
    if isinstance(tree, str):
        return Node(tree)
    children = tuple(_node(side, block, names) for side in tree.join)
    if tree.stage is None:
        return Node("", children, detail="join inside the enclosing stage")
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
    used = set(record.plans_used)
    rows = tuple(
        (
            f"plan {number}",
            first[number] if number < len(first) else None,
            len(plan.stages),
            Badge("used", "good") if number in used else None,
            "the query as written" if plan.as_written else format_tree(tree_of(plan, names)),
        )
        for number, plan in enumerate(record.header.plans)
    )
    columns = (
        Column("candidate"),
        Column("first estimate, s", numeric=True, digits=2),
        Column("stages", numeric=True),
        Column(""),
        Column("join tree (brackets enclose a stage)"),
    )
    return Table(columns, rows)
