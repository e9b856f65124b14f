"""`qoop status`: what it shows of queries that run, have ended, or were killed."""

import json

import platformdirs
import pytest

from qoop.cli import cli
from qoop.options import Options
from qoop.replan.events import Planned, ShareChanged
from qoop.replan.state import QueryCounts
from qoop.run.query_run import Outcome
from qoop.run.query_status import MAX_QUERIES, StatusFile, kept_status, read_statuses
from yarn_plugin import console


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setattr(platformdirs, "user_state_dir", lambda name: str(tmp_path / name))
    return tmp_path / "qoop" / "queries-1"


class Clock:
    def __init__(self, now=1_700_000_000.0):
        self.now = now

    def __call__(self):
        self.now += 1.0
        return self.now


DONE = Outcome(QueryCounts(stages=3, switches=1), 2, 4.0, None, ())


def status(*words):
    return console.run(cli, "qoop", ["status", *words])


def test_nothing_was_run_yet(place, capsys):
    assert status() == 0
    assert capsys.readouterr().out == "no queries yet; qoop submit runs one\n"


def test_running_queries_come_first_with_why_they_have_their_share(place, capsys):
    clock = Clock()
    running = StatusFile("first", "SELECT 1", clock)
    running.show(Planned(12, 3))
    running.show(ShareChanged(4.0, 2, "app_17 arrived", 1.0))
    StatusFile("second", "SELECT  2", clock).done(DONE)
    StatusFile("third", "SELECT 3", clock).failed("no memory")
    figures = place.parent / "found.json"
    assert status("--json", str(figures)) == 0
    shown = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in shown[1:4]] == ["first", "third", "second"]
    assert "4 slots" in shown[1]
    assert "first: app_17 arrived" in shown
    found = json.loads(figures.read_text())["queries"]
    assert [one["state"] for one in found] == ["running", "failed", "done"]
    assert (found[2]["stages"], found[2]["switches"], found[2]["text"]) == (3, 1, "SELECT 2")


def test_a_query_whose_process_has_vanished_was_killed(place):
    StatusFile("first", "SELECT 1")
    [file] = place.glob("*.json")
    file.write_text(file.read_text().replace('"process_began":', '"process_began":1'))
    assert [one.state for one in read_statuses()] == ["killed"]


@pytest.mark.parametrize(
    ("code", "goes_on", "state"), [(0, False, "done"), (0, True, "submitted"), (143, True, "submitted")]
)
def test_a_query_in_the_cluster_may_outlive_what_submitted_it(place, code, goes_on, state):
    with kept_status("SELECT 1", "nightly", in_cluster=True) as status:
        status.left(code, goes_on)
    assert [(one.name, one.state) for one in read_statuses()] == [("nightly", state)]


def test_nobody_knows_how_a_query_in_the_cluster_ended_whose_submission_was_killed(place):
    StatusFile("nightly", "SELECT 1", in_cluster=True)
    [file] = place.glob("*.json")
    file.write_text(file.read_text().replace('"process_began":', '"process_began":1'))
    assert [one.state for one in read_statuses()] == ["submitted"]


def test_queries_of_one_process_that_begin_at_once_are_told_apart(place):
    clock = lambda: 1_700_000_000.0  # noqa: E731 - two begin in the same instant
    StatusFile("shell", "SELECT 1", clock).done(DONE)
    StatusFile("shell", "SELECT 2", clock).done(DONE)
    assert sorted(one.text for one in read_statuses()) == ["SELECT 1", "SELECT 2"]


def test_a_statement_of_a_script_is_shown_while_it_runs_and_after(place):
    told = []
    with kept_status("SELECT  1") as status:
        options = status.watched(Options(watch=told.append))
        options.watch(Planned(12, 3))
        assert [(one.name, one.state, one.plans) for one in read_statuses()] == [("SELECT 1", "running", 12)]
        status.done(DONE)
    assert [one.state for one in read_statuses()] == ["done"]
    assert told == [Planned(12, 3)]


@pytest.mark.parametrize(
    ("problem", "shown"), [(ValueError("no memory"), "no memory"), (KeyboardInterrupt(), "stopped by")]
)
def test_a_statement_that_fails_is_shown_with_the_reason(place, problem, shown):
    with pytest.raises(type(problem)), kept_status("SELECT  1"):
        raise problem
    [known] = read_statuses()
    assert known.state == "failed"
    assert shown in known.error


def test_spoilt_files_are_left_out_and_old_ones_deleted(place):
    clock = Clock()
    for number in range(MAX_QUERIES + 5):
        StatusFile(f"query {number}", "SELECT 1", clock).done(DONE)
    (place / "spoilt.json").write_text("{")
    assert MAX_QUERIES - 5 <= len(read_statuses()) <= MAX_QUERIES
    assert (place.stat().st_mode & 0o777) == 0o700


def test_progress_is_by_the_latest_estimate(place):
    clock = Clock()
    StatusFile("first", "SELECT 1", clock)
    [known] = read_statuses()
    assert known.progress(known.started) is None
    known.remaining_s, known.estimated_at = 30.0, known.started + 10.0
    assert known.progress(known.started + 10.0) == pytest.approx(0.25)
    assert known.progress(known.started + 20.0) == pytest.approx(0.5)
    assert known.progress(known.started + 1000.0) <= 0.99
