"""The replanning machine under any outcomes, losses and shares; its estimates against a naive implementation."""

from dataclasses import replace
from math import inf

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from qoop.estimate.cost import Work
from qoop.estimate.packing import Task, completion_time, max_concurrent
from qoop.plans.plan import RESULT
from qoop.replan import commands, events
from qoop.replan.decision import Progress, Rules, StageProgress, choose, evaluate
from qoop.replan.machine import step
from tests.property.query_world import TEXTS, QueryWorld, begin, planned, share, sizes, started

few = settings(max_examples=settings.default.max_examples // 3)
"""Of a property whose examples take long."""

happenings = st.lists(
    st.tuples(
        st.sampled_from(("finish",) * 3 + ("share",) * 2 + ("fail", "stopped", "lose", "grow", "timer", "executors")),
        st.integers(0, 99),
        st.sampled_from((0.001, 0.3, 1.0, 3.0, 100.0)),
    ),
    max_size=20,
)


def live(world, happened):
    """Let these things happen, as far as they can."""
    failures = 0
    for kind, number, factor in happened:
        if world.ended:
            return
        running, kept, stopping = sorted(world.running), sorted(world.kept), sorted(world.stopping & world.running)
        if kind == "finish" and running:
            stage = running[number % len(running)]
            world.finish(stage, rows=world.state.estimator.stage_rows(stage) * factor, seconds=factor)
        elif kind == "stopped" and stopping:
            world.stopped(stopping[number % len(stopping)], kept=(number % 10) / 10)
        elif kind == "fail" and running and failures < 3:
            failures += 1
            world.fail(running[number % len(running)])
        elif kind == "lose" and (kept or world.parts):
            stored = [*kept, *sorted(world.parts)]
            world.lose(stored[number % len(stored)])
        elif kind == "share":
            world.take(share((1, 2, 8, 64)[number % 4]), later=factor)
        elif kind == "grow" and running and running[number % len(running)] != RESULT:
            stage = running[number % len(running)]
            rows = world.state.estimator.stage_rows(stage) * factor * 4.0
            world.take(events.StageGrew(stage, rows, (number % 10 + 1) / 10))
        elif kind == "timer":
            world.take(events.TimerFired(), later=factor)
        elif kind == "executors":
            world.take(events.ExecutorsChanged(number % 5))


@few
@given(st.sampled_from(TEXTS), sizes, happenings, st.booleans())
def test_whatever_happens_the_query_ends_once(text, rows, happened, force):
    world = started(QueryWorld(begin(planned(text, rows), Rules(hysteresis=0.05, min_gain=0.01, force=force))))
    live(world, happened)
    world.end()
    assert world.ended == [commands.Finish()]
    assert world.state.phase == "done"


@few
@given(st.sampled_from(TEXTS), sizes, happenings)
def test_the_same_events_give_the_same_commands(text, rows, happened):
    world = started(QueryWorld(begin(planned(text, rows))))
    live(world, happened)
    state = begin(planned(text, rows))
    for at, event, told in world.took:
        state, again = step(state, at, event)
        assert again == told
    assert state.phase == world.state.phase


@few
@given(st.sampled_from(TEXTS), sizes, happenings, st.integers(0, 99))
def test_a_permanently_failed_stage_makes_the_query_run_as_written(text, rows, happened, number):
    world = started(QueryWorld(begin(planned(text, rows))))
    live(world, happened)
    running = sorted(world.running - world.stopping)
    assume(running and not world.ended)
    world.fail(running[number % len(running)], retry=False)
    assert world.as_written
    assert world.state.phase == "as written"
    assert not any(isinstance(one, commands.StartStage) for one in world.took[-1][2])
    for stage in sorted(world.running - {RESULT}):
        world.stopped(stage)
    world.take(share(2))
    world.finish(RESULT)
    assert world.ended == [commands.Finish()]


@given(st.sampled_from(TEXTS), sizes)
def test_a_stage_is_tried_four_times(text, rows):
    world = started(QueryWorld(begin(planned(text, rows))))
    stage = min(world.running)
    for _ in range(3):
        world.fail(stage)
        assert not world.as_written
        while stage not in world.running:
            world.finish(min(world.running))
    world.fail(stage)
    assert world.as_written


outputs = st.sampled_from([*((text, 1) for text in TEXTS), *((text, 2) for text in TEXTS[1:3])])
"""A query, and after how many stages its result is not yet being computed, whatever the sizes of its tables."""


@few
@given(outputs, sizes, st.integers(0, 99))
def test_a_lost_output_that_is_needed_is_computed_again(finished, rows, number):
    text, stages = finished
    made = planned(text, rows)
    world = started(QueryWorld(begin(made, Rules(hysteresis=inf))))
    for _ in range(stages):
        world.finish(min(world.running))
    assert RESULT not in world.running
    lost = sorted(world.kept)[number % len(world.kept)]
    world.lose(lost)
    plan = made.plans[world.state.current]
    assert (lost in plan.stages(frozenset(world.state.ready))) == (lost in needed(plan, world.state))
    again = len(world.took)
    world.end()
    assert world.ended == [commands.Finish()]
    if lost in plan.stages(frozenset(world.state.ready) - {lost}):
        starts = [c.stage for _, _, told in world.took[again - 1 :] for c in told if isinstance(c, commands.StartStage)]
        assert lost in starts


def needed(plan, state):
    """The stages that a plan still needs, walked in the plainest way."""
    ready, found = frozenset(state.ready), set()

    def visit(stage):
        if stage not in ready and stage not in found:
            found.add(stage)
            for other in plan.reads(stage, ready):
                visit(other)

    visit(RESULT)
    return found


# Packing and choice, against dumb versions.

works = st.builds(
    Work,
    core_seconds=st.sampled_from((0.0, 0.5, 1.0, 2.5, 6.0)),
    fixed_seconds=st.sampled_from((0.0, 0.25, 1.0)),
    tasks=st.sampled_from((1.0, 2.0, 3.0, 16.0)),
)


@st.composite
def packed(draw):
    """Stages that wait for earlier ones."""
    count = draw(st.integers(1, 6))
    return [
        Task(place, frozenset(draw(st.sets(st.integers(0, place - 1))) if place else ()), draw(works))
        for place in range(count)
    ]


GRAINS = 240


def crawl(tasks, slots):
    """When each is done: slots are handed out grain by grain, each to whoever has the fewest and can use one more.

    At most as many run as the query may start: those that run already, then the shortest.
    """
    places = sorted(tasks, key=lambda task: (task.work.seconds(slots), task.key))
    started = [task for task in tasks if task.running]
    fixed = {task.key: task.work.fixed_seconds for task in tasks}
    left = {task.key: task.work.core_seconds for task in tasks}
    done, now, grain = {}, 0.0, slots / GRAINS
    while len(done) < len(tasks):
        started = [task for task in started if task.key not in done]
        able_to_start = (task for task in places if task.key not in done and task not in started)
        for task in able_to_start:
            if task.depends_on <= done.keys() and len(started) < max_concurrent(slots):
                started.append(task)
        ready = started
        computing = [task for task in ready if fixed[task.key] <= 1e-9]
        rate = {task.key: 0.0 for task in computing}
        for _ in range(GRAINS):
            able = [task for task in computing if rate[task.key] < task.work.tasks - 1e-9]
            if not able:
                break
            task = min(able, key=lambda task: rate[task.key])
            rate[task.key] = min(rate[task.key] + grain, task.work.tasks)
        steps = [fixed[task.key] for task in ready if fixed[task.key] > 1e-9]
        step = min(steps + [left[key] / one for key, one in rate.items()])
        now += step
        for task in ready:
            if fixed[task.key] > 1e-9:
                fixed[task.key] -= step
            else:
                left[task.key] -= step * rate[task.key]
        done |= {task.key: now for task in ready if fixed[task.key] <= 1e-9 and left[task.key] <= 1e-9}
    return done


@given(packed(), st.sampled_from((1.0, 2.0, 5.0)))
def test_packing_is_what_handing_out_slots_grain_by_grain_gives(tasks, slots):
    assert completion_time(tasks, slots) == pytest.approx(max(crawl(tasks, slots).values()), rel=0.02, abs=1e-6)


@given(packed(), st.sampled_from((1.0, 2.0, 5.0)))
def test_packing_lies_between_the_bounds_of_any_list_schedule(tasks, slots):
    ends = completion_time(tasks, slots)
    path = {}
    for task in tasks:
        path[task.key] = task.work.seconds(slots) + max((path[other] for other in task.depends_on), default=0.0)
    work = sum(task.work.core_seconds for task in tasks) / slots
    assert ends >= max(max(path.values()), work) - 1e-6
    assert ends <= sum(task.work.seconds(slots) for task in tasks) + 1e-6


def dumb(plan, plans, estimator, progress, slots, rules):
    """When a plan would end, and whether running stages are stopped: by walking it, and packing grain by grain."""
    usable = {stage for stage, one in progress.running.items() if plan.computes_same(plans[one.plan], stage)}
    at_hand = progress.ready | usable
    tasks, pending, met = {}, [RESULT], set()
    while pending:
        stage = pending.pop()
        met.add(stage)
        if stage not in at_hand and stage not in tasks:
            reads = plan.reads(stage, at_hand)
            work = estimator.work(plan, stage, at_hand)
            if stage in progress.running:
                # It runs in another way, and needs at least what that one has needed so far.
                one = progress.running[stage]
                work = replace(work, core_seconds=max(work.core_seconds, one.work.core_seconds * one.done))
            tasks[stage] = Task(stage, reads - progress.ready, work)
            pending += reads
    on_the_way = [rest_of(stage, progress) for stage in met & usable]
    useless = [rest_of(stage, progress) for stage in progress.running.keys() - (met & usable)]
    alone = crawl([*tasks.values(), *on_the_way], slots)[RESULT]
    if not useless:
        return alone, False
    if not any(task.key in needed(plan, progress) for task in useless):
        together = crawl([*tasks.values(), *on_the_way, *useless], slots)[RESULT]
        if together <= alone + rules.cancel_seconds:
            return together, False
    return alone + rules.cancel_seconds, True


def rest_of(stage, progress):
    one = progress.running[stage]
    rest = 1.0 - one.done
    left = Work(one.work.core_seconds * rest, one.work.fixed_seconds * rest, one.work.tasks)
    return Task(stage, frozenset(), left, running=True)


@few
@given(st.sampled_from(TEXTS), sizes, happenings, st.sampled_from((1.0, 3.0, 40.0)), st.sampled_from((0.0, 0.3, 0.5)))
def test_every_candidate_is_judged_as_a_dumb_walk_would(text, rows, happened, slots, done):
    made = planned(text, rows)
    world = started(QueryWorld(begin(made)))
    live(world, happened)
    state = world.state
    assume(not world.ended and state.current is not None)
    running = {
        stage: StageProgress(one.plan, one.work, done, one.uncertainty)
        for stage, one in state.running.items()
        if stage not in state.awaiting_cancel
    }
    progress = Progress(frozenset(state.ready), running)
    found = evaluate(state.plans, state.estimator, progress, slots, state.rules)
    for candidate, plan in zip(found, state.plans, strict=True):
        seconds, stops = dumb(plan, state.plans, state.estimator, progress, slots, state.rules)
        assert candidate.seconds == pytest.approx(seconds, rel=0.02, abs=0.01)
        assert not stops or candidate.cancel or candidate.seconds <= seconds * 1.02
    assert choose(found, state.current, state.rules) == plainly_best(found, state.current, state.rules)


def plainly_best(found, current, rules):
    """The paper's rule: the fastest plan, unless it saves less than the hysteresis."""
    fastest, chosen = inf, None
    for candidate in found:
        if candidate.seconds < fastest:
            fastest, chosen = candidate.seconds, candidate.plan
    now = found[current].seconds
    saved = now - fastest
    return current if saved < rules.min_gain or saved < rules.hysteresis * now else chosen


def test_a_plan_that_saves_less_than_the_hysteresis_is_not_taken():
    made = planned(TEXTS[0], [1_000_000] * 6)
    found = evaluate(made.plans, made.estimator, Progress(frozenset(), {}), 4.0, Rules())
    slowest = max(found, key=lambda candidate: candidate.seconds)
    fastest = min(found, key=lambda candidate: candidate.seconds)
    gain = (slowest.seconds - fastest.seconds) / slowest.seconds
    assert 0.01 < gain < 1
    assert choose(found, slowest.plan, Rules(hysteresis=gain * 0.99, min_gain=0.0)) == fastest.plan
    assert choose(found, slowest.plan, Rules(hysteresis=gain * 1.01, min_gain=0.0)) == slowest.plan
