"""The arbiter's journal, truncated or damaged anywhere: intact records survive, and a replay decides the same."""

import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.arbiter_world import World, histories
from tests.clock import HandClock
from yarn_plugin.decide.events import TimerFired
from yarn_plugin.decide.state import State
from yarn_plugin.drive.journaling import open_intake
from yarn_plugin.journal.records import JournalDamagedError, RecordFile, find_damage

fewer = settings(max_examples=min(settings().max_examples, 500) // 5)
"""Every input is written to the disk before it is decided on, which takes its time."""


def trace(history):
    """What a history feeds to the arbiter: (time, event), and the state after each event."""
    states = []
    world = World(stepped=lambda world: states.append(world.state))
    for action in history:
        world.do(action)
    return [(at, event) for _, at, event, _ in world.trace], states


@contextmanager
def opened(path, accept_loss=False):
    """An intake on this journal; its clock is set before each event."""
    clock = HandClock(0.0)
    file = RecordFile(path, accept_loss)
    intake = open_intake(file, clock)
    try:
        yield intake, clock
    finally:
        intake.close()


def feed(intake, clock, inputs):
    decided = []
    for at, event in inputs:
        clock.time = at
        decided.append(intake.take(event))
    return decided


def in_order(intake, inputs):
    """The same with the intake's own timers: those of the history are left out."""
    return [
        intake.encoded(decided)
        for at, event in inputs
        if not isinstance(event, TimerFired)
        for decided in intake.take_in_order(event, at, pytest.fail)
    ]


@contextmanager
def journal():
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder) / "journal"


@fewer
@given(histories, st.floats(0, 1), st.floats(0, 1))
def test_a_journal_truncated_anywhere_leads_to_the_same_state_and_decisions(history, cut, compacted):
    inputs, states = trace(history)
    with journal() as path:
        with opened(path) as (intake, now):
            decided = feed(intake, now, inputs)
        whole = path.read_bytes()
        path.write_bytes(whole[: int(cut * len(whole))])
        with opened(path) as (intake, now):
            kept = intake.seq
            assert intake.state == (states[kept - 1] if kept else State())
            assert list(intake.history) == decided[:kept]
            assert intake.different == 0
            assert feed(intake, now, inputs[kept:]) == decided[kept:]
            if compacted < 0.5:
                intake.compact()
            assert intake.state == states[-1]
        with opened(path) as (intake, _):
            assert intake.state == states[-1]
            assert list(intake.history) == decided
            assert intake.different == 0


@fewer
@given(histories, st.floats(0, 1, exclude_max=True), st.integers(1, 255))
def test_a_damaged_byte_costs_what_follows_it_and_nothing_before_and_only_where_that_is_accepted(
    history, place, change
):
    inputs, states = trace(history)
    with journal() as path:
        with opened(path) as (intake, now):
            feed(intake, now, inputs)
        data = bytearray(path.read_bytes())
        at = int(place * len(data))
        before = bytes(data[:at]).count(b'"kind":"input"')
        data[at] ^= change
        path.write_bytes(data)
        damage = find_damage(path)
        if damage.in_the_middle:
            with pytest.raises(JournalDamagedError):
                RecordFile(path)
            assert path.read_bytes() == bytes(data)
        with opened(path, accept_loss=True) as (intake, _):
            kept = len(intake.history)
            assert before - 1 <= kept <= before
            assert intake.seq == (len(inputs) if damage.in_the_middle else kept)
            assert intake.state == (states[kept - 1] if kept else State())
            assert intake.different == 0
            assert intake._policy.records.dropped is not None


@fewer
@given(histories, st.floats(0, 1), st.lists(st.floats(0, 1), max_size=3))
def test_cut_again_and_again_nothing_is_there_twice(history, first, more):
    """A crash while it recovers from a crash."""
    inputs, states = trace(history)
    with journal() as path:
        with opened(path) as (intake, now):
            decided = feed(intake, now, inputs)
        for cut in (first, *more):
            data = path.read_bytes()
            path.write_bytes(data[: int(cut * len(data))])
            with opened(path) as (intake, now):
                if intake.skipped:
                    # Two crashes in a row on one input: it is set aside (tests/unit/test_journal.py).
                    return
                feed(intake, now, inputs[intake.seq :])
        with opened(path) as (intake, _):
            numbers = [one.seq for one in intake.history]
            assert numbers == list(range(1, len(inputs) + 1))
            assert list(intake.history) == decided
            assert intake.state == states[-1]


@fewer
@given(histories.map(lambda history: [action for action in history if action[0] != "early_timer"]))
def test_timers_are_reproduced_from_the_inputs_alone(history):
    """Live and simulated: the same inputs with the same stamps, the same journal."""
    # Time goes on to the end, in both, for a last input that says where that is.
    inputs, _ = trace([*history, ("wait", 20.0), ("look",)])
    with journal() as path, opened(path) as (intake, clock):
        expected = [intake.encoded(decided) for decided in feed(intake, clock, inputs)]
    with journal() as path, opened(path) as (intake, _):
        found = in_order(intake, inputs)
        assert found == expected
        times = [decided.at for decided in intake.history]
        assert times == sorted(times)
