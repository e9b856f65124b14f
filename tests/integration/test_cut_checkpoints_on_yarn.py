"""What saves a checkpoint, or stores it, is killed meanwhile: the trial goes on from the one before."""

import os
import signal
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.eventually import eventually
from tests.leased.lab import Lab
from tests.resumed_steps import events
from tests.searches.lab import Submitted, app, check_same_winner
from themis_agent.trial import script

pytestmark = [pytest.mark.integration, pytest.mark.matrix]


@pytest.fixture
def lab(cluster, tmp_path):
    made = Lab(cluster, tmp_path, lease_s=60)
    yield made
    made.close()


@pytest.fixture
def submitted(lab, tmp_path):
    """A search with large checkpoints, which are written for a while."""
    more = "--weight-mb=48 --save-s=0.3"
    searched = app("cut", 0.5, tmp_path / "executed", more, algorithm="plain", trials=2, max_steps=20)
    made = Submitted(lab, tmp_path / "search", searched)
    made.until_steps(2, 3)
    return made


def with_children(process):
    return [process, *process.children(recursive=True)]


def send(processes, number):
    for one in processes:
        with suppress(psutil.NoSuchProcess):
            one.send_signal(number)


def trial_of(launcher):
    """The trial of a launcher, by its launch file."""
    return next(Path(word).parts[-3] for word in launcher.cmdline() if word.endswith(".json"))


def stored(submitted, trial):
    """The steps of checkpoints in the store, and those of which a part is there."""
    found, parts = [], []
    for folder in submitted.folder.checkpoints.glob(f"{trial}/[0-9]*/[0-9]*"):
        if folder.is_dir():
            (found if folder.with_suffix(".json").exists() else parts).append(int(folder.name))
    return found, parts


def stopped_while_storing(submitted):
    """A trial whose launcher is stopped with all its processes, while it writes a checkpoint into the store; these
    processes; and the step of its newest whole checkpoint."""
    trees = {trial_of(one): with_children(one) for one in submitted.launchers()}

    def caught():
        for trial, processes in trees.items():
            if stored(submitted, trial)[1]:
                send(reversed(processes), signal.SIGSTOP)
                whole, parts = stored(submitted, trial)
                if parts:
                    return trial, processes, max(whole)
                send(processes, signal.SIGCONT)
        return None

    return eventually(caught, "a checkpoint is being stored", 60, 0.002)


def resumed(submitted, trial):
    """From which checkpoints the starts of a trial went on."""
    journals = sorted(submitted.folder.logs.glob(f"{trial}/epoch-*/launcher-0.jsonl"))
    return [one["resumed"] for path in journals for one in events(path) if one["type"] == "started"]


def test_a_launcher_is_killed_while_it_stores_a_checkpoint(submitted):
    trial, processes, newest = stopped_while_storing(submitted)
    send(processes, signal.SIGKILL)
    check_same_winner(submitted, submitted.until_ended(), interruptions=1, interval=3)
    assert resumed(submitted, trial) == [None, newest]


def test_a_launcher_on_a_lost_machine_goes_on_to_store_a_checkpoint_when_it_is_replaced(submitted):
    trial, processes, newest = stopped_while_storing(submitted)
    ((_, attempt),) = [one for one in submitted.state().attempts if one[0].id == trial]
    os.kill(submitted.lab.cluster.daemons[f"nm-{attempt.places[0].host}"], signal.SIGKILL)
    try:
        eventually(lambda: len(resumed(submitted, trial)) > 1, "the trial is started elsewhere", 90)
    finally:
        send(processes, signal.SIGCONT)
    check_same_winner(submitted, submitted.until_ended(), interruptions=2, interval=4)
    assert resumed(submitted, trial) == [None, newest]
    psutil.wait_procs(processes, 30)
    assert not [one for one in processes if one.is_running()]


def test_training_is_killed_while_it_saves_a_checkpoint(submitted):
    training = submitted.trials()[0]
    directory = Path(training.environ()["THEMIS_CHECKPOINT_DIR"])

    def caught():
        if any(directory.glob("step-*.tmp")):
            training.suspend()
            if any(directory.glob("step-*.tmp")):
                return max(script.complete_checkpoints(directory))
            training.resume()
        return None

    newest = eventually(caught, "a checkpoint is being saved", 30, 0.01)
    training.kill()
    check_same_winner(submitted, submitted.until_ended(), interruptions=1, interval=1)
    assert [None, newest] in [resumed(submitted, trial) for trial in submitted.state().trials]
