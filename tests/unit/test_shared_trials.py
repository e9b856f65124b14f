"""Trials of a search that share GPUs: what is declared, who starts beside whom, what is measured and told."""

import json
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.agent_world import FIRST, SECOND, Search
from themis_agent.agent import events, messages
from themis_agent.agent.commands import Place, ReleaseGpus, SendSlowdown, StartTrial
from themis_agent.agent.settings import Settings
from themis_agent.app_file import read
from themis_agent.arbiter_messages import Translation, answer
from themis_agent.launching import Site, launch_spec
from themis_agent.local import driver
from themis_agent.local.folder import Folder
from themis_agent.view import changes
from themis_agent.yarn.launches import Launches
from themis_agent.yarn.outbox import Outbox
from themis_agent.yarn.submission import ArbiterAccess, ContainerSize, Submission
from yarn_plugin.model.auction import Release
from yarn_plugin.toml_files import FileError

THREE = Settings("plain", trials=3, max_steps=30, grace_s=10.0)
THIRD = "trial-00002"
SCRIPT = Path(__file__).parents[1] / "data" / "train_quadratic.py"


def app(**more):
    part = {"kind": "digits", "computing": 0.3, "memory": 0.2, "peak_memory": 0.5, "peak_probability": 0.1}
    fields = {
        "name": "digits",
        "command": "python train.py",
        "algorithm": "plain",
        "trials": 3,
        "max_steps": 9,
        "space": {"rate": {"type": "float", "low": 0.1, "high": 1.0}},
        "sharing": part,
    }
    return read({**fields, **more}, "app.toml")


def part(gpu, job):
    return events.Gpu(f"m1/{gpu}#{job}", "m1", "m1", "r1", "m1", gpu)


def sharing(*parts, settings=THREE):
    search = Search(settings, held=0)
    for gpu, job in parts:
        search.take(events.Granted(f"lease-{job}", (part(gpu, job),)))
    return search


def profile(search, trial, step_s, at):
    return search.take(events.Profiled(trial, search.epoch(trial), step_s), at)


def slowdowns(commands):
    return [command for command in commands if isinstance(command, SendSlowdown)]


def test_a_job_is_declared_for_each_trial_with_its_part_of_a_gpu():
    jobs = app().declared_jobs
    assert [job.name for job in jobs] == ["worker-0", "worker-1", "worker-2"]
    assert jobs[0].sharing.model_dump() == {
        "computing": 0.3, "memory": 0.2, "peak_memory": 0.5, "peak_probability": 0.1, "kind": "digits",
    }  # fmt: skip
    assert app(sharing=None).declared_jobs == []


@pytest.mark.parametrize(
    ("part", "trials"), [((0.3, 0.2, 0.5), 3), ((0.3, 0.3, 0.6), 2), ((0.6, 0.1, 0.1), 1), ((0.1, 0.1, 0.1), 10)]
)
def test_as_many_trials_share_a_gpu_as_fit_with_one_at_its_peak(part, trials):
    computing, memory, peak = part
    declared = app(sharing={"computing": computing, "memory": memory, "peak_memory": peak})
    assert declared.trials_on_gpu == trials
    assert len(driver.gpus_here(2, declared)) == 2 * trials
    assert {gpu.ordinal for gpu in driver.gpus_here(2, declared)} == {0, 1}


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"sharing": {"computing": 1.5, "memory": 0.2}}, r"sharing\.computing"),
        ({"sharing": {"computing": 0.5, "memory": 0.2, "peak_memory": 1.2}}, r"sharing\.peak_memory"),
        ({"sharing": {"computing": 0.5, "memory": 0.5, "peak_memory": 0.2}}, r"must be at least memory, 0\.5"),
        ({"gpus_per_trial": {"max": 2}}, r"gpus_per_trial\.max 2: must be 1 with \[sharing\]"),
        ({"jobs": [{"name": "all"}]}, r"jobs: must be left out with \[sharing\]"),
        ({"gpu": {}, "cpu": {}}, r"sharing: must be left out with \[gpu\] and \[cpu\]"),
    ],
)
def test_wrong_amounts_are_refused_in_one_line(more, said):
    with pytest.raises(FileError, match=rf"\Aapp\.toml[^\n]*{said}[^\n]*\Z"):
        app(**more)


