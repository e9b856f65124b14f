"""The agent's step: events in, commands out, without processes, clocks or files."""

from dataclasses import replace

import pytest

from tests.agent_world import CODEC, FIRST, PLAIN, SECOND, Search, gpus
from themis_agent.agent import events, searching
from themis_agent.agent.commands import (
    Finish,
    KillTrial,
    ReleaseGpus,
    SendBid,
    SendEstimate,
    StartTrial,
    StopTrial,
)
from themis_agent.agent.move_time import ASSUMED_S, move_s
from themis_agent.agent.searching import work
from themis_agent.agent.settings import Settings
from themis_agent.agent.state import Read
from themis_agent.agent.step import KILL_AFTER_S, next_due
from themis_agent.trial.reading.numbering import Steps
from yarn_plugin.model.auction import EstimateRequest, GpuOffer
from yarn_plugin.model.gpus import Machine, Slot


def test_trials_start_train_and_the_best_is_found():
    search = Search()
    assert [(one.trial, one.epoch, one.world_size) for one in search.of(StartTrial)] == [(FIRST, 1, 1), (SECOND, 1, 1)]
    search.report(FIRST, 3, 0.5)
    search.report(SECOND, 3, 0.25)
    assert search.fates() == ["complete", "complete"]
    search.end(FIRST)
    assert search.end(SECOND) == (Finish(True, "all trials have ended", SECOND),)


def test_a_maximised_metric_is_best_when_it_is_highest():
    search = Search(replace(PLAIN, maximize=True, target=0.9))
    search.report(FIRST, 1, 0.2)
    search.report(SECOND, 1, 0.95)
    assert search.state.metric(search.state.best) == 0.95
    assert search.state.outcome.reason == f"{SECOND} has reached the target 0.9"
    assert search.fates() == ["stopped", "complete"]


def test_a_rung_pauses_trials_and_promotes_the_best():
    search = Search(Settings("successive_halving", trials=3, max_steps=9, eta=3), held=3)
    for number, loss in enumerate((0.3, 0.1)):
        (stop,) = search.report(f"trial-0000{number}", 3, loss)
        assert stop.reason == "paused"
    stops = search.report("trial-00002", 3, 0.2)
    assert [stop.reason for stop in stops] == ["pruned"]
    assert search.fates() == ["pruned", "training", "pruned"]
    (start,) = search.end(SECOND)
    assert (start.trial, start.epoch) == (SECOND, 2)
    assert search.state.trials[SECOND].until == 9


@pytest.mark.parametrize(("rules", "wanted"), [(2, {1, 2}), (3, {1})])
def test_a_search_bids_for_no_more_than_its_trials_would_use(rules, wanted):
    """Also where its only GPU is offered again: the trial would not move to two others. Rules 2 bid for those."""
    search = Search(Settings("plain", trials=1, max_steps=10, max_gpus=2, rules=rules), held=1)
    search.take(events.Profiled(FIRST, 1, 1.0))
    machines = (Machine("m1", "r1", (Slot("m1", 1),)), Machine("m2", "r1", (Slot("m2", 2),)))
    (said,) = search.take(events.Offered("o", GpuOffer(7, machines, 60.0, 2.0, (), 4)))
    assert {sum(piece.gpus for piece in row.pieces) for row in said.bid.rows} == wanted


def test_a_trial_that_reports_seldom_reaches_several_rungs_at_once():
    search = Search(Settings("successive_halving", trials=9, max_steps=9, eta=3), held=9)
    for number in range(9):
        search.report(f"trial-0000{number}", 9, number)
    assert search.fates() == ["complete", *["pruned"] * 8]


def test_a_metric_that_is_no_number_fails_the_trial_and_not_the_search():
    search = Search()
    (stop,) = search.report(FIRST, 1, None)
    assert (stop.trial, stop.reason, stop.by) == (FIRST, "failed", 10.0)
    assert search.state.trials[FIRST].error == "step 1: the metric is not a finite number"
    search.end(FIRST, None)
    search.report(SECOND, 3, 1.0)
    assert search.end(SECOND) == (Finish(True, "all trials have ended", SECOND),)


def halving(trials=3, max_steps=9):
    return Search(Settings("successive_halving", trials=trials, max_steps=max_steps, eta=3, rules=2), held=trials)


