"""QOOP section 2.3.4: progress propagation, completion time, greedy choice, hysteresis; 2.3.3: backtracking."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qoop.estimate.packing import completion_time
from qoop.plans.plan import RESULT, BlockPlan, Plan, StageId
from qoop.plans.trees import Leaf, joined
from qoop.replan import commands
from qoop.replan.decision import Progress, Rules, StageProgress, choose, evaluate
from tests.property.query_world import TEXTS, QueryWorld, begin, planned, share, started

A, B, C, D = (Leaf(1 << place) for place in range(4))
ROWS = [1_000_000] * 6
NOTHING = Progress(frozenset(), {})


def cut(query, tree):
    """The plan of a tree, with a stage for every inner join."""
    every = frozenset(one for one in BlockPlan(tree, frozenset()).joins if one != tree.relations)
    return Plan(query, {"qoop_result": BlockPlan(tree, every)})


@pytest.fixture(scope="module")
def made():
    """Relations a - b - c - d, joined in a chain."""
    return planned(TEXTS[0], ROWS)


def stages_of(*sets):
    return {StageId("qoop_result", relations) for relations in sets} | {RESULT}


def test_stages_are_equivalent_when_their_operators_are_as_in_figure_2_5(made):
    # S3 of one plan joins (a b) with c, T3 of the other a with (b c): the same relations, the same result.
    one = cut(made.text.query, joined(joined(joined(A, B), C), D))
    other = cut(made.text.query, joined(joined(A, joined(B, C)), D))
    assert set(one.stages()) == stages_of(0b0011, 0b0111)
    assert set(other.stages()) == stages_of(0b0110, 0b0111)
    finished = frozenset({StageId("qoop_result", 0b0111)})
    assert set(other.stages(finished)) == {RESULT}
    assert other.reads(RESULT, finished) == finished


def test_a_stage_over_other_relations_is_not_equivalent(made):
    other = cut(made.text.query, joined(joined(A, joined(B, C)), D))
    assert set(other.stages(frozenset({StageId("qoop_result", 0b0011)}))) == set(other.stages())


def test_the_stages_below_a_finished_one_are_not_needed_any_more(made):
    plan = cut(made.text.query, joined(joined(joined(A, B), C), D))
    assert set(plan.stages(frozenset({StageId("qoop_result", 0b0111)}))) == {RESULT}


def test_a_running_stage_counts_for_every_plan_that_has_its_equivalent(made):
    plans = [
        cut(made.text.query, joined(joined(joined(A, B), C), D)),
        cut(made.text.query, joined(joined(A, B), joined(C, D))),
        cut(made.text.query, joined(A, joined(B, joined(C, D)))),
    ]
    running = StageId("qoop_result", 0b0011)
    work = made.estimator.work(plans[0], running)
    before = evaluate(plans, made.estimator, NOTHING, 4.0, Rules())
    half = Progress(frozenset(), {running: StageProgress(0, work, 0.5, 0.1)})
    after = evaluate(plans, made.estimator, half, 4.0, Rules())
    assert after[0].seconds < before[0].seconds
    assert after[1].seconds < before[1].seconds
    assert after[2].seconds >= before[2].seconds, "it has no use for a with b"
    assert after[2].cancel or after[2].let_finish


def test_completion_time_is_that_of_the_remaining_tasks_packed_into_the_share(made):
    plan = cut(made.text.query, joined(joined(A, B), joined(C, D)))
    done = frozenset({StageId("qoop_result", 0b0011)})
    (candidate,) = evaluate([plan], made.estimator, Progress(done, {}), 2.0, Rules())
    assert candidate.seconds == pytest.approx(completion_time(made.estimator.tasks(plan, done), 2.0))
    assert candidate.seconds < completion_time(made.estimator.tasks(plan), 2.0)


def test_the_plan_with_the_earliest_completion_under_the_share_is_taken():
    flips = planned(TEXTS[2], [50_000, 1_000, 10, 30_000_000, 1_000_000, 1_000_000])
    taken = set()
    for slots in (1, 64):
        world = started(QueryWorld(begin(flips)), slots)
        seconds = [one.seconds for one in evaluate(world.state.plans, flips.estimator, NOTHING, slots, Rules())]
        assert seconds[world.state.current] == min(seconds)
        taken.add(world.state.current)
    assert len(taken) == 2, "a resource-aware planner takes another plan for another share"


def test_a_change_of_the_share_triggers_a_switch_and_hysteresis_prevents_one():
    sizes = [30_000_000, 30_000_000, 1_000, 1_000_000, 30_000_000, 10]
    for hysteresis, switches in ((0.1, 1), (0.95, 0)):
        world = started(QueryWorld(begin(planned(TEXTS[4], sizes), Rules(hysteresis=hysteresis))), 64)
        world.take(share(1))
        assert world.state.counts.switches == switches
        note = next(one.decision for one in world.took[-1][2] if isinstance(one, commands.Note))
        fastest = min(note.seconds)
        assert best_of_seconds(note, fastest) is (switches == 1)


def best_of_seconds(note, fastest):
    """Whether the plan that was taken is the fastest."""
    return note.seconds[note.plan] == fastest


def test_hysteresis_is_a_threshold_on_the_relative_improvement(made):
    found = evaluate(made.plans, made.estimator, NOTHING, 4.0, Rules())
    slow, fast = (pick(found, key=lambda one: one.seconds) for pick in (max, min))
    gain = 1 - fast.seconds / slow.seconds
    assert choose(found, slow.plan, Rules(hysteresis=gain - 0.01, min_gain=0)) == fast.plan
    assert choose(found, slow.plan, Rules(hysteresis=gain + 0.01, min_gain=0)) == slow.plan


@given(st.sampled_from(TEXTS), st.lists(st.sampled_from((1, 2, 64)), min_size=1, max_size=6))
def test_checkpoints_of_all_plans_are_retained_so_backtracking_recomputes_nothing(text, shares):
    world = started(QueryWorld(begin(planned(text, ROWS), Rules(force=True))))
    starts = Counter()
    while not world.ended:
        stage = min(world.running)
        if stage in world.stopping:
            world.stopped(stage)
        else:
            world.finish(stage)
            starts[stage] += 1
        if shares and not world.ended:
            world.take(share(shares.pop()))
    assert set(starts.values()) == {1}


def test_going_back_to_a_plan_takes_up_what_it_had_finished():
    """Plan, other plan, first plan again (backtracking): its first stage is reused, not run again."""
    made = planned(TEXTS[4], [30_000_000, 1_000_000, 1_000, 1_000_000, 1_000_000, 1_000_000])
    world = started(QueryWorld(begin(made, Rules(hysteresis=0.1, min_gain=0.05))), 1)
    first = world.state.current
    world.take(share(64))
    other = world.state.current
    assert other != first
    while world.state.current == other and RESULT not in world.running:
        finished = min(world.running)
        world.finish(finished, world.state.estimator.stage_rows(finished), 0.5)
        world.take(share(1))
    assert world.state.current == first
    assert finished in world.state.plans[first].reused(frozenset(world.state.ready))
    assert finished not in world.state.plans[first].stages(frozenset(world.state.ready))
