"""Trials that are jobs of their own: declared at the arbiter, started on the side that each was given, moved, given
back."""

import json
import tomllib

import pytest

from tests.agent_world import FIRST, SECOND, Search
from themis_agent import trial_jobs
from themis_agent.agent import events, messages, trial_leases
from themis_agent.agent.commands import (
    DeclareTrials,
    ReleaseGpus,
    SendSlowdown,
    SendSpeed,
    StartTrial,
    StopTrial,
    TrialJob,
)
from themis_agent.agent.settings import Settings
from themis_agent.app_file import read
from themis_agent.arbiter_messages import Translation, answer
from themis_agent.local.folder import Folder
from themis_agent.yarn.application_master import Size
from themis_agent.yarn.launches import Launches
from themis_agent.yarn.outbox import Outbox
from themis_agent.yarn.submission import ArbiterAccess, ContainerSize, Submission
from yarn_plugin.api.jobs import MAX_JOBS
from yarn_plugin.model.resources import GPU

PLAIN = Settings("plain", trials=2, max_steps=9, grace_s=10.0, by_trial=True)
PLACE = {"host": "n1", "rack": "r1", "machine": "n1", "slot": "n1", "ordinal": 2, "model": ""}
ON_GPU = [{"cell": "n1/2", "place": PLACE}, {"cell": "n1", "place": None}]
ON_SLOT = [{"cell": "n1", "place": None}, {"cell": "n1", "place": None}]


def leased(lease, trial, holdings, **more):
    return {"id": lease, "job": trial, "holdings": holdings, "until": None, **more}


def grant(search, lease, trial, holdings):
    """What follows from a message of the arbiter."""
    message = messages.read("grant", {"id": f"grant-{lease}", "leases": [leased(lease, trial, holdings)]})
    (event,) = Translation(lambda wall: wall).translated(message)
    return search.take(event)


def started(commands):
    (start,) = [one for one in commands if isinstance(one, StartTrial)]
    return start


@pytest.fixture
def search():
    return Search(PLAIN, held=0)


def test_trials_are_declared_when_the_search_begins(search):
    assert search.state.settings.by_trial
    assert trial_leases.declared(None, search.state) == [DeclareTrials((TrialJob(FIRST, 9.0), TrialJob(SECOND, 9.0)))]
    assert trial_leases.MAX_DECLARED == MAX_JOBS


def test_each_trial_starts_on_the_side_that_it_was_given(search):
    (place,) = started(grant(search, "lease-1", SECOND, ON_GPU)).places
    assert (place.host, place.cells, place.ordinals, place.is_slot) == ("n1", ("n1/2",), (2,), False)
    start = started(grant(search, "lease-2", FIRST, ON_SLOT))
    assert (start.trial, start.world_size, start.places[0].host, start.places[0].is_slot) == (FIRST, 1, "n1", True)


def test_two_slots_of_one_node_are_two_places(search):
    grant(search, "lease-1", FIRST, ON_SLOT)
    grant(search, "lease-2", SECOND, ON_SLOT)
    assert len(search.state.busy) == 2


def test_slots_of_one_node_are_no_parts_of_a_gpu_whose_trials_slow_each_other_down(search):
    grant(search, "gpu#1", FIRST, ON_SLOT)
    search.take(events.Profiled(FIRST, 1, 0.1), 5.0)
    grant(search, "gpu#2", SECOND, ON_SLOT)
    said = [*search.take(events.Profiled(SECOND, 1, 0.1), 10.0), *search.take(events.Profiled(FIRST, 1, 0.2), 20.0)]
    assert not [command for command in said if isinstance(command, SendSlowdown)]


def test_a_trial_whose_lease_has_ended_goes_on_where_the_next_one_is_with_the_steps_that_are_left(search):
    grant(search, "lease-1", FIRST, ON_SLOT)
    search.report(FIRST, 4, 0.5)
    (stop,) = search.take(events.LeaseEnded("lease-1"))
    assert isinstance(stop, StopTrial)
    (declared,) = search.end(FIRST, None)
    assert declared == DeclareTrials((TrialJob(FIRST, 5.0), TrialJob(SECOND, 9.0)))
    start = started(grant(search, "lease-2", FIRST, ON_GPU))
    assert (start.epoch, start.places[0].is_slot) == (2, False)