@pytest.mark.parametrize("promoted", [False, True])
def test_a_metric_that_is_no_number_after_the_end_of_a_rung_fails_the_trial(promoted):
    search = halving()
    search.report(FIRST, 3, 0.1)
    if promoted:
        search.report(SECOND, 3, 0.2)
        search.report("trial-00002", 3, 0.3)
        assert search.state.trials[FIRST].fate == "training"
    # It is still being stopped, and its newest checkpoint may be of this step.
    search.report(FIRST, 4, None)
    trial = search.state.trials[FIRST]
    assert (trial.fate, trial.error) == ("failed", "step 4: the metric is not a finite number")
    search.end(FIRST)
    if not promoted:
        search.report(SECOND, 3, 0.2)
        search.report("trial-00002", 3, 0.3)
        assert search.fates() == ["failed", "training", "pruned"]
    assert FIRST not in [start.trial for start in search.of(StartTrial) if start.epoch > 1]


def test_a_command_that_ends_early_competes_at_the_step_that_it_reached():
    search = halving()
    search.report(FIRST, 2, 0.1)
    search.end(FIRST)
    trial = search.state.trials[FIRST]
    assert (trial.fate, trial.step, trial.ran_out) == ("paused", 2, True)
    assert work(search.state).jobs[0].id == SECOND
    search.report(SECOND, 3, 0.2)
    search.report("trial-00002", 3, 0.3)
    # It is the best of the rung, and has no more to do in the next one.
    assert search.fates() == ["complete", "pruned", "pruned"]
    assert (search.state.trials[FIRST].step, search.state.trials[FIRST].rung) == (2, 1)
    assert search.state.best.id == FIRST


def test_a_command_that_ends_early_loses_to_better_ones():
    search = halving()
    search.report(FIRST, 2, 0.5)
    search.end(FIRST)
    search.report(SECOND, 3, 0.2)
    search.report("trial-00002", 3, 0.3)
    assert (search.fates(), search.state.trials[FIRST].step) == (["pruned", "training", "pruned"], 2)


def test_why_nothing_was_reported_is_the_reason_of_a_failure():
    search = Search()
    search.take(events.LauncherEnded(FIRST, 1, 0, ("epoch 1",), no_report="no acc in its log, which has loss"))
    trial = search.state.trials[FIRST]
    assert (trial.fate, trial.last_lines) == ("failed", ("epoch 1",))
    assert trial.error == "ended without a report: no acc in its log, which has loss"


def test_a_command_that_says_nothing_any_more_fails():
    search = Search()
    said = "reported nothing for 1800 s after step 1"
    search.report(FIRST, 1, 0.5)
    search.take(events.LauncherEnded(FIRST, 1, None, ("epoch 1",), no_report=said, silent=True))
    trial = search.state.trials[FIRST]
    assert (trial.fate, trial.error, trial.last_lines, trial.crashes) == ("failed", said, ("epoch 1",), 0)


def test_what_is_read_from_a_log_is_known_until_the_script_reports_itself():
    search = Search()
    search.take(events.LogRead(FIRST, 1, "train_loss", Steps.COUNTED))
    assert search.state.trials[FIRST].read == Read("train_loss", Steps.COUNTED)
    search.report(FIRST, 2, 0.5)
    search.take(events.LogRead(FIRST, 1, "loss", Steps.REPORTED))
    search.report(FIRST, 1, 0.4)
    trial = search.state.trials[FIRST]
    assert (trial.read, trial.step, trial.loss) == (None, 1, 0.4)


def test_an_end_without_a_report_is_a_failure_with_the_last_lines():
    search = Search()
    search.end(FIRST, 0, ("no data",))
    trial = search.state.trials[FIRST]
    assert (trial.fate, trial.error, trial.last_lines) == ("failed", "ended without a report", ("no data",))


def test_a_crash_is_retried_then_it_is_a_failure():
    search = Search()
    search.report(FIRST, 1, 0.5)
    (again,) = search.end(FIRST, 1)
    assert (again.trial, again.epoch) == (FIRST, 2)
    assert search.end(FIRST, -11, ("bad",)) == ()
    trial = search.state.trials[FIRST]
    assert (trial.fate, trial.error, trial.last_lines) == ("failed", "killed by signal 11, 2 times: bad", ("bad",))


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ((), "exit code 1"),
        (("epoch 1", "bash: python4: command not found", ""), "exit code 1: bash: python4: command not found"),
        (
            ("Traceback (most recent call last):", "torch.OutOfMemoryError: no", "  x", "wandb: synced"),
            "exit code 1: torch.OutOfMemoryError: no",
        ),
        (("ValueError: first", "During handling:", "KeyError: 'x'"), "exit code 1: KeyError: 'x'"),
        (("x" * 1000,), f"exit code 1: {'x' * 300}"),
    ],
)
def test_the_reason_of_a_failure_has_what_the_command_said_last(lines, said):
    search = Search(replace(PLAIN, retries=0))
    search.end(FIRST, 1, lines)
    assert search.state.trials[FIRST].error == said


