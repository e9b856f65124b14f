"""What people see of a search follows from its journal: sentences, page, metrics, also while it grows."""

import json
import math
import re
from pathlib import Path

import pytest
import requests
from fastapi import FastAPI
from prometheus_client.parser import text_string_to_metric_families

from tests.agent_world import gpus
from tests.clock import HandClock
from tests.html_checks import checked
from themis_agent.agent import events
from themis_agent.agent.commands import SampleTrial
from themis_agent.agent.tags import TAGS
from themis_agent.app_file import read
from themis_agent.cli import cli, watching
from themis_agent.live import MACHINE
from themis_agent.local.folder import Folder
from themis_agent.service import listening, serving
from themis_agent.view.answers import AnswerTimes
from themis_agent.view.journal_reader import JournalReader
from themis_agent.view.parameters import importances
from themis_agent.view.routes import RELOAD_S, View, add_view
from themis_agent.view.snapshot import Snapshot
from themis_agent.view.trial_logs import TrialLog
from yarn_plugin import console
from yarn_plugin.journal.durable import Durable
from yarn_plugin.journal.intake import Intake
from yarn_plugin.journal.records import RecordFile
from yarn_plugin.model import gpus as model
from yarn_plugin.model.auction import EstimateRequest, GpuOffer

HOSTILE = "</script><script>alert(1)</script>\x1b[31m & 'quoted'"
TRIALS = tuple(f"trial-{number:05}" for number in range(3))

ROOT = Path(__file__).parents[2]
M1 = (model.Machine("m1", "r1", (model.Slot("m1", 3),)),)


class Told:
    """A search whose journal a test writes, an event at a time."""

    def __init__(self, root, **fields):
        given = {"name": "told", "algorithm": "successive_halving", "trials": 3, "max_steps": 6, **fields}
        self.app = read(
            {"command": "train {rate}", "space": {"rate": {"type": "float", "low": 0, "high": 1}}} | given, ""
        )
        self.folder, self.clock = Folder(root), HandClock()
        self.folder.begin(self.app, root)
        self.records = RecordFile(self.folder.journal)
        self.intake = Intake(MACHINE, Durable(TAGS, self.records), self.clock)
        self.draws = iter(())
        self.take(events.Begun(self.app.settings()))

    def take(self, event, after=1.0):
        self.clock.time += after
        for decided in self.intake.take_in_order(event, self.clock.time):
            for command in decided.commands:
                if isinstance(command, SampleTrial):
                    drawn = next(self.draws, {"rate": 0.5, "kind": HOSTILE})
                    self.take(events.Sampled(command.trial, json.dumps(drawn)), 0.0)

    def report(self, trial, step, metric):
        self.take(events.Reported(trial, self.intake.state.trials[trial].epoch, step, metric))

    def end(self, trial, code=0, **more):
        self.take(events.LauncherEnded(trial, self.intake.state.trials[trial].epoch, code, **more))

    def said(self, trial=""):
        reader = JournalReader(self.folder.journal, self.app.metric)
        reader.advance()
        return [change.text for change in reader.history.of(trial)]

    def view(self, answers=None):
        return View(self.app, self.folder, lambda: self.clock.time, answers)


@pytest.fixture
def told(tmp_path):
    told = Told(tmp_path / "told", retries=1)
    yield told
    told.records.close()


def first_rung(told):
    told.take(events.Granted("lease-1", gpus("m1", 3), told.clock.time + 100))
    for trial, loss in zip(TRIALS, (0.3, 0.1, 0.2), strict=True):
        told.report(trial, 1, 2 * loss)
        told.report(trial, 2, loss)


def test_a_trial_is_pruned_for_a_reason_with_numbers(told):
    first_rung(told)
    assert told.said(TRIALS[0])[-1] == (
        "was pruned at step 2: number 3 of 3 in rung 0 of bracket 0 by loss, 0.3; the best goes on, with 0.1"
    )
    assert told.said(TRIALS[1])[-1].startswith("was promoted to rung 1, until step 6: number 1 of 3")
    assert told.said()[0] == "was granted 3 GPUs (m1/0, m1/1, m1/2) for 99 s"


