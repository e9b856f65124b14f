"""The life of a trial: its launchers start, report and end."""

import math
import re
from dataclasses import replace

from themis_agent.agent import move_time, searching, sharing
from themis_agent.agent.events import (
    Checkpointed,
    CheckpointFailed,
    LauncherEnded,
    LauncherStarted,
    LogRead,
    Profiled,
    Reported,
    Restarted,
)
from themis_agent.agent.state import Attempt, Outcome, Read, State, TrialState
from themis_agent.bids.profile import Profile
from themis_agent.bids.spread import Place, Spread
from themis_agent.trial.reading.numbering import Steps
from yarn_plugin.model.gpus import speed_on

MAX_AHEAD = 1000
"""How many reports of a trial that is stopping are kept for its promotion."""

MAX_SAID = 300
"""The most characters of a log's line in the reason of a failure."""

_EXCEPTION = re.compile(r"[A-Za-z_][\w.]*(?:Error|Exception|Interrupt)\b(?::|$)")

FromTrial = LauncherStarted | Reported | LogRead | Profiled | Checkpointed | CheckpointFailed | LauncherEnded


def take(state: State, at: float, event: FromTrial) -> State:
    """The state after an event of a launcher; those of earlier epochs, and of trials that do not run, are ignored."""
    trial = state.trials.get(event.trial)
    attempt = trial.attempt if trial is not None else None
    if trial is None or attempt is None or attempt.epoch != event.epoch:
        return state
    match event:
        case LauncherStarted():
            return _started(state, trial, attempt, event)
        case Reported():
            return _reported(state, trial, attempt, event, at)
        case LogRead():
            return _log_read(state, trial, attempt, event)
        case Profiled():
            return _profiled(state, trial, attempt, event, at)
        case Checkpointed():
            return state.with_trial(replace(trial, checkpoint=event.step, store_problem=""))
        case CheckpointFailed():
            return state.with_trial(replace(trial, store_problem=event.problem))
        case LauncherEnded():
            return _ended(state, trial, attempt, event, at)


def restarted(state: State, at: float, event: Restarted) -> State:
    """The state after a restart of the agent: launchers that are gone were lost with it, and kill commands may be."""
    running = {(one.trial, one.epoch, one.launcher) for one in event.running}
    for trial, attempt in list(state.attempts):
        state = state.with_trial(replace(trial, attempt=replace(attempt, killed=False)))
        for launcher in range(len(attempt.places)):
            if launcher not in attempt.ended and (trial.id, attempt.epoch, launcher) not in running:
                state = take(state, at, LauncherEnded(trial.id, attempt.epoch, None, launcher=launcher))
    for trial in state.trials.values():
        if trial.sampling:
            state = state.with_trial(replace(trial, sampling=False))
    return state


def _started(state: State, trial: TrialState, attempt: Attempt, event: LauncherStarted) -> State:
    if event.launcher:
        return state
    if event.port is not None:
        attempt = replace(attempt, master=(event.host, event.port))
    return state.with_trial(replace(trial, attempt=attempt, has_begun=True))


def _reported(state: State, trial: TrialState, attempt: Attempt, event: Reported, at: float) -> State:
    if attempt.last_step is not None and event.step <= attempt.last_step:
        return state
    trial = replace(trial, attempt=replace(attempt, last_step=event.step))
    if trial.fate not in ("training", "paused") or state.outcome is not None:
        return state.with_trial(trial)
    if event.metric is None or not math.isfinite(event.metric):
        if trial.fate == "paused" and state.settings.rules == 1:
            return state.with_trial(trial)
        return searching.failed(state, trial, f"step {event.step:g}: the metric is not a finite number", (), at)
    loss = -event.metric if state.settings.maximize else event.metric
    if trial.fate == "paused":
        ahead = (*trial.ahead, (event.step, loss)) if len(trial.ahead) < MAX_AHEAD else trial.ahead
        return state.with_trial(replace(trial, ahead=ahead))
    violated = _violated(state, event.others)
    trial = replace(trial, step=event.step, loss=loss, others=event.others, violated=violated)
    state = searching.reported(state, trial, at)
    return state if violated else _at_target(state, trial.id, loss)


def _violated(state: State, others: tuple[tuple[str, float], ...]) -> str:
    """The first constraint that does not hold; one whose metric is not known yet holds."""
    known = dict(others)
    found = (one for one in state.settings.constraints if one.metric in known and not one.holds(known[one.metric]))
    return str(next(found, ""))