def test_a_lost_launcher_is_no_crash():
    search = Search()
    for epoch in range(2, 7):
        (again,) = search.end(FIRST, None)
        assert again.epoch == epoch
    assert search.state.trials[FIRST].crashes == 0


def test_half_of_the_first_ten_failing_stops_the_search():
    search = Search(Settings("plain", trials=20, max_steps=3, retries=0), held=20)
    for number in range(5):
        search.report(f"trial-{number:05}", 1, None)
    assert search.state.outcome.reason.startswith("5 of the first 10 trials failed; the last one: step 1")
    assert search.fates() == [*["failed"] * 5, *["stopped"] * 15]
    for number in range(20):
        search.end(f"trial-{number:05}", None)
    assert search.of(Finish)[0].succeeded is False


HYPERBAND = Settings("hyperband", trials=143, max_steps=81, eta=3, retries=0, rules=2)


def test_the_first_ten_that_end_count_whatever_their_numbers():
    """A command that fails in every trial: the search stops when five have, whichever bracket starts first."""
    search = Search(HYPERBAND, held=2)
    for ended in range(5):
        assert search.state.outcome is None, ended
        trial, _ = next(iter(search.state.attempts))
        search.end(trial.id, 1)
    assert search.state.outcome.reason == "5 of the first 5 trials that ended failed; the last one: exit code 1"
    assert (search.state.outcome.succeeded, len(search.of(StartTrial))) == (False, 6)


def failed_early(settings, held=5):
    """A search that has stopped as the first five trials failed."""
    search = Search(settings, held)
    while search.state.outcome is None:
        trial, _ = next(iter(search.state.attempts))
        search.end(trial.id, 1)
    for trial, _ in list(search.state.attempts):
        search.end(trial.id, None)
    assert search.state.finished
    return search


def train_all(search, loss=0.5):
    """Every trial reaches its end."""
    while not search.state.finished:
        trial, _ = next(iter(search.state.attempts))
        search.report(trial.id, trial.until, loss)
        search.end(trial.id)


def test_a_search_that_too_many_failures_stopped_goes_on_with_what_is_left():
    search = failed_early(Settings("plain", trials=20, max_steps=3, retries=0, rules=2))
    assert search.fates() == [*["failed"] * 5, *["stopped"] * 15]
    search.take(events.Restarted(reopens=True))
    assert (search.state.outcome, search.fates()) == (None, [*["failed"] * 5, *["training"] * 15])
    for _ in range(5):
        trial, _ = next(iter(search.state.attempts))
        search.end(trial.id, 1)
    assert search.state.outcome is None, "its user goes on although many fail"
    train_all(search)
    assert search.state.outcome.reason == "all trials have ended"
    assert search.fates().count("complete") == 10


@pytest.mark.parametrize(
    "settings",
    [
        Settings("hyperband", trials=17, max_steps=10, eta=3, retries=0, rules=2),
        Settings("successive_halving", trials=9, max_steps=9, retries=0, rules=2),
        Settings("curve_stopping", trials=9, max_steps=9, retries=0, rules=2),
        Settings("plain", trials=9, max_steps=9, retries=0, rules=2),
    ],
    ids=lambda one: f"{one.algorithm} {one.trials}",
)
def test_failed_trials_are_tried_again(settings):
    search = failed_early(settings)
    search.take(events.Restarted(reopens=True, retry_failed=True))
    assert "failed" not in search.fates()
    train_all(search)
    assert not {"failed", "stopped"} & set(search.fates())
    whole = Search(settings, held=5)
    train_all(whole)
    assert search.fates().count("complete") == whole.fates().count("complete")


def test_too_many_failures_stop_a_search_again_whose_failed_trials_are_tried_again():
    search = failed_early(HYPERBAND)
    search.take(events.Restarted(reopens=True, retry_failed=True))
    for _ in range(5):
        trial, _ = next(iter(search.state.attempts))
        search.end(trial.id, 1)
    assert search.state.outcome is not None


