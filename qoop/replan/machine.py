"""The state machine of a query: one event in, commands out. Live, simulated and replayed runs share it.

Phases (QOOP section 2.5): while `running`, ready stages are started; a switch that cancels stages goes through
`switching`, in which no stage starts until they have stopped.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from qoop.estimate.calibration import Calibration
from qoop.estimate.cost import Work
from qoop.estimate.guard import are_similar
from qoop.estimate.packing import max_concurrent
from qoop.plans.plan import RESULT, StageId
from qoop.replan.causes import (
    FailedStage,
    FinishedStage,
    LostOutput,
    NewExecutors,
    NewShare,
    NotPlanned,
    OutgrownStage,
    PlansMade,
    Retried,
    StagesChecked,
    Stopped,
    WhyAsWritten,
    WhyDecided,
)
from qoop.replan.commands import (
    CancelStages,
    Command,
    ConfirmVacated,
    Fail,
    Finish,
    Note,
    RunAsWritten,
    SetExecutors,
    SetTimer,
    StartStage,
)
from qoop.replan.decision import (
    Candidate,
    Decision,
    Progress,
    StageProgress,
    StoppedStage,
    Straggler,
    Winner,
    choose,
    evaluate,
    forced_choice,
    min_gain_for_switch,
    resumed_stages,
    stragglers,
    suspecting,
    with_larger,
)
from qoop.replan.events import (
    ArbiterAway,
    CannotPlan,
    CheckpointLost,
    Event,
    ExecutorsChanged,
    Planned,
    QueryCancelled,
    ShareChanged,
    StageCancelled,
    StageFailed,
    StageFinished,
    StageGrew,
    TasksRan,
    TimerFired,
)
from qoop.replan.first_choice import by_measurement, first_plan, likely_slots, over_shares
from qoop.replan.state import Running, Share, State
from qoop.replan.switch import plan_to_go_on_with

MAX_ATTEMPTS = 4
"""Attempts at a stage that fails for reasons outside the query (as Spark's task attempts)."""

MAX_LOST = 4
"""How often the output of a stage may be lost; a query that loses one more often runs as written."""

COLD_START_S = 10.0
"""Seconds that executors may need to start up; until a stage was measured, none counts as late before that."""

OUTGROWN_FACTOR = 4.0
"""A stage that has this many times the rows that were expected, before it has finished, is not what was planned for."""

HELD_FACTOR = 1.1
"""A plan is not left for one that is only expected to be faster until this multiple of its earlier time has passed."""

PROGRESS_CHECK_S = 5.0
"""Interval, in seconds, at which running stages are compared with their estimates."""


def step(state: State, at: float, event: Event) -> tuple[State, tuple[Command, ...]]:
    """Apply one event, decide, and return the commands. `at`: seconds since the epoch."""
    # 1. Update the expected progress of running stages, then apply the event.
    state, commands, cause = _apply_event(_with_progress(state, at), event)
    if state.phase in ("done", "failed"):
        return replace(state, timer_at=None), tuple(commands)
    # 2. Choose a plan, or compare the current one with the others; not while rows are stored or the plan is held.
    is_fixed = (state.rules.stores and RESULT in state.running) or _fixed_left_s(state, at) > 0.0
    if cause is not None and state.share is not None and state.phase in ("running", "switching") and not is_fixed:
        state, decided = _decide(state, cause, event)
        commands += decided
    # 3. Start stages, unless a switch is waiting for stages to stop.
    if state.phase == "running":
        state, started = _start(state, at)
        commands += started
    # 4. Confirm the share once the executors are within it.
    state, followed = _confirm(state)
    commands += followed
    # 5. Check progress again while stages run, and when the plan is no longer fixed.
    if not state.running or state.phase != "running":
        return replace(state, timer_at=None), tuple(commands)
    left = _fixed_left_s(state, at)
    due = at + (min(left, PROGRESS_CHECK_S) if left > 0.0 else PROGRESS_CHECK_S)
    return replace(state, timer_at=due), (*commands, SetTimer(due))


def _fixed_left_s(state: State, at: float) -> float:
    """The seconds for which the plan stays, as it is tried or held; not above 0: it may be left."""
    return max(_trial_left_s(state) or 0.0, state.held_until - at)


def _trial_left_s(state: State) -> float | None:
    """The seconds that the query may go on running as written, to measure it; None if it does not run so."""
    running, trial, started = state.running.get(RESULT), state.rules.trial_s, state.started_at
    if trial is None or started is None or running is None or not state.plans[running.plan].as_written:
        return None
    return started + trial - state.progress_at


def _with_progress(state: State, at: float) -> State:
    """Update the expected progress of running stages, which have divided the slots since the last event."""
    elapsed = max(at - state.progress_at, 0.0)
    if state.share is not None:
        state = replace(state, usage=state.usage.having(state.slots, elapsed))
    if state.share is None or not state.running:
        return replace(state, progress_at=at)
    slots, cold = state.slots / len(state.running), min(_cold_left_s(state), elapsed)
    running = {}
    for stage, one in state.running.items():
        expected = max(one.work.seconds(slots), 1e-3)
        on_time = max(one.done, 1.0)
        by_then = min(one.done + cold / expected, on_time)
        done = by_then + (elapsed - cold) / expected
        # Where tasks are measured, time alone is no evidence: they may wait for slots, as those of any plan would.
        running[stage] = replace(one, done=min(done, on_time) if one.measured else done)
    return replace(state, running=running, progress_at=at)


def _cold_left_s(state: State) -> float:
    """For how many seconds after the last event no stage counts as late, as executors may be starting up."""
    if state.estimator.calibration.stages or state.started_at is None:
        return 0.0
    return max(state.started_at + COLD_START_S - state.progress_at, 0.0)


def _apply_event(state: State, event: Event) -> tuple[State, list[Command], WhyDecided | None]:
    """The state after an event, immediate commands, and the cause to decide again, if any."""
    match event:
        case Planned(plans, join_trees):
            return replace(state, phase="running"), [], PlansMade(plans, join_trees)
        case CannotPlan(cause):
            if state.phase in ("as written", "done", "failed"):
                return state, [], None
            state, stopping = run_as_written(state, NotPlanned(cause))
            return state, list(stopping), None
        case ShareChanged():
            return _apply_share(state, event)
        case StageFinished():
            return _apply_finished(state, event)
        case StageGrew():
            return _apply_grew(state, event)
        case StageCancelled():
            return _apply_cancelled(state, event), [], None
        case StageFailed():
            return _apply_failed(state, event)
        case QueryCancelled(reason):
            return replace(state, phase="failed"), [*_stop_all(state), Fail(Stopped(reason))], None
        case CheckpointLost(stage, reason):
            return _apply_lost(state, stage, reason)
        case TasksRan(stages):
            return _apply_tasks(state, stages)
        case ExecutorsChanged():
            return _apply_executors(state, event)
        case ArbiterAway():
            return state, [], None
        case TimerFired():
            return state, [], StagesChecked() if state.phase == "running" else None


def _apply_share(state: State, event: ShareChanged) -> tuple[State, list[Command], WhyDecided | None]:
    share, before = Share(event.slots, event.executors, event.seq), state.share
    state = _without_others_trial(replace(state, share=share))
    commands: list[Command] = []
    if share.executors is not None and (before is None or share.executors != before.executors):
        commands.append(SetExecutors(share.executors, event.effective_at))
    if before is not None and share.slots == before.slots:
        return state, commands, None
    # What the plan took before, it took at another share.
    state = replace(state, held_until=0.0)
    return state, commands, NewShare(before.slots if before else None, share.slots, event.reason, event.why)


def _apply_executors(state: State, event: ExecutorsChanged) -> tuple[State, list[Command], WhyDecided | None]:
    before = state.slots if state.share is not None else None
    state = replace(state, executors=event)
    if before is None or state.slots == before:
        return state, [], None
    state = _without_others_trial(replace(state, held_until=0.0))
    return state, [], NewExecutors(before, state.slots)


def _without_others_trial(state: State) -> State:
    """The state without a trial whose limit is what plans took at another share."""
    if are_similar(state.slots, state.rules.measured_slots):
        return state
    return replace(state, rules=replace(state.rules, trial_s=None))


def _apply_tasks(
    state: State, stages: Sequence[tuple[StageId, float]]
) -> tuple[State, list[Command], WhyDecided | None]:
    """Take the progress of running stages from what their tasks have done, however many slots these really had."""
    running = dict(state.running)
    for stage, core_seconds in stages:
        if stage not in running or state.share is None:
            continue
        one = running[stage]
        slots = max(min(state.slots / len(running), one.work.tasks), 1e-9)
        waited = min(max(state.progress_at - one.started_at, 0.0), one.work.fixed_seconds)
        done = (waited + core_seconds / slots) / max(one.work.seconds(slots), 1e-3)
        done = min(done, 1.0) if _cold_left_s(state) else done
        running[stage] = replace(one, done=done, measured=one.measured or core_seconds > 0.0)
    return replace(state, running=running), [], StagesChecked() if state.phase == "running" else None


def _apply_finished(state: State, event: StageFinished) -> tuple[State, list[Command], WhyDecided | None]:
    running = state.running.get(event.stage)
    state = _without_stopped(_without(state, [event.stage]), [event.stage])
    usage = state.usage.using(event.core_seconds)
    state = replace(state, usage=usage, counts=replace(state.counts, stages=state.counts.stages + 1))
    if event.stage == RESULT:
        return replace(state, phase="done"), [Finish()], None
    ready = {**state.ready, event.stage: event.rows}
    remaining = {stage: known for stage, known in state.stragglers.items() if stage != event.stage}
    before = state.estimator.calibration
    calibration = _updated_calibration(state, running, event)
    estimator = state.estimator.updated({event.stage: event.rows}, calibration)
    state = _recalibrated(replace(state, ready=ready, estimator=estimator, stragglers=remaining), before)
    return state, [], FinishedStage(event.stage, state.estimator.query.name_of(event.stage).aliases)


def _apply_grew(state: State, event: StageGrew) -> tuple[State, list[Command], WhyDecided | None]:
    """If a running stage already has far more rows than expected, expect as many as its finished partitions suggest.

    Each later report replaces what was suspected of it before.
    """
    running, known = state.running.get(event.stage), state.stragglers.get(event.stage)
    expected = known.rows if known is not None else max(state.estimator.stage_rows(event.stage), 1.0)
    is_outgrown = event.rows >= OUTGROWN_FACTOR * expected
    if running is None or not (is_outgrown or known is not None):
        return state, [], None
    rows, needed = event.rows / event.finished, known.core_seconds if known is not None else 0.0
    if not running.kept:
        larger = state.estimator.updated({event.stage: rows}, state.estimator.calibration)
        work = larger.work(state.plans[running.plan], event.stage, frozenset(running.inputs))
        needed = max(needed, work.core_seconds * event.finished)
        # At least one task is left.
        rest = work.core_seconds * max(1.0 - event.finished, 1.0 / max(work.tasks, 1.0))
        running = replace(running, work=replace(work, core_seconds=rest, fixed_seconds=0.0), done=0.0)
    state = replace(
        state,
        running={**state.running, event.stage: running},
        stragglers={**state.stragglers, event.stage: Straggler(rows, needed)},
    )
    joins = state.estimator.query.name_of(event.stage).aliases
    return state, [], OutgrownStage(event.stage, joins, rows, expected) if is_outgrown else None


def _apply_cancelled(state: State, event: StageCancelled) -> State:
    """A cancelled stage can be resumed if a part of its output is stored."""
    running = state.running.get(event.stage)
    state = _without_stopped(_without(state, [event.stage]), [event.stage])
    if running is None or event.kept <= 0.0:
        return state
    rest = replace(running.work, core_seconds=_rest(running, event))
    stopped = StoppedStage(running.plan, running.inputs, event.kept, rest)
    return replace(state, stopped={**state.stopped, event.stage: stopped})


def _rest(running: Running, event: StageCancelled) -> float:
    """The core seconds that a cancelled stage still needs, if its other partitions take as long as those stored.

    Its shuffles and broadcasts, which precede its first partition, are stored too.
    """
    gained = event.kept - running.kept
    if not event.core_seconds or gained <= 0.0:
        return running.work.core_seconds * min((1.0 - event.kept) / max(1.0 - running.kept, 1e-9), 1.0)
    return event.core_seconds * (1.0 - event.kept) / gained


def _without_stopped(state: State, stages: Iterable[StageId]) -> State:
    """The state in which these cancelled stages cannot be resumed."""
    gone = set(stages)
    return replace(state, stopped={stage: one for stage, one in state.stopped.items() if stage not in gone})


def _updated_calibration(state: State, running: Running | None, event: StageFinished) -> Calibration:
    """The calibration, updated by a stage whose work is re-estimated from its true row count; not by a resumed one."""
    calibration = state.estimator.calibration
    if running is None or running.kept or event.core_seconds is None or state.share is None:
        return calibration
    counted = state.estimator.updated({event.stage: event.rows}, Calibration())
    work = counted.work(state.plans[running.plan], event.stage, frozenset(running.inputs))
    slots = state.slots / (len(state.running) + 1)
    return calibration.updated(work, slots, event.seconds, event.core_seconds, event.computing_seconds)


def _recalibrated(state: State, before: Calibration) -> State:
    """Apply the new calibration to the running stages."""
    now = state.estimator.calibration
    if state.share is None:
        return state
    running = {}
    for stage, one in state.running.items():
        nominal = one.work
        work = Work(
            nominal.core_seconds * now.core_factor / before.core_factor,
            nominal.fixed_seconds * now.fixed_factor / before.fixed_factor,
            nominal.tasks,
        )
        done = one.done * nominal.seconds(state.slots) / max(work.seconds(state.slots), 1e-3)
        running[stage] = replace(one, work=work, done=done)
    return replace(state, running=running)


def _apply_failed(state: State, event: StageFailed) -> tuple[State, list[Command], WhyDecided | None]:
    running = state.running.get(event.stage)
    state = _without_stopped(_without(state, [event.stage]), [event.stage])
    if event.final:
        return replace(state, phase="failed"), [*_stop_all(state), Fail(_failed(event, state))], None
    if state.phase == "as written" and event.of_plan:
        # It failed before it could be cancelled.
        return state, [], None
    state = replace(state, counts=replace(state.counts, failed=state.counts.failed + 1))
    attempts = {**state.attempts, event.stage: state.attempts.get(event.stage, 0) + 1}
    state = replace(state, attempts=attempts)
    again = event.retry and attempts[event.stage] < MAX_ATTEMPTS
    if state.phase == "as written":
        if event.stage != RESULT:
            return state, [], None
        if again:
            return state, [RunAsWritten(Retried(event.error, attempts[RESULT]))], None
        return replace(state, phase="failed"), [Fail(_failed(event, state))], None
    if again:
        return state, [], None
    if running is not None and state.plans[running.plan].as_written:
        return replace(state, phase="failed"), [*_stop_all(state), Fail(_failed(event, state))], None
    # The plan itself may be the cause (a filter moved before a cast), so the query as written decides.
    state, commands = run_as_written(state, _failed(event, state))
    return state, list(commands), None


def _failed(event: StageFailed, state: State) -> FailedStage:
    return FailedStage(event.stage, state.estimator.query.name_of(event.stage).aliases, event.error)


def run_as_written(state: State, cause: WhyAsWritten) -> tuple[State, tuple[Command, ...]]:
    """Give up planning: cancel the running stages, and run the query as the user wrote it, if it does not run so."""
    result = state.running.get(RESULT) if RESULT not in state.awaiting_cancel else None
    if result is not None and state.phase != "as written" and state.plans[result.plan].as_written:
        return replace(state, phase="as written", timer_at=None), tuple(_stop_all(_without(state, [RESULT])))
    return restart_as_written(state, cause)


def restart_as_written(state: State, cause: WhyAsWritten) -> tuple[State, tuple[Command, ...]]:
    """Give up planning: cancel all running stages, and run the query as the user wrote it, also if it runs so."""
    return replace(state, phase="as written", timer_at=None), (*_stop_all(state), RunAsWritten(cause))


def _stop_all(state: State) -> list[Command]:
    return [CancelStages(tuple(sorted(state.running)))] if state.running else []


def _apply_lost(state: State, stage: StageId, reason: str) -> tuple[State, list[Command], WhyDecided | None]:
    # What is left of a cancelled stage that read it does not fit an output that is computed again.
    readers = [other for other, one in state.stopped.items() if stage in one.inputs]
    was_stopped = stage in state.stopped
    state = _without_stopped(state, [stage, *readers])
    if stage not in state.ready:
        lost = LostOutput(stage, state.estimator.query.name_of(stage).aliases, reason) if was_stopped else None
        return state, [], lost
    # Stages that are reading it continue: Spark recomputes what is missing, or they fail and are retried.
    ready = {other: rows for other, rows in state.ready.items() if other != stage}
    losses = {**state.losses, stage: state.losses.get(stage, 0) + 1}
    state = replace(state, ready=ready, losses=losses, counts=replace(state.counts, lost=state.counts.lost + 1))
    aliases, times = state.estimator.query.name_of(stage).aliases, losses[stage]
    if times > MAX_LOST and state.phase in ("running", "switching") and RESULT not in state.running:
        # Spark alone computes again what its shuffles have lost, not whole stages.
        cause = FailedStage(stage, aliases, f"its output was lost {times} times: {reason}")
        state, commands = run_as_written(state, cause)
        return state, list(commands), None
    return state, [], LostOutput(stage, aliases, reason)


def _without(state: State, stages: Iterable[StageId]) -> State:
    """The state without these running stages; a switch that waited for the last of them is complete."""
    gone = set(stages)
    running = {stage: since for stage, since in state.running.items() if stage not in gone}
    waiting = state.awaiting_cancel - gone
    phase = "running" if state.phase == "switching" and not waiting else state.phase
    return replace(state, running=running, awaiting_cancel=waiting, phase=phase)


def _decide(state: State, cause: WhyDecided, event: Event) -> tuple[State, list[Command]]:
    assert state.share is not None
    slots, rules = state.slots, state.rules
    stopping = rules.force and isinstance(event, ShareChanged)
    progress = _progress(state)
    candidates = evaluate(state.plans, state.estimator, progress, slots, replace(rules, let_finish=not stopping))
    won_by: Winner = "kept"
    if state.current is None:
        likely = likely_slots(state.share.slots, state.executors)
        expected = over_shares(state.plans, state.estimator, candidates, likely, rules)
        chosen = first_plan(state.plans, state.estimator, expected, slots, rules, likely)
        won_by = _first_winner(state, expected, chosen)
    else:
        chosen = plan_to_go_on_with(state.plans, state.estimator, progress, candidates, state.current, slots, rules)
    if rules.force and state.current is not None and isinstance(event, StageFinished | ShareChanged):
        other = forced_choice(state.plans, candidates, state.current, progress.ready, stopping)
        won_by, chosen = ("forced", other) if other != state.current else ("kept", chosen)
    elif _trial_left_s(state) is not None:
        # Planned runs took less time than it has had, so the fastest other plan is worth more than what it has done.
        others = [one for one in candidates if one.plan != state.current] or candidates
        chosen = by_measurement(state.plans, others, choose(others, None, rules), slots, rules)
        won_by = "late trial" if chosen != state.current else "kept"
    elif state.current is not None and chosen != state.current and isinstance(event, StageGrew):
        won_by = "row counts"
    elif state.current is not None and chosen != state.current:
        won_by = _winning_factor(state, progress, chosen)
    decision = _decision(state, progress, candidates, chosen, cause, won_by)
    began = (state.current is None or won_by == "late trial") and not rules.force
    took = rules.times_at(slots).get(state.plans[chosen].signature) if began else None
    if took is not None and not took.switched and not state.plans[chosen].as_written:
        state = replace(state, held_until=state.progress_at + HELD_FACTOR * took.seconds)
    if not state.plans[chosen].as_written:
        # A trial that was not begun, or that is left, is over.
        state = replace(state, rules=replace(rules, trial_s=None))
    if decision.switched:
        late = stragglers(progress, state.estimator, decision.cancel)
        state = replace(state, stragglers=with_larger(state.stragglers, late))
        return _switch(state, candidates[chosen], decision)
    state = replace(state, current=chosen, decided_slots=state.decided_slots or slots)
    return state, [Note(decision)]


def _first_winner(state: State, candidates: Sequence[Candidate], chosen: int) -> Winner:
    """What made the first plan win."""
    plan, rules = state.plans[chosen], state.rules
    if plan.as_written:
        return "trial" if rules.trial_s is not None else "first"
    is_fastest = choose(candidates, None, rules) == chosen
    is_known = state.share is not None and plan.signature in rules.times_at(state.slots)
    return "earlier runs" if is_known and not is_fastest and not rules.force else "first"


def _progress(state: State) -> Progress:
    running = {
        stage: StageProgress(active.plan, active.work, active.done, active.uncertainty)
        for stage, active in state.running.items()
        if stage not in state.awaiting_cancel
    }
    return Progress(frozenset(state.ready), running, state.stragglers, state.stopped)


def _winning_factor(state: State, progress: Progress, chosen: int) -> Winner:
    """What made the new plan win: whether it would also win without late stages, with the share of the previous
    decision, or with the initial estimates."""
    assert state.share is not None and state.current is not None
    before = state.decided_slots or state.slots
    current = state.current
    on_schedule = replace(
        progress, running={stage: replace(one, done=min(one.done, 1.0)) for stage, one in progress.running.items()}
    )

    def wins(slots: float, measured: bool, late: bool = False) -> bool:
        estimator = state.estimator if measured else state.initial_estimator
        seen = progress if late else on_schedule
        pair = evaluate(state.plans, estimator, seen, slots, state.rules, (current, chosen))
        return choose(pair, current, state.rules) == chosen

    if not wins(state.slots, measured=True):
        return "late stage" if wins(before, measured=False, late=True) else "late stage and share or row counts"
    by_share, by_rows = wins(state.slots, measured=False), wins(before, measured=True)
    if by_share and by_rows:
        return "share or row counts"
    if by_share or by_rows:
        return "share" if by_share else "row counts"
    return "share and row counts"


def _decision(
    state: State, progress: Progress, candidates: list[Candidate], chosen: int, cause: WhyDecided, won_by: Winner
) -> Decision:
    assert state.share is not None
    new, ready = state.plans[chosen], progress.ready
    reused = new.reused(ready)
    before = state.plans[state.current].reused(ready) if state.current is not None else frozenset()
    switched = state.current is not None and chosen != state.current
    taken = candidates[chosen]
    return Decision(
        cause=cause,
        slots=state.slots,
        before=state.current,
        plan=chosen,
        seconds=tuple(round(candidate.seconds, 3) for candidate in candidates),
        cancel=taken.cancel if switched else (),
        let_finish=taken.let_finish if switched else (),
        reused=tuple(sorted(reused)),
        left_behind=tuple(sorted(before - reused)) if switched else (),
        won_by=won_by,
        fastest=min(candidates, key=lambda candidate: candidate.seconds).plan,
        needed=None
        if state.current is None
        else round(min_gain_for_switch(candidates[state.current].seconds, state.rules), 3),
    )


def _switch(state: State, taken: Candidate, decision: Decision) -> tuple[State, list[Command]]:
    counts = replace(
        state.counts,
        switches=state.counts.switches + 1,
        reused=state.counts.reused + len(decision.reused),
        cancelled=state.counts.cancelled + len(taken.cancel),
        unused=state.counts.unused + len(decision.left_behind),
    )
    state = replace(state, current=taken.plan, decided_slots=decision.slots, counts=counts)
    commands: list[Command] = [Note(decision)]
    if taken.cancel:
        commands.append(CancelStages(taken.cancel))
        waiting = state.awaiting_cancel | set(taken.cancel)
        state = replace(state, phase="switching", awaiting_cancel=waiting)
    return state, commands


def _start(state: State, at: float) -> tuple[State, list[Command]]:
    """Start the stages that can run, shortest first: they yield row counts at the least cost."""
    if state.current is None or state.share is None:
        return state, []
    plan, slots = state.plans[state.current], state.slots
    available = frozenset(state.ready.keys() | state.running.keys())
    estimator = suspecting(state.estimator, state.stragglers)
    resumed = resumed_stages(state.current, state.plans, estimator, _progress(state), available)
    stages = plan.stages(available | resumed)
    reads = {stage: plan.reads(stage, available | resumed) for stage in stages}
    ready = [stage for stage in stages if reads[stage] <= state.ready.keys()]
    works = {stage: estimator.work(plan, stage, available | resumed) for stage in ready}
    works |= {stage: state.stopped[stage].rest for stage in resumed & frozenset().union({RESULT}, *reads.values())}
    free_places = max_concurrent(slots) - len(state.running)
    commands: list[Command] = []
    running = dict(state.running)
    for stage in sorted(works, key=lambda stage: (works[stage].seconds(slots), stage))[: max(free_places, 0)]:
        kept, number, inputs = 0.0, state.current, tuple(sorted(reads.get(stage, ())))
        if stage in resumed:
            stopped = state.stopped[stage]
            kept, number, inputs = stopped.kept, stopped.plan, stopped.inputs
        uncertainty = state.estimator.stage_uncertainty(stage)
        running[stage] = Running(number, inputs, works[stage], uncertainty, kept=kept, started_at=at)
        commands.append(StartStage(stage, number, inputs, state.attempts.get(stage, 0), kept))
    started_at = at if state.started_at is None and running else state.started_at
    return replace(state, running=running, started_at=started_at), commands


def likely_starts(state: State) -> tuple[StartStage, ...]:
    """The stages that start when the running ones have finished with as many rows as estimated, if the plan stays."""
    if state.phase != "running" or state.current is None or RESULT in state.running or not state.running:
        return ()
    ready = {**state.ready, **{stage: state.estimator.stage_rows(stage) for stage in state.running}}
    _, commands = _start(replace(state, running={}, ready=ready), state.progress_at)
    return tuple(command for command in commands if isinstance(command, StartStage))


def _confirm(state: State) -> tuple[State, list[Command]]:
    """Confirm each share to the arbiter once, when the executors are within it."""
    share = state.share
    if share is None or share.seq is None or share.executors is None or state.executors is None:
        return state, []
    if state.executors.executors > share.executors or state.confirmed == share.seq:
        return state, []
    return replace(state, confirmed=share.seq), [ConfirmVacated(share.seq)]
