"""The page of the demo's searches, from what was recorded."""

import json
from pathlib import Path

import pytest

from tests.agent_world import gpus
from tests.clock import HandClock
from tests.html_checks import checked
from themis_agent.agent import events
from themis_agent.agent.tags import TAGS
from themis_agent.app_file import read
from themis_agent.live import MACHINE
from themis_agent.local.folder import Folder
from tpcds.demo.record import DemoReportError
from tpcds.demo.searches import verdict
from tpcds.demo.searches.journal import read_search
from tpcds.demo.searches.page import features, write_page
from tpcds.demo.searches.record import SearchesRecord
from tpcds.demo.searches.sentences import explained
from tpcds.demo.searches.told import Told
from yarn_plugin.journal.durable import Durable
from yarn_plugin.journal.intake import Intake
from yarn_plugin.journal.records import RecordFile

RHO = {"a1": "rates", "a2": "widths", "a3": "batches"}


def award(app, won, kept, share):
    return {"app": app, "won": won, "kept": kept, "share_min": share, "share_max": share}


def bid(app, rho, best=2.0, gpus=8):
    return {"app": app, "rho": rho, "rows": 8, "best_rho": best, "best_gpus": gpus}


def lease(app, number, cell, start, end, how="bid", **more):
    wins = [{"round": 1, "how": how, "at": start}]
    ended = {"revoked_at": None, "lost_in": None, "ended_by": "app-ended", **more}
    return {"app": app, "lease": f"gpu#{number}", "cell": cell, "start": start, "end": end, "wins": wins, **ended}


def trial_run(trial, start, cell, began, ended, first, last, reason="revoked"):
    steps = {"first_step": first, "last_step": last}
    return {
        "trial": trial, "start": start, "cells": [cell], "began": began, "ended": ended, "reason": reason, **steps,
    }  # fmt: skip


def search(name, runs=(), best=True):
    found = {"trial": "trial-00003", "step": 9, "loss": 0.21, "parameters": {"rate": 0.1}, "checkpoint": 9}
    return {
        "name": name, "yarn_app": f"application_1_{name}", "final": "SUCCEEDED", "outcome": "all trials have ended",
        "file": f'name = "{name}"', "submitted_at": 100.0, "ended_at": 200.0, "trials": {"complete": 2, "pruned": 3},
        "steps": 20.0, "lost_steps": 1.0, "rhos": [[120.0, 2.0]], "runs": list(runs),
        "best": {**found, "accuracy": 0.946} if best else None,
    }  # fmt: skip


@pytest.fixture
def record():
    """rates holds a GPU, which an auction of widths and batches takes from it; a part of that is leftover."""
    contended = {
        "round": 2, "at": 140.0, "opened_by": ["lease-end"], "gpus": 8,
        "rhos": [["a2", None], ["a3", 9.0], ["a1", 1.5]], "offered_to": ["a2", "a3"],
        "bids": [bid("a2", None), bid("a3", 9.0)], "awards": [award("a2", 4, 3, 0.62), award("a3", 4, 4, 1.0)],
        "leftovers": [["a1", 1]], "kept_unwanted": [], "idle": [], "error": None,
    }  # fmt: skip
    alone = {
        **contended, "round": 1, "at": 105.0, "opened_by": ["arrival"], "rhos": [["a1", None]], "offered_to": ["a1"],
        "bids": [bid("a1", None)], "awards": [award("a1", 8, 8, 1.0)], "leftovers": [],
    }  # fmt: skip
    rounds = {
        "pool": "gpu", "f": 0.4, "lease_s": 30.0, "payments": True, "complete": True,
        "apps": [{"app": app, "name": name, "registered_at": 100.0, "ended_at": 200.0} for app, name in RHO.items()],
        "rounds": [alone, contended],
        "leases": [
            lease("a1", 1, "127.0.2.1/0", 106.0, 146.0, revoked_at=140.0, lost_in=2, ended_by="lease-vacated"),
            lease("a2", 2, "127.0.2.1/0", 146.0, 200.0),
            lease("a1", 3, "127.0.2.1/1", 141.0, 200.0, how="leftover"),
        ],
    }  # fmt: skip
    runs = (
        trial_run("trial-00003", 1, "127.0.2.1/0", 107.0, 145.0, 1, 4),
        trial_run("trial-00003", 2, "127.0.2.1/1", 146.0, 190.0, 4, 9, "complete"),
    )
    query = {
        "name": "B", "query": 12, "switching": True, "submitted_at": 120.0, "ended_at": 160.0, "seconds": 20.0,
        "rows": 100, "equal_to_duckdb": True,
    }  # fmt: skip
    return {
        "began_at": 100.0, "ended_at": 210.0, "gpu_nodes": 2, "gpus_per_node": 4, "cpu_per_node": 0.5,
        "quotas": "control groups", "config": "f = 0.4", "rounds": rounds,
        "searches": [search("rates", runs), search("widths"), search("batches")], "query": query,
    }  # fmt: skip


def text_of(record, tmp_path: Path):
    (tmp_path / "searches.json").write_text(json.dumps(record))
    write_page(tmp_path / "searches.json", tmp_path / "searches.html")
    return checked((tmp_path / "searches.html").read_text(encoding="utf-8")).text


