"""Searches on this machine with real training processes: `themis-agent run --local`, killed and resumed."""

import collections
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import optuna
import psutil
import pytest
import requests

import themis_agent
from tests import html_checks
from tests.agent_world import Search
from tests.eventually import eventually
from themis_agent.agent.settings import Settings
from themis_agent.agent.tags import TAGS
from themis_agent.app_file import read
from themis_agent.cli import cli
from themis_agent.live import MACHINE, recorded
from themis_agent.local import driver, replacing
from themis_agent.local.folder import Folder
from themis_agent.local.progress import Changes
from themis_agent.trial.wire import LAUNCHER
from yarn_plugin import console
from yarn_plugin.errors import BadInputError
from yarn_plugin.journal.records import read_records
from yarn_plugin.journal.replay import Replay
from yarn_plugin.toml_files import FileError

SCRIPT = Path(__file__).parents[1] / "data" / "train_quadratic.py"
ROOT = Path(__file__).parents[2]
RATES = (0.1, 0.3, 0.2)
MAX_STEPS = 6

APP = """
name = "quadratic"
command = "python {script} --rate={{rate}} --step-s={step_s} --executed={executed}"
algorithm = "successive_halving"
trials = 3
max_steps = {max_steps}
{more}
enqueue = [{enqueued}]
[space]
rate = {{ type = "float", low = 0.01, high = 0.9, log = true }}
"""


SPACE = {"rate": {"type": "int", "low": 1, "high": 2}}


def write_app(folder, step_s=0.0, more=""):
    enqueued = ", ".join(f"{{ rate = {rate} }}" for rate in RATES)
    executed = folder / "executed"
    text = APP.format(
        script=SCRIPT, step_s=step_s, executed=executed, max_steps=MAX_STEPS, more=more, enqueued=enqueued
    )
    (folder / "app.toml").write_text(text)


