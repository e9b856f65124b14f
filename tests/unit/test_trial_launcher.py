"""The launcher, with real processes: a gang lives and ends together, and what it does is told."""

import json
import math
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.eventually import eventually
from tests.trial_agent import ROOT, Agent, journal, launch, script
from themis_agent.trial.launch_file import read_spec
from yarn_plugin.errors import BadInputError

TRAINING = """
import os, sys, time
from themis_agent.trial import newest_checkpoint, report, save_checkpoint, should_stop
newest = newest_checkpoint()
step = int(newest.joinpath("step").read_text()) if newest else 0
while step < int(sys.argv[1]):
    step += 1
    report(step, 1 / step)
    stopping = should_stop()
    if os.environ["RANK"] == "0" and (step % 5 == 0 or stopping):
        with save_checkpoint(step) as directory:
            directory.joinpath("step").write_text(str(step))
    if stopping:
        break
    time.sleep(float(sys.argv[2]))
"""
STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('here', flush=True); time.sleep(600)"
)


@pytest.fixture
def agent():
    agent = Agent()
    yield agent
    agent.close()


@pytest.fixture
def store(tmp_path):
    (tmp_path / "store").mkdir()
    return (tmp_path / "store").as_uri()


@pytest.fixture
def launched(tmp_path, agent):
    started = []

    def launched(command, folder="work", told=agent, **fields):
        started.append(launch(tmp_path / folder, command, told, **fields))
        return started[-1]

    yield launched
    for process in started:
        process.kill()
        process.wait()


def training(tmp_path, steps=10**6, pause_s=0.02):
    return [*script(tmp_path / "script", TRAINING), str(steps), str(pause_s)]


def checkpoints(tmp_path, store, folder="work", **fields):
    return {"checkpoint": {"directory": str(tmp_path / folder / "checkpoints"), "url": store, **fields}}


def below(process):
    """All processes below a launcher, but for its inner process."""
    inner = psutil.Process(process.pid).children()[0]
    return inner, inner.children(recursive=True)


def gone(processes, timeout=50):
    _, alive = psutil.wait_procs(processes, timeout)
    return not [one for one in alive if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]


def test_ends_well(tmp_path, agent, launched, store):
    process = launched(training(tmp_path, 12), **checkpoints(tmp_path, store))
    assert process.wait(50) == 0
    assert [one.step for one in agent.of("reported")] == list(range(1, 13))
    assert agent.of("reported")[3].loss == 0.25
    assert [one.step for one in agent.of("checkpointed")][-1] == 10
    (ended,) = agent.of("ended")
    assert (ended.cause, ended.code, ended.last_step, ended.committed) == ("exited", 0, 12, 10)
    (started,) = agent.of("started")
    assert (started.resumed, started.host) == (None, "127.0.0.1")
    assert 0 < started.port < 65536
    assert journal(tmp_path / "work")[0]["type"] == "started"
    assert math.isclose(agent.of("profiled")[0].iteration_s, 0.02, rel_tol=2)


def test_each_process_finds_its_place(tmp_path, agent, launched):
    text = "import os\nprint({name: os.environ[name] for name in %r})" % (
        ["MASTER_ADDR", "MASTER_PORT", "RANK", "LOCAL_RANK", "WORLD_SIZE", "CUDA_VISIBLE_DEVICES", "GREETING"]
    )
    process = launched(
        script(tmp_path / "script", text),
        ranks=[2, 3],
        world_size=4,
        devices=["4", "5", "6", "7"],
        master={"host": "10.0.0.1", "port": 1234},
        env={"GREETING": "hello"},
    )
    assert process.wait(50) == 0
    for rank, local, devices in (("2", "0", "4,5"), ("3", "1", "6,7")):
        assert eval((tmp_path / f"work/logs/t1/epoch-000001/rank-{rank}.log").read_text()) == {
            "MASTER_ADDR": "10.0.0.1",
            "MASTER_PORT": "1234",
            "RANK": rank,
            "LOCAL_RANK": local,
            "WORLD_SIZE": "4",
            "CUDA_VISIBLE_DEVICES": devices,
            "GREETING": "hello",
        }


