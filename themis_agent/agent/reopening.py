"""A search that is over goes on: with what too many failures have kept from running, and with what has failed."""

from dataclasses import replace
from typing import cast

from themis_agent.agent import searching
from themis_agent.agent.state import State, TrialState
from themis_agent.search import Halving, Hyperband


def can_reopen(state: State, retry_failed: bool) -> bool:
    """Whether a search that is over can go on."""
    cause = state.outcome.cause if state.outcome is not None else None
    has_failed = any(one.fate == "failed" for one in state.trials.values())
    return cause == "failures" or (cause == "ended" and retry_failed and has_failed)


def reopened(state: State, retry_failed: bool) -> State:
    """The state of a search that goes on with what is left, and with the trials that have failed, if they are to be
    tried again; unchanged if it is over for another reason."""
    if state.outcome is not None and not can_reopen(state, retry_failed):
        return state
    failed = [one for one in state.trials.values() if one.fate == "failed" and retry_failed]
    if state.outcome is not None:
        # Its user goes on although so many have failed. Those that are tried again say whether that has helped.
        state = replace(state, outcome=None, finished=False, first_ended=() if failed else None)
    elif failed and state.first_ended is not None:
        # Each trial counts once.
        state = replace(state, first_ended=tuple(one for one in state.first_ended if not one))
    for trial in state.trials.values():
        if trial.fate == "stopped":
            waits = trial.ran_out or trial.step >= trial.until
            state = state.with_trial(replace(trial, fate="paused" if waits else "training"))
    return _retried(state, failed) if failed else state


def _retried(state: State, failed: list[TrialState]) -> State:
    """The state in which failed trials run again, as if they had never reported."""
    search = cast(searching.AnySearch, state.search)
    typical = replace(state.settings, step_s=searching.typical_step_s(state))

    def again(bracket: Halving, number: int) -> Halving:
        mine = [one for one in failed if one.bracket == number]
        if not mine:
            return bracket
        return bracket.retry([searching.trial_of(typical, one.number) for one in mine], min(one.rung for one in mine))

    match search:
        case Hyperband():
            search = replace(search, brackets=tuple(again(one, number) for number, one in enumerate(search.brackets)))
        case Halving():
            search = again(search, 0)
        case _:
            search = search.retry([searching.trial_of(typical, one.number) for one in failed])
    state = replace(state, search=search)
    for one in failed:
        fresh = replace(one, fate="training", step=0.0, loss=None, crashes=0, ran_out=False, error="", last_lines=())
        fresh = replace(fresh, ahead=(), interrupted=None, ranking=None)
        state = state.with_trial(searching.positioned(fresh, search))
    return state