def start(folder, *words):
    command = [sys.executable, "-P", "-c", "from themis_agent.cli import main; main()", *words]
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    return subprocess.Popen(
        command,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(process):
    said, _ = process.communicate(timeout=120)
    assert process.returncode == 0, said
    return said


def loss(rate, step):
    weights = np.linspace(1.0, 2.0, 8)
    for _ in range(step):
        weights = weights - rate * weights
    return float((weights**2).sum())


def executed(folder):
    """The steps that were executed, by rate, in order, and their losses."""
    found = collections.defaultdict(list)
    file = folder / "executed"
    for line in file.read_text().splitlines() if file.exists() else ():
        rate, step, value = json.loads(line)
        assert value == loss(rate, step)
        found[rate].append(step)
    return found


def launchers(folder):
    found = []
    for process in psutil.process_iter():
        try:
            if LAUNCHER in (words := process.cmdline()) and words[-1].startswith(str(folder)):
                found.append(process)
        except psutil.Error:
            continue
    return found


def test_a_search_finds_the_best_trial_and_stands_in_the_study(tmp_path, monkeypatch):
    storage = f"sqlite:///{tmp_path}/study.db"
    write_app(tmp_path, more=f'storage = "{storage}"')
    said = finish(start(tmp_path, "run", "--local", "app.toml", "--gpus", "3", "--json", "result.json"))
    result = json.loads((tmp_path / "result.json").read_text())
    assert (result["succeeded"], result["best"], result["parameters"]) == (True, "trial-00001", {"rate": 0.3})
    assert (result["metric"], result["step"]) == (loss(0.3, MAX_STEPS), MAX_STEPS)
    assert "best: trial-00001" in said
    assert not [one for one in executed(tmp_path)[0.3] if one > MAX_STEPS]
    study = optuna.load_study(study_name="quadratic", storage=storage)
    states = {one.user_attrs["themis_trial"]: one.state.name for one in study.trials}
    assert states == {"trial-00000": "PRUNED", "trial-00001": "COMPLETE", "trial-00002": "PRUNED"}
    best = study.best_trial
    assert (best.params, best.value) == ({"rate": 0.3}, loss(0.3, MAX_STEPS))
    assert best.intermediate_values == {step: loss(0.3, step) for step in range(1, MAX_STEPS + 1)}
    assert (best.user_attrs["bracket"], best.user_attrs["rung"]) == (0, 1)
    monkeypatch.chdir(tmp_path)
    assert console.run(cli, "themis-agent", ["status", "quadratic.themis", "--json", "status.json"]) == 0
    trials = json.loads((tmp_path / "status.json").read_text())["trials"]
    assert [one["status"] for one in trials] == ["pruned", "complete", "pruned"]
    assert console.run(cli, "themis-agent", ["best", "quadratic.themis", "--export", "exported"]) == 0
    saved = json.loads((tmp_path / "exported" / f"step-{MAX_STEPS}" / "state.json").read_text())
    assert sum(weight**2 for weight in saved["weights"]) == pytest.approx(result["metric"])
    # The same command again has nothing left to do, and comes to the same result.
    assert console.run(cli, "themis-agent", ["run", "--local", "app.toml", "--json", "again.json"]) == 0
    assert (tmp_path / "again.json").read_text() == (tmp_path / "result.json").read_text()


def test_a_search_runs_from_a_program(tmp_path, capsys):
    result = themis_agent.run(
        f"python {SCRIPT} --rate={{rate}}",
        space={"rate": {"type": "float", "low": 0.1, "high": 0.5}},
        algorithm="plain",
        trials=1,
        max_steps=2,
        enqueue=[{"rate": 0.5}],
        state=tmp_path / "state",
        gpus=1,
    )
    assert (result.succeeded, result.metric) == (True, loss(0.5, 2))
    assert "trial-00000 complete at step 2" in capsys.readouterr().err
    with pytest.raises(BadInputError, match=r"holds a search with another command .*; --replace removes that one"):
        themis_agent.run("other", space=SPACE, max_steps=1, state=tmp_path / "state")
    with pytest.raises(FileError, match="max_steps 0: must be at least 1"):
        themis_agent.run("other", space=SPACE, max_steps=0)


def edited(folder, steps, **more):
    """A cell of a notebook that is run again with other numbers."""
    return themis_agent.run(
        f"python {SCRIPT} --rate={{rate}}",
        space={"rate": {"type": "float", "low": 0.1, "high": 0.5}},
        algorithm="plain",
        trials=1,
        max_steps=steps,
        gpus=1,
        directory=folder,
        state=folder / "s.themis",
        **more,
    )


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        (b"", "JSONDecodeError: "),
        (b'{"app": {"na', "JSONDecodeError: "),
        (b"\xff\xfe", "UnicodeDecodeError: "),
        (b"[]", "TypeError: "),
        (b'{"directory": "/"}', "KeyError: 'app'"),
        (b'{"app": {"command": ["true"]}, "directory": "/"}', "name: "),
        (b'{"app": {"command": 5}, "directory": 1}', "name: "),
    ],
)
def test_a_damaged_search_is_an_error_in_one_line(tmp_path, written, reason):
    (tmp_path / "app.json").write_bytes(written)
    with pytest.raises(BadInputError) as refused:
        Folder(tmp_path).load()
    assert f"its app.json is damaged ({reason}" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_folder_of_an_earlier_version_keeps_its_command_and_a_message_no_password(tmp_path):
    """It was split at blanks; fields that are new have their defaults."""
    fields = {"name": "s", "command": "sh -c 'x {rate}'", "space": SPACE, "algorithm": "plain", "trials": 1}
    app = read({**fields, "max_steps": 1, "environment": {"env": {"KEY": "secret"}}}, "app")
    folder = Folder(tmp_path / "earlier")
    folder.begin(app, tmp_path)
    replacing.check_same(folder, app, tmp_path)
    written = json.loads((folder.root / "app.json").read_text())
    written["app"] |= {"command": "sh -c 'x {rate}'"}
    del written["app"]["sampler"]
    (folder.root / "app.json").write_text(json.dumps(written))
    assert folder.load()[0].words == ("sh", "-c", "'x", "{rate}'")
    replacing.check_same(folder, app.model_copy(update={"command": ["sh", "-c", "'x", "{rate}'"]}), tmp_path)
    other = read({**fields, "max_steps": 1, "environment": {"env": {"KEY": "other"}}}, "app")
    with pytest.raises(BadInputError) as refused:
        replacing.check_same(folder, other, tmp_path / "elsewhere")
    assert "another command (['sh', '-c', \"'x\", \"{rate}'\"], now ['sh'" in str(refused.value)
    assert "environment.env.KEY; --replace" in str(refused.value)