def test_a_trial_that_passes_several_rungs_at_once_is_pruned_by_the_one_that_decided(tmp_path):
    """Each reports once, beyond the end of its first rung: what decided is the second rung, by the loss there."""
    told = Told(tmp_path / "seldom", trials=9, max_steps=9)
    names = tuple(f"trial-{number:05}" for number in range(9))
    told.take(events.Granted("lease-1", gpus("m1", 9)))
    for number, name in enumerate(names):
        told.report(name, 1, 0.1 + number / 100)
        # They have gone on before they were told to stop.
        told.report(name, 3, 0.5 - number / 100)
    assert told.intake.state.trials[names[0]].fate == "pruned"
    assert told.said(names[0])[-1] == (
        "was pruned at step 3: number 3 of 3 in rung 1 of bracket 0 by loss, 0.5; the best goes on, with 0.48"
    )
    assert told.said(names[2])[-1] == (
        "was promoted to rung 2, until step 9: number 1 of 3 in rung 1 of bracket 0 by loss, 0.48"
    )
    assert told.said(names[3])[-1] == (
        "was pruned at step 1: number 4 of 9 in rung 0 of bracket 0 by loss, 0.13; the best 3 go on, the last of them"
        " with 0.12"
    )
    told.records.close()


def test_a_trial_that_is_tried_again_was_not_promoted(tmp_path):
    """It joins the rung of those that run."""
    told = Told(tmp_path / "one", retries=0)
    told.take(events.Granted("lease-1", gpus("m1", 3), told.clock.time + 100))
    told.report(TRIALS[0], 1, 0.5)
    told.end(TRIALS[0], 1)
    for number, trial in enumerate(TRIALS[1:]):
        told.report(trial, 2, number)
    told.take(events.Suspended())
    told.end(TRIALS[1], None)
    told.take(events.Restarted(reopens=True, retry_failed=True))
    assert told.intake.state.trials[TRIALS[0]].rung == 1
    assert [text for text in told.said(TRIALS[0])[2:] if not text.startswith("started")] == [
        "is tried again, in rung 1, until step 6"
    ]
    told.records.close()


def test_moves_crashes_and_what_is_lost_are_said(tmp_path):
    told = Told(tmp_path / "one", algorithm="plain", trials=1)
    told.take(events.Granted("lease-1", gpus("m1", 1), told.clock.time + 100))
    told.report(TRIALS[0], 1, 0.3)
    told.take(events.CheckpointFailed(TRIALS[0], 1, "the disk is full"))
    told.take(events.Revoked("lease-1", told.clock.time + 30))
    told.end(TRIALS[0], None, killed=True)
    told.take(events.Granted("lease-2", gpus("m2", 1), None))
    told.take(events.Checkpointed(TRIALS[0], 2, 1.0))
    told.end(TRIALS[0], -11, last_lines=("Traceback", "boom"))
    said = told.said(TRIALS[0])
    assert said == [
        "started on 1 GPU (m1/0)",
        "cannot store checkpoints; at risk: all that it trains. the disk is full",
        "was asked to stop within 29 s: its GPUs are no longer held",
        "ignored SIGTERM and was killed after the grace period; step 1 is lost",
        "started again (start 2) on 1 GPU (m2/0), from the beginning",
        "can store checkpoints again; the newest is of step 1",
        "crashed by signal 11, crash 1 of 1 that is allowed",
        "started again (start 3) on 1 GPU (m2/0), from the checkpoint of step 1",
    ]
    assert told.intake.state.trials[TRIALS[0]].lost_steps == 1
    told.records.close()


def test_gpus_that_are_given_back_are_said(tmp_path):
    told = Told(tmp_path / "one", algorithm="plain", trials=1)
    told.take(events.Granted("lease-1", gpus("m1", 2), told.clock.time + 100))
    told.take(events.Revoked("lease-1", told.clock.time + 30, ("m1/1",)))
    told.end(TRIALS[0], None)
    assert told.said()[1:] == [
        "gave back 1 GPU (m1/0): no trial can use them any more",
        "must vacate 1 GPU (m1/1) within 29 s",
        "gave back 1 GPU (m1/1): they are vacated",
    ]
    told.records.close()


