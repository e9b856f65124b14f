"""The simulator: whole runs of small workloads, their records, their command."""

import json
from dataclasses import dataclass

import pytest

from tests.html_checks import checked
from yarn_plugin import console
from yarn_plugin.cli import cli
from yarn_plugin.decide.arbiter import BUILT_IN
from yarn_plugin.decide.commands import TellShare
from yarn_plugin.decide.events import ContainersSignalled, JobsDeclared, LeavesSeen, Solved, TimerFired
from yarn_plugin.decide.pools.commands import Solve
from yarn_plugin.decide.pools.controller import Kind, Registry
from yarn_plugin.decide.pools.inputs import Outcome, Started
from yarn_plugin.drive.replay import rerun_records
from yarn_plugin.drive.simulator import Simulation
from yarn_plugin.drive.virtual_time import UncompactedJournal
from yarn_plugin.errors import BadInputError
from yarn_plugin.model.resources import Resources
from yarn_plugin.simulation import workload
from yarn_plugin.simulation.batch import KIND
from yarn_plugin.simulation.cluster import ClusterFile

BATCH = {"kind": "batch", "core_seconds": 400, "max_cores": 16, "vcores": 1, "memory_mb": 1024}


def cluster(**more):
    pool = {"name": "sql", "queue": "root.sql", "grace_s": 5, "preempt_after_s": 5}
    return ClusterFile.model_validate(
        {"nodes": [{"count": 2, "memory_mb": 16384, "vcores": 9}], "pools": [pool], **more}
    )


def submissions(tmp_path, *applications):
    rows = [{**BATCH, **one} for one in applications]
    names = list(dict.fromkeys(name for row in rows for name in row))
    lines = [",".join(names), *(",".join(str(row.get(name, "")) for name in names) for row in rows)]
    file = tmp_path / "workload.csv"
    file.write_text("\n".join(lines))
    return workload.load(file, {"batch": KIND}, seed=0)


def run(tmp_path, *applications, **more):
    """The outcome of a workload, and every input that was decided on."""
    taken = []
    made = Simulation(cluster(**more), submissions(tmp_path, *applications), on_decision=taken.append)
    return made.run(), taken


def test_an_application_alone_ends_when_its_work_is_done(tmp_path):
    outcome, _ = run(tmp_path, {"arrival_s": 10})
    (one,) = outcome.jobs
    # A second to submit, one to the next heartbeat for the master, one for its containers.
    assert one.started_at == pytest.approx(12.0)
    assert one.ended_at == pytest.approx(13.0 + 400 / 16)
    assert one.alone_s == 400 / 16


def test_two_applications_share_once_the_second_is_notified(tmp_path):
    outcome, _ = run(tmp_path, {}, {"arrival_s": 5})
    first, second = outcome.jobs
    assert first.completion_s > 400 / 16 + 3
    assert second.completion_s > 400 / 16 + 3
    assert outcome.containers_signalled == 0


@pytest.mark.parametrize(("policy", "each"), [(None, [1 / 6] * 3 + [1 / 2]), ("max_min", [1 / 4] * 4)])
def test_a_user_with_several_applications_has_one_share(tmp_path, policy, each):
    """By default; under both policies the journal is decided alike again."""
    rows = [{"name": f"a{number}", "user": "ann"} for number in range(3)] + [{"name": "b", "user": "bob"}]
    journal, taken = UncompactedJournal(), []
    Simulation(cluster(), submissions(tmp_path, *rows), policy, journal=journal, on_decision=taken.append).run()
    told = [one for decided in taken for one in decided.commands if isinstance(one, TellShare)]
    # Until the first of the four ends; bob's does not change while ann's arrive.
    until_full = told[: max(place for place, one in enumerate(told) if one.share.apps == 4) + 1]
    shares = {one.app: one.share.grant.guarantee_fraction for one in until_full}
    assert sorted(shares.values()) == pytest.approx(each)
    assert rerun_records(list(journal.read())).first_difference() is None


def test_an_application_that_ignores_its_share_loses_containers(tmp_path):
    outcome, taken = run(tmp_path, {"respects_share": False, "core_seconds": 2000}, {"arrival_s": 20})
    assert outcome.containers_signalled > 0
    assert any(isinstance(one.event, ContainersSignalled) for one in taken)
    assert outcome.jobs[0].figures["containers_lost"] > 0
    assert len(outcome.ended) == 2