def test_the_page_shows_what_was_recorded(record, tmp_path):
    text = text_of(record, tmp_path)
    for expected in (
        "Three hyperparameter searches share 8 GPUs fairly",
        "Who held which GPU",
        "1: 2",
        "8 GPUs offered to widths and batches; rates is a bystander.",
        "widths wins 4 GPUs and keeps 3: c = 0.62",
        "batches wins 4 GPUs and keeps them",
        "it goes to bystanders: rates 1",
        "1 lost in an auction, and vacated",
        "its GPU was lost in an auction",
        "94.6 %",
        "TPC-DS query 12 ran from 20 to 60 s",
        "f = 0.4",
    ):
        assert expected in text, expected
    assert "not in this run" not in text


def test_steps_that_were_executed_twice_are_counted(record):
    (again,) = Told(SearchesRecord.model_validate(record)).resumed
    assert (again.search, again.stored, again.again, again.is_moved) == ("rates", 3.0, 1.0, True)


def test_what_a_run_lacks_is_said(record, tmp_path):
    record["rounds"]["rounds"] = record["rounds"]["rounds"][:1]
    record["searches"] = [search(name, best=False) for name in RHO.values()]
    record["query"] = None
    text = text_of(record, tmp_path)
    for expected in (
        "every winner kept all that it won",
        "no bystander got leftovers",
        "no trial was stopped and resumed",
        "No query ran beside the searches",
    ):
        assert expected in text, expected
    shown = {name: seen for name, seen, _ in features(SearchesRecord.model_validate(record))}
    assert shown == {
        "rounds with two bids or more": False,
        "payments c < 1": False,
        "leftovers for a bystander": False,
        "leases that ended": True,
        "trials resumed from checkpoints": False,
        "best trial": False,
    }


def test_a_payment_that_is_not_known_exactly_is_not_said_to_be_nothing(record):
    awards = record["rounds"]["rounds"][1]["awards"]
    awards[0] |= {"kept": 4, "share_min": 0.82, "share_max": 1.0}
    told = Told(SearchesRecord.model_validate(record))
    assert "widths wins 4 GPUs and keeps all, rounded to whole GPUs: c is between 0.82 and 1.00." in (
        explained(told, told.record.rounds.rounds[1])
    )


def test_a_round_without_result_says_why(record):
    record["rounds"]["rounds"][1] |= {"error": "the worker was lost", "awards": []}
    told = Told(SearchesRecord.model_validate(record))
    assert explained(told, told.record.rounds.rounds[1]) == (
        "No result: the worker was lost. Holders keep what they hold."
    )


def test_the_terminal_names_a_search_that_failed(record, tmp_path, capsys):
    record["searches"][0]["final"] = "FAILED: every trial failed"
    found = list(verdict.print_verdict(SearchesRecord.model_validate(record), tmp_path / "searches.html"))
    assert found == ["search rates did not succeed: FAILED: every trial failed"]
    assert "leftovers for a bystander" in capsys.readouterr().out


def test_a_record_that_cannot_be_read_is_one_line_with_its_field(record, tmp_path):
    record["searches"][0]["steps"] = "many"
    with pytest.raises(DemoReportError, match=r"searches\.0\.steps: must be a number"):
        text_of(record, tmp_path)
    with pytest.raises(DemoReportError, match="no such file"):
        SearchesRecord.read(tmp_path / "none.json")


def search_journal(root):
    """A search of one trial, which is stopped at step 3 with a checkpoint of step 2, and goes on from there."""
    fields = {"algorithm": "plain", "trials": 1, "max_steps": 4, "command": "train {rate}"}
    app = read({"name": "rates", "space": {"rate": {"type": "float", "low": 0, "high": 1}}, **fields}, "")
    folder, clock = Folder(root), HandClock()
    folder.begin(app, root)
    records = RecordFile(folder.journal)
    intake = Intake(MACHINE, Durable(TAGS, records), clock)

    def take(*happened):
        for event in happened:
            clock.time += 1.0
            list(intake.take_in_order(event, clock.time))

    name = "trial-00000"
    take(events.Begun(app.settings()), events.Granted("lease-1", gpus("m1", 1), clock.time + 100))
    take(events.Sampled(name, '{"rate": 0.5}'))
    take(*(events.Reported(name, 1, step, 1.0 / step) for step in (1, 2, 3)), events.Checkpointed(name, 1, 2))
    take(events.Revoked("lease-1", clock.time + 10), events.LauncherEnded(name, 1, 0))
    take(events.Granted("lease-2", gpus("m2", 1), clock.time + 100))
    take(*(events.Reported(name, 2, step, 1.0 / step) for step in (3, 4)), events.LauncherEnded(name, 2, 0))
    records.close()


def test_a_search_is_read_from_its_journal(tmp_path):
    search_journal(tmp_path / "rates")
    found = read_search(tmp_path / "rates", "application_1_0001", "SUCCEEDED", "", 990.0, None)
    assert (found.name, found.trials, found.steps, found.lost_steps) == ("rates", {"complete": 1}, 4.0, 1.0)
    first, second = found.runs
    assert (first.reason, first.first_step, first.last_step, second.first_step) == ("revoked", 1, 3, 3)
    assert first.cells != second.cells
    assert first.began < first.ended < second.began
    record = {"complete": True, "pool": "gpu", "f": 0.4, "lease_s": 30, "payments": True}
    rounds = {**record, "apps": [], "rounds": [], "leases": []}
    whole = {"began_at": 0, "ended_at": 1, "gpu_nodes": 2, "gpus_per_node": 4, "cpu_per_node": 0.5, "quotas": ""}
    told = Told(SearchesRecord(**whole, config="", rounds=rounds, searches=(found,)))
    assert [(one.stored, one.again, one.is_moved) for one in told.resumed] == [(2.0, 1.0, True)]
