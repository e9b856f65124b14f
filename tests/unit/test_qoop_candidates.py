"""Which trees are found, where they are cut, and which plans are retained."""

from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qoop import planner
from qoop.as_written.causes import NothingLarge
from qoop.errors import CannotSplitError
from qoop.parsing.blocks import MAX_DEPTH, MAX_NODES
from qoop.plans.candidates import MAX_CANDIDATES, CutPolicy, as_written, beam_for
from qoop.plans.effort import MAX_EFFORT, Effort
from qoop.plans.graph import JoinGraph, Relation, members, size
from qoop.plans.plan import RESULT, BlockPlan, Plan, StageId, cuts_where
from qoop.plans.predicate import Column
from qoop.plans.trees import Join, Leaf, best_trees, joined, joins, left_deep, nodes, shape, tree_as_written
from qoop.replan.decision import RUINOUS_FACTOR, Progress, Rules, evaluate, forced_choice
from tests.duckdb_plans import Tables
from tests.property.query_world import TEXTS, planned


def graph(count, edges):
    """Relations 0, 1, ... with an equality for each edge."""
    relations = tuple(Relation(f"r{i}", f"r{i}", False, ("k",), ()) for i in range(count))
    classes = tuple(frozenset({Column(f"r{i}", f"k{j}"), Column(f"r{j}", f"k{i}")}) for i, j in edges)
    return JoinGraph(relations, classes, (), frozenset())


CHAIN = graph(5, [(0, 1), (1, 2), (2, 3), (3, 4)])


def by_size(left, right):
    return float(size(left) * size(right) + (left * right) % 7)


def cheapest(graph, cost):
    """The least cost of any tree without cross joins, by trying every split of every set."""
    known = {1 << i: 0.0 for i in range(len(graph.relations))}
    for count in range(2, len(graph.relations) + 1):
        for chosen in combinations(range(len(graph.relations)), count):
            whole = sum(1 << i for i in chosen)
            part, found = (whole - 1) & whole, []
            while part:
                rest = whole ^ part
                if part in known and rest in known and graph.reach(part) & rest:
                    found.append(known[part] + known[rest] + cost(part, rest))
                part = (part - 1) & whole
            if found:
                known[whole] = min(found)
    return known[graph.all_relations]


@st.composite
def connected(draw):
    count = draw(st.integers(2, 6))
    edges = [(draw(st.integers(0, i - 1)), i) for i in range(1, count)]
    more = draw(st.lists(st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)), max_size=3))
    return graph(count, [*edges, *((min(pair), max(pair)) for pair in more if pair[0] != pair[1])])


@given(connected(), st.randoms(use_true_random=False))
def test_the_best_tree_is_the_cheapest_of_all(found, choices):
    prices = {}

    def cost(left, right):
        return prices.setdefault(frozenset({left, right}), choices.randint(1, 1000))

    expected = cheapest(found, cost)
    ranked = best_trees(found, cost, beam=400, alternatives=400)
    assert ranked[0].cost == expected
    for one in ranked:
        assert one.cost == sum(cost(join.left.relations, join.right.relations) for join in joins(one.tree))
        assert all(found.reach(join.left.relations) & join.right.relations for join in joins(one.tree))
        assert one.tree.relations == found.all_relations


@given(connected())
def test_no_tree_is_found_twice(found):
    ranked = best_trees(found, by_size)
    assert len({shape(one.tree) for one in ranked}) == len(ranked)
    assert [one.cost for one in ranked] == sorted(one.cost for one in ranked)


def test_every_tree_of_a_chain_is_found():
    assert len(best_trees(CHAIN, by_size, beam=100, alternatives=100)) == 14, "the Catalan number of 4 joins"


def test_parts_that_nothing_connects_are_joined_last():
    apart = graph(5, [(0, 1), (1, 2), (3, 4)])
    assert apart.components() == (0b00111, 0b11000)
    for one in best_trees(apart, by_size):
        assert {one.tree.left.relations, one.tree.right.relations} == {0b00111, 0b11000}


def test_the_written_tree_follows_the_text_without_cross_joins():
    star = graph(4, [(0, 3), (1, 3), (2, 3)])
    assert [join.relations for join in joins(tree_as_written(CHAIN))] == [0b11, 0b111, 0b1111, 0b11111]
    assert [join.relations for join in joins(tree_as_written(star))] == [0b1001, 0b1011, 0b1111]


def test_trees():
    tree = joined(joined(Leaf(1), Leaf(2)), Leaf(4))
    assert [one.relations for one in nodes(tree)] == [1, 2, 3, 4, 7]
    assert shape(tree) == shape(joined(Leaf(4), joined(Leaf(2), Leaf(1)))) == {3, 7}
    assert left_deep(3) == tree
    assert list(members(0b1011)) == [0, 1, 3]