def test_a_lost_node_takes_its_containers_and_returns(tmp_path):
    failures = [{"at_s": 10, "node": 1, "duration_s": 20}]
    whole, _ = run(tmp_path, {})
    outcome, _ = run(tmp_path, {}, failures=failures)
    assert outcome.jobs[0].figures["containers_lost"] > 0
    assert outcome.jobs[0].completion_s > whole.jobs[0].completion_s


def test_a_manager_that_loses_its_weights_is_given_them_again(tmp_path):
    absence = [{"at_s": 20, "duration_s": 10, "preserve_weights": False}]
    long = {"core_seconds": 3000}
    outcome, taken = run(tmp_path, long, {**long, "arrival_s": 2}, manager_failures=absence)
    seen = [one.event.weights for one in taken if isinstance(one.event, LeavesSeen) and one.at > 30]
    assert seen[0] == ()
    assert len(seen[1]) == 2
    assert len(outcome.ended) == 2


def test_an_unregistered_application_gets_no_notification_and_still_ends(tmp_path):
    outcome, _ = run(tmp_path, {"registers": False})
    (one,) = outcome.jobs
    assert one.completion_s == pytest.approx(28.0), "it holds all that it can use, whatever its share is"


def test_jobs_are_declared_at_registration_and_count_together(tmp_path):
    """A job of 3 vcores and one of 4: their application is entitled to 7."""
    file = tmp_path / "work.toml"
    file.write_text(
        """
        [[applications]]
        kind = "batch"
        core_seconds = 60
        max_cores = 16
        memory_mb = 1024
        user = "ann"
        [[applications.jobs]]
        name = "a"
        alternatives = [{ resources = { vcores = 3 }, speed = 1.5 }]
        [[applications.jobs]]
        name = "b"
        virtual_cluster = "ann/b"
        alternatives = [{ resources = { vcores = 4 } }]
        """
    )
    taken = []
    made = Simulation(cluster(), workload.load(file, {"batch": KIND}, 0), on_decision=taken.append)
    made.run()
    (declared,) = [one.event for one in taken if isinstance(one.event, JobsDeclared)]
    assert [(job.name, job.tenant, job.virtual_cluster) for job in declared.jobs] == [
        ("a", "ann", ""),
        ("b", "ann", "ann/b"),
    ]
    shares = [command.share for one in taken for command in one.commands if isinstance(command, TellShare)]
    assert shares[-1].grant.entitlement == Resources.of({"vcores": 7})


def test_what_can_never_fit_is_refused(tmp_path):
    with pytest.raises(BadInputError, match="node"):
        run(tmp_path, {"vcores": 10})


def test_an_unknown_pool_is_refused(tmp_path):
    with pytest.raises(BadInputError, match="'gpu': must be sql"):
        run(tmp_path, {"pool": "gpu"})


LIVELY = (
    {"respects_share": False, "core_seconds": 3000},
    {"arrival_s": 15},
    {"arrival_s": 20, "weight": 2},
    {"arrival_s": 31},
)


def journal_of(tmp_path, *applications):
    journal = UncompactedJournal()
    failures = [{"at_s": 40, "node": 2, "duration_s": 10}]
    Simulation(cluster(failures=failures), submissions(tmp_path, *applications), journal=journal).run()
    return journal


def test_the_same_files_and_seed_give_the_same_records_byte_for_byte(tmp_path):
    assert journal_of(tmp_path, *LIVELY).content() == journal_of(tmp_path, *LIVELY).content()


def test_another_workload_gives_other_records(tmp_path):
    assert journal_of(tmp_path, *LIVELY).content() != journal_of(tmp_path, *LIVELY[:3]).content()


def test_a_simulated_journal_is_reproduced_from_its_inputs(tmp_path):
    records = list(journal_of(tmp_path, *LIVELY).read())
    again = rerun_records(records)
    assert again.first_difference() is None
    assert again.timers > 3
    assert any(one.get("event", {}).get("type") == TimerFired.__name__ for one in records)


def test_one_altered_input_changes_the_decisions(tmp_path):
    records = list(journal_of(tmp_path, *LIVELY).read())
    place = next(n for n, one in enumerate(records) if one.get("event", {}).get("type") == "Registered")
    records[place] = {**records[place], "event": {**records[place]["event"], "weight": 7.0}}
    assert rerun_records(records).first_difference() is not None


FILES = {
    "cluster.toml": "[[nodes]]\ncount = 2\nmemory_mb = 16384\nvcores = 9\n",
    "work.toml": '[[applications]]\nkind = "batch"\ncore_seconds = 90\nmax_cores = 8\n',
}