def test_a_trial_that_is_tried_again_counts_once():
    """Of a search that was suspended: three trials fail, twice each, and nothing else is wrong."""
    search = Search(HYPERBAND, held=10)
    for number in range(3):
        search.end(f"trial-{number:05}", 1)
    search.take(events.Suspended())
    for trial, _ in list(search.state.attempts):
        search.end(trial.id, None)
    search.take(events.Restarted(reopens=True, retry_failed=True))
    for number in range(3):
        search.end(f"trial-{number:05}", 1)
    assert search.state.first_ended == (True,) * 3
    assert search.state.outcome is None


def test_a_trial_that_is_tried_again_alone_passes_every_rung():
    search = Search(Settings("successive_halving", trials=3, max_steps=9, eta=3, retries=0, rules=2), held=3)
    search.end(FIRST, 1)
    for name in (SECOND, "trial-00002"):
        search.report(name, 3, 0.5)
        search.end(name, None)
    search.report(SECOND, 9, 0.5)
    search.end(SECOND, None)
    assert (search.state.finished, search.fates()) == (True, ["failed", "complete", "pruned"])
    (start,) = search.take(events.Restarted(reopens=True, retry_failed=True))
    assert (start.trial, search.state.trials[FIRST].until) == (FIRST, 3)
    search.report(FIRST, 3, 0.25)
    search.end(FIRST, None)
    search.report(FIRST, 9, 0.1)
    search.end(FIRST)
    assert search.state.best.id == FIRST
    assert search.fates() == ["complete", "complete", "pruned"]


def test_a_trial_that_is_tried_again_joins_the_rung_of_those_that_run():
    search = Search(Settings("successive_halving", trials=9, max_steps=9, eta=3, retries=0, rules=2), held=9)
    search.end(FIRST, 1)
    for number in range(1, 9):
        search.report(f"trial-0000{number}", 1, number)
    assert search.fates() == ["failed", *["training"] * 3, *["pruned"] * 5]
    search.take(events.Suspended())
    search.take(events.Restarted(reopens=True, retry_failed=True))
    trial = search.state.trials[FIRST]
    assert (trial.fate, trial.rung, trial.until, trial.error, trial.crashes) == ("training", 1, 3, "", 0)
    train_all(search)
    assert search.fates().count("complete") == 1


@pytest.mark.parametrize("retry_failed", [False, True])
def test_a_search_that_has_ended_for_another_reason_does_not_go_on(retry_failed):
    search = Search(replace(PLAIN, retries=0, rules=2))
    search.end(FIRST, 1)
    search.take(events.StopRequested())
    search.end(SECOND, None)
    (finish,) = search.take(events.Restarted(reopens=True, retry_failed=retry_failed))
    assert finish.reason == "stopped by the user"
    ended = Search(replace(PLAIN, rules=2))
    train_all(ended)
    (finish,) = ended.take(events.Restarted(reopens=True, retry_failed=retry_failed))
    assert finish.reason == "all trials have ended"


def test_a_paused_trial_of_a_stopped_search_still_waits_for_its_rung():
    search = Search(Settings("successive_halving", trials=27, max_steps=27, eta=3, retries=0, rules=2), held=27)
    search.report("trial-00026", 1, 0.5)
    for number in range(5):
        search.end(f"trial-{number:05}", 1)
    for trial, _ in list(search.state.attempts):
        search.end(trial.id, None)
    search.take(events.Restarted(reopens=True))
    assert search.state.trials["trial-00026"].fate == "paused"
    train_all(search)
    assert search.state.outcome.reason == "all trials have ended"


def test_failures_after_ten_trials_have_ended_stop_no_search():
    search = Search(Settings("plain", trials=30, max_steps=3, retries=0, rules=2), held=30)
    for number in range(4):
        search.end(f"trial-{number:05}", 1)
    for number in range(4, 10):
        search.report(f"trial-{number:05}", 3, 0.5)
    for number in range(10, 20):
        search.end(f"trial-{number:05}", 1)
    assert search.state.outcome is None


def test_the_first_trials_run_first_with_the_most_steps():
    """Those that are enqueued."""
    search = Search(HYPERBAND, held=7)
    assert sorted(one.trial for one in search.of(StartTrial)) == [f"trial-{number:05}" for number in range(7)]
    assert Search(HYPERBAND, held=1).of(StartTrial)[0].trial == FIRST
    budgets = [search.state.trials[f"trial-{number:05}"].until for number in range(143)]
    assert budgets == [81] * 5 + [27] * 8 + [9] * 15 + [3] * 34 + [1] * 81
    assert [search.state.trials[one].bracket for one in (FIRST, "trial-00005", "trial-00142")] == [4, 3, 0]


