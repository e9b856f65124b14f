"""Population-based training: who gives way to whom, and how the agent makes a variant of a trial."""

from tests.agent_world import FIRST, SECOND, Search
from themis_agent import parameter_draws
from themis_agent.agent import events
from themis_agent.agent.commands import SampleTrial, StartTrial, StopTrial
from themis_agent.agent.settings import Settings
from themis_agent.app_file import read
from themis_agent.search import Decision, Failed, Report, Trial, generations, population, replaced_of
from themis_agent.trial.checkpoints import Checkpoints
from themis_agent.trial.store import FileStore
from themis_agent.validation import plan

TRIALS = [Trial(f"t{number}", 1.0, 30.0) for number in range(12)]


def of_four(quantile=0.25, max_iterations=30):
    return population(TRIALS, 4, max_iterations, 10, quantile)


def after(search, iteration, **losses):
    """The search after reports, and all that it decided."""
    decided = []
    for trial, loss in losses.items():
        search, decisions = search.take(Report(trial, iteration, loss))
        decided += decisions
    return search, decided


def test_the_worst_trial_gives_way_to_a_new_one_from_the_best():
    search, decided = after(of_four(), 10, t0=0.3, t1=0.9, t2=0.1, t3=0.5)
    assert decided == [
        *(Decision(trial, "promote", 20) for trial in ("t2", "t0", "t3")),
        Decision("t1", "stop"),
        Decision("t4", "begin", 20, parent="t2"),
    ]
    assert sorted(one.trial.id for one in search.trials) == ["t0", "t2", "t3", "t4"]
    assert {job.id: job.iterations_left for job in search.work().jobs}["t4"] == 10, "it begins where its parent is"


def test_a_larger_part_is_replaced_from_as_many_of_the_best():
    _, decided = after(of_four(quantile=0.5), 10, t0=0.3, t1=0.9, t2=0.1, t3=0.5)
    assert [(one.trial, one.parent) for one in decided if one.kind == "begin"] == [("t4", "t2"), ("t5", "t0")]


def test_nothing_is_decided_before_the_whole_generation_is_there():
    search, decided = after(of_four(), 10, t0=0.3, t1=0.9, t2=0.1)
    assert decided == []
    search, decided = search.take(Failed("t3"))
    assert decided[-1] == Decision("t4", "begin", 20, parent="t2")
    assert len(search.trials) == 3, "a trial that failed is not replaced"


def test_the_last_generation_is_complete_and_ends_the_search():
    search, decided = after(of_four(max_iterations=10), 10, t0=0.3, t1=0.9, t2=0.1, t3=0.5)
    assert {one.kind for one in decided} == {"complete"}
    assert search.ended


def test_what_diverged_is_no_parent():
    search, decided = after(of_four(quantile=0.5), 10, t0=float("nan"), t1=float("nan"), t2=0.1, t3=float("nan"))
    assert [(one.trial, one.parent) for one in decided if one.kind == "begin"] == [("t4", "t2")]
    assert len(search.trials) == 4


def test_the_work_has_a_phase_for_each_generation_to_come():
    work = of_four(max_iterations=25).work()
    assert [(phase.jobs, phase.iterations) for phase in work.brackets[0].phases] == [(4, 10), (4, 5)]
    assert (generations(25, 10), replaced_of(4, 0.25), replaced_of(2, 0.1), replaced_of(3, 0.5)) == (3, 1, 1, 1)


TWO = Settings("population", trials=2, max_steps=6, ready_steps=3, quantile=0.5, grace_s=10.0)
CHILD = "trial-00002"


def starts(said):
    return [(one.trial, one.parent) for one in said if isinstance(one, StartTrial)]


def stops(said):
    return [(one.trial, one.reason) for one in said if isinstance(one, StopTrial)]


def test_a_variant_begins_where_its_parent_stopped_and_the_parent_goes_on_when_it_has_begun():
    search = Search(TWO)
    assert stops(search.report(SECOND, 3, 0.9)) == [(SECOND, "paused")]
    assert stops(search.report(FIRST, 3, 0.1)) == [(FIRST, "paused")], "its checkpoint is that of this step"
    assert starts(search.end(SECOND)) == []
    search.take(events.Checkpointed(FIRST, 1, 3.0))
    said = search.end(FIRST)
    assert SampleTrial(CHILD, 2, parent=FIRST) in said
    assert starts(said) == [(CHILD, FIRST)]
    child = search.state.trials[CHILD]
    assert (child.step, child.until) == (3, 6)
    assert starts(search.take(events.LauncherStarted(CHILD, 1, "m1"))) == [(FIRST, "")]
    search.report(CHILD, 6, 0.05)
    search.end(CHILD)
    search.report(FIRST, 6, 0.08)
    search.end(FIRST)
    assert search.state.finished
    assert search.state.best.id == CHILD