def command(tmp_path, *more, **files):
    for name, text in {**FILES, **files}.items():
        (tmp_path / name).write_text(text)
    base = ["simulate", "--cluster", str(tmp_path / "cluster.toml"), "--workload", str(tmp_path / "work.toml")]
    return console.run(cli, "yarn-plugin", [*base, *more])


@pytest.fixture(autouse=True)
def offered(monkeypatch):
    """Kinds without what happens to be installed."""
    monkeypatch.setattr("yarn_plugin.cli.simulate.installed_kinds", lambda: {"batch": KIND})


def test_the_command_writes_figures_a_page_and_a_journal(tmp_path, capsys):
    files = [tmp_path / name for name in ("figures.json", "page.html", "journal")]
    options = zip(("--json", "--report", "--journal"), map(str, files), strict=True)
    assert command(tmp_path, *(word for pair in options for word in pair)) == 0
    assert "batch" in capsys.readouterr().out
    figures = json.loads(files[0].read_text())
    assert figures["groups"]["batch"]["apps"] == 1
    assert figures["applications"][0]["completion_s"] > 0
    assert "Cluster simulation" in checked(files[1].read_text()).text
    assert console.run(cli, "yarn-plugin", ["replay", str(files[2])]) == 0
    assert capsys.readouterr().err == ""
    assert console.run(cli, "yarn-plugin", ["replay", str(files[2]), "--app", "nobody"]) == 0
    assert "the journal has no decision about 'nobody'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("files", "options", "said"),
    [
        ({"cluster.toml": "[[nodes]]\ncount = 0\nmemory_mb = 1\nvcores = 1"}, [], "nodes #1.count 0: "),
        ({"cluster.toml": FILES["cluster.toml"] + "cores = 1"}, [], "nodes #1.cores: unknown key"),
        ({"cluster.toml": "nodes"}, [], "not TOML"),
        ({"work.toml": ""}, [], "no applications"),
        ({"work.toml": FILES["work.toml"].replace("90", "-1")}, [], "core_seconds -1: "),
        ({"work.toml": FILES["work.toml"].replace('"batch"', '"fancy"')}, [], "'fancy': must be batch"),
        ({"work.toml": FILES["work.toml"] + "wages = 1"}, [], "wages: unknown key"),
        ({"work.toml": FILES["work.toml"].replace("90", '{ distribution = "even" }')}, [], "lognormal"),
        ({}, ["--policy", "lottery"], "lottery"),
        ({}, ["--workload", "nowhere.toml"], "no such file"),
    ],
)
def test_wrong_input_is_a_one_line_error(tmp_path, capsys, files, options, said):
    assert command(tmp_path, *options, **files) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line


def test_an_application_that_never_gets_its_resources_does_not_block_the_end(tmp_path):
    """The only node has no room for a container next to the master."""
    node = [{"count": 1, "memory_mb": 16384, "vcores": 9}]
    outcome, _ = run(tmp_path, {"vcores": 9, "max_cores": 18}, nodes=node)
    assert outcome.jobs[0].started_at is not None
    assert not outcome.ended


@dataclass(frozen=True, slots=True)
class Puzzle:
    """A problem to solve and, as a state, whether a solve was requested."""

    answers: tuple = ()


class Puzzled:
    """A controller that has a puzzle solved as it starts, and keeps what becomes of it."""

    reads = frozenset()

    def initial_state(self):
        return Puzzle()

    def report(self, state):
        return None

    def advance(self, state, view, at, what):
        if isinstance(what, Outcome):
            return Puzzle((*state.answers, what.kind, what.error)), ()
        return state, (Solve("sql#1", Puzzle()),) if isinstance(what, Started) else ()


def test_a_problem_on_which_its_solver_raises_has_failed_as_it_would_live(tmp_path):
    def solve(puzzle):
        raise OverflowError("no answer")

    kind = Kind("puzzled", lambda pool, registry: Puzzled(), {"puzzle/1": Puzzle}, solvers={"puzzle/1": solve})
    registry = Registry({**BUILT_IN.kinds, "puzzled": kind}, BUILT_IN.policies)
    pool = {"name": "sql", "queue": "root.sql", "controller": "puzzled"}
    described = {"nodes": [{"count": 1, "memory_mb": 16384, "vcores": 9}], "pools": [pool]}
    taken = []
    made = Simulation(
        ClusterFile.model_validate(described, context={"registry": registry}),
        submissions(tmp_path, {"max_cores": 1, "core_seconds": 5}),
        registry=registry,
        on_decision=taken.append,
    )
    made.run()
    (solved,) = [one.event for one in taken if isinstance(one.event, Solved)]
    assert (solved.kind, solved.error) == ("failed", "OverflowError: no answer")