def test_a_gang_over_two_launchers_meets_at_the_port_that_rank_0_picked(tmp_path, agent, launched):
    command = script(tmp_path / "script", "import os; print(os.environ['MASTER_ADDR'], os.environ['MASTER_PORT'])")
    second = launched(command, "b", ranks=[1], world_size=2)
    first = launched(command, "a", ranks=[0], world_size=2, host="localhost")
    port = agent.wait_for("started")[0].port
    agent.answer = {"master": {"host": "localhost", "port": port}}
    assert first.wait(50) == second.wait(50) == 0
    for folder, rank in (("a", 0), ("b", 1)):
        assert (tmp_path / folder / f"logs/t1/epoch-000001/rank-{rank}.log").read_text() == f"localhost {port}\n"


def test_when_one_process_fails_all_end_and_its_last_lines_are_told(tmp_path, agent, launched):
    text = """
import os, sys, time
if os.environ["RANK"] == "1":
    print("\\n".join(map(str, range(30))))
    sys.exit("no such data")
time.sleep(600)
"""
    process = launched(script(tmp_path / "script", text), ranks=[0, 1], world_size=2)
    assert process.wait(50) == 1
    (ended,) = agent.of("ended")
    assert (ended.cause, ended.rank, ended.code, ended.signal) == ("exited", 1, 1, None)
    assert ended.last_lines == [*map(str, range(11, 30)), "no such data"]


def test_command_that_does_not_exist(agent, launched):
    assert launched(["no-such-command"]).wait(50) == 127
    assert agent.of("ended")[0].last_lines == ["no-such-command: No such file or directory"]


def test_agent_stops_it_after_a_checkpoint_and_the_next_epoch_goes_on(tmp_path, agent, launched, store):
    first = launched(training(tmp_path), **checkpoints(tmp_path, store))
    agent.wait_for("checkpointed")
    agent.answer = {"stop_in_s": 20}
    assert first.wait(50) == 0
    (ended,) = agent.of("ended")
    assert (ended.cause, ended.code) == ("stopped", 0)
    assert ended.committed == ended.last_step
    agent.answer = {}
    agent.events.clear()
    second = launched(
        training(tmp_path, ended.last_step + 5), "other", epoch=2, **checkpoints(tmp_path, store, "other")
    )
    assert second.wait(50) == 0
    assert agent.of("started")[0].resumed == ended.last_step
    assert agent.of("started")[0].restore_s > 0
    assert [one.step for one in agent.of("reported")] == [ended.last_step + more for more in range(1, 6)]


def test_damaged_checkpoint_is_told(tmp_path, agent, launched, store):
    assert launched(training(tmp_path, 6, 0), told=None, **checkpoints(tmp_path, store)).wait(50) == 0
    (tmp_path / "store/t1/000001/000000000005/step").write_text("7")
    again = launched(training(tmp_path, 6, 0), "other", epoch=2, **checkpoints(tmp_path, store, "other"))
    assert again.wait(50) == 0
    assert agent.events[0].problem == "checkpoint t1/000001/000000000005: step is damaged"
    assert agent.of("started")[0].resumed is None


def test_sigterm_stops_it_as_the_agent_does(tmp_path, agent, launched, store):
    process = launched(training(tmp_path), **checkpoints(tmp_path, store))
    agent.wait_for("reported", 3)
    process.terminate()
    assert process.wait(50) == 0
    (ended,) = agent.of("ended")
    assert (ended.cause, ended.committed) == ("stopped", ended.last_step)


def test_script_that_ignores_sigterm_is_killed_after_the_grace_period(tmp_path, agent, launched, store):
    text = TRAINING.replace("stopping = should_stop()", "stopping = False; signal.signal(15, signal.SIG_IGN)")
    command = [*script(tmp_path / "script", f"import signal\n{text}"), "1000000", "0.02"]
    process = launched(command, grace_s=0.5, **checkpoints(tmp_path, store))
    agent.wait_for("checkpointed")
    _, processes = below(process)
    agent.answer = {"stop_in_s": 60}
    assert process.wait(50) == 137
    (ended,) = agent.of("ended")
    assert (ended.cause, ended.signal) == ("killed", signal.SIGKILL)
    assert ended.last_step >= ended.committed > 0
    assert gone(processes)


