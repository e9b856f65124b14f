"""Journals of earlier versions: their sentences are shown, not parsed."""

import json
from pathlib import Path

import pytest

from qoop.replan.causes import UntypedCause
from qoop.report import page, read_journal
from qoop.run import journal
from qoop.run.journal_upgrade import upgrade
from tests.html_checks import checked
from yarn_plugin.journal.records import encode
from yarn_plugin.report import render

TESTS = Path(__file__).parents[1]
EARLIER = (TESTS / "data" / "q17.journal", *sorted((TESTS / "fixtures").glob("version*/query/*.journal")))

NOTE = {
    "type": "Note",
    "decision": {
        "cause": "app_8 arrived",
        "before": 1,
        "plan": 1,
        "seconds": [1.0, 1.2],
        "won_by": "either",
        "reason": "not worth a switch",
    },
}


def commands(*written):
    return upgrade({"kind": "decision", "commands": list(written)}, 1)["commands"]


@pytest.mark.parametrize("path", EARLIER, ids=lambda path: "-".join(path.parts[-3:]))
def test_earlier_journals_are_read_and_shown(path):
    record = read_journal(path)
    assert record.status == ("failed" if path.stem == "failed" else "done")
    written = [
        (command["decision"]["cause"], command["decision"]["seconds"])
        for one in journal.follow(path)
        if one["kind"] == "decision"
        for command in one["commands"]
        if command["type"] == "Note"
    ]
    decisions = [made.decision for made in record.decisions]
    assert len(decisions) == len(written)
    if path.parts[-3] != "version2":  # the first with causes that are values
        assert [one.cause for one in decisions] == [UntypedCause(cause) for cause, _ in written]
    assert all(one.seconds[one.fastest] == min(seconds) for one, (_, seconds) in zip(decisions, written, strict=True))
    text = checked(render(page("Query", {"one": record}))).text
    assert "the profile begins" in text.lower()


def test_causes_that_are_values_are_read_as_values():
    record = read_journal(TESTS / "fixtures" / "version2" / "query" / "switched.journal")
    assert [made.decision.cause.kind for made in record.decisions] == ["new-share"] + 6 * ["finished-stage"]


def test_failures_keep_their_message():
    """A stage failed for good, so the text as written was run, and failed as well: written by version 1."""
    record = read_journal(TESTS / "fixtures" / "version1" / "query" / "failed.journal")
    assert record.error.startswith("[DIVIDE_BY_ZERO] Division by zero.")
    ((_, cause),) = record.as_written
    assert isinstance(cause, UntypedCause)
    assert cause.text.startswith("stage qoop_result failed: [DIVIDE_BY_ZERO] Division by zero.")
    assert "Ran as written: stage qoop_result failed" in checked(render(page("Query", {"one": record}))).text


def test_sentences_become_causes():
    (note, as_written, fail) = commands(NOTE, {"type": "RunAsWritten", "reason": "x"}, {"type": "Fail", "error": "y"})
    assert note["decision"]["cause"] == {"kind": "said", "text": "app_8 arrived"}
    assert "reason" not in note["decision"]
    assert (note["decision"]["fastest"], note["decision"]["won_by"]) == (0, "share or row counts")
    assert as_written == {"type": "RunAsWritten", "cause": {"kind": "said", "text": "x"}}
    assert fail == {"type": "Fail", "cause": {"kind": "said", "text": "y"}}


def test_why_a_query_runs_as_written_becomes_a_cause():
    """Version 2 has sentences there."""
    said = {"kind": "said", "text": "it has one table"}
    assert upgrade({"kind": "query", "reason": "it has one table"}, 2)["cause"] == said
    assert upgrade({"kind": "query", "reason": None}, 2)["cause"] is None
    event = {"type": "CannotPlan", "reason": "it has one table"}
    assert upgrade({"kind": "input", "event": event}, 2)["event"] == {"type": "CannotPlan", "cause": said}
    command = {"type": "RunAsWritten", "cause": {"kind": "not-planned", "said": "it has one table"}}
    (made,) = upgrade({"kind": "decision", "commands": [command]}, 2)["commands"]
    assert made == {"type": "RunAsWritten", "cause": {"kind": "not-planned", "cause": said}}


def test_current_and_unknown_records_are_left_unchanged():
    now = {"kind": "decision", "commands": [NOTE]}
    assert upgrade(now, journal.VERSION) is now
    odd = [1, {"type": "Note"}, {"type": "Note", "decision": []}, {"type": "Fail"}, {"type": "Finish"}, {}]
    assert commands(*odd) == odd
    assert upgrade({"kind": "decision", "commands": "none"}, 0) == {"kind": "decision", "commands": "none"}


def test_a_mixed_journal_is_read_record_by_record(tmp_path):
    """A cause that is a value is no sentence to an earlier record's reader, and the other way round."""
    path = tmp_path / "journal"
    value = {"type": "Fail", "cause": {"kind": "said", "text": "new"}}
    written = [{"v": 1, "commands": [{"type": "Fail", "error": "old"}]}, {"v": 2, "commands": [value]}]
    path.write_bytes(b"".join(encode({"kind": "decision", "seq": 1, "at": 1.0, **one}) for one in written))
    texts = [one["commands"][0]["cause"]["text"] for one in journal.read(path)]
    assert texts == ["old", "new"], json.dumps(texts)
