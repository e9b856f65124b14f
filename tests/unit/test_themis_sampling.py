"""Parameters of trials, and the mirror of a search in an Optuna study."""

import logging
import threading

import optuna
import pytest

from themis_agent import optuna_study
from themis_agent.agent import events
from themis_agent.agent.step import step
from themis_agent.app_file import read
from themis_agent.optuna_study import StudyMirror
from themis_agent.sampling import sample

APP = {
    "name": "s",
    "command": "x",
    "algorithm": "plain",
    "trials": 20,
    "max_steps": 2,
    "seed": 5,
    "space": {
        "momentum": {"type": "float", "low": 0, "high": 1, "when": {"optimizer": "sgd"}},
        "optimizer": {"type": "categorical", "choices": ["sgd", "adam"]},
        "rate": {"type": "float", "low": 1e-4, "high": 1.0, "log": True},
        "layers": {"type": "int", "low": 1, "high": 4},
    },
}


def app(**changes):
    return read({**APP, **changes}, "app")


def begun(settings):
    state, _ = step(None, 1, 0.0, events.Begun(settings))
    return state


@pytest.mark.parametrize("sampler", ["random", "tpe"])
def test_parameters_lie_in_the_space_and_follow_from_seed_and_number(sampler):
    file = app(sampler=sampler)
    state = begun(file.settings())
    drawn = [sample(file, number, state) for number in range(20)]
    assert drawn == [sample(file, number, state) for number in range(20)]
    assert drawn != [sample(app(seed=6, sampler=sampler), number, state) for number in range(20)]
    assert len({one["rate"] for one in drawn}) == 20
    assert {one["optimizer"] for one in drawn} == {"sgd", "adam"}
    for one in drawn:
        assert ("momentum" in one) == (one["optimizer"] == "sgd")
        assert 1e-4 <= one["rate"] <= 1.0
        assert one["layers"] in range(1, 5)


def test_enqueued_parameters_come_first_and_the_rest_is_drawn():
    file = app(enqueue=[{"rate": 0.5, "optimizer": "adam"}])
    state = begun(file.settings())
    first = sample(file, 0, state)
    assert (first["rate"], first["optimizer"]) == (0.5, "adam")
    assert first["layers"] in range(1, 5)
    assert sample(file, 1, state)["rate"] != 0.5


class Search:
    """A search with one GPU whose decisions a mirror follows."""

    def __init__(self, file, mirror):
        self.state, self.mirror, self.seq = None, mirror, 0
        self.take(events.Begun(file.settings()))
        self.take(events.Granted("l", (events.Gpu("m/0", "m", "m", ""),)))

    def take(self, event):
        self.seq += 1
        self.state, _ = step(self.state, self.seq, 0.0, event)
        if self.mirror:
            self.mirror.take(event, self.state)

    def train(self, trial, metrics):
        self.take(events.Sampled(trial, '{"rate": 0.5, "optimizer": "adam", "layers": 2}'))
        for number, metric in enumerate(metrics, 1):
            self.take(events.Reported(trial, 1, number, metric))
        self.take(events.LauncherEnded(trial, 1, 0))


def test_a_storage_that_is_away_delays_the_mirror_and_loses_nothing(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(optuna_study, "RETRY_S", 0.05)
    storage = f"sqlite:///{tmp_path}/away/study.db"
    file = app(trials=2)
    mirror = StudyMirror(storage, file, "first")
    with caplog.at_level(logging.WARNING):
        search = Search(file, mirror)
        search.train("trial-00000", [0.5, 0.25])
        while not caplog.records:
            threading.Event().wait(0.02)
        (tmp_path / "away").mkdir()
        search.train("trial-00001", [float("nan")])
        assert mirror.close(30.0)
    assert "the search goes on, and is written there later" in caplog.text
    study = optuna.load_study(study_name="s", storage=storage)
    complete, failed = study.trials
    assert (complete.state.name, complete.value, complete.intermediate_values) == ("COMPLETE", 0.25, {1: 0.5, 2: 0.25})
    assert failed.state.name == "FAIL"
    assert failed.user_attrs["error"] == "step 1: the metric is not a finite number"
    again = StudyMirror(storage, file, "first")
    again.take(events.TimerFired(), search.state)
    assert again.close(30.0)
    assert len(study.get_trials()) == 2
    other = StudyMirror(storage, file, "second")
    Search(file, other).train("trial-00000", [0.125])
    assert other.close(30.0)
    found = [(one.user_attrs["themis_search"], one.value) for one in study.get_trials()]
    assert found[:2] == [("first", 0.25), ("first", None)]
    assert ("second", 0.125) in found[2:]