CLOCK = """
import pathlib, time
wall, file = time.time, pathlib.Path({file!r})
time.time = lambda: wall() + (float(file.read_text() or 0) if file.exists() else 0.0)
"""


@pytest.mark.parametrize("jump_s", [3600.0, -3600.0])
def test_a_clock_that_is_set_while_a_trial_stops_changes_nothing(tmp_path, agent, launched, store, monkeypatch, jump_s):
    """Set forward, the trial still has its grace period to save a checkpoint; set back, it is still killed after it."""
    offset, began = tmp_path / "offset", tmp_path / "stopping"
    (tmp_path / "clock").mkdir()
    (tmp_path / "clock/sitecustomize.py").write_text(CLOCK.format(file=str(offset)))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "clock"))
    saves = jump_s > 0
    wait = f"open({str(began)!r}, 'w').close(), time.sleep(2)" if saves else "False"
    text = TRAINING.replace("stopping = should_stop()", f"stopping = should_stop() and bool(({wait}))")
    command = [*script(tmp_path / "script", text), "1000000", "0.02"]
    process = launched(command, grace_s=60.0 if saves else 1.0, orphan_s=600.0, **checkpoints(tmp_path, store))
    agent.wait_for("checkpointed")
    agent.answer = {"stop_in_s": 90}
    if saves:
        eventually(began.exists)
    else:
        time.sleep(0.5)
    offset.write_text(str(jump_s))
    assert process.wait(50) == (0 if saves else 137)
    (ended,) = agent.of("ended")
    assert ended.cause == ("stopped" if saves else "killed")
    assert not saves or ended.committed == ended.last_step


def test_without_an_answer_of_the_agent_it_checkpoints_and_ends(tmp_path, agent, launched, store):
    process = launched(training(tmp_path), orphan_s=1.0, **checkpoints(tmp_path, store))
    steps = len(agent.wait_for("reported", 3))
    agent.away = True
    assert process.wait(50) == 0
    ended = journal(tmp_path / "work")[-1]
    assert ended["cause"] == "agent_away"
    assert ended["committed"] == ended["last_step"] > steps


def test_agent_that_comes_back_gets_every_step_once(tmp_path, agent, launched):
    process = launched(training(tmp_path, 60))
    agent.wait_for("reported", 3)
    agent.away = True
    time.sleep(0.5)
    agent.away = False
    assert process.wait(50) == 0
    assert [one.step for one in agent.of("reported")] == list(range(1, 61))
    assert len(agent.of("ended")) == 1


def test_new_attempt_of_the_agent_is_followed_and_the_old_one_no_longer(tmp_path, agent, launched):
    later = Agent()
    address = tmp_path / "address.json"
    process = launched(training(tmp_path), agent_address=address.as_uri())
    agent.wait_for("reported", 3)
    later.answer = {"attempt": 2}
    address.write_text(json.dumps({"url": later.url, "attempt": 2}))
    later.wait_for("reported")
    agent.answer = {"stop_in_s": 0}
    later.wait_for("reported", 30)
    assert process.poll() is None
    later.answer = {"attempt": 2, "stop_in_s": 10}
    assert process.wait(50) == 0
    later.close()


def test_superseded_epoch_ends_without_a_checkpoint(tmp_path, agent, launched, store):
    old = launched(training(tmp_path), told=None, **checkpoints(tmp_path, store))
    eventually(lambda: list((tmp_path / "store/t1").glob("000001/*.json")))
    launched(training(tmp_path), "other", epoch=2, **checkpoints(tmp_path, store, "other"))
    assert old.wait(50) == 0
    assert journal(tmp_path / "work")[-1]["cause"] == "superseded"
    agent.wait_for("checkpointed")


