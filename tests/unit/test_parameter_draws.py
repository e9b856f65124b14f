"""Parameters of trials, and the mirror of a search in an Optuna study."""

import logging
import threading

import optuna
import pytest

from tests.sampled import one_in
from themis_agent import optuna_study, warm_start
from themis_agent.agent import events
from themis_agent.agent.step import step
from themis_agent.app_file import read
from themis_agent.local.folder import Folder
from themis_agent.optuna_study import StudyMirror
from themis_agent.parameter_draws import parameters_of
from themis_agent.warm_start import Earlier
from yarn_plugin.errors import BadInputError

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


def drawn(number, earlier=(), **changes):
    search = app(**changes)
    return [parameters_of(search, one, begun(search.settings()), earlier) for one in range(number)]


def test_a_grid_has_every_combination_once():
    space = {
        "optimizer": {"type": "categorical", "choices": ["sgd", "adam"]},
        "momentum": {"type": "categorical", "choices": [0.0, 0.9], "when": {"optimizer": "sgd"}},
        "layers": {"type": "int", "low": 1, "high": 2},
    }
    assert app(sampler="grid", space=space, trials=None).trial_count == 6
    found = drawn(6, sampler="grid", space=space, trials=None)
    assert len({str(one) for one in found}) == 6
    assert all(("momentum" in one) == (one["optimizer"] == "sgd") for one in found)


def test_a_quasi_random_sequence_goes_on_after_a_restart():
    space = {"x": {"type": "float", "low": 0, "high": 1}, "y": {"type": "float", "low": 0, "high": 1}}
    sobol = {"sampler": "qmc", "sampler_options": {"qmc_type": "sobol"}, "space": space}
    found = drawn(9, **sobol)
    # After the first, which is drawn alone, eight points of the sequence: one in each eighth.
    assert sorted(int(8 * one["x"]) for one in found[1:]) == list(range(8))
    assert drawn(3, **sobol) == found[:3]


def test_a_warm_start_begins_with_the_best_and_teaches_the_sampler():
    space = {"x": {"type": "float", "low": 0, "high": 1}}
    earlier = [Earlier({"x": number / 20}, abs(number / 20 - 0.3)) for number in range(20)]
    warm = drawn(8, earlier, sampler="tpe", sampler_options={"n_startup_trials": 5}, space=space)
    assert warm[0] == {"x": 0.3}
    assert sum(abs(one["x"] - 0.3) for one in warm[1:]) / 7 < 0.2
    assert drawn(2, earlier, space=space)[0] == {"x": 0.3}
    assert drawn(1, earlier, space=space, direction="maximize")[0] == {"x": 0.95}


def test_a_warm_start_reads_a_study_and_says_what_it_cannot_use(tmp_path):
    url = f"sqlite:///{tmp_path}/studies.db"
    study = optuna.create_study(storage=url, study_name="old")
    for x in (0.1, 0.7):
        trial = study.ask()
        study.tell(trial, (trial.suggest_float("x", x, x) - 0.5) ** 2)
    space = {"x": {"type": "float", "low": 0, "high": 1}}

    def read_from(source, **changes):
        return warm_start.read(app(**{"space": space, "warm_start": [source], **changes}), tmp_path)

    assert [one.parameters for one in read_from(f"{url}#old")] == [{"x": 0.1}, {"x": 0.7}]
    folder = Folder(tmp_path / "new.themis")
    warm_start.keep(folder, read_from(f"{url}#old"))
    assert warm_start.kept(folder) == read_from(f"{url}#old")
    wrong = {
        f"{url}#new": "the storage has no study 'new'",
        "nowhere": "holds no search; give its directory, or URL#STUDY of Optuna",
    }
    for source, problem in wrong.items():
        with pytest.raises(BadInputError, match=problem):
            read_from(source)
    with pytest.raises(BadInputError, match="its study minimizes, and this search maximizes"):
        read_from(f"{url}#old", direction="maximize")
    with pytest.raises(BadInputError, match="has 2 trials with a metric, none of them within"):
        read_from(f"{url}#old", space=APP["space"])


def begun(settings):
    state, _ = step(None, 1, 0.0, events.Begun(settings))
    return state


