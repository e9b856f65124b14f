"""SQL in, plans out: the text files of this folder; `pytest --rewrite-golden` writes down the plans of now.

A file holds a query, a line `----`, and what the planner makes of it: its blocks, the candidates and when they would
end, and the stages of the best as texts. Every stage is executed, and the result compared with that of the query.
"""

import random
from pathlib import Path

import pytest

from qoop.as_written import wording
from qoop.errors import CannotSplitError
from qoop.estimate.packing import completion_time
from qoop.parsing.render import stage_query
from qoop.plans.candidates import CutPolicy
from qoop.plans.plan import RESULT, view_name
from qoop.plans.trees import Join
from tests.golden.shop import Shop

RULE = "\n----\n"
FILES = sorted(Path(__file__).parent.glob("*.txt"))
SPLIT = [path for path in FILES if not path.read_text().partition(RULE)[2].startswith("one stage: ")]
"""The queries that can be split into stages."""

SHARES = (1, 4, 16)


@pytest.fixture(scope="module")
def shop():
    return Shop()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_plans(path, shop, request):
    query, _, expected = path.read_text().partition(RULE)
    found = described(shop, query)
    if request.config.getoption("--rewrite-golden"):
        path.write_text(f"{query}{RULE}{found}")
        return
    assert found == expected


@pytest.mark.parametrize("path", SPLIT, ids=lambda path: path.stem)
def test_plans_return_the_rows_of_the_query(path, shop):
    query = path.read_text().partition(RULE)[0]
    expected = shop.rows(query)
    assert expected, "the query has rows"
    for planned in (shop.plan(query, CutPolicy()), shop.plan(query, CutPolicy(everywhere=True))):
        for seed in range(3):
            assert shop.staged(planned, random.Random(seed), lose=seed) == expected


def test_there_are_files():
    assert len(FILES) >= 10
    assert len(SPLIT) >= len(FILES) - 2


def described(shop, query):
    """What the planner makes of a query, as text."""
    try:
        planned = shop.plan(query, CutPolicy())
    except CannotSplitError as reason:
        return f"one stage: {reason}\n"
    lines = []
    for block in planned.text.query.blocks.values():
        lines += _block(block)
    lines += ["", f"{len(planned.plans)} candidates over {planned.join_trees} join trees"]
    ends = [[completion_time(planned.estimator.tasks(plan), share) for share in SHARES] for plan in planned.plans]
    chosen = [min(range(len(ends)), key=lambda number: (ends[number][place], number)) for place in range(len(SHARES))]
    for share, number, place in zip(SHARES, chosen, range(len(SHARES)), strict=True):
        lines.append(f"on {share} slots plan {number} in {ends[number][place]:.1f} s")
    for number in dict.fromkeys(chosen):
        lines += _plan(planned, number)
    return "\n".join(lines) + "\n"


def _block(block):
    kept = " (kept for several readers)" if block.shared else " (computed by each reader)" if block.copied else ""
    lines = [f"block {block.name}{kept}{f': {wording.text(block.cause)}' if block.cause else ''}"]
    graph = block.graph
    if graph is not None:
        for relation in graph.relations:
            filters = " and ".join(one.sql for one in relation.filters)
            source = "" if relation.source == relation.alias else f" = {relation.source}"
            lines.append(
                f"  {relation.alias}{source}: {', '.join(relation.columns)}{f' where {filters}' if filters else ''}"
            )
        lines += ["  equal: " + ", ".join(column.output for column in sorted(columns)) for columns in graph.classes]
        lines += [f"  also: {predicate.sql}" for predicate in graph.predicates]
    return lines + [f"  around: {', '.join(sorted(block.outer_sources))}" for _ in (1,) if block.outer_sources]


def _plan(planned, number):
    plan = planned.plans[number]
    lines = ["", f"plan {number}"]
    for block, part in plan.block_plans.items():
        lines.append(f"  {block}: {_tree(plan.query.blocks[block].graph, part, part.tree)}")
    for stage in plan.stages():
        text = stage_query(planned.text, plan, stage, sorted(plan.reads(stage)))
        lines.append(f"  {'result' if stage == RESULT else view_name(stage)}: {text}")
    return lines


def _tree(graph, part, tree):
    if not isinstance(tree, Join):
        return graph.aliases(tree.relations)[0]
    inner = f"{_tree(graph, part, tree.left)} {_tree(graph, part, tree.right)}"
    return f"[{inner}]" if tree.relations in part.cuts else f"({inner})"