def test_leases_of_an_arbiter_that_forgot_the_search_are_held_until_it_is_registered_anew(told):
    told.take(events.Granted("lease-1", gpus("m1", 3), 1000.0))
    told.take(events.ArbiterRefused("arbiter http://a: no such application"))
    said = "as the arbiter does not listen to it: arbiter http://a: no such application; `themis-agent stop"
    assert said in checked(told.view().page()).text
    told.take(events.Restarted((), registered_as="app-2"))
    assert told.said()[1:] == [
        "gets no more GPUs, starts no trials: the arbiter does not listen to it: arbiter http://a: no such application",
        "went on with a new agent; 0 launchers still ran",
        "no longer holds 3 GPUs (m1/0, m1/1, m1/2): the arbiter does not lease them to it any more",
    ]
    assert said not in checked(told.view().page()).text
    # A new arbiter may give a lease the name of an earlier one.
    told.take(events.Granted("lease-1", gpus("m1", 1), 1000.0))
    reader = JournalReader(told.folder.journal, "loss")
    reader.advance()
    assert [(one.cell, one.end is None) for one in reader.history.holdings] == [
        ("m1/0", False),
        ("m1/1", False),
        ("m1/2", False),
        ("m1/0", True),
    ]


def test_a_journal_is_followed_while_it_grows_and_when_it_is_compacted(told):
    reader = JournalReader(told.folder.journal, "loss")
    assert reader.advance()
    assert not reader.advance()
    first_rung(told)
    assert reader.advance()
    whole = reader.history.of(TRIALS[0])
    assert reader.state == told.intake.state
    assert reader.history.curves[TRIALS[1]] == [(1, 0.2), (2, 0.1)]
    told.intake.compact()
    told.report(TRIALS[1], 3, 0.05)
    assert reader.advance()
    assert reader.state == told.intake.state
    assert not reader.history.complete
    assert reader.history.of(TRIALS[0]) == []
    assert whole
    # Curves, runs and GPUs follow from events and commands alone, and from the state where those are gone.
    assert reader.history.curves[TRIALS[1]] == [(1, 0.2), (2, 0.1), (3, 0.05)]
    assert [run.trial for run in reader.history.runs if run.ended is None] == [
        trial.id for trial, _ in told.intake.state.attempts
    ]
    assert {one.cell for one in reader.history.holdings} == {"m1/0", "m1/1", "m1/2"}
    page = checked(told.view().page())
    assert "was compacted" in page.text


def test_a_line_that_is_not_complete_is_read_when_it_is(told):
    reader = JournalReader(told.folder.journal, "loss")
    reader.advance()
    before = told.folder.journal.read_bytes()
    told.take(events.Granted("lease-1", gpus("m1", 3), None))
    whole = told.folder.journal.read_bytes()
    told.folder.journal.write_bytes(whole[: len(before) + 20])
    reader.advance()
    assert not reader.history.holdings
    told.folder.journal.write_bytes(whole)
    reader.advance()
    assert len(reader.history.holdings) == 3


def test_the_page_escapes_what_users_write_and_shows_all_parts(told):
    first_rung(told)
    told.take(events.Asked("ask-1", EstimateRequest(1, 2.0)))
    machines = (*M1, model.Machine("m2", "r1", (model.Slot("m2", 4),)))
    told.take(events.Offered("offer-1", GpuOffer(2, machines, 60.0, 2.0)))
    for _ in range(2):
        told.end(TRIALS[1], 1, last_lines=(HOSTILE, "boom"))
    html = told.view().page()
    page = checked(html)
    assert "<script>alert" not in html
    assert html.count("<script") == 1
    for text in ("GPUs offered", "crashed with exit code 1", "boom", "lease-1", "number 3 of 3", "rung"):
        assert text in page.text, text
    assert page.all("body", data_reload_s=str(RELOAD_S)) or f'data-reload-s="{RELOAD_S}"' in html


def tried(root, losses, **fields):
    """A search whose trials have reported these losses."""
    space = {"rate": {"type": "float", "low": 0, "high": 1}, "layers": {"type": "int", "low": 1, "high": 3}}
    told = Told(root, algorithm="plain", trials=len(losses), space=space, **fields)
    drawn = [{"rate": loss / 10, "layers": 1 + number % 3} for number, loss in enumerate(losses)]
    told.draws = iter(drawn)
    told.take(events.Granted("lease-1", gpus("m1", len(losses)), told.clock.time + 100))
    for number, loss in enumerate(losses):
        trial = f"trial-{number:05}"
        others = (("latency_ms", 10.0 * number),)
        told.take(events.Reported(trial, 1, 6, loss, others))
        told.end(trial)
    return told