@pytest.mark.parametrize("where", ["in its folder", "in a store"])
def test_a_search_that_was_changed_replaces_the_earlier_one_or_is_kept_beside_it(tmp_path, where):
    store = tmp_path / "store"
    store.mkdir()
    more = {"checkpoint": store.as_uri()} if where == "in a store" else {}
    assert edited(tmp_path, 2, **more).step == 2
    (tmp_path / "s.themis" / "notes.txt").write_text("my own")
    with pytest.raises(BadInputError) as refused:
        edited(tmp_path, 3, eta=4, **more)
    assert str(refused.value) == (
        f"--state '{tmp_path}/s.themis': holds a search with another max_steps (2, now 3) and eta (3, now 4); "
        "--replace removes that one, and --state s-2.themis keeps both (from a program: replace=True, or another state)"
    )
    result = edited(tmp_path, 3, eta=4, replace=True, **more)
    assert (result.step, result.best) == (3, "trial-00000")
    assert (tmp_path / "s.themis" / "notes.txt").exists(), "nothing but the search is removed"
    starts = list((tmp_path / "s.themis" / "trials").glob("*/epoch-*"))
    assert [one.name for one in starts] == ["epoch-1"]
    assert edited(tmp_path, 3, eta=4, **more) == result


@pytest.mark.parametrize("owner", ["/another", None])
def test_nothing_is_removed_for_a_search_that_is_refused(tmp_path, owner):
    mine, others = tmp_path / "mine", tmp_path / "others"
    for store in (mine, others):
        (store / "trial-00000").mkdir(parents=True)
    folder = Folder(tmp_path / "s.themis")
    (mine / driver.OWNER).write_text(str(folder.root))
    if owner is not None:
        (others / driver.OWNER).write_text(owner)
    given = {"name": "s", "command": "train", "algorithm": "plain", "trials": 1, "max_steps": 1, "space": SPACE}
    folder.begin(read({**given, "checkpoint": mine.as_uri()}, ""), tmp_path)
    with pytest.raises(BadInputError, match=f"has checkpoints of .*{owner or 'another search'}"):
        driver.run(read({**given, "checkpoint": others.as_uri()}, ""), tmp_path, folder, 3, replace=True)
    assert (mine / "trial-00000").exists()
    assert folder.load()[0].checkpoint == mine.as_uri()


def test_a_search_that_runs_is_not_replaced(tmp_path):
    write_app(tmp_path, step_s=10)
    agent = start(tmp_path, "run", "--local", "app.toml", "--gpus", "3", "--state", "state")
    eventually(lambda: len(launchers(tmp_path)) == 2 * 3)
    again = start(tmp_path, "run", "--local", "app.toml", "--state", "state", "--replace")
    assert "its search runs; `themis-agent stop DIR` suspends it" in again.communicate(timeout=120)[0]
    agent.kill()
    agent.communicate()
    # Its launchers go on without it; they end before others begin.
    left = launchers(tmp_path)
    write_app(tmp_path)
    finish(start(tmp_path, "run", "--local", "app.toml", "--state", "state", "--replace"))
    assert not [one for one in left if one.is_running()]