def test_superseded_launcher_that_was_stopped_for_long_commits_nothing(tmp_path, agent, launched, store):
    """SIGSTOP until the next epoch has ended, then SIGCONT: what it has saved meanwhile is not continued from."""
    old = launched(training(tmp_path), told=None, **checkpoints(tmp_path, store))
    eventually(lambda: list((tmp_path / "store/t1").glob("000001/*.json")))
    inner, processes = below(old)
    # The training goes on and saves; the launcher does not know.
    inner.suspend()
    later = launched(training(tmp_path), "other", epoch=2, **checkpoints(tmp_path, store, "other"))
    begin = agent.wait_for("started")[0].resumed
    agent.wait_for("checkpointed")
    later.terminate()
    assert later.wait(50) == 0
    committed = agent.of("ended")[0].committed
    assert committed > begin
    inner.resume()
    assert old.wait(50) == 0
    assert gone(processes)
    agent.events.clear()
    newest = launched(training(tmp_path, committed + 1), "third", epoch=3, **checkpoints(tmp_path, store, "third"))
    assert newest.wait(50) == 0
    assert agent.of("started")[0].resumed == committed


def test_agent_says_that_it_is_superseded(tmp_path, agent, launched, store):
    process = launched(training(tmp_path), **checkpoints(tmp_path, store))
    agent.wait_for("checkpointed")
    agent.answer = {"superseded": True}
    assert process.wait(50) == 0
    assert agent.of("ended")[0].cause == "superseded"


def test_trial_that_is_over_for_good_uploads_no_more(tmp_path, agent, launched, store):
    process = launched(training(tmp_path), **checkpoints(tmp_path, store))
    agent.wait_for("checkpointed")
    (tmp_path / "store").rename(tmp_path / "away")
    agent.wait_for("checkpoint_failed")
    agent.answer = {"stop_in_s": 600, "final": True}
    assert process.wait(50) == 0
    (ended,) = agent.of("ended")
    assert ended.cause == "stopped"
    assert ended.committed < ended.last_step


def test_launcher_that_waits_for_rank_0_can_be_stopped(tmp_path, agent, launched):
    process = launched(["no-such-command"], ranks=[1], world_size=2)
    eventually(lambda: agent.batches > 2)
    agent.answer = {"stop_in_s": 5}
    assert process.wait(50) == 0
    assert [(one.type, one.cause) for one in agent.events] == [("ended", "stopped")]


def test_launcher_that_cannot_join_its_gang_ends_and_says_why(tmp_path, agent, launched, store):
    records = Path(store.removeprefix("file://")) / "t1/epochs"
    records.mkdir(parents=True)
    (records / "000001.json").write_text("{")
    waiting = launched(["true"], ranks=[1], world_size=2, **checkpoints(tmp_path, store))
    assert waiting.wait(50) == 1
    (ended,) = agent.of("ended")
    assert ended.cause == "refused"
    assert "record of epoch 1 of trial t1: damaged" in ended.last_lines[0]


def test_launcher_that_waits_ends_with_its_container(tmp_path, agent, launched):
    process = launched(["no-such-command"], ranks=[1], world_size=2)
    eventually(lambda: agent.batches > 2)
    inner, _ = below(process)
    process.kill()
    assert gone([inner])


def test_store_away_training_goes_on(tmp_path, agent, launched, store):
    process = launched(training(tmp_path, 10**6, 0.01), **checkpoints(tmp_path, store))
    agent.wait_for("checkpointed")
    (tmp_path / "store").rename(tmp_path / "away")
    failed = agent.wait_for("checkpoint_failed")[-1]
    assert "no such file or directory" in failed.problem
    assert failed.step > failed.committed > 0
    before = len(agent.of("checkpointed"))
    (tmp_path / "away").rename(tmp_path / "store")
    agent.wait_for("checkpointed", before + 1)
    process.terminate()
    assert process.wait(50) == 0
    assert agent.of("ended")[0].committed == agent.of("ended")[0].last_step