def test_hyperband_trains_as_many_steps_as_planned():
    search = Search(Settings("hyperband", trials=17, max_steps=10, eta=3, rules=2), held=17)
    executed = 0
    while not search.state.finished:
        for trial, _ in list(search.state.attempts):
            if trial.fate == "training":
                executed += 1
                search.report(trial.id, trial.step + 1, trial.number)
            if search.state.trials[trial.id].is_stopping:
                search.end(trial.id, None)
    assert executed == 86


def test_searches_of_earlier_versions_go_on_by_their_own_rules():
    earlier = Search(replace(HYPERBAND, rules=1), held=1)
    assert earlier.state.trials[FIRST].until == 1
    stopped = failed_early(Settings("plain", trials=20, max_steps=3, retries=0))
    assert stopped.state.outcome.reason.startswith("5 of the first 10 trials failed")
    stopped.take(events.Restarted(reopens=True))
    stopped.end("trial-00005", 1)
    assert stopped.state.outcome is None
    curves = Settings("curve_stopping", trials=2, max_steps=100)
    assert Search(curves).state.search.frontier is None
    assert Search(replace(curves, rules=2)).state.search.frontier == ()
    assert CODEC.read({"type": "event/Begun", "settings": {"algorithm": "plain", "trials": 1, "max_steps": 1}}) == (
        events.Begun(Settings("plain", trials=1, max_steps=1, rules=1))
    )


def test_reports_of_an_earlier_epoch_are_ignored():
    search = Search()
    search.end(FIRST, None)
    search.take(events.Reported(FIRST, 1, 3, 0.0))
    assert search.state.trials[FIRST].loss is None


def test_revoked_gpus_are_vacated_and_given_back_and_the_trial_waits_for_others():
    search = Search()
    (stop,) = search.take(events.Revoked("lease-1", by=6.0, cells=("m1/0",)))
    assert (stop.trial, stop.by, stop.reason) == (FIRST, 6.0, "revoked")
    assert search.end(FIRST, None) == (ReleaseGpus("lease-1", ("m1/0",)),)
    assert search.state.trials[FIRST].attempt is None
    (start,) = search.take(events.Granted("lease-2", gpus("m2", 1)))
    assert (start.trial, start.places[0].machine) == (FIRST, "m2")


def test_gpus_that_no_trial_can_use_any_more_are_given_back_at_once():
    search = Search(Settings("successive_halving", trials=3, max_steps=9, eta=3, max_gpus=2), held=0)
    search.take(events.Granted("lease-1", (*gpus("m1", 3), *gpus("m2", 4)), 100.0))
    # Three trials use two GPUs each at most; the one too many is on the machine with the fewest in use.
    (first,) = search.of(ReleaseGpus)
    assert len(first.cells) == 1
    for number, loss in enumerate((0.3, 0.1, 0.2)):
        search.report(f"trial-0000{number}", 3, loss)
    assert len(search.of(ReleaseGpus)) == 1
    commands = [*search.end(FIRST), *search.end("trial-00002"), *search.end(SECOND)]
    (start,) = [one for one in commands if isinstance(one, StartTrial)]
    given = [cell for one in search.of(ReleaseGpus) for cell in one.cells]
    # The trial that goes on uses two, and nothing of what is in use is given back.
    assert len(given) == len(set(given)) == 5
    assert not set(given) & set(start.places[0].cells)
    assert search.state.gpus.keys() == set(start.places[0].cells)
    search.report(SECOND, 9, 0.01)
    search.end(SECOND)
    assert len([cell for one in search.of(ReleaseGpus) for cell in one.cells]) == 7
    assert search.state.finished


@pytest.mark.parametrize(("steps", "rules", "is_kept"), [(10, 3, False), (10, 2, True), (1000, 3, True)])
def test_gpus_are_given_back_that_are_not_worth_a_move_of_the_trial_that_could_use_them(steps, rules, is_kept):
    search = Search(Settings("plain", trials=1, max_steps=steps, max_gpus=2, rules=rules), held=0)
    search.take(events.Granted("lease-1", gpus("m1", 1), 100.0))
    search.take(events.Granted("lease-2", gpus("m2", 1), 100.0))
    assert search.of(ReleaseGpus) == [], "how long the trial takes is not known yet"
    search.take(events.Profiled(FIRST, 1, 1.0))
    assert search.of(ReleaseGpus) == ([] if is_kept else [ReleaseGpus("lease-2", ("m2/0",))])
    assert search.state.gpus.keys() == {"m1/0", "m2/0"} if is_kept else {"m1/0"}


