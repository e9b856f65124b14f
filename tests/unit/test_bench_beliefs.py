"""The benchmark of wrong beliefs, on queries that take no time."""

import json
from contextlib import nullcontext
from pathlib import Path

import pytest

import qoop
from tests.bench import beliefs


@pytest.fixture
def told(monkeypatch, tmp_path):
    """The slots that each run was told."""
    found = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(beliefs.data, "ensure", lambda scale: scale)
    monkeypatch.setattr(beliefs.data, "open_data", lambda scale: scale)
    monkeypatch.setattr(beliefs, "spark_session", lambda opened, master, confs: nullcontext(master))
    monkeypatch.setattr(beliefs, "free_room", lambda spark: None)
    monkeypatch.setattr(qoop, "collect", lambda spark, text, options: found.append((spark, options.slots)))
    monkeypatch.setenv("BELIEFS_QUERIES", "17,24")
    monkeypatch.setenv("BELIEFS_PAIRS", "2")
    return found


def test_each_query_runs_with_either_belief_in_turns_and_earlier_results_are_kept(told):
    result = beliefs.measure()
    few, many = "local[2]", "local[8]"
    pairs = [(2.0, 16.0), (16.0, 2.0), (2.0, 16.0)]
    assert told[:12] == [(few, slots) for pair in pairs * 2 for slots in pair]
    assert set(told[12:]) == {(many, 8.0), (many, 1.0)} and len(told) == 24
    assert result["queries_measured"] == 4 and result["worst"] == max(row["ratio"] for row in result["queries"])
    assert {"told_16_on_2", "told_1_on_8"} < result.keys()
    assert len(Path("out/beliefs/scale-1.jsonl").read_text().splitlines()) == 4
    told.clear()
    again = beliefs.measure()
    assert not told and again == json.loads(json.dumps(result))


def test_no_query_is_begun_when_time_is_over(told, monkeypatch):
    monkeypatch.setenv("BELIEFS_SECONDS", "-1")
    assert beliefs.measure() == {} and not told