def timed_out(state: State, at: float) -> State:
    """The state in which trials that have trained for too long go no further: they compete with what they have."""
    limit = state.settings.trial_timeout_s
    for trial, _ in list(state.attempts):
        due = trial.deadline(limit)
        if due is None or at < due or trial.fate != "training" or state.outcome is not None:
            continue
        if trial.loss is None:
            state = searching.failed(state, trial, f"trial_timeout_s {limit:g} is over, without a report", (), at)
        else:
            state = searching.reported(state, replace(trial, ran_out=True), at)
    return state


def _log_read(state: State, trial: TrialState, attempt: Attempt, event: LogRead) -> State:
    if event.steps is Steps.REPORTED:
        # The script's own steps count, also those that are not after the ones that were read.
        return state.with_trial(replace(trial, attempt=replace(attempt, last_step=None), read=None))
    return state.with_trial(replace(trial, read=Read(event.name, event.steps)))


def _at_target(state: State, name: str, loss: float) -> State:
    target = state.settings.target
    if target is None or loss > (-target if state.settings.maximize else target):
        return state
    trial = replace(state.trials[name], fate="complete")
    return replace(
        state.with_trial(trial), outcome=Outcome(True, f"{name} has reached the target {target:g}", "target")
    )


def _profiled(state: State, trial: TrialState, attempt: Attempt, event: Profiled, at: float) -> State:
    held = {gpu.cell: gpu for lease in state.leases.values() for gpu in lease.gpus}
    gpus = [held[cell] for cell in attempt.cells if cell in held]
    if not 0 < event.step_s < math.inf or state.outcome is not None or len(gpus) < len(attempt.cells):
        return state
    spread = Spread.of(Place(gpu.rack, gpu.machine, gpu.slot, 1) for gpu in gpus)
    # As on GPUs of speed 1.
    step_s = event.step_s * min(speed_on(state.settings.speeds, gpu.model) for gpu in gpus)
    known = trial.profile or Profile(step_s)
    trial = sharing.measured(trial, event.step_s)
    state = searching.profiled(state, replace(trial, profile=known.measured(spread, step_s)), at)
    return move_time.measured(state, state.trials[trial.id], attempt, event.step_s, at)


def _ended(state: State, trial: TrialState, attempt: Attempt, event: LauncherEnded, at: float) -> State:
    """A launcher has ended. A gang ends as a whole: the others are stopped, and the trial goes by the first one."""
    if event.launcher in attempt.ended:
        return state
    attempt = replace(attempt, ended=(*attempt.ended, event.launcher))
    if attempt.stop_by is None:
        attempt = replace(
            attempt,
            ended_itself=True,
            exit_code=event.code,
            last_lines=event.last_lines,
            silent=event.silent,
            stop_by=at + state.settings.grace_s,
            reason="stopped",
        )
    attempt = replace(attempt, no_report=attempt.no_report or event.no_report)
    if len(attempt.ended) < len(attempt.places):
        return state.with_trial(replace(trial, attempt=attempt))
    interrupted = move_time.interruption(trial, attempt, at)
    trained_s = trial.trained_s + max(at - attempt.started_at, 0.0)
    gpu_s = trial.attained_gpu_s(at)
    trial = replace(trial, attempt=None, gpu_s=gpu_s, trained_s=trained_s, interrupted=interrupted)
    if trial.fate in ("training", "paused") and not (attempt.ended_itself and attempt.exit_code == 0):
        lost = max((attempt.last_step or 0.0) - (trial.checkpoint or 0.0), 0.0)
        trial = replace(trial, lost_steps=trial.lost_steps + lost)
    if trial.fate == "training" and attempt.silent:
        return searching.failed(state, trial, attempt.no_report, attempt.last_lines, at)
    if trial.fate == "training" and attempt.ended_itself and attempt.exit_code is not None:
        return _ended_itself(state, trial, attempt, attempt.exit_code, at)
    return state.with_trial(trial)


def _ended_itself(state: State, trial: TrialState, attempt: Attempt, code: int, at: float) -> State:
    if code == 0 and trial.loss is not None:
        return searching.reported(state, replace(trial, ran_out=True), at)
    trial = replace(trial, crashes=trial.crashes + 1)
    if code != 0 and trial.crashes <= state.settings.retries:
        return state.with_trial(trial)
    how = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
    times = f", {trial.crashes} times" if trial.crashes > 1 else ""
    nothing = f"ended without a report: {attempt.no_report}".removesuffix(": ")
    error = f"{how}{times}{_said(attempt.last_lines)}" if code else nothing
    return searching.failed(state, trial, error, attempt.last_lines, at)


def _said(last_lines: tuple[str, ...]) -> str:
    """The line of a log that says why a command failed: the last exception, or else the last line."""
    lines = [line.strip() for line in last_lines if line.strip()]
    raised = [line for line in lines if _EXCEPTION.match(line)]
    return f": {(raised or lines)[-1][:MAX_SAID]}" if lines else ""