def test_a_rung_that_is_about_to_end_keeps_the_gpus_of_the_next_one():
    search = Search(Settings("successive_halving", trials=9, max_steps=9, eta=3), held=0)
    search.take(events.Granted("lease-1", gpus("m1", 9), 100.0))
    for number in range(8):
        search.report(f"trial-0000{number}", 1, number)
        search.end(f"trial-0000{number}")
    # One trial is left in this rung, and three train in the next.
    assert len(search.state.gpus) == 3


def test_gpus_without_an_end_of_their_lease_are_kept():
    search = Search(replace(PLAIN, trials=1), held=3)
    assert search.of(ReleaseGpus) == []


def test_a_launcher_that_does_not_stop_in_time_is_killed():
    search = Search()
    search.take(events.Revoked("lease-1", by=6.0))
    assert next_due(search.state) == 6.0 + KILL_AFTER_S
    killed = search.take(events.TimerFired(), at=6.0 + KILL_AFTER_S)
    assert killed == (KillTrial(FIRST, 1), KillTrial(SECOND, 1))


def test_a_gang_on_two_machines_ends_as_a_whole():
    settings = Settings("plain", trials=1, max_steps=3, min_gpus=3, max_gpus=3, grace_s=10.0)
    search = Search(settings, held=2)
    assert not search.of(StartTrial)
    search.take(events.Granted("lease-2", gpus("m2", 1)))
    (start,) = search.of(StartTrial)
    assert [(place.machine, place.first_rank) for place in start.places] == [("m1", 0), ("m2", 2)]
    (stop,) = search.take(events.LauncherEnded(FIRST, 1, 1, ("boom",), launcher=1))
    assert isinstance(stop, StopTrial)
    (again,) = search.take(events.LauncherEnded(FIRST, 1, None, launcher=0))
    assert (again.epoch, search.state.trials[FIRST].crashes) == (2, 1)


def test_a_trial_moves_to_more_gpus_if_that_saves_more_than_the_move_costs():
    long = Settings("plain", trials=1, max_steps=1000, max_gpus=2)
    search = Search(long, held=1)
    (stop,) = search.take(events.Granted("lease-2", (events.Gpu("m1/1", "m1", "m1", "r1"),)))
    assert stop.reason == "moved"
    (start,) = search.end(FIRST, None)
    assert start.world_size == 2
    short = Search(replace(long, max_steps=10), held=1)
    assert short.take(events.Granted("lease-2", (events.Gpu("m1/1", "m1", "m1", "r1"),))) == ()


def moved(search, told, ended, first_report, step_s):
    """A trial loses its GPU and goes on with another, a step at a time from the one after that which it had reached."""
    search.report(FIRST, 4, 0.5)
    search.take(events.Revoked("lease-1", told + 10), at=told)
    search.at = ended
    search.end(FIRST, None)
    # The time that it waits for GPUs is none of the move's.
    search.take(events.Granted("lease-2", gpus("m2", 1)), at=ended + 1000)
    search.at = ended + 1000 + first_report
    search.report(FIRST, 3, 0.5)
    search.at += 2 * step_s
    search.report(FIRST, 5, 0.4)
    search.take(events.Profiled(FIRST, search.epoch(FIRST), step_s))


def test_a_move_costs_what_the_latest_moves_of_the_search_have_taken():
    """It stops for 2 s, and needs 3 s more than its third step to report that; step 4 is executed again too."""
    long = Settings("plain", trials=1, max_steps=1000, max_gpus=2, step_s=1.0)
    search = Search(long, held=1)
    assert move_s(search.state) == ASSUMED_S
    moved(search, told=100.0, ended=102.0, first_report=3.0 + 1.0, step_s=1.0)
    assert move_s(search.state) == 2 + 3 + 2 * 1.0
    offer = GpuOffer(7, (Machine("m2", "r1", (Slot("m2", 1),)),), 60.0, 2.0, (("m2", 1),), 4)
    (said,) = search.take(events.Offered("o", offer))
    assert min(row.rho for row in said.bid.rows) == pytest.approx((search.at + 995 / 2 + 7) / (500 * 2))