# Queries that would take long to plan.


def on_one_key(count):
    """A query that joins so many tables on one column."""
    tables = ", ".join(f"{'abcdef'[i % 6]} t{i}" for i in range(count))
    return f"SELECT t0.x FROM {tables} WHERE {' AND '.join(f't0.k = t{i}.k' for i in range(1, count))}"


@pytest.mark.parametrize("count", [30, 60])
def test_many_tables_on_one_key_take_little_work(count, monkeypatch):
    monkeypatch.setattr("qoop.plans.candidates.Effort", lambda: Effort(MAX_EFFORT // 4))
    assert len(planned(on_one_key(count), [1_000_000, 30_000_000, 1_000, 50_000, 10, 10]).plans) > 1


def test_the_beam_narrows_with_the_number_of_relations():
    beams = [beam_for(relations) for relations in range(2, 400)]
    assert beams == sorted(beams, reverse=True) and beams[-1] == 1
    assert beam_for(12) == 32 and beam_for(20) == 12


def test_what_is_too_much_to_compare_is_not_split():
    with pytest.raises(CannotSplitError, match="too many ways to join"):
        best_trees(graph(12, combinations(range(12), 2)), by_size, effort=Effort(1_000))
    with pytest.raises(CannotSplitError, match="too many ways to join"):
        planned(on_one_key(200), [1_000_000] * 6)


def test_ctes_that_double_what_is_computed_are_not_split():
    first = "WITH c0 AS (SELECT a.k, b.x FROM a, b WHERE a.k = b.k)"
    more = [f"c{i} AS (SELECT v.k, w.x FROM c{i - 1} v, c{i - 1} w WHERE v.k = w.k)" for i in range(1, 40)]
    text = ", ".join((first, *more))
    few = planned(f"{', '.join((first, *more[:5]))} SELECT k FROM c5", [1_000_000] * 6)
    assert len(as_written(few.text.query).content(RESULT).fragments) > 2**5
    many = planned(f"{text} SELECT k FROM c39", [1_000_000] * 6)
    with pytest.raises(CannotSplitError, match="computes its CTEs more than 10,000 times"):
        as_written(many.text.query).content(RESULT)


def test_ctes_that_are_computed_by_each_of_two_readers_are_not_split_if_that_doubles_often():
    text = "WITH c0 AS (SELECT a.k FROM a, b WHERE a.k = b.k)"
    for i in range(1, 40):
        text += f", x{i} AS (SELECT k FROM c{i - 1} WHERE k > {i}), y{i} AS (SELECT k FROM c{i - 1} WHERE k < {i})"
        text += f", c{i} AS (SELECT k FROM x{i} WHERE k IN (SELECT k FROM y{i}))"
    query = planned(f"{text} SELECT k FROM c3", [10] * 6).text.query
    assert query.computed_inside("qoop_result") >= {"qoop_c3", "qoop_x1", "qoop_y1"}
    with pytest.raises(CannotSplitError, match="computes its CTEs more than 10,000 times"):
        planned(f"{text} SELECT k FROM c39", [10] * 6)


@pytest.mark.parametrize(
    ("condition", "reason"),
    [
        (f"a.k IN ({', '.join(map(str, range(MAX_NODES)))})", "too long for the planner: over 20,000 expressions"),
        (f"a.x = {'+'.join(['a.k'] * MAX_DEPTH)}", "nested too deeply"),
        (" OR ".join(f"a.k = {i}" for i in range(MAX_DEPTH - 50)), "nested too deeply"),
    ],
    ids=["long list", "long sum", "many alternatives"],
)
def test_a_text_that_takes_long_to_read_is_not_split(condition, reason):
    with pytest.raises(CannotSplitError, match=reason):
        planned(f"SELECT a.x FROM a, b WHERE a.k = b.k AND ({condition})", [10] * 6)


# Cuts.


def test_stages_are_cut_where_two_large_inputs_meet():
    sizes = [30_000_000, 30_000_000, 1_000, 30_000_000, 10, 10]
    known = planned(TEXTS[0], sizes)
    assert all(len(plan.stages()) == 3 for plan in known.plans), "with every cut"
    tables = Tables("CREATE TABLE a (k integer, m integer)", "CREATE TABLE b (k integer, m integer)")
    tables.connection.execute("CREATE TABLE c (m integer)")
    small = tables.plan("SELECT a.k FROM a, b, c WHERE a.k = b.k AND b.m = c.m", CutPolicy())
    assert small.one_stage_cause() == NothingLarge()
    assert all(len(plan.stages()) == 1 for plan in small.plans)


def test_only_joins_below_the_top_are_cut():
    tree = left_deep(4)
    assert cuts_where(tree, lambda part, other: True) == {0b11, 0b111}
    assert cuts_where(tree, lambda part, other: other.relations == 0b100) == {0b11}
    assert cuts_where(Leaf(1), lambda part, other: True) == frozenset()


def test_stages_come_after_what_they_read():
    for text in TEXTS:
        for plan in planned(text, [1_000_000] * 6).plans:
            seen = set()
            for stage, reads in plan.stages().items():
                assert reads <= seen
                seen.add(stage)
            assert stage == RESULT


def test_a_stored_stage_replaces_everything_below_it():
    made = planned(TEXTS[0], [1_000_000] * 6)
    plan = Plan(made.text.query, {"qoop_result": BlockPlan(left_deep(4), frozenset({0b11, 0b111}))})
    ready = frozenset({StageId("qoop_result", 0b111), StageId("qoop_result", 0b11)})
    assert plan.reused(ready) == {StageId("qoop_result", 0b111)}


# Plans.


@pytest.mark.parametrize("text", TEXTS)
def test_plans_differ_and_are_limited(text):
    plans = planned(text, [1_000_000] * 6).plans
    assert 1 < len(plans) <= MAX_CANDIDATES
    assert len({plan.key for plan in plans}) == len(plans)


def test_the_first_plan_is_the_best_of_each_block():
    made = planned(TEXTS[3], [1_000_000, 1_000, 30_000_000, 10, 50_000, 10])
    costs = {
        block: [
            sum(made.estimator.join_cost(block)(join.left.relations, join.right.relations) for join in joins(part.tree))
            for part in (plan.block_plans[block] for plan in made.plans)
        ]
        for block in made.text.query.planned
    }
    assert all(found[0] == min(found) for found in costs.values())


def test_planning_is_the_same_every_time():
    one, other = (planned(TEXTS[2], [1_000_000, 10, 30_000_000, 50_000, 1_000, 10]) for _ in range(2))
    assert [plan.key for plan in one.plans] == [plan.key for plan in other.plans]


def test_a_block_that_several_read_is_computed_once():
    made = planned(TEXTS[2], [1_000_000] * 6)
    block = made.text.query.blocks["qoop_v"]
    assert block.shared
    for plan in made.plans:
        stages = plan.stages()
        assert StageId("qoop_v", 0) in stages
        assert StageId("qoop_v", 0) in plan.reads(RESULT) | plan.reads(
            next(s for s in stages if s.block == "qoop_result")
        )


def test_a_stage_is_the_same_in_another_plan_unless_a_block_in_it_is_computed_another_way():
    plans = planned(TEXTS[2], [1_000_000] * 6).plans
    one = plans[0]
    other = next(plan for plan in plans if plan.block_plans["qoop_v"] != one.block_plans["qoop_v"])
    third = next(plan for plan in plans if plan.block_plans["qoop_v"] == one.block_plans["qoop_v"] and plan is not one)
    assert one.computes_same(other, StageId("qoop_v", 0b11))
    assert not one.computes_same(other, StageId("qoop_v", 0))
    assert one.computes_same(third, StageId("qoop_v", 0))
    assert isinstance(one.stage_tree(RESULT), Join)


def test_a_ruinous_plan_is_no_candidate(monkeypatch):
    text = "SELECT a.k FROM a, b, c, d WHERE a.x = c.x AND b.x = c.x AND d.x = c.x AND c.k = 1"
    rows = [30_000_000, 30_000_000, 1000, 30_000_000, 1000, 1000]

    def seconds(made):
        found = evaluate(made.plans, made.estimator, Progress(frozenset(), {}), 1.0, Rules())
        return sorted(one.seconds for one in found)

    made = seconds(planned(text, rows))
    monkeypatch.setattr(planner, "without_ruinous", lambda plans, estimators: list(plans))
    everything = seconds(planned(text, rows))
    assert len(everything) > len(made) > 1
    assert everything[: len(made)] == made
    assert everything[-1] > RUINOUS_FACTOR * made[0]


def test_without_a_better_plan_a_slow_one_stays():
    made = planned("SELECT a.x FROM a, b WHERE a.k > b.k", [1_000_000] * 6)
    assert len(made.plans) == 1


def test_a_forced_switch_avoids_ruinous_plans():
    made = planned(TEXTS[0], [1_000_000] * 6)
    found = evaluate(made.plans, made.estimator, Progress(frozenset(), {}), 4.0, Rules(force=True))
    best = min(one.seconds for one in found)
    assert forced_choice(made.plans, found, 0, frozenset(), False) != 0
    slow = [one if one.plan == 0 else replace(one, seconds=21 * best) for one in found]
    slow[0] = replace(slow[0], seconds=best)
    assert forced_choice(made.plans, slow, 0, frozenset(), False) == 0
