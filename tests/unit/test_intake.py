"""The order of inputs and timers, and state that is changed in place: all or nothing."""

from dataclasses import dataclass, field
from typing import Any

import pytest
from pydantic_core import core_schema

from tests.clock import HandClock
from yarn_plugin.journal import durable as durable_module
from yarn_plugin.journal import execution
from yarn_plugin.journal.codec import Codec
from yarn_plugin.journal.durable import Durable
from yarn_plugin.journal.intake import Inbox, Intake, SkippedInputError, StateMachine
from yarn_plugin.journal.records import MemoryRecords, RecordFile
from yarn_plugin.journal.replay import Replay


@dataclass(frozen=True, slots=True)
class Wait:
    """Wake me after so many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Woken:
    pass


@dataclass(frozen=True, slots=True)
class Began:
    pass


@dataclass(frozen=True, slots=True)
class Poison:
    pass


@dataclass(frozen=True, slots=True)
class Heard:
    count: int


@dataclass(frozen=True, slots=True)
class Alarms:
    due: tuple[float, ...] = ()
    woken: int = 0


TAGS = {kind.__name__: kind for kind in (Wait, Woken, Began, Poison, Heard, Alarms)}


def step(state, seq, at, event):
    match event:
        case Wait(seconds):
            return Alarms(tuple(sorted((*state.due, at + seconds))), state.woken), ()
        case Poison():
            raise OverflowError("poison")
    late = tuple(one for one in state.due if one > at)
    woken = state.woken + isinstance(event, Woken)
    return Alarms(late, woken), (Heard(woken),)


def deaf(state, seq, at, event):
    """A step that fails on timers."""
    if isinstance(event, Woken):
        raise OverflowError("not now")
    return step(state, seq, at, event)


def machine(decide=step):
    return StateMachine(decide, Alarms(), lambda state: state.due[0] if state.due else None, Woken)


def begins(event):
    return isinstance(event, Began)


def opened(journal=None, decide=step, now=0.0):
    return Intake(machine(decide), Durable(TAGS, journal or MemoryRecords()), HandClock(now), begins)


def feed(intake, *inputs):
    """Take (time, event) in order; everything that was decided, as (time, event), and the errors."""
    failed: list[SkippedInputError] = []
    decided = [one for at, event in inputs for one in intake.take_in_order(event, at, failed.append)]
    return [(one.at, one.event) for one in decided], failed


# Timers.


def test_timers_are_taken_at_their_due_times_before_inputs_stamped_at_or_after_them():
    intake = opened()
    taken, _ = feed(intake, (1.0, Wait(4.0)), (2.0, Wait(5.0)), (4.9, Began()), (5.0, Wait(1.0)), (9.0, Wait(1.0)))
    assert taken[:3] == [(1.0, Wait(4.0)), (2.0, Wait(5.0)), (4.9, Began())]
    assert taken[3:] == [(5.0, Woken()), (5.0, Wait(1.0)), (6.0, Woken()), (7.0, Woken()), (9.0, Wait(1.0))]


def test_a_timer_fires_only_once_its_time_has_come():
    intake = opened()
    intake.take(Wait(4.0), 1.0)
    assert (intake.next_due(), intake.fire(4.9)) == (5.0, None)
    assert (intake.fire(7.0).at, intake.next_due(), intake.fire(99.0)) == (5.0, None, None)


def test_each_timer_is_taken_when_the_one_before_it_was_carried_out():
    intake = opened()
    feed(intake, (1.0, Wait(1.0)), (1.0, Wait(2.0)))
    firing = intake.fire_due(9.0, pytest.fail)
    assert (next(firing).at, intake.state.woken) == (2.0, 1)
    assert (next(firing).at, intake.state.woken) == (3.0, 2)


def test_the_restart_input_precedes_timers_that_came_due_while_down():
    intake = opened()
    taken, _ = feed(intake, (1.0, Wait(4.0)), (50.0, Began()), (51.0, Wait(1.0)))
    assert taken == [(1.0, Wait(4.0)), (50.0, Began()), (51.0, Wait(1.0))]


def test_stamps_never_decrease_and_no_input_is_older_than_the_one_before_it():
    intake = opened(now=10.0)
    stamps = [intake.stamp()]
    intake._clock.time = 3.0
    stamps.append(intake.stamp())
    assert stamps == [10.0, 10.0]
    intake.take(Began(), 20.0)
    assert (intake.stamp(), intake.take(Began(), 15.0).at, intake.take(Began()).at) == (20.0, 20.0, 20.0)


def test_a_timer_on_which_nothing_can_be_decided_is_tried_again_later_and_later():
    intake = opened(decide=deaf)
    _, failed = feed(intake, (0.0, Wait(10.0)), (1300.0, Wait(5000.0)))
    at = [record["at"] for record in intake._policy.records.read() if record["kind"] == "input"][1:-1]
    assert at == [10.0, 15.0, 25.0, 45.0, 85.0, 165.0, 325.0, 625.0, 925.0, 1225.0]
    assert len(failed) == len(at)
    assert intake.next_due() == 1525.0


def test_a_success_resets_the_backoff_of_failing_timers():
    angry = [True]
    intake = opened(decide=lambda *given: (deaf if angry[0] else step)(*given))
    feed(intake, (0.0, Wait(10.0)), (100.0, Wait(100.0)))
    angry[0] = False
    feed(intake, (190.0, Wait(100.0)))
    assert intake.next_due() == 200.0
    angry[0] = True
    assert list(intake.fire_due(200.0, lambda problem: None)) == []
    assert intake.next_due() == 205.0


@pytest.mark.parametrize("compacted", [False, True])
def test_a_restart_waits_as_long_for_a_timer_that_failed_as_the_process_before_it(tmp_path, compacted):
    intake = opened(RecordFile(tmp_path / "journal"), deaf)
    feed(intake, (0.0, Wait(10.0)), (30.0, Wait(5000.0)))
    assert intake.next_due() == 45.0
    if compacted:
        intake.compact()
    intake.close()
    again = opened(RecordFile(tmp_path / "journal"), deaf)
    assert again.next_due() == 45.0
    assert list(again.fire_due(45.0, lambda problem: None)) == []
    assert again.next_due() == 85.0
    again.close()


def test_another_timer_does_not_wait_for_one_that_failed():
    intake = opened(decide=deaf)
    feed(intake, (0.0, Wait(10.0)), (11.0, Began()), (12.0, Wait(0.5)))
    assert intake.next_due() == 12.5


# The same inputs, the same records.


INPUTS = [(0.0, Wait(3.0)), (1.0, Wait(1.5)), (2.25, Began()), (2.5, Poison()), (8.0, Wait(0.25)), (8.25, Began())]


def records(intake):
    def take(at, event):
        try:
            yield from intake.take_in_order(event, at, lambda problem: None)
        except SkippedInputError:
            return

    return [intake.encoded(decided) for at, event in INPUTS for decided in take(at, event)]


def test_in_memory_on_disk_and_replayed_are_equal_byte_for_byte(tmp_path):
    file = RecordFile(tmp_path / "journal")
    live, simulated = opened(file, now=77.0), opened()
    said = records(live)
    assert said == records(simulated)
    assert said[0] == b'{"seq":1,"at":0.0,"event":{"type":"Wait","seconds":3.0},"commands":[]}'
    assert live.state == simulated.state
    past = Replay(StateMachine(step, Alarms()), TAGS)
    past.take_all(file.read())
    past.decide_waiting()
    assert (past.state, past.different, [live.encoded(one) for one in past.history]) == (live.state, 0, said)
    live.close()


def test_a_journal_in_memory_is_opened_again_like_a_file():
    journal = MemoryRecords()
    intake = opened(journal)
    feed(intake, *INPUTS[:3])
    before = (intake.state, list(intake.history))
    assert journal.size == len(journal.content()) == journal.written
    intake.compact()
    assert journal.rewritten_size == journal.size == len(journal.content())
    again = opened(journal)
    assert (again.state, list(again.history)) == before


# Where inputs arrive.


def test_inputs_are_stamped_on_arrival_and_bound_later_stamps():
    clock = HandClock(1.0)
    intake = Intake(machine(), Durable(TAGS, MemoryRecords()), clock, begins)
    inbox = Inbox(intake.stamp)
    assert (inbox.get(0), inbox.quiet_until()) == (None, 1.0)
    inbox.put("first")
    clock.time = 5.0
    inbox.put("second")
    clock.time = 9.0
    assert inbox.quiet_until() is None
    assert [inbox.get(0), inbox.get(None), inbox.get(0)] == [(1.0, "first"), (5.0, "second"), None]
    assert inbox.quiet_until() == 9.0


# State that is changed in place.


class Cells:
    """A list that is changed in place, and can be rolled back."""

    def __init__(self, values=()):
        self.values, self.undo, self.settled = list(values), [], 0

    def set(self, place, value):
        self.undo.append((place, self.values[place]))
        self.values[place] = value

    def savepoint(self):
        return len(self.undo)

    def rollback(self, mark):
        while len(self.undo) > mark:
            place, value = self.undo.pop()
            self.values[place] = value

    def commit(self):
        self.undo.clear()
        self.settled += 1

    def dump(self):
        return list(self.values)

    @classmethod
    def load(cls, dumped):
        return cls(dumped)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any):
        written = core_schema.plain_serializer_function_ser_schema(lambda cells: cells.dump())
        return core_schema.no_info_plain_validator_function(cls.load, serialization=written)


@dataclass(frozen=True, slots=True)
class Put:
    place: int
    value: int
    grow: int = 0


@dataclass(frozen=True, slots=True)
class Sum:
    total: Any


@dataclass(frozen=True, slots=True)
class Grid:
    rows: dict[int, Cells] = field(default_factory=dict)


GRID_TAGS = {"Put": Put, "Sum": Sum, "Grid": Grid}


def put(state, seq, at, event):
    """Add a row, or write into every row; the value 13 fails when half is done, -1 gives what no journal can hold."""
    if event.grow:
        state = Grid({**state.rows, event.grow: Cells([0] * 4)})
    for number, row in enumerate(state.rows.values()):
        if event.value == 13 and number:
            raise OverflowError("thirteen")
        row.set(event.place, event.value)
    total = sum(sum(row.values) for row in state.rows.values())
    return state, (Sum("\ud800" if event.value == -1 else total),)


@pytest.fixture
def grid(tmp_path):
    made = []

    def one():
        file = RecordFile(tmp_path / "journal")
        grid = StateMachine(put, Grid(), parts=lambda state: state.rows.values())
        made.append(Intake(grid, Durable(GRID_TAGS, file), HandClock()))
        return made[-1]

    yield one
    for intake in made:
        intake.close()


def content(intake):
    return {number: row.dump() for number, row in intake.state.rows.items()}


@pytest.mark.parametrize("wrong", [Put(1, 13), Put(1, 13, grow=3), Put(2, -1), Put(2, -1, grow=3)])
def test_a_failing_input_leaves_mutable_state_unchanged(grid, wrong):
    intake = grid()
    for event in (Put(0, 1, grow=1), Put(1, 5, grow=2)):
        intake.take(event)
    rows, before = intake.state.rows, content(intake)
    assert before == {1: [1, 5, 0, 0], 2: [0, 5, 0, 0]}
    with pytest.raises(SkippedInputError):
        intake.take(wrong)
    assert (content(intake), intake.state.rows) == (before, rows)
    assert all(not row.undo for row in rows.values())
    assert intake.take(Put(3, 2)).commands == (Sum(15),)
    after = content(intake)
    intake.close()
    again = grid()
    assert (content(again), again.different, again.skipped) == (after, 0, 1)
    again.compact()
    again.close()
    assert content(grid()) == after


def test_what_was_decided_is_settled(grid):
    intake = grid()
    intake.take(Put(0, 1, grow=1))
    intake.take(Put(0, 2))
    (row,) = intake.state.rows.values()
    assert (row.settled, row.savepoint()) == (2, 0)


def test_the_delays_match_the_documentation():
    assert (execution.TIMER_RETRY, execution.MAX_TIMER_RETRY) == (5.0, 300.0)


@pytest.mark.parametrize(("owner", "method"), [(Cells, "dump"), (Codec, "read")])
def test_an_unserializable_state_leaves_the_journal_unchanged_and_ends_nothing(
    grid, monkeypatch, caplog, owner, method
):
    def fails(*arguments):
        raise AttributeError("no such field")

    intake = grid()
    intake.take(Put(0, 1, grow=1))
    monkeypatch.setattr(owner, method, fails)
    monkeypatch.setattr(durable_module, "COMPACT_AT", 0)
    intake._policy._compact_at = 0
    assert intake.take(Put(1, 2)).commands == (Sum(3),)
    assert "could not compact" in caplog.text
    monkeypatch.undo()
    intake.close()
    assert content(grid()) == {1: [1, 2, 0, 0]}