def test_a_revoked_slot_is_given_back_as_a_whole_once_its_trial_has_stopped(search):
    grant(search, "lease-1", FIRST, ON_SLOT)
    (stop,) = search.take(events.Revoked("lease-1", 5.0, ("n1",)))
    assert (stop.trial, stop.by) == (FIRST, 5.0)
    given_back, _ = search.end(FIRST, None)
    assert answer(given_back) == ("lease.release", {"lease": "lease-1", "gpus": []})


def test_a_trial_that_has_ended_gives_its_lease_back_and_is_declared_no_more(search):
    grant(search, "lease-1", FIRST, ON_GPU)
    assert all(isinstance(one, StopTrial) for one in search.report(FIRST, 9, 0.5)), "it saves a checkpoint first"
    given_back, declared = search.end(FIRST)
    assert given_back == ReleaseGpus("lease-1", ())
    assert declared == DeclareTrials((TrialJob(SECOND, 9.0),))
    assert not search.state.leases


def test_a_promoted_trial_is_declared_anew_with_the_steps_of_its_next_rung():
    search = Search(Settings("successive_halving", trials=2, max_steps=4, eta=2, by_trial=True), held=0)
    grant(search, "lease-1", FIRST, ON_GPU)
    search.report(FIRST, 2, 0.1)
    assert ReleaseGpus("lease-1", ()) in search.end(FIRST, None), "it waits for the other without a machine"
    grant(search, "lease-2", SECOND, ON_SLOT)
    said = search.report(SECOND, 2, 0.2)
    assert DeclareTrials((TrialJob(FIRST, 2.0), TrialJob(SECOND, 1.0))) in said
    assert started(grant(search, "lease-3", FIRST, ON_SLOT)).epoch == 2


def test_trials_beyond_the_limit_are_declared_when_others_have_ended():
    search = Search(Settings("plain", trials=MAX_JOBS + 5, max_steps=9, by_trial=True), held=0)
    (declared,) = trial_leases.declared(None, search.state)
    assert len(declared.jobs) == MAX_JOBS
    grant(search, "lease-1", FIRST, ON_GPU)
    search.report(FIRST, 9, 0.5)
    _, declared = search.end(FIRST)
    assert declared.jobs[-1].trial == f"trial-{MAX_JOBS:05}"


def test_after_a_restart_all_trials_are_declared_again(search):
    grant(search, "lease-1", FIRST, ON_GPU)
    running = (events.Running(FIRST, 1),)
    assert DeclareTrials((TrialJob(FIRST, 9.0), TrialJob(SECOND, 9.0))) in search.take(events.Restarted(running))


def test_leases_that_are_read_anew_keep_their_trials(search):
    message = messages.read("leases", {"id": "gpu@1", "leases": [leased("lease-1", FIRST, ON_SLOT)]})
    (event,) = Translation(lambda wall: wall).translated(message)
    assert started(search.take(event)).places[0].is_slot


def test_only_the_latest_declaration_is_sent():
    outbox, earlier, latest = Outbox(), DeclareTrials((TrialJob(FIRST, 9.0),)), DeclareTrials((TrialJob(FIRST, 5.0),))
    release = ReleaseGpus("lease-1", ())
    assert all(map(outbox.put, (earlier, release, latest)))
    assert outbox.next(0.0) is release
    outbox.done(release)
    assert outbox.next(0.0) is latest


APP = """
name = "digits"
command = "python train.py --rate={rate}"
max_steps = 9
algorithm = "plain"
trials = 2
memory_mb = 700
[space]
rate = { type = "float", low = 0.1, high = 1.0 }
[gpu]
env = { XLA_FLAGS = "--gpu" }
speed = 20
[cpu]
command = ["python", "train.py", "--rate={rate}", "--threads=4"]
vcores = 4
memory_mb = 900
speed = 4
"""


def launches(folder):
    app = read(tomllib.loads(APP), "'app.toml'")
    container = ContainerSize(memory_mb=app.memory_mb, vcores=app.vcores)
    access = ArbiterAccess(url="http://arbiter", app="app-1")
    made = Submission(yarn_app="", resource_manager="", arbiter=access, python="py", container=container)
    search = Folder(folder)
    search.begin(app, folder)
    return Launches(app, search, made, "http://agent")