def test_a_trial_moves_for_less_where_moves_take_less():
    long = Settings("plain", trials=1, max_steps=60, max_gpus=2, step_s=1.0)
    more = events.Granted("lease-3", (events.Gpu("m2/1", "m2", "m2", "r1"),))
    search = Search(long, held=1)
    search.report(FIRST, 5, 0.4)
    assert search.take(more) == (), "it would save 27 s, which are less than the 45 s that a move is assumed to take"
    search = Search(long, held=1)
    moved(search, told=100.0, ended=102.0, first_report=4.0, step_s=1.0)
    (stop,) = search.take(more)
    assert stop.reason == "moved"


def test_a_trial_that_was_lost_says_nothing_about_moves():
    search = Search(Settings("plain", trials=1, max_steps=1000, max_gpus=2))
    search.report(FIRST, 4, 0.5)
    search.at = 100.0
    search.end(FIRST, None)
    search.report(FIRST, 5, 0.4)
    search.take(events.Profiled(FIRST, search.epoch(FIRST), 1.0))
    assert search.state.moves_s == ()


def test_after_a_restart_lost_trials_start_again_and_running_ones_go_on():
    search = Search()
    starts = search.take(events.Restarted((events.Running(SECOND, 1),)))
    assert [(one.trial, one.epoch) for one in starts] == [(FIRST, 2)]


def test_a_suspended_search_starts_nothing_until_it_is_restarted():
    search = Search()
    assert {stop.reason for stop in search.take(events.Suspended())} == {"suspended"}
    assert rows_of_two_more(search, (("m1", 2),)) == [], "it bids for nothing"
    assert search.end(FIRST, None) == search.end(SECOND, None) == ()
    assert len(search.take(events.Restarted())) == 2


def test_a_suspended_search_on_yarn_stays_so_until_it_is_submitted_again():
    """Its master is killed while it waits for trials to save checkpoints, and started again by YARN."""
    search = Search()
    search.take(events.Restarted((events.Running(FIRST, 1), events.Running(SECOND, 1)), registered_as="app-1"))
    search.take(events.Granted("lease-2", gpus("m2", 2), 100.0))
    started = len(search.of(StartTrial))
    search.take(events.Suspended())
    search.take(events.Restarted((), registered_as="app-1"))
    assert (search.state.suspended, len(search.of(StartTrial))) == (True, started)
    search.take(events.Restarted((), registered_as="app-2"))
    search.take(events.Granted("lease-3", gpus("m3", 2), 100.0))
    assert (search.state.suspended, len(search.of(StartTrial))) == (False, started + 2)


def test_nothing_starts_while_the_arbiter_does_not_know_the_search():
    search = Search()
    search.take(events.ArbiterRefused("no such application"))
    assert search.end(FIRST, None) == ()
    assert search.state.trials[SECOND].attempt is not None
    (again,) = search.take(events.ArbiterListens())
    assert (again.trial, again.epoch) == (FIRST, 2)


def test_the_search_ends_when_its_time_is_over():
    search = Search(replace(PLAIN, max_time_s=60.0))
    search.report(FIRST, 1, 0.5)
    assert next_due(search.state) == 60.0
    search.take(events.TimerFired(), at=60.0)
    search.end(FIRST, None)
    assert search.end(SECOND, None) == (Finish(True, "max_time_s 60 is over", FIRST),)


def test_questions_of_the_arbiter_are_answered():
    search = Search()
    machines = (Machine("m1", "r1", (Slot("m1", 0),)), Machine("m2", "r1", (Slot("m2", 2),)))
    question = EstimateRequest(7, 2.0, (("m1", 2),), machines, 4)
    (said,) = search.take(events.Asked("a", question), at=3.0)
    # Two trials of three steps of a second, on two GPUs; three seconds have passed; half of the pool is theirs.
    assert isinstance(said, SendEstimate)
    assert said.estimate.rho == (3 + 3) / (6 / 2 * 2)
    (said,) = search.take(events.Offered("o", GpuOffer(7, machines, 60.0, 2.0, (), 4)))
    assert isinstance(said, SendBid)
    assert [sum(piece.gpus for piece in row.pieces) for row in said.bid.rows] == [1, 2]


