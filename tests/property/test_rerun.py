"""Live and simulated agree: a journal's inputs without its timers give the same decisions in virtual time."""

import pytest
from hypothesis import given

from tests.arbiter_world import World, histories
from tests.clock import HandClock
from yarn_plugin.decide.events import TimerFired
from yarn_plugin.drive.journaling import open_intake
from yarn_plugin.drive.replay import rerun, rerun_records
from yarn_plugin.drive.virtual_time import UncompactedJournal
from yarn_plugin.journal.records import RecordFile


def journal_of(history):
    """The records of an arbiter that took these inputs, with the timers that its intake fired."""
    world, journal, clock = World(), UncompactedJournal(), HandClock(0.0)
    for action in history:
        world.do(action)
    intake = open_intake(journal, clock)
    for _, at, event, _ in world.trace:
        clock.time = at
        if isinstance(event, TimerFired):
            list(intake.fire_due(at))
        else:
            list(intake.take_in_order(event, at))
    return list(journal.read())


@given(histories)
def test_timers_fire_at_the_same_places_and_decisions_are_equal(history):
    again = rerun_records(journal_of(history))
    assert again.first_difference() is None
    assert again.recorded == again.virtual


LIVELY = [("start", 1, 4, 3), ("start", 1, 4, 3), ("wait", 30.0), ("use", 0, 8, 4), ("use", 1, 1, 4), ("wait", 60.0)]


def test_there_are_timers_in_a_lively_history():
    assert rerun_records(journal_of(LIVELY)).timers >= 3


def test_a_journal_that_ends_after_any_record_is_reproduced():
    """An arbiter that was killed recorded its last inputs without its decisions on them."""
    records = journal_of(LIVELY)
    for length in range(1, len(records) + 1):
        assert rerun_records(records[:length]).first_difference() is None, records[length - 1]


def test_one_altered_input_changes_what_follows():
    records = journal_of(LIVELY)
    place = next(n for n, one in enumerate(records) if one.get("event", {}).get("type") == "Registered")
    records[place] = {**records[place], "event": {**records[place]["event"], "weight": 3.0}}
    again = rerun_records(records)
    recorded, virtual = again.first_difference()
    assert recorded != virtual
    assert b'"kind":"decision"' in virtual


def test_an_input_that_came_later_changes_where_timers_come():
    records = journal_of(LIVELY)
    last = max(n for n, one in enumerate(records) if one["kind"] == "input" and one["event"]["type"] != "TimerFired")
    records[last] = {**records[last], "at": records[last]["at"] - 25.0}
    assert rerun_records(records).first_difference() is not None


def test_a_compacted_journal_resumes_from_its_snapshot(tmp_path):
    world, clock = World(), HandClock(0.0)
    for action in LIVELY:
        world.do(action)
    file = RecordFile(tmp_path / "journal")
    intake = open_intake(file, clock)
    for count, (_, at, event, _) in enumerate(world.trace):
        clock.time = at
        if not isinstance(event, TimerFired):
            list(intake.take_in_order(event, at))
        if count == len(world.trace) // 2:
            intake.compact()
    intake.close()
    again = rerun(tmp_path / "journal")
    assert again.first_difference() is None
    assert 0 < len(again.recorded) < 2 * len(world.trace)


def test_a_journal_of_an_earlier_version_is_refused():
    records = [{**one, "v": 1} for one in journal_of(LIVELY)]
    with pytest.raises(ValueError, match="a version before 2"):
        rerun_records(records)
