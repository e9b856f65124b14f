"""The journal survives being cut anywhere and is used by one process at a time."""

from dataclasses import dataclass

import pytest

from tests.clock import HandClock
from yarn_plugin.journal.intake import Intake
from yarn_plugin.journal.records import JournalError, JournalInUseError, RecordFile


@dataclass(frozen=True, slots=True)
class Added:
    amount: int


@dataclass(frozen=True, slots=True)
class Say:
    total: int


@dataclass(frozen=True, slots=True)
class Total:
    value: int = 0


def add(state, seq, at, event):
    state = Total(state.value + event.amount)
    return state, (Say(state.value),)


def double(state, seq, at, event):
    state = Total(state.value + 2 * event.amount)
    return state, (Say(state.value),)


@pytest.fixture
def open_intake():
    opened = []

    def open_one(path, step=add, now=1.0):
        opened.append(Intake(step, Total(), (Added, Say), RecordFile(path), HandClock(now)))
        return opened[-1]

    yield open_one
    for intake in opened:
        intake.close()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "journal"


@pytest.fixture
def fill(open_intake):
    def fill(path, count=5):
        intake = open_intake(path)
        for amount in range(1, count + 1):
            intake.take(Added(amount))
        intake.close()

    return fill


def test_a_reopened_journal_gives_the_same_state_and_history(path, fill, open_intake):
    fill(path)
    intake = open_intake(path)
    assert (intake.state, intake.seq, intake.replayed) == (Total(15), 5, 5)
    assert [decided.commands for decided in intake.history][-1] == (Say(15),)


def test_cut_at_every_byte_it_starts_with_what_is_whole_and_loses_no_more_than_the_last_record(path, fill, open_intake):
    fill(path)
    whole = path.read_bytes()
    for cut in range(len(whole)):
        path.write_bytes(whole[:cut])
        intake = open_intake(path)
        inputs = sum(1 for line in whole[:cut].splitlines(keepends=True) if b'"input"' in line and line.endswith(b"\n"))
        assert intake.state == Total(sum(range(1, inputs + 1)))
        assert (intake._journal.dropped is None) == (cut == 0 or whole[cut - 1 : cut] == b"\n")
        intake.take(Added(100))
        intake.close()
        again = open_intake(path)
        assert again.state == Total(sum(range(1, inputs + 1)) + 100)
        assert again._journal.dropped is None
        again.close()


def test_a_damaged_record_is_said_and_kept_aside(path, fill, open_intake):
    fill(path)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)
    records = RecordFile(path)
    records.close()
    assert records.dropped.startswith("a record cut or damaged at byte ")
    assert list(path.parent.glob("journal.dropped-*"))


def test_an_input_without_its_decision_is_decided_once(path, fill, open_intake):
    fill(path, 1)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0])
    open_intake(path).close()
    assert path.read_bytes() == b"".join(lines)


def test_compaction_keeps_state_number_and_history(path, fill, open_intake):
    fill(path)
    intake = open_intake(path)
    before = list(intake.history)
    intake.compact()
    intake.take(Added(10))
    intake.close()
    again = open_intake(path)
    assert (again.state, again.seq, again.replayed) == (Total(25), 6, 1)
    assert list(again.history)[:5] == before


def test_a_second_process_is_refused(path, fill, open_intake):
    first = RecordFile(path)
    with pytest.raises(JournalInUseError, match="another process"):
        RecordFile(path)
    first.close()


def test_decisions_that_this_program_would_take_otherwise_are_counted(path, fill, open_intake):
    fill(path)
    intake = open_intake(path)
    assert intake.different == 0
    intake.close()
    assert open_intake(path, step=double).different == 5


def test_time_never_runs_backwards(path, fill, open_intake):
    intake = open_intake(path)
    times = []
    for now in (5.0, 3.0, 9.0):
        intake._clock.time = now
        times.append(intake.take(Added(1)).at)
    assert times == [5.0, 5.0, 9.0]


def test_a_folder_that_cannot_be_written_is_named():
    with pytest.raises(JournalError, match="choose a --state"):
        RecordFile(__import__("pathlib").Path("/proc/nowhere/journal"))