def test_a_search_goes_on_with_the_gpus_that_it_began_with(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_app(tmp_path, more="gpus_per_trial = { min = 2, max = 2 }")
    assert console.run(cli, "themis-agent", ["run", "--local", "app.toml", "--gpus", "2", "--state", "state"]) == 0
    monkeypatch.setattr(driver, "local_gpus", lambda: 1)
    assert console.run(cli, "themis-agent", ["resume", "state"]) == 0
    assert capsys.readouterr().out.count("best: trial-00001") == 2


@pytest.mark.parametrize("victim", [pytest.param("agent", marks=pytest.mark.matrix), "agent and launchers"])
def test_a_killed_search_goes_on_and_loses_nothing(tmp_path, victim):
    write_app(tmp_path, step_s=0.3)
    agent = start(tmp_path, "run", "--local", "app.toml", "--gpus", "3", "--state", "state")
    eventually(
        lambda: len(executed(tmp_path)) == 3 and any((tmp_path / "state/checkpoints").rglob("*.json")), limit_s=180
    )
    agent.kill()
    agent.communicate()
    if victim == "agent and launchers":
        for process in launchers(tmp_path):
            process.kill()
    said = finish(start(tmp_path, "resume", "state"))
    assert "best: trial-00001" in said
    steps = executed(tmp_path)
    assert sorted(set(steps[0.3])) == list(range(1, MAX_STEPS + 1))
    again = len(steps[0.3]) - len(set(steps[0.3]))
    replay = Replay(MACHINE, TAGS)
    replay.take_all(read_records(tmp_path / "state" / "journal"))
    assert replay.replayed > 20
    assert (replay.different, replay.skipped) == (0, 0)
    # A checkpoint is written after every step, and stored while the next one runs.
    assert again == 0 if victim == "agent" else again <= 2


@pytest.mark.matrix
def test_ctrl_c_suspends_a_search_with_checkpoints(tmp_path):
    write_app(tmp_path, step_s=0.3)
    agent = start(tmp_path, "run", "--local", "app.toml", "--gpus", "3", "--state", "state")
    eventually(lambda: len(executed(tmp_path)) == 3)
    agent.send_signal(signal.SIGINT)
    said, _ = agent.communicate(timeout=120)
    assert agent.returncode == 130
    assert said.endswith("suspended; resume it with: themis-agent resume state\n")
    assert "best: trial-00001" in finish(start(tmp_path, "resume", "state"))
    steps = executed(tmp_path)[0.3]
    assert steps == list(range(1, MAX_STEPS + 1))


def test_a_trial_that_fails_shows_the_end_of_its_log(tmp_path):
    write_app(tmp_path)
    text = (tmp_path / "app.toml").read_text().replace(str(SCRIPT), str(tmp_path / "missing.py"))
    (tmp_path / "app.toml").write_text(text)
    agent = start(tmp_path, "run", "--local", "app.toml", "--gpus", "3")
    said, _ = agent.communicate(timeout=120)
    assert agent.returncode == 1
    assert "every trial failed: exit code 2, 2 times" in said
    assert "missing.py" in said


def test_a_search_that_failures_stopped_is_resumed_with_what_is_left_and_with_the_failed(tmp_path, monkeypatch, capsys):
    (tmp_path / "train.sh").write_text(
        '[ -e fixed ] || { echo "loading"; echo "no data: $1" >&2; exit 3; }\necho "step=1 loss=$1"\n'
    )
    (tmp_path / "app.toml").write_text(
        'name = "failing"\ncommand = "sh train.sh {x}"\nalgorithm = "plain"\ntrials = 7\nmax_steps = 1\n'
        'retries = 0\n[space]\nx = { type = "int", low = 1, high = 2 }\n'
    )
    monkeypatch.chdir(tmp_path)

    def said(code, *words):
        assert console.run(cli, "themis-agent", words) == code
        return capsys.readouterr().out

    stopped = said(1, "run", "--local", "app.toml", "--gpus", "1", "--state", "state")
    assert stopped.startswith("5 of the first 5 trials that ended failed; the last one: exit code 3: no data: ")
    (tmp_path / "fixed").touch()
    left = said(0, "resume", "state")
    assert left.startswith("all trials have ended\n5 trials failed\nbest: trial-0000")
    again = said(0, "resume", "state", "--retry-failed")
    assert again.startswith("all trials have ended\nbest: trial-0000")
    assert "trial-00000 is tried again" in said(0, "why", "state", "0")
    assert "goes on, although it was over: 5 of the first 5 trials" in said(0, "why", "state")


def test_a_search_can_be_watched_while_it_runs(tmp_path, monkeypatch, capsys):
    """Its page, metrics, reasons and logs; `logs -f` and `status --watch` end with it, and have missed nothing."""
    write_app(tmp_path)
    script = tmp_path / "train.sh"
    wait = f"while [ ! -e {tmp_path}/go ]; do sleep 0.1; done"
    script.write_text(f'echo "begun by $RANK"\n{wait}\nexec {sys.executable} {SCRIPT} "$@"\n')
    text = (tmp_path / "app.toml").read_text().replace(f"python {SCRIPT}", f"sh {script}")
    (tmp_path / "app.toml").write_text(text)
    agent = start(tmp_path, "run", "--local", "app.toml", "--gpus", "2", "--state", "state")
    eventually(
        lambda: any(file.read_text() for file in tmp_path.glob("state/logs/trial-00001/*/rank-0.log")), limit_s=180
    )
    watching = start(tmp_path, "status", "state", "--watch")
    following = start(tmp_path, "logs", "state", "1", "-f")
    monkeypatch.chdir(tmp_path)

    def printed(*words):
        assert console.run(cli, "themis-agent", words) == 0
        return capsys.readouterr().out

    said = printed("status", "state", "--json", "status.json")
    assert json.loads((tmp_path / "status.json").read_text())["finished"] is False
    address = re.search(r"^page: (http://127.0.0.1:\S+/)$", said, re.MULTILINE)[1]
    page = html_checks.checked(requests.get(address, timeout=30).text)
    assert "The search goes on" in page.text
    assert "themis_agent_trials" in requests.get(f"{address}metrics", timeout=30).text
    assert requests.get(address.rsplit("/", 2)[0] + "/", timeout=30).status_code in (401, 404)
    assert "trial-00001 started on 1 GPU (localhost/" in printed("why", "state", "1")
    (tmp_path / "go").touch()
    finish(agent)
    watched, followed = finish(watching), finish(following)
    assert "quadratic is over: all trials have ended" in watched
    starts = len(list((tmp_path / "state/logs/trial-00001").glob("epoch-*")))
    assert followed.count("begun by 0") == starts
    assert [f"== start {number}" in followed for number in range(1, starts + 1)] == [True] * starts
    assert followed == printed("logs", "state", "trial-00001")


def test_a_full_disk_stops_no_search(tmp_path):
    """The journal cannot grow for a while: the agent waits, trials train on, and no step is executed twice."""
    write_app(tmp_path, step_s=0.3)
    agent = start(tmp_path, "run", "--local", "app.toml", "--gpus", "3", "--state", "state")
    eventually(lambda: len(executed(tmp_path)) == 3)
    limited = psutil.Process(agent.pid)
    _, most = limited.rlimit(psutil.RLIMIT_FSIZE)
    limited.rlimit(psutil.RLIMIT_FSIZE, ((tmp_path / "state/journal").stat().st_size, most))
    eventually(lambda: all(len(steps) > 2 for steps in executed(tmp_path).values()))
    assert agent.poll() is None
    limited.rlimit(psutil.RLIMIT_FSIZE, (most, most))
    said = finish(agent)
    assert "the search waits until it can be written" in said
    assert "the journal can be written again" in said
    assert "best: trial-00001" in said
    assert executed(tmp_path)[0.3] == list(range(1, MAX_STEPS + 1))


STUBBORN = """
import itertools, signal, time
from themis_agent import trial
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for step in itertools.count(1):
    if step == 1:
        with trial.save_checkpoint(step):
            pass
    trial.report(step, 1 / step)
    time.sleep(0.05)
"""


def test_a_trial_that_ignores_sigterm_is_killed_and_what_it_loses_is_shown(tmp_path, monkeypatch, capsys):
    (tmp_path / "stubborn.py").write_text(STUBBORN)
    (tmp_path / "app.toml").write_text(
        'name = "stubborn"\ncommand = "python stubborn.py --x={x}"\nalgorithm = "plain"\ntrials = 1\n'
        "max_steps = 10000\n"
        'grace_s = 1\n[space]\nx = { type = "int", low = 1, high = 2 }\n'
    )
    agent = start(tmp_path, "run", "--local", "app.toml", "--gpus", "1", "--state", "state")
    eventually(lambda: any((tmp_path / "state").rglob("000000000001.json")))
    agent.send_signal(signal.SIGINT)
    said, _ = agent.communicate(timeout=120)
    assert agent.returncode == 130
    lost = int(re.search(r"trial-00000: (\d+) steps? lost when it ended; stored: step 1", said)[1])
    monkeypatch.chdir(tmp_path)
    assert console.run(cli, "themis-agent", ["why", "state", "0"]) == 0
    shown = capsys.readouterr().out
    assert f"ignored SIGTERM and was killed after the grace period; steps 2 to {lost + 1} are lost" in shown
    assert "The search is suspended" in shown


def test_searches_do_not_share_a_store(tmp_path):
    store = tmp_path / "store"
    store.mkdir()
    more = f'checkpoint = "{store.as_uri()}"'
    write_app(tmp_path, more=more)
    finish(start(tmp_path, "run", "--local", "app.toml", "--state", "first"))
    assert (store / "trial-00000").is_dir()
    finish(start(tmp_path, "run", "--local", "app.toml", "--state", "first"))
    again = start(tmp_path, "run", "--local", "app.toml", "--state", "second")
    said, _ = again.communicate(timeout=120)
    assert again.returncode == 2
    assert f"has checkpoints of the search in {tmp_path}/first; give each search a folder of its own" in said
    assert not (tmp_path / "second" / "app.json").exists()
    (store / driver.OWNER).unlink()
    again = start(tmp_path, "run", "--local", "app.toml", "--state", "second")
    assert "has checkpoints of another search" in again.communicate(timeout=120)[0]


def test_files_beside_that_of_the_search_do_not_take_the_place_of_modules(tmp_path):
    write_app(tmp_path)
    (tmp_path / "queue.py").write_text("raise SystemExit('this is not the standard library')")
    finish(start(tmp_path, "run", "--local", "app.toml", "--state", "state"))


def test_the_first_steps_that_are_lost_are_told_with_what_they_cost():
    search = Search(Settings("successive_halving", trials=3, max_steps=6, step_s=2.0), held=3)
    changes = Changes(search.state)
    said = []
    for number, trial in enumerate(sorted(search.state.trials)):
        search.report(trial, 2, float(number))
        search.end(trial)
        said += changes.lines(search.state)
    assert said.count("trial-00000: 2 steps lost when it ended; stored: nothing") == 1
    assert [one for one in said if "no trial has stored" in one] == [
        "no trial has stored a checkpoint: a promoted one trains again from step 0; 2 steps lost so far, about 4.0 GPU "
        "s"
    ]


def test_a_population_replaces_its_worst_trials_by_variants_that_go_on_from_the_best(tmp_path):
    write_app(tmp_path, step_s=0.4)
    app = tmp_path / "app.toml"
    app.write_text(
        app.read_text().replace("successive_halving", "population")
        + "[population]\nready_steps = 2\nperturbation = 1.5\nresample = 0\n"
    )
    finish(start(tmp_path, "run", "--local", "app.toml", "--gpus", "2"))
    trials = recorded(Folder(tmp_path / "quadratic.themis").journal).trials
    rates = {name: json.loads(one.parameters)["rate"] for name, one in trials.items()}
    first, second = (one for one in trials.values() if one.parent)
    assert (first.id, first.parent, trials["trial-00000"].fate) == ("trial-00003", "trial-00001", "pruned")
    assert rates[first.id] in (pytest.approx(0.3 * 1.5), pytest.approx(0.3 / 1.5))
    steps = {}
    for line in (tmp_path / "executed").read_text().splitlines():
        rate, step, _ = json.loads(line)
        steps.setdefault(rate, []).append(step)
    # A script is told to stop a step or two after the end of its generation.
    assert min(steps[rates[first.id]]) >= 3, "it goes on from the steps of its parent"
    assert min(steps[rates[second.id]]) >= 3
    assert {one.fate for one in trials.values()} == {"complete", "pruned"}