def test_the_time_counts_that_a_search_waits_for_its_application_master():
    """As for those that wait for GPUs: it is the farther from its finish time alone, the longer it has waited."""
    search = Search(waited_s=30.0)
    machines = (Machine("m1", "r1", (Slot("m1", 0),)),)
    (said,) = search.take(events.Asked("a", EstimateRequest(7, 2.0, (("m1", 2),), machines, 4)), at=3.0)
    assert said.estimate.rho == (30 + 3 + 3) / (6 / 2 * 2)


def rows_of_two_more(search, held):
    machines = (Machine("m1", "r1", (Slot("m1", 0),)), Machine("m2", "r1", (Slot("m2", 2),)))
    (said,) = search.take(events.Offered("o", GpuOffer(7, machines, 60.0, 2.0, held, 4)))
    return [(sum(piece.gpus for piece in row.pieces), row.rho) for row in said.bid.rows]


def test_a_search_whose_trials_all_run_on_all_that_they_can_use_bids_for_no_better_place():
    one = Settings("plain", trials=1, max_steps=1000, min_gpus=2, max_gpus=2)
    search = Search(one, held=0)
    search.take(events.Granted("lease-1", (*gpus("m1", 1), *gpus("m3", 1)), 100.0))
    assert rows_of_two_more(search, (("m1", 1), ("m3", 1))) == []


def test_a_search_whose_trials_all_run_bids_for_what_is_worth_a_move():
    long, short = (Settings("plain", trials=1, max_steps=steps, max_gpus=2) for steps in (1000, 10))
    assert rows_of_two_more(Search(short, held=1), (("m1", 1),)) == []
    *_, (count, rho) = rows_of_two_more(Search(long, held=1), (("m1", 1),))
    # Two GPUs on the other machine: half of 1,000 s, and 45 s for the move; alone on the pool it would take 500 s.
    assert (count, rho) == (2, (500 + 45) / (500 * 2))


def test_a_search_bids_for_gpus_of_its_own_that_are_offered_again():
    search = Search(Settings("plain", trials=1, max_steps=10), held=1)
    machines = (Machine("m1", "r1", (Slot("m1", 1),)),)
    (said,) = search.take(events.Offered("o", GpuOffer(7, machines, 60.0, 2.0, (), 4)))
    assert len(said.bid.rows) == 1


def test_measured_steps_replace_the_assumed_ones():
    search = Search()
    search.take(events.Profiled(FIRST, 1, 20.0))
    question = EstimateRequest(1, 1.0, (("m1", 2),), (Machine("m1", "r1", (Slot("m1", 0),)),), 2)
    (said,) = search.take(events.Asked("a", question))
    assert [job.iteration_s for job in said.estimate.jobs] == [20.0, 20.0]
    assert said.estimate.rho == 1.0


def test_a_search_takes_models_of_gpus_into_account():
    """Two fast GPUs and a slow one for a gang: it runs on the fast ones, and a step of 5 s there is 20 s on one GPU of
    speed 1."""
    settings = replace(PLAIN, trials=1, max_gpus=4, speeds=(("fast", 2.0),))
    search = Search(settings, held=0)
    fast = tuple(replace(gpu, model="fast") for gpu in gpus("m2", 2))
    (start,) = search.take(events.Granted("lease-1", (*gpus("m1", 1), *fast), None))[-1:]
    assert [place.machine for place in start.places] == ["m2"]
    search.take(events.Profiled(FIRST, 1, 5.0))
    (job,) = searching.work(search.state).jobs
    assert (job.iteration_s, job.speeds) == (20.0, (("fast", 2.0),))
    offer = GpuOffer(1, (Machine("m3", "r1", (Slot("m3", 2),), "fast"),), 600.0, 1.0, (), 8)
    (bid,) = search.take(events.Offered("o", offer))
    assert min(row.rho for row in bid.bid.rows) == 1.0, "2 GPUs at 2 are as fast as the 4 at 1 that it can use"


def test_a_measured_slowdown_counts_for_all_trials():
    settings = Settings("plain", trials=2, max_steps=100, min_gpus=2, max_gpus=2)
    search = Search(settings, held=2)
    search.take(events.Profiled(FIRST, 1, 1.0))
    search.take(events.Revoked("lease-1", 100.0))
    search.end(FIRST, None)
    for machine in ("m2", "m3"):
        search.take(events.Granted(machine, gpus(machine, 1)))
    search.take(events.Profiled(FIRST, 2, 2.0))
    jobs = search.state.running_search().work().jobs
    assert [(job.iteration_s, job.slowdown.machine, job.slowdown.rack) for job in jobs] == [(2.0, 2.0, 2.0)] * 2
