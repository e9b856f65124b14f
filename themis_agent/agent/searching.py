"""The search of an agent: made from its settings, and what a report or a failure means for all trials."""

import statistics
from collections.abc import Iterable
from dataclasses import replace
from typing import cast

from themis_agent.agent.settings import DEFAULT_STEP_S, VIOLATED, Settings
from themis_agent.agent.state import Outcome, State, TrialState
from themis_agent.search import (
    Asha,
    CurveStopping,
    Decision,
    Failed,
    Halving,
    Hyperband,
    Population,
    Report,
    Search,
    ToTheEnd,
    Trial,
    Work,
    asha,
    bracket_sizes,
    curve_stopping,
    generations,
    hyperband,
    population,
    replaced_of,
    rungs,
    successive_halving,
    to_the_end,
)
from yarn_plugin.model.gpus import Slowdown

AnySearch = Asha | Halving | Hyperband | CurveStopping | Population | ToTheEnd

EARLY = 10
"""If half of so many fail, the first to end, something else than their parameters is wrong: the search stops."""

_ENDED = ("complete", "pruned", "failed")


def begun(settings: Settings, at: float) -> State:
    """The state of a search that begins."""
    search = _search(settings)
    ids = [trial_id(number) for number in range(settings.trials)]
    trials = {name: positioned(TrialState(name, number, 0.0), search) for number, name in enumerate(ids)}
    return State(settings, search, trials, begun_at=at)


def trial_id(number: int) -> str:
    """The id of a trial; ids sort as numbers do."""
    return f"trial-{number:05}"


def is_trial_id(name: str) -> bool:
    """Whether a name is the id of a trial."""
    number = name.removeprefix("trial-")
    return number.isdecimal() and name == trial_id(int(number))


def trial_of(settings: Settings, number: int) -> Trial:
    """A trial as it begins."""
    return Trial(
        trial_id(number),
        settings.step_s or DEFAULT_STEP_S,
        settings.max_steps,
        settings.min_gpus,
        settings.max_gpus,
        settings.step_gpus,
        speeds=settings.speeds,
    )


def _search(settings: Settings) -> AnySearch:
    trials = [trial_of(settings, number) for number in range(settings.trials)]
    match settings.algorithm:
        case "hyperband":
            ordered = trials if settings.rules == 1 else _longest_first(trials, settings)
            return hyperband(ordered, settings.max_steps, settings.eta)
        case "successive_halving":
            ends = rungs(len(trials), settings.max_steps, settings.eta)
            added = [end - before for end, before in zip(ends, (0.0, *ends), strict=False)]
            return successive_halving(trials, added, settings.eta)
        case "asha":
            return asha(trials, settings.max_steps, settings.eta)
        case "curve_stopping":
            target = settings.target
            loss = -target if target is not None and settings.maximize else target
            search = curve_stopping(trials, loss, settings.patience)
            return replace(search, frontier=None) if settings.rules == 1 else search
        case "population":
            replaced = replaced_of(settings.trials, settings.quantile)
            most = settings.trials + replaced * (generations(settings.max_steps, settings.ready_steps) - 1)
            trials = [trial_of(settings, number) for number in range(most)]
            return population(trials, settings.trials, settings.max_steps, settings.ready_steps, settings.quantile)
        case "plain":
            return to_the_end(trials)


def _longest_first(trials: list[Trial], settings: Settings) -> list[Trial]:
    """The trials in the order of Hyperband's brackets, so that the first ones are in those with the most steps."""
    ordered: list[Trial] = []
    for size in reversed(bracket_sizes(settings.max_steps, settings.eta)):
        ordered = [*trials[len(ordered) : len(ordered) + size.trials], *ordered]
    return ordered


def positioned(trial: TrialState, search: AnySearch) -> TrialState:
    """A trial that trains, with its bracket, its rung, and the step at which that ends."""
    if isinstance(search, Asha):
        places = zip(search.trials, search.places, strict=True)
        place = next((place for one, place in places if one.trial.id == trial.id), trial.rung)
        return replace(trial, rung=place, until=search.ends[place])
    brackets = search.brackets if isinstance(search, Hyperband) else (search,)
    for number, bracket in enumerate(brackets):
        for one in bracket.trials:
            if one.trial.id == trial.id:
                if isinstance(bracket, Halving | Population):
                    return replace(trial, bracket=number, rung=bracket.phase, until=bracket.target)
                return replace(trial, bracket=number, until=one.trial.iterations)
    return trial


def reported(state: State, trial: TrialState, at: float) -> State:
    """The search after a report of a trial: its step and its loss."""
    loss = VIOLATED if trial.violated else trial.loss
    report = Report(trial.id, _reached(trial), loss, trial.attained_gpu_s(at))
    state = _decided(state.with_trial(trial), report)
    after = state.trials[trial.id]
    if after.fate == "training" and after.rung == trial.rung and _reached(after) >= after.until:
        state = state.with_trial(replace(after, fate="paused"))
    return _caught_up(state, at)