@pytest.mark.parametrize("victim", ["outer", "inner"])
def test_killed_launcher_leaves_no_process(tmp_path, agent, launched, victim):
    """Also not one that has left its process group and its parent."""
    text = f"""
import subprocess, sys, time
subprocess.Popen(["setsid", "--fork", sys.executable, "-c", {STUBBORN!r}])
time.sleep(1)
print("started", flush=True)
{STUBBORN}
"""
    process = launched(script(tmp_path / "script", text), ranks=[0, 1], world_size=2)
    log = tmp_path / "work/logs/t1/epoch-000001/rank-1.log"
    eventually(lambda: log.exists() and log.read_text().count("here") == 2)
    inner, processes = below(process)
    processes = [one for one in processes if one.status() != psutil.STATUS_ZOMBIE]
    assert len(processes) == 4
    os.kill(process.pid if victim == "outer" else inner.pid, signal.SIGKILL)
    assert gone([inner, *processes])
    assert process.wait(50) == (-9 if victim == "outer" else 137)


def test_stopped_launcher_kills_its_processes_when_its_container_ends(tmp_path, agent, launched):
    process = launched([sys.executable, "-c", STUBBORN])
    agent.wait_for("started")
    inner, processes = below(process)
    inner.suspend()
    process.kill()
    assert gone([inner, *processes])


def test_losses_that_are_no_numbers_are_told_as_such(agent, launched):
    losses = ["nan", "inf", "-inf", "1.0"]
    text = f"from themis_agent.trial import report\nfor step, loss in enumerate({losses}, 1): report(step, float(loss))"
    assert launched([sys.executable, "-c", text]).wait(50) == 0
    assert [repr(one.loss) for one in agent.of("reported")] == losses


def test_losses_are_read_from_the_log(agent, launched):
    lines = "step 1 loss 0.5\nstep 2 loss nan\nnothing\n"
    assert launched([sys.executable, "-c", f"print({lines!r})"]).wait(50) == 0
    assert [(one.step, str(one.loss)) for one in agent.of("reported")] == [(1, "0.5"), (2, "nan")]


def test_what_is_read_is_told_and_how(agent, launched):
    lines = "accuracy 0.5\naccuracy 0.6\n"
    assert launched([sys.executable, "-c", f"print({lines!r})"], metric="accuracy").wait(50) == 0
    assert [(one.step, one.loss) for one in agent.of("reported")] == [(1, 0.5), (2, 0.6)]
    assert [(one.name, one.steps) for one in agent.of("log_read")] == [("accuracy", "counted")]
    (ended,) = agent.wait_for("ended")
    assert ended.no_report == ""


def test_a_log_without_the_metric_is_told(agent, launched):
    assert launched([sys.executable, "-c", "print('loss: 0.5')"], metric="accuracy").wait(50) == 0
    (ended,) = agent.wait_for("ended")
    assert (ended.cause, ended.code) == ("exited", 0)
    assert ended.no_report.startswith("no accuracy in its log, which has loss; formats read: `accuracy: 0.5`, ")


@pytest.mark.parametrize("report", ["", "report(3, 0.5)"])
def test_a_command_that_reports_nothing_for_long_is_ended(agent, launched, report):
    text = f"import time\nfrom themis_agent.trial import report\n{report}\nprint('acc: 1', flush=True)\ntime.sleep(600)"
    process = launched([sys.executable, "-c", text], report_timeout_s=2.0, grace_s=1.0)
    (ended,) = agent.wait_for("ended", timeout=60)
    assert (process.wait(50), ended.cause) == (0, "silent")
    said = "after step 3" if report else "no loss in its log, which has acc"
    assert re.match(rf"reported nothing for 2 s:? {said}", ended.no_report)


def test_reports_of_the_script_replace_what_was_read_before(tmp_path, agent, launched):
    text = f"""
import pathlib, time
from themis_agent.trial import report
print('loss 9', flush=True)
while not pathlib.Path({str(tmp_path / "go")!r}).exists():
    time.sleep(0.01)
report(1, 0.5)
"""
    process = launched([sys.executable, "-c", text])
    agent.wait_for("reported")
    (tmp_path / "go").touch()
    assert process.wait(50) == 0
    told = [one for one in agent.events if one.type in ("reported", "log_read")]
    assert [one.steps if one.type == "log_read" else one.loss for one in told] == ["counted", 9, "reported", 0.5]