def test_the_page_shows_what_parameters_do_and_every_metric(tmp_path):
    told = tried(tmp_path, (5.0, 1.0, 3.0, 4.0, 2.0), metrics=["latency_ms"], constraints=["latency_ms <= 30"])
    page = checked(told.view().page())
    told.records.close()
    for said in (
        "Importance of parameters",
        "loss over rate and layers, by rank",
        "Parameters and metric of each trial",
        "latency_ms",
        "Constraints do not hold of trial-00004 (latency_ms <= 30).",
    ):
        assert said in page.text
    reader = JournalReader(told.folder.journal, "loss")
    reader.advance()
    shown = Snapshot(told.app, reader.state, reader.history, reader.at, reader.wall)
    found = importances(shown, shown.ranked())
    assert list(found) == ["rate", "layers"]
    assert sum(found.values()) == pytest.approx(1.0)


def test_two_searches_are_compared(tmp_path, capsys):
    for name, losses in {"one": (5.0, 1.0, 3.0), "two": (4.0, 2.0)}.items():
        tried(tmp_path / name, losses).records.close()
    words = ["report", str(tmp_path / "one"), "--compare", str(tmp_path / "two"), "--out", str(tmp_path / "both.html")]
    assert console.run(cli, "themis-agent", words) == 0
    page = checked((tmp_path / "both.html").read_text())
    assert "The best loss so far" in page.text
    assert "rate = 0.1, layers = 2 rate = 0.2, layers = 2" in page.text


def test_metrics_are_those_of_the_journal(told):
    first_rung(told)
    told.take(events.Asked("ask-1", EstimateRequest(1, 2.0, (("m1", 3),), M1, 8)))
    told.take(events.CheckpointFailed(TRIALS[1], 1, "full"))
    answers = AnswerTimes()
    answers.sent("estimate", 0.5)
    answers.sent("bid", 2.0)
    answers.too_late("bid")
    values = {
        (one.name, *sorted(one.labels.items())): one.value
        for family in text_string_to_metric_families(told.view(answers).metrics())
        for one in family.samples
    }

    def value(name, **labels):
        return values[(f"themis_agent_{name}", *sorted(labels.items()))]

    assert value("trials", status="pruned") == 2
    assert value("trials", status="stopping") == 1
    assert value("best_metric") == 0.1
    assert (value("gpus", state="busy"), value("gpus", state="idle"), value("leases")) == (3, 0, 1)
    assert math.isfinite(value("rho"))
    assert (value("checkpoints_at_risk"), value("steps_at_risk")) == (1, 2)
    assert value("answers_total", kind="estimate") == 1
    assert (value("answers_late_total", kind="bid"), value("answers_late_total", kind="estimate")) == (1, 0)
    assert value("answer_seconds_sum", kind="bid") == 2
    documented = set(re.findall(r"`themis_agent_(\w+)", (ROOT / "docs" / "training.md").read_text()))
    there = {name.removeprefix("themis_agent_") for name, *_ in values}
    assert documented == {name.removesuffix("_sum").removesuffix("_count") for name in there}


def test_the_service_shows_a_search_only_to_those_with_its_address(told):
    app, view, listener = FastAPI(), told.view(), listening("127.0.0.1")
    add_view(app, view)
    token = told.folder.token()
    assert token not in view.key
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    with serving(app, listener), requests.Session() as client:
        for path in (f"/{token}/", "/key/", "/metrics", "/x/metrics"):
            assert client.get(url + path).status_code == 401, path
        answer = client.get(f"{url}/{view.key}/")
        assert answer.status_code == 200
        checked(answer.text)
        assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
        bearer = {"Authorization": f"Bearer {view.key}"}
        assert client.get(f"{url}/metrics", headers=bearer).text.startswith("# HELP themis_agent_search")
        assert client.get(f"{url}/{view.key}/metrics").status_code == 200


def test_before_a_search_has_begun_its_page_says_so(tmp_path, told):
    folder = Folder(tmp_path / "empty")
    folder.begin(told.app, tmp_path)
    assert View(told.app, folder, lambda: 0.0).page() is None


def test_the_commands_say_why(told, capsys, tmp_path):
    told.take(events.Granted("lease-1", gpus("m1", 1), None))
    told.report(TRIALS[0], 2, 0.25)
    directory = str(told.folder.root)
    assert console.run(cli, "themis-agent", ["why", directory, "0"]) == 0
    said = capsys.readouterr().out
    assert "trial-00000 reached the end of rung 0 at step 2 with loss 0.25" in said
    assert "No agent runs this search" in said
    assert console.run(cli, "themis-agent", ["why", directory, TRIALS[1]]) == 0
    assert (
        "now      trial-00001 waits for 1 GPU: 1 of the 1 GPU held are in use by trial-00000" in capsys.readouterr().out
    )
    assert console.run(cli, "themis-agent", ["why", directory]) == 0
    assert "told has its best loss, 0.25, from trial-00000 at step 2" in capsys.readouterr().out
    assert console.run(cli, "themis-agent", ["why", directory, "7"]) == 2
    assert "TRIAL '7': not in this search" in capsys.readouterr().err
    out = tmp_path / "page.html"
    assert console.run(cli, "themis-agent", ["report", directory, "--out", str(out)]) == 0
    assert "No agent runs this search" in checked(out.read_text()).text