def test_a_variant_that_dies_before_it_has_begun_keeps_its_parent_at_rest():
    search = Search(TWO)
    for trial, loss in ((SECOND, 0.9), (FIRST, 0.1)):
        search.report(trial, 3, loss)
    search.end(SECOND)
    search.end(FIRST)
    assert starts(search.end(CHILD, None)) == [(CHILD, FIRST)]
    search.take(events.LauncherStarted(CHILD, 2, "m1"))
    assert starts(search.end(CHILD, None)) == [(CHILD, FIRST)]


APP = {
    "name": "p",
    "command": "python train.py --rate={rate} --width={width} --kind={kind}",
    "algorithm": "population",
    "trials": 4,
    "max_steps": 25,
    "space": {
        "rate": {"type": "float", "low": 0.1, "high": 1.0},
        "width": {"type": "int", "low": 1, "high": 8},
        "kind": {"type": "categorical", "choices": ["a", "b"]},
    },
    "population": {"ready_steps": 10, "perturbation": 2.0, "resample": 0.0},
}
PARENT = {"rate": 0.4, "width": 1, "kind": "b"}


def test_a_variant_has_the_numbers_of_its_parent_perturbed_within_their_ranges():
    app = read(APP, "app")
    found = [parameter_draws.perturbed(app, number, PARENT) for number in range(40)]
    assert {one["rate"] for one in found} == {0.2, 0.8}
    assert {one["width"] for one in found} == {1, 2}
    assert {one["kind"] for one in found} == {"b"}
    assert found == [parameter_draws.perturbed(app, number, PARENT) for number in range(40)], (
        "a restarted agent draws the same"
    )


def test_a_variant_may_be_drawn_anew():
    app = read({**APP, "population": {"resample": 1.0}}, "app")
    found = [parameter_draws.perturbed(app, number, PARENT) for number in range(40)]
    assert len({one["rate"] for one in found}) > 30
    assert {one["kind"] for one in found} == {"a", "b"}


def test_a_variant_has_the_parameters_whose_conditions_hold():
    space = {**APP["space"], "decay": {"type": "float", "low": 0.0, "high": 1.0, "when": {"kind": "a"}}}
    app = read({**APP, "space": space, "population": {"resample": 0.5}}, "app")
    for number in range(40):
        found = parameter_draws.perturbed(app, number, PARENT)
        assert ("decay" in found) == (found["kind"] == "a")


def test_a_plan_has_a_rung_for_each_generation():
    app = read(APP, "app")
    assert [(one.until, one.trials, one.steps) for one in plan(app)] == [(10, 4, 40), (20, 4, 40), (25, 4, 20)]
    assert read({**APP, "population": {}}, "app").ready_steps == 3, "a tenth of max_steps"


def test_a_trial_begins_at_the_newest_checkpoint_of_its_parent_and_goes_on_from_its_own(tmp_path):
    store, local = FileStore(tmp_path / "store"), tmp_path / "local"
    (tmp_path / "store").mkdir()
    assert Checkpoints(store, "t2", 1, 2, parent="t0").begin(local) is None

    def saved(checkpoints, step, text):
        (tmp_path / text).mkdir()
        (tmp_path / text / "state").write_text(text)
        checkpoints.commit(step, tmp_path / text)

    parent = Checkpoints(store, "t0", 1, 2)
    parent.begin(local)
    saved(parent, 5, "parent")
    child = Checkpoints(store, "t1", 1, 2, parent="t0")
    assert child.begin(local).step == 5
    assert (local / "step-5" / "state").read_text() == "parent"
    assert Checkpoints(store, "t1", 1, 2, parent="t0").join(tmp_path / "other")[1].step == 5
    saved(parent, 7, "later")
    assert Checkpoints(store, "t1", 2, 2, parent="t0").begin(local).step == 5, "it has a copy of its own"
    later = Checkpoints(store, "t1", 3, 2, parent="t0")
    later.begin(local)
    saved(later, 6, "child")
    assert Checkpoints(store, "t1", 4, 2, parent="t0").begin(local).step == 6