COUNTED = """
import pathlib, sys, time
from themis_agent.trial import newest_checkpoint, save_checkpoint
newest = newest_checkpoint()
batch = int(newest.joinpath("batch").read_text()) if newest else 0
for _ in range(3):
    batch += 1
    print("loss", batch, flush=True)
    if batch % 3 == 0:
        with save_checkpoint(100 * batch) as directory:
            directory.joinpath("batch").write_text(str(batch))
"""


def test_counted_steps_go_on_after_a_restart_from_a_checkpoint(tmp_path, agent, launched, store):
    command = script(tmp_path / "script", COUNTED)
    for epoch in (1, 2):
        assert launched(command, epoch=epoch, **checkpoints(tmp_path, store)).wait(50) == 0
    assert [(one.step, one.loss) for one in agent.of("reported")] == [(step, step) for step in range(1, 7)]
    assert [one.resumed for one in agent.of("started")] == [None, 300]


def test_logs_are_bounded(tmp_path, launched):
    command = [sys.executable, "-c", "for i in range(20000): print(f'line {i}')"]
    assert launched(command, log_bytes=65536).wait(50) == 0
    logs = tmp_path / "work/logs/t1/epoch-000001"
    text = (logs / "rank-0.log.1").read_text() + (logs / "rank-0.log").read_text()
    assert len(text) <= 65536
    assert text.endswith("line 19998\nline 19999\n")


def test_token_that_others_can_read_is_refused(tmp_path, agent, launched):
    token = tmp_path / "token"
    token.write_text("secret")
    token.chmod(0o644)
    assert launched([sys.executable, "-c", ""], token_file=str(token)).wait(50) == 2


def test_token_is_sent(tmp_path, launched):
    token, agent = tmp_path / "token", Agent(token="secret")
    token.write_text("secret\n")
    token.chmod(0o600)
    assert launched([sys.executable, "-c", ""], told=agent, token_file=str(token)).wait(50) == 0
    assert [one.type for one in agent.events] == ["started", "ended"]
    agent.close()


def test_store_that_cannot_be_used_is_told(tmp_path, agent, launched):
    assert launched(training(tmp_path), **checkpoints(tmp_path, "s3://bucket")).wait(50) == 1
    (ended,) = agent.of("ended")
    assert ended.cause == "refused"
    assert "give a folder as file:///PATH" in ended.last_lines[0]


SPEC = {
    "trial": "t1",
    "epoch": 1,
    "command": ["true"],
    "ranks": [0],
    "world_size": 1,
    "checkpoint": {"directory": "x"},
    "log_directory": "x",
}


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"trial": "../x"}, "trial: must match [A-Za-z0-9_-][A-Za-z0-9._-]{0,199}"),
        ({"epoch": 0}, "epoch: must be at least 1"),
        ({"command": []}, "command: must have at least 1 item"),
        ({"ranks": [1]}, "ranks [1]: give different ranks below world_size 1"),
        ({"devices": ["0", "1", "2"], "ranks": [0, 1], "world_size": 2}, "give a multiple of 2, the number of ranks"),
        ({"checkpoint": {}}, "checkpoint.directory: required"),
        ({"loss_pattern": "("}, "not a regular expression"),
    ],
)
def test_bad_launch_files_are_refused(tmp_path, fields, told):
    path = tmp_path / "spec.json"
    path.write_text(json.dumps(SPEC | fields))
    with pytest.raises(BadInputError, match=re.escape(told)):
        read_spec(path)


def test_script_without_a_launcher(tmp_path):
    command = [*script(tmp_path, TRAINING), "12", "0"]
    environment = {**os.environ, "RANK": "0", "PYTHONPATH": str(ROOT)}
    for _ in range(2):
        subprocess.run(command, cwd=tmp_path, env=environment, check=True)
    assert sorted(one.name for one in (tmp_path / "checkpoints").iterdir()) == ["step-10", "step-5"]