def spec(declared, place):
    site = Site(host="n1", directory="checkpoint", python="python3", devices=["1"], heartbeat_s=0.5)
    start = StartTrial(FIRST, 1, (place,), "{}")
    return launch_spec(declared, Folder(Path("/searches/digits")), "http://localhost:1", start, place, site)


def test_the_launcher_finds_the_limits_of_its_part():
    launched = spec(app(), Place("m1", ("m1/1#worker-0",), 0, "n1", (1,)))
    assert launched.devices == ["1"]
    found = {
        name: value for name, value in launched.env.items() if name not in ("THEMIS_PARAMETERS", "THEMIS_MAX_STEPS")
    }
    assert found == {
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "30",
        "THEMIS_GPU_MEMORY_FRACTION": "0.5",
        "XLA_PYTHON_CLIENT_MEM_FRACTION": "0.5",
        "TF_FORCE_GPU_ALLOW_GROWTH": "true",
    }
    assert "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE" not in spec(app(sharing=None), Place("m1", ("m1/1",), 0)).env


def test_a_trial_on_a_part_of_a_gpu_sees_that_gpu_and_is_counted_as_on_one(tmp_path):
    """Also where NodeManagers do not show containers their own GPUs alone."""
    search = sharing((1, "a"))
    (start,) = search.of(StartTrial)
    folder = Folder(tmp_path)
    folder.begin(app(), tmp_path)
    access = ArbiterAccess(url="http://arbiter", app="app-1")
    container = ContainerSize(memory_mb=700, vcores=1)
    made = Submission(yarn_app="", resource_manager="", arbiter=access, python="py", container=container)
    launches = Launches(app(), folder, made, "http://agent")
    command = replace(start, parameters='{"rate": 0.5}')
    ((launcher, _, gpus),) = launches.prepare(command)
    launched = json.loads(launches.spec(launcher).read_text())
    assert (launched["devices"], gpus, "THEMIS_SIDE" in launched["env"]) == (["1"], 1, False)
    trial = search.state.trials[FIRST]
    assert trial.attained_gpu_s(trial.attempt.started_at + 10.0) == 10.0
    assert changes.gpus(start.places[0].cells).startswith("1 GPU ")


def test_the_limits_may_be_overridden_by_the_search():
    declared = app(environment={"env": {"XLA_PYTHON_CLIENT_MEM_FRACTION": "0.1"}})
    launched = spec(declared, Place("m1", ("m1/1#worker-0",), 0, "n1", (1,)))
    assert launched.env["XLA_PYTHON_CLIENT_MEM_FRACTION"] == "0.1"


def test_the_first_trial_is_measured_alone_before_others_start_beside_it():
    search = sharing((0, "a"), (0, "b"), (1, "c"))
    assert [(start.trial, start.places[0].ordinals) for start in search.of(StartTrial)] == [
        (FIRST, (0,)),
        (THIRD, (1,)),
    ]
    (start,) = [one for one in profile(search, FIRST, 0.1, 10.0) if isinstance(one, StartTrial)]
    assert (start.trial, start.places[0].cells) == (SECOND, ("m1/0#b",))
    assert search.state.trials[FIRST].alone_step_s == 0.1


def test_slowdowns_are_told_at_intervals_of_all_who_share():
    search = sharing((0, "a"), (0, "b"))
    profile(search, FIRST, 0.1, 10.0)
    assert slowdowns(profile(search, FIRST, 0.15, 20.0)) == [SendSlowdown("a", 0.5)]
    assert slowdowns(profile(search, FIRST, 0.16, 21.0)) == []
    # It was never alone: all trials run one command.
    assert slowdowns(profile(search, SECOND, 0.12, 22.0)) == [SendSlowdown("b", 0.2)]
    assert slowdowns(search.take(events.Reported(FIRST, 1, 4, 0.3), 26.0)) == [SendSlowdown("a", 0.6)]
    assert search.state.trials[FIRST].alone_step_s == 0.1
    assert search.state.trials[SECOND].alone_step_s is None


def test_nothing_is_told_of_trials_on_gpus_of_their_own():
    search = sharing((0, "a"), (1, "b"))
    for at, step_s in ((10.0, 0.1), (20.0, 0.3)):
        for trial in (FIRST, SECOND):
            profile(search, trial, step_s, at)
    whole = Search()
    profile(whole, FIRST, 0.1, 1.0)
    assert slowdowns(search.said) == slowdowns(whole.said) == []
    assert whole.state.trials[FIRST].alone_step_s is None


