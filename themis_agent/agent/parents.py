"""Trials that go on from the checkpoints of others: a parent rests at the end of its generation until its variant has
begun, so that the variant begins where the parent was.
"""

from collections.abc import Collection

from themis_agent.agent.state import State, TrialState


def resting(state: State) -> set[str]:
    """The trials whose variants are still to begin."""
    if state.settings.algorithm != "population":
        return set()
    trials = state.trials.values()
    return {one.parent for one in trials if one.parent and not one.has_begun and one.fate == "training"}


def may_start(state: State, trial: TrialState, resting: Collection[str]) -> bool:
    """Whether a trial neither rests, nor waits for a checkpoint to begin from that its parent still stores."""
    parent = state.trials.get(trial.parent)
    return trial.id not in resting and (parent is None or trial.has_begun or parent.attempt is None)