@pytest.mark.parametrize("sampler", ["random", "tpe"])
def test_parameters_lie_in_the_space_and_follow_from_seed_and_number(sampler):
    file = app(sampler=sampler)
    state = begun(file.settings())
    drawn = [parameters_of(file, number, state) for number in range(20)]
    assert drawn == [parameters_of(file, number, state) for number in range(20)]
    assert drawn != [parameters_of(app(seed=6, sampler=sampler), number, state) for number in range(20)]
    assert len({one["rate"] for one in drawn}) == 20
    assert {one["optimizer"] for one in drawn} == {"sgd", "adam"}
    for one in drawn:
        assert ("momentum" in one) == (one["optimizer"] == "sgd")
        assert 1e-4 <= one["rate"] <= 1.0
        assert one["layers"] in range(1, 5)


def test_enqueued_parameters_come_first_and_the_rest_is_drawn():
    file = app(enqueue=[{"rate": 0.5, "optimizer": "adam"}])
    state = begun(file.settings())
    first = parameters_of(file, 0, state)
    assert (first["rate"], first["optimizer"]) == (0.5, "adam")
    assert first["layers"] in range(1, 5)
    assert parameters_of(file, 1, state)["rate"] != 0.5


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
    assert "the search goes on; writing is tried again until it ends" in caplog.text
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


def mirrored(storage, file, search, metrics=(0.5,)):
    """The study that a search of one trial is written into."""
    mirror, run = StudyMirror(storage, file, search), Search(file, None)
    run.train("trial-00000", metrics)
    # A search that is resumed is mirrored as it is now: its trial, which has ended, does not begin again.
    mirror.take(events.LauncherEnded("trial-00000", 1, 0), run.state)
    assert mirror.close(30.0)
    return mirror.study_name


def complete(study):
    """The trials that have ended; the next one may have begun before the mirror was closed."""
    return study.get_trials(states=[optuna.trial.TrialState.COMPLETE])


OTHERS = {
    "direction": {"direction": "maximize"},
    "choices": {"space": {**APP["space"], "optimizer": {"type": "categorical", "choices": ["adam", "sgd", "lion"]}}},
    "bounds": {"space": {**APP["space"], "layers": {"type": "int", "low": 1, "high": 5}}},
    "scale": {"space": {**APP["space"], "rate": {"type": "float", "low": 1e-4, "high": 1.0}}},
    "type": {"space": {**APP["space"], "layers": {"type": "float", "low": 1, "high": 4}}},
}


@one_in(2, "other", OTHERS)
def test_a_search_of_another_kind_has_a_study_of_its_own(tmp_path, caplog, other):
    storage = f"sqlite:///{tmp_path}/study.db"
    first, changed = app(trials=2), app(trials=2, **OTHERS[other])
    assert mirrored(storage, first, "first") == "s"
    with caplog.at_level(logging.WARNING):
        assert mirrored(storage, changed, "second") == "s-2"
    assert "storage: written into the study s-2, as that called s has another " in caplog.text
    assert mirrored(storage, first, "third") == "s"
    assert mirrored(storage, changed, "fourth") == "s-2"
    studies = {name: optuna.load_study(study_name=name, storage=storage) for name in ("s", "s-2")}
    assert studies["s-2"].direction.name.lower() == changed.direction
    assert {name: len(complete(study)) for name, study in studies.items()} == {"s": 2, "s-2": 2}


def test_a_search_goes_on_in_its_own_study_when_it_is_resumed(tmp_path):
    storage, changed = f"sqlite:///{tmp_path}/study.db", app(trials=2, direction="maximize")
    mirrored(storage, app(trials=2), "first")
    mirrored(storage, changed, "second", [0.5])
    assert mirrored(storage, changed, "second", [0.5]) == "s-2"
    assert len(complete(optuna.load_study(study_name="s-2", storage=storage))) == 1


def test_a_failed_trial_that_is_tried_again_is_another_one_of_the_study(tmp_path):
    storage, file = f"sqlite:///{tmp_path}/study.db", app(trials=1, retries=0)
    mirror = StudyMirror(storage, file, "first")
    search = Search(file, mirror)
    search.take(events.Sampled("trial-00000", '{"rate": 0.5, "optimizer": "adam", "layers": 2}'))
    search.take(events.LauncherEnded("trial-00000", 1, 1, ("no data",)))
    assert mirror.close(30.0)
    mirror = StudyMirror(storage, file, "first")
    search.mirror = mirror
    search.take(events.Restarted(reopens=True, retry_failed=True))
    search.take(events.Reported("trial-00000", 2, 2.0, 0.25))
    search.take(events.LauncherEnded("trial-00000", 2, 0))
    assert mirror.close(30.0)
    found = [(one.state.name, one.value) for one in optuna.load_study(study_name="s", storage=storage).trials]
    assert found == [("FAIL", None), ("COMPLETE", 0.25)]