def test_a_launcher_runs_the_command_of_its_side_in_a_container_of_its_size(search, tmp_path):
    made = launches(tmp_path / "search")
    specs = []
    for lease, trial, holdings in (("lease-1", FIRST, ON_GPU), ("lease-2", SECOND, ON_SLOT)):
        command = started(grant(search, lease, trial, holdings))
        object.__setattr__(command, "parameters", '{"rate": 0.5}')
        ((launcher, host, gpus),) = made.prepare(command)
        specs.append((json.loads(made.spec(launcher).read_text()), host, made.size(gpus)))
    (on_gpu, host, size), (on_slot, _, slot) = specs
    assert (host, size, slot) == ("n1", Size(700, 1, 1), Size(900, 4, 0))
    assert on_gpu["command"] == ["py", "train.py", "--rate=0.5"]
    assert on_slot["command"] == ["py", "train.py", "--rate=0.5", "--threads=4"]
    assert (on_gpu["devices"], on_gpu["gpu_locks"]) == (["2"], ["n1/2"])
    assert (on_slot["devices"], on_slot["gpu_locks"]) == ([], [])
    assert (on_gpu["env"]["THEMIS_SIDE"], on_gpu["env"]["XLA_FLAGS"]) == ("gpu", "--gpu")
    assert on_slot["env"]["THEMIS_SIDE"] == "cpu"
    assert "XLA_FLAGS" not in on_slot["env"]
    # Both sides continue from one store: a trial that moves finds its checkpoint.
    assert on_gpu["checkpoint"]["url"] == on_slot["checkpoint"]["url"]


def test_trials_become_jobs_with_both_alternatives():
    app = read(tomllib.loads(APP), "'app.toml'")
    first, second = trial_jobs.first_jobs(app)
    assert (first.name, second.name, first.work) == (FIRST, SECOND, 9.0)
    on_gpu, on_slot = first.alternatives
    assert (on_gpu.resources, on_gpu.speed) == ({GPU: 1, "vcores": 1, "memory-mb": 700}, 20.0)
    assert (on_slot.resources, on_slot.speed) == ({"vcores": 4, "memory-mb": 900}, 4.0)
    assert trial_jobs.first_jobs(read({**tomllib.loads(APP), "gpu": None, "cpu": None}, "x")) == []


def sampled(search, lease, trial, holdings):
    """What follows when a lease of class sample begins."""
    message = {"id": f"grant-{lease}", "leases": [leased(lease, trial, holdings, kind="sample")]}
    (event,) = Translation(lambda wall: wall).translated(messages.read("grant", message))
    return search.take(event)


def steps_of(search, trial, *steps, loss=0.5):
    said = []
    for one in steps:
        search.at += 2.0
        said += search.report(trial, one, loss)
    return said


@pytest.fixture
def long():
    """A search whose samples are of 2 and of 4 steps."""
    return Search(Settings("plain", trials=2, max_steps=200, grace_s=10.0, by_trial=True), held=0)


def test_a_sample_runs_its_steps_says_what_they_took_and_gives_its_lease_back(long):
    started(sampled(long, "lease-1", FIRST, ON_SLOT))
    assert steps_of(long, FIRST, 1) == []
    stop, told = steps_of(long, FIRST, 2)
    assert told == SendSpeed(FIRST, True, 2.0, 4.0, "lease-1")
    assert answer(told) == ("allox.sample", {"job": FIRST, "alternative": 1, "batches": 2.0, "seconds": 4.0})
    assert stop == StopTrial(FIRST, 1, 14.0, "moved"), "with the time to save a checkpoint"
    long.take(events.Checkpointed(FIRST, 1, 2.0))
    given_back, declared = long.end(FIRST)
    assert given_back == ReleaseGpus("lease-1", ())
    assert declared.jobs[0] == TrialJob(FIRST, 198.0), "the steps of a sample count"