def test_a_trial_that_is_moved_goes_on_elsewhere_from_its_checkpoint():
    search = sharing((0, "a"), (0, "b"), settings=replace(THREE, trials=2))
    profile(search, FIRST, 0.1, 10.0)
    search.take(events.Granted("lease-new", (part(1, "a"),)))
    search.take(events.Revoked("lease-a", 40.0))
    (start,) = [one for one in search.end(FIRST, None) if isinstance(one, StartTrial)]
    assert (start.trial, start.epoch, start.places[0].cells) == (FIRST, 2, ("m1/1#a",))
    assert search.state.trials[FIRST].attempt.was_alone


def test_parts_that_no_trial_can_use_any_more_are_given_back():
    search = sharing((0, "a"), (0, "b"), settings=replace(THREE, trials=2))
    search.take(events.Restarted(registered_as="app-1"))
    for gpu, job in ((0, "a"), (0, "b")):
        search.take(events.Granted(f"lease-2{job}", (part(gpu, job),)))
    profile(search, FIRST, 0.1, 10.0)
    search.report(FIRST, 30, 0.2)
    assert ReleaseGpus("lease-2a", ("m1/0#a",)) in search.end(FIRST)


def test_leases_of_parts_are_told_apart_by_their_jobs():
    holding = messages.Holding(cell="n1/0")
    leases = tuple(messages.Lease(id=f"l{job}", holdings=(holding, holding), job=job) for job in ("a", "b"))
    translation = Translation(lambda wall: wall, is_sharing=True)
    granted = translation.translated(messages.Grant(id="1", leases=leases))
    assert [[gpu.cell for gpu in one.gpus] for one in granted] == [["n1/0#a"], ["n1/0#b"]]
    assert translation.translated(messages.Revoke(id="2", lease="la", by=5.0, cells=("n1/0",)))[0].cells == ()
    held = messages.Lease(id="la", holdings=(holding,), job="a", revoked=("n1/0",), vacate_by=5.0)
    (read_again,) = translation.translated(messages.Leases(id="3", leases=(held,)))
    assert read_again.leases[0].revoked == ("n1/0#a",)
    assert answer(ReleaseGpus("la", ("n1/0#a",))) == messages.write(Release("la", ("n1/0",)))
    assert answer(SendSlowdown("a", 0.3)) == ("shared-gpus.slowdown/1", {"job": "a", "slowdown": 0.3})


def test_of_two_slowdowns_of_a_job_that_wait_the_later_one_is_sent():
    outbox = Outbox()
    for command in (SendSlowdown("a", 0.1), SendSlowdown("b", 0.2), SendSlowdown("a", 0.3)):
        assert outbox.put(command)
    sent = []
    while (command := outbox.next(0.0)) is not None:
        sent.append(command)
        outbox.done(command)
    assert sent == [SendSlowdown("b", 0.2), SendSlowdown("a", 0.3)]


def test_two_trials_train_on_one_gpu_at_once_after_the_first_was_measured_alone(tmp_path):
    beside = tmp_path / "beside"
    beside.mkdir()
    # The first goes on until the second has started, however slow the machine.
    held = tmp_path / "hold"
    held.touch()
    command = f"python {SCRIPT} --rate={{rate}} --step-s=0.15 --beside={beside} --executed={tmp_path / 'executed'}"
    command += f" --hold={held} --hold-at=20"
    declared = app(command=command, trials=2, max_steps=25, sharing={"computing": 0.5, "memory": 0.4})
    folder = Folder(tmp_path / "search")

    def go_on():
        while len(list(folder.logs.glob("*/epoch-*/launcher-0.jsonl"))) < 2:
            time.sleep(0.05)
        held.unlink()

    threading.Thread(target=go_on, daemon=True).start()
    assert driver.run(declared, tmp_path, folder, 1).succeeded
    events_of = [
        [json.loads(line) for line in path.read_text().splitlines()]
        for path in sorted(folder.logs.glob("*/epoch-*/launcher-0.jsonl"))
    ]
    (first, second) = events_of
    assert first[0]["devices"] == second[0]["devices"] == ["0"]
    measured = next(one["at"] for one in first if one["type"] == "profiled")
    assert measured <= second[0]["at"] < first[-1]["at"], "beside each other, once the first was measured"
    assert folder.state().trials[FIRST].alone_step_s is not None
