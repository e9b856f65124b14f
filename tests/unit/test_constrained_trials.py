"""Further metrics, constraints on them, the time that a trial may train, and rungs that nobody waits in."""

import pytest

from tests.agent_world import FIRST, SECOND, Search
from themis_agent.agent import events
from themis_agent.agent.commands import StopTrial
from themis_agent.agent.settings import Constraint, Settings

FAST = Settings("plain", trials=2, max_steps=3, constraints=(Constraint("latency_ms", 20.0, is_upper=True),))


def report(search, trial, step, loss, **others):
    return search.take(events.Reported(trial, search.epoch(trial), step, loss, tuple(others.items())))


def test_the_best_trial_violates_no_constraint():
    search = Search(FAST)
    report(search, FIRST, 3, 0.1, latency_ms=25.0)
    report(search, SECOND, 3, 0.2, latency_ms=15.0)
    assert search.state.best.id == SECOND
    first = search.state.trials[FIRST]
    assert (first.violated, first.others) == ("latency_ms <= 20", (("latency_ms", 25.0),))
    assert search.state.metric(first) == 0.1


@pytest.mark.parametrize("maximize", [False, True])
def test_a_trial_that_violates_a_constraint_is_promoted_after_those_that_do_not(maximize):
    size = (Constraint("size", 3.0, is_upper=False),)
    search = Search(Settings("successive_halving", trials=2, max_steps=4, eta=2, maximize=maximize, constraints=size))
    report(search, FIRST, 2, 9.0 if maximize else 0.1, size=1.0)
    report(search, SECOND, 2, 1.0, size=3.0)
    assert search.fates() == ["pruned", "training"]


def test_a_target_is_reached_within_the_constraints():
    search = Search(Settings("plain", trials=1, max_steps=9, target=0.5, constraints=FAST.constraints))
    report(search, FIRST, 1, 0.4, latency_ms=30.0)
    assert search.state.outcome is None
    report(search, FIRST, 2, 0.4, latency_ms=10.0)
    assert search.state.outcome.cause == "target"


def test_a_trial_competes_with_what_it_has_when_its_time_is_over():
    search = Search(Settings("plain", trials=2, max_steps=9, trial_timeout_s=60.0))
    report(search, FIRST, 2, 0.5)
    search.take(events.TimerFired(), at=59.0)
    assert search.fates() == ["training", "training"]
    search.take(events.TimerFired(), at=60.0)
    assert search.fates() == ["complete", "failed"]
    assert search.state.trials[SECOND].error == "trial_timeout_s 60 is over, without a report"
    assert {one.trial for one in search.of(StopTrial)} == {FIRST, SECOND}


def test_the_time_of_a_trial_is_that_of_all_its_starts():
    search = Search(Settings("plain", trials=1, max_steps=9, retries=5, trial_timeout_s=60.0))
    report(search, FIRST, 2, 0.5)
    search.at = 40.0
    search.end(FIRST, code=1)
    assert search.state.trials[FIRST].trained_s == 40.0
    search.take(events.TimerFired(), at=59.0)
    assert search.fates() == ["training"]
    search.take(events.TimerFired(), at=60.0)
    assert search.fates() == ["complete"]


def test_an_asynchronous_search_goes_on_with_the_best_while_others_train():
    search = Search(Settings("asha", trials=4, max_steps=4, eta=2), held=4)
    for number, trial in enumerate(sorted(search.state.trials)[:2]):
        search.report(trial, 1, float(number))
    assert search.fates()[:2] == ["training", "paused"]
    first = search.state.trials[FIRST]
    assert (first.rung, first.until) == (1, 2)
    search.report(FIRST, 2, 0.0)
    for trial in sorted(search.state.trials):
        search.end(trial)
    assert FIRST in [one.id for one in search.state.trials.values() if one.fate == "training"]