def test_a_suspended_search_says_so(told, capsys):
    told.take(events.Suspended())
    told.records.close()
    assert console.run(cli, "themis-agent", ["status", str(told.folder.root)]) == 0
    assert "The search is suspended; `themis-agent resume DIR` continues it." in capsys.readouterr().out


def test_a_log_is_read_over_all_starts_and_when_it_is_rotated(tmp_path):
    first, second = tmp_path / "epoch-000001", tmp_path / "epoch-000002"
    log = TrialLog(tmp_path, 0)
    assert list(log.new()) == []
    first.mkdir()
    (first / "rank-0.log.1").write_text("a")
    (first / "rank-0.log").write_text("b")
    (first / "rank-1.log").write_text("other")
    assert list(log.new()) == [(1, b""), (1, b"a"), (1, b""), (1, b"b")]
    with (first / "rank-0.log").open("a") as file:
        file.write("c")
        file.flush()
        (first / "rank-0.log").replace(first / "rank-0.log.1")
        file.write("d")
        file.flush()
        (first / "rank-0.log").write_text("e")
        assert b"".join(data for _, data in log.new()) == b"cde"
    second.mkdir()
    (second / "rank-0.log").write_text("f")
    assert list(log.new()) == [(2, b""), (2, b"f")]
    log.close()


def test_a_small_loss_is_told_from_none(told, capsys):
    told.take(events.Granted("lease-1", gpus("m1", 3), None))
    told.report(TRIALS[0], 1, 8.12e-11)
    told.records.close()
    assert console.run(cli, "themis-agent", ["status", str(told.folder.root)]) == 0
    assert "8.12e-11" in capsys.readouterr().out


@pytest.mark.parametrize("words", [("status", "--watch"), ("logs", "0", "-f")], ids=" ".join)
def test_a_search_that_nobody_runs_any_more_is_not_followed_for_ever(told, capsys, monkeypatch, words):
    monkeypatch.setattr(watching, "QUIET_S", 0.2)
    monkeypatch.setattr(watching, "WATCH_S", 0.1)
    told.take(events.Granted("lease-1", gpus("m1", 3), None))
    told.records.close()
    log = told.folder.logs / TRIALS[0] / "epoch-1" / "rank-0.log"
    log.parent.mkdir(parents=True)
    log.write_text("step 1")
    code = console.run(cli, "themis-agent", [words[0], str(told.folder.root), *words[1:]])
    assert code == (1 if words[0] == "status" else 0)
    assert "No agent runs this search" in capsys.readouterr().err


def test_without_a_report_there_is_no_best_trial_and_nothing_to_export(told, tmp_path, capsys):
    told.take(events.StopRequested())
    told.records.close()
    words = ["best", str(told.folder.root), "--export", str(tmp_path / "to")]
    assert console.run(cli, "themis-agent", words) == 1
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("stopped by the user\n", "no trial has reported\n")
    assert not (tmp_path / "to").exists()


@pytest.mark.parametrize(
    ("granted", "needs_rho", "figure", "gauge"),
    [(False, True, "unbounded", math.inf), (True, True, None, None), (False, False, None, None)],
)
def test_a_rho_that_is_not_known_is_not_shown(told, granted, needs_rho, figure, gauge):
    """What was answered before the first lease says nothing of a search that holds GPUs."""
    told.take(events.Asked("ask-1", EstimateRequest(1, 1.0, cluster_gpus=3, needs_rho=needs_rho)))
    if granted:
        told.take(events.Granted("lease-1", gpus("m1", 3), None))
    view = told.view()
    text = checked(view.page()).text
    assert ("finish-time fairness; without GPUs it makes no progress" in text) == (figure is not None)
    assert "later than with an equal part" not in text
    found = re.findall(r"^themis_agent_rho (.*)$", view.metrics(), re.M)
    assert [float(value) for value in found] == ([] if gauge is None else [gauge])
