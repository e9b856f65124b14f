"""What it costs to move a trial: a checkpoint, a new start, and the steps that are executed again.

A move is measured in two parts, so that the time does not count for which a trial waits for GPUs: from the decision to
stop it until nothing runs on its GPUs, and from the next start until it has got beyond the step that it had reached.
"""

import statistics
from dataclasses import replace

from themis_agent.agent.state import Attempt, Interruption, State, TrialState
from yarn_plugin.model.gpus import Job

ASSUMED_S = 45.0
"""Until a move has been measured: 35 to 50 s in Themis, thesis section 3.6.2.3."""

LATEST = 20
"""How many moves are remembered."""


def move_s(state: State) -> float:
    """Seconds that it costs to move a trial of this search: the median of its latest moves."""
    return statistics.median(state.moves_s) if state.moves_s else ASSUMED_S


def saves_time(state: State, job: Job, gpus: int, more: int) -> bool:
    """Whether a trial that runs on `gpus` would save more time on `more` of them than moving it costs."""
    left_s = job.iterations_left * job.iteration_s
    return left_s / gpus - left_s / more > move_s(state)


def interruption(trial: TrialState, attempt: Attempt, at: float) -> Interruption | None:
    """The end of a run, if it is the first part of a move; None: the trial ended by itself, or is not to go on."""
    if attempt.stop_told_at is None or attempt.reason not in ("moved", "revoked"):
        return None
    return Interruption(at - attempt.stop_told_at, max(trial.step, attempt.last_step or 0.0))


def measured(state: State, trial: TrialState, attempt: Attempt, step_s: float, at: float) -> State:
    """The state when the time of a step has been measured after a move, which took the rest of the time since then.

    `step_s`: seconds of a step as the trial runs now.
    """
    before, reached = trial.interrupted, attempt.last_step
    if before is None or reached is None:
        return state
    start_s = max(at - attempt.started_at - (reached - before.step) * step_s, 0.0)
    state = state.with_trial(replace(trial, interrupted=None))
    return replace(state, moves_s=(*state.moves_s, before.stop_s + start_s)[-LATEST:])