def _reached(trial: TrialState) -> float:
    """The step at which a trial competes: one whose command has ended, at the end of its rung."""
    return max(trial.step, trial.until) if trial.ran_out else trial.step


def _caught_up(state: State, at: float) -> State:
    """What a trial has reported ahead of its promotion counts now.

    One whose command has ended, or that reports so seldom that it has passed the end of its new rung, has reached it.
    """
    for trial in state.trials.values():
        if trial.fate != "training":
            continue
        if trial.ahead:
            (step, loss), *later = trial.ahead
            return reported(state, replace(trial, step=step, loss=loss, ahead=tuple(later)), at)
        if _reached(trial) >= trial.until:
            return reported(state, trial, at)
    return state


def failed(state: State, trial: TrialState, error: str, last_lines: tuple[str, ...], at: float) -> State:
    """The search after a failure of a trial."""
    state = state.with_trial(replace(trial, fate="failed", error=error, last_lines=last_lines))
    state = _caught_up(_decided(state, Failed(trial.id)), at)
    early = [one for one in state.trials.values() if one.number < EARLY and one.fate == "failed"]
    is_watched = state.settings.rules == 1 and state.first_ended is not None
    if is_watched and state.outcome is None and 2 * len(early) >= EARLY:
        reason = f"{len(early)} of the first {EARLY} trials failed; the last one: {error}"
        return replace(state, outcome=Outcome(False, reason, "failures"))
    return state


def watched(before: State, state: State) -> State:
    """The state with those counted that have ended in it; over if too many of the first ones failed."""
    seen = state.first_ended
    if state.settings.rules == 1 or seen is None or len(seen) >= EARLY or state.outcome is not None:
        return state
    new = [one for one in state.trials.values() if one.fate in _ENDED and before.trials[one.id].fate not in _ENDED]
    seen = (*seen, *(one.fate == "failed" for one in new))[:EARLY]
    state = replace(state, first_ended=seen)
    if 2 * seen.count(True) < EARLY:
        return state
    error = next((one.error for one in reversed(new) if one.error), "")
    reason = f"{seen.count(True)} of the first {len(seen)} trials that ended failed; the last one: {error}"
    return replace(state, outcome=Outcome(False, reason, "failures"))


def profiled(state: State, trial: TrialState, at: float) -> State:
    """The search when a step has been measured: trials whose own are not measured are taken to be like the others."""
    state = state.with_trial(trial)
    typical, slowdown = typical_step_s(state), _slowdown(state)
    for one in state.trials.values():
        if one.fate == "training" and (one.profile is None or one.id == trial.id):
            step_s = one.profile.iteration_s if one.profile is not None else typical
            state = _decided(state, Report(one.id, one.step, None, one.attained_gpu_s(at), step_s, slowdown))
    return state


def typical_step_s(state: State) -> float:
    """Seconds of a step on one GPU: the median of what is measured."""
    measured = [one.profile.iteration_s for one in state.trials.values() if one.profile is not None]
    return statistics.median(measured) if measured else state.settings.step_s or DEFAULT_STEP_S


def _slowdown(state: State) -> Slowdown:
    """The slowdowns of the trial that has been measured with the most kinds of spread: all trials run one command."""
    profiles = [one.profile for one in state.trials.values() if one.profile is not None]
    return max(profiles, key=lambda one: len({level for (level, _), _ in one.measurements})).slowdown


def work(state: State) -> Work:
    """What is left to do, for bids. The budget is what was planned, with steps as long as they turn out to be."""
    found = state.running_search().work()
    counts_measured = isinstance(state.search, ToTheEnd)
    factor = 1.0 if counts_measured else typical_step_s(state) / (state.settings.step_s or DEFAULT_STEP_S)
    brackets = found.brackets if state.outcome is None and not state.suspended else ()
    return Work(brackets, found.budget_gpu_s * factor, found.max_gpus)


def _decided(state: State, report: Report | Failed) -> State:
    search, decisions = cast(Search, state.search).take(report)
    return _applied(replace(state, search=search), decisions)


def _begun_from(state: State, parent: TrialState, name: str) -> TrialState:
    """A new trial that goes on from the checkpoint of another one."""
    number, checkpoint = len(state.trials), parent.checkpoint
    child = TrialState(name, number, 0.0, step=parent.step, loss=parent.loss, checkpoint=checkpoint, parent=parent.id)
    return positioned(child, cast(AnySearch, state.search))


def _applied(state: State, decisions: Iterable[Decision]) -> State:
    for decision in decisions:
        if decision.kind == "begin":
            state = state.with_trial(_begun_from(state, state.trials[decision.parent], decision.trial))
            continue
        trial = state.trials[decision.trial]
        trial = replace(trial, ranking=decision.ranking or trial.ranking)
        match decision.kind:
            case "promote":
                trial = replace(positioned(trial, cast(AnySearch, state.search)), fate="training")
            case "stop":
                trial = replace(trial, fate="pruned")
            case "complete":
                trial = replace(trial, fate="complete")
        state = state.with_trial(trial)
    return state