def test_the_second_sample_of_a_side_is_longer_and_goes_on_from_the_checkpoint(long):
    sampled(long, "lease-1", FIRST, ON_GPU)
    steps_of(long, FIRST, 1, 2)
    long.take(events.Checkpointed(FIRST, 1, 2.0))
    long.end(FIRST)
    sampled(long, "lease-2", FIRST, ON_GPU)
    assert steps_of(long, FIRST, 3, 4, 5) == []
    _, told = steps_of(long, FIRST, 6)
    assert told == SendSpeed(FIRST, False, 4.0, 8.0, "lease-2")


def test_samples_of_one_trial_run_one_after_the_other(long):
    started(sampled(long, "lease-1", FIRST, ON_GPU))
    assert not sampled(long, "lease-2", FIRST, ON_SLOT)
    steps_of(long, FIRST, 1, 2)
    assert started(long.end(FIRST)).places[0].is_slot


def test_a_sample_that_dies_is_run_again_on_its_lease_and_a_finished_one_never(long):
    sampled(long, "lease-1", FIRST, ON_GPU)
    steps_of(long, FIRST, 1)
    assert started(long.end(FIRST, None)).epoch == 2
    steps_of(long, FIRST, 1, 2)
    restarted = long.take(events.Restarted((events.Running(FIRST, 2),)))
    assert SendSpeed(FIRST, False, 2.0, 4.0, "lease-1") in restarted, "the arbiter may not have been told"
    assert not [one for one in long.end(FIRST, None) if isinstance(one, StartTrial)]
    assert not [one for one in long.take(events.Restarted()) if isinstance(one, StartTrial | SendSpeed)]


def test_a_finished_sample_is_told_again_if_the_arbiter_still_lists_its_lease(long):
    sampled(long, "lease-1", FIRST, ON_GPU)
    held = events.HeldLease("lease-1", long.state.leases["lease-1"].gpus, trial=FIRST, is_sample=True)
    steps_of(long, FIRST, 1, 2)
    long.take(events.Checkpointed(FIRST, 1, 2.0))
    assert ReleaseGpus("lease-1", ()) in long.end(FIRST)
    # The master was killed before it could say so.
    long.take(events.Restarted())
    said = long.take(events.LeasesRead((held,)))
    assert said[:2] == (SendSpeed(FIRST, False, 2.0, 4.0, "lease-1"), ReleaseGpus("lease-1", ()))


def test_a_trial_that_has_a_lease_of_its_own_starts_there_and_not_on_a_sample(long):
    sampled(long, "lease-1", FIRST, ON_GPU)
    grant(long, "lease-2", FIRST, ON_SLOT)
    long.take(events.Revoked("lease-1", 5.0))
    assert started(long.end(FIRST, None)).places[0].is_slot


def test_a_rung_that_ends_within_a_sample_ends_the_sample():
    search = Search(Settings("successive_halving", trials=2, max_steps=2, eta=2, by_trial=True), held=0)
    sampled(search, "lease-1", FIRST, ON_GPU)
    stop, told = steps_of(search, FIRST, 1)
    assert (told.steps, stop.reason) == (1.0, "paused")
    assert ReleaseGpus("lease-1", ()) in search.end(FIRST)


def test_a_trial_that_runs_on_says_how_fast_it_is_every_few_seconds(long):
    grant(long, "lease-1", FIRST, ON_GPU)
    said = [one for one in steps_of(long, FIRST, 1, 2, 3, 4, 5) if isinstance(one, SendSpeed)]
    assert said == [SendSpeed(FIRST, False, 1.0, 2.0), SendSpeed(FIRST, False, 4.0, 8.0)]


def test_leases_that_are_read_anew_are_known_to_be_samples(long):
    message = messages.read("leases", {"id": "gpu@1", "leases": [leased("lease-1", FIRST, ON_SLOT, kind="sample")]})
    (event,) = Translation(lambda wall: wall).translated(message)
    started(long.take(event))
    assert steps_of(long, FIRST, 1, 2)[-1].lease == "lease-1"


def test_an_answer_for_a_sample_is_not_replaced_by_what_the_trial_says_later():
    outbox, sample, running, later = Outbox(), *(SendSpeed(FIRST, False, 2.0, 4.0, lease) for lease in ("x", "", ""))
    assert all(map(outbox.put, (sample, running, later)))
    outbox.done(sample)
    assert outbox.next(0.0) is later
