"""The journal survives being cut anywhere and is used by one process at a time."""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.clock import HandClock
from yarn_plugin.journal import durable, replay
from yarn_plugin.journal.clock import JournalClock
from yarn_plugin.journal.durable import Durable
from yarn_plugin.journal.intake import Intake, SkippedInputError, StateMachine
from yarn_plugin.journal.records import (
    JournalDamagedError,
    JournalError,
    JournalInUseError,
    JournalUnavailableError,
    RecordFile,
    encode,
    read_records,
)
from yarn_plugin.journal.upgrade import VERSION, upgrade


@dataclass(frozen=True, slots=True)
class Added:
    amount: int


@dataclass(frozen=True, slots=True)
class Say:
    total: int


@dataclass(frozen=True, slots=True)
class Total:
    value: int = 0


TAGS = {"Added": Added, "Say": Say, "Total": Total}


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
        records = RecordFile(path)
        try:
            opened.append(Intake(StateMachine(step, Total()), Durable(TAGS, records), HandClock(now)))
        except BaseException:
            records.close()
            raise
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


def test_a_journal_truncated_at_any_byte_loses_only_the_last_record(path, fill, open_intake):
    fill(path)
    whole = path.read_bytes()
    for cut in range(len(whole)):
        path.write_bytes(whole[:cut])
        intake = open_intake(path)
        inputs = sum(1 for line in whole[:cut].splitlines(keepends=True) if b'"input"' in line and line.endswith(b"\n"))
        assert intake.state == Total(sum(range(1, inputs + 1)))
        assert (intake._policy.records.dropped is None) == (cut == 0 or whole[cut - 1 : cut] == b"\n")
        intake.take(Added(100))
        intake.close()
        again = open_intake(path)
        assert again.state == Total(sum(range(1, inputs + 1)) + 100)
        assert again._policy.records.dropped is None
        again.close()


def damage(path, part):
    """One bit of a journal flips, so far into it."""
    data = bytearray(path.read_bytes())
    data[int(part * len(data))] ^= 1
    path.write_bytes(data)


def test_a_damaged_last_record_is_reported_and_saved_separately(path, fill, open_intake):
    fill(path)
    damage(path, 0.999)
    records = RecordFile(path)
    records.close()
    assert records.dropped.startswith("a truncated or damaged record ")
    (aside,) = path.parent.glob("journal.dropped-*")
    assert aside.stat().st_mode & 0o777 == 0o600


def test_damage_before_intact_records_refuses_to_start_and_names_the_option(path, fill):
    fill(path, 50)
    damage(path, 0.1)
    before = path.read_bytes()
    with pytest.raises(JournalDamagedError, match="--accept-loss"):
        RecordFile(path)
    assert path.read_bytes() == before
    assert not list(path.parent.glob("journal.dropped-*"))


def test_an_accepted_loss_keeps_earlier_records_and_reuses_no_number(path, fill, open_intake):
    fill(path, 50)
    damage(path, 0.1)
    records = RecordFile(path, accept_loss=True)
    intake = Intake(StateMachine(add, Total()), Durable(TAGS, records), HandClock())
    assert 0 < intake.state.value < 50
    assert max(record["seq"] for record in records.lost) == 50
    assert intake.take(Added(1)).seq == 51
    intake.close()
    assert open_intake(path).seq == 51


def test_a_file_that_is_not_a_journal_is_refused_and_left_unchanged(path):
    path.write_text("my notes\nof today\n")
    with pytest.raises(JournalError, match="journal"):
        RecordFile(path)
    assert path.read_text() == "my notes\nof today\n"


def test_an_input_without_its_decision_is_decided_once(path, fill, open_intake):
    fill(path, 1)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0])
    open_intake(path).close()
    first, attempt, decision = path.read_bytes().splitlines(keepends=True)
    assert ([first, decision], b'"attempt"' in attempt) == (lines, True)
    again = open_intake(path)
    assert (again.state, again.different, path.read_bytes().count(b"\n")) == (Total(1), 0, 3)


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
        RecordFile(Path("/proc/nowhere/journal"))


# Inputs on which nothing can be decided.


def touchy(state, seq, at, event):
    if event.amount == 13:
        raise OverflowError("thirteen")
    return add(state, seq, at, event)


def test_an_undecidable_input_is_skipped_permanently(path, open_intake):
    intake = open_intake(path, step=touchy)
    intake.take(Added(1))
    with pytest.raises(SkippedInputError, match=r"event 2 .*OverflowError: thirteen"):
        intake.take(Added(13))
    assert intake.take(Added(2)).commands == (Say(3),)
    intake.close()
    # Also by a version that could decide on it: what followed was decided without it.
    again = open_intake(path, step=add)
    assert (again.state, again.skipped, again.different) == (Total(3), 1, 0)
    assert [decided.seq for decided in again.history] == [1, 3]


def test_an_input_that_ends_the_process_twice_is_set_aside(path, open_intake):
    open_intake(path).close()

    def deadly(state, seq, at, event):
        raise SystemExit

    intake = open_intake(path, step=deadly)
    with pytest.raises(SystemExit):
        intake.take(Added(13))
    intake.close()
    with pytest.raises(SystemExit):
        open_intake(path, step=deadly)
    opened = open_intake(path, step=deadly)
    assert (opened.state, opened.seq, opened.skipped) == (Total(0), 1, 1)
    opened.close()
    assert b"the process crashed twice" in path.read_bytes()
    assert open_intake(path, step=add).state == Total(0)


def test_an_early_journal_whose_last_input_fails_at_every_start_is_opened(path, open_intake):
    record = {"kind": "input", "seq": 1, "at": 1.0, "event": {"type": "Added", "amount": 13}}
    path.write_bytes(encode(record))
    intake = open_intake(path, step=touchy)
    assert (intake.state, intake.skipped, intake.take(Added(1)).seq) == (Total(0), 1, 2)


# A disk that is full.


@pytest.mark.parametrize("more", [0, 1, 20, 60])
def test_what_a_full_disk_refuses_is_not_decided_on_and_never_written(path, fill, open_intake, room, more):
    fill(path)
    intake = open_intake(path)
    whole = path.read_bytes()
    with room(len(whole) + more):
        for _ in range(3):
            with pytest.raises(JournalUnavailableError, match="file too large"):
                intake.take(Added(1000))
        with pytest.raises(JournalUnavailableError):
            intake.probe()
        assert (intake.state, intake.seq, path.read_bytes()) == (Total(15), 5, whole)
    intake.probe()
    assert path.read_bytes() == whole
    assert intake.take(Added(1)).seq == 6
    intake.close()
    assert b"1000" not in path.read_bytes()
    again = open_intake(path)
    assert (again.state, again.different, again._policy.records.dropped) == (Total(16), 0, None)


def test_a_decision_that_finds_no_room_follows_when_there_is_some(path, fill, open_intake, room):
    fill(path, 1)
    intake = open_intake(path)
    size = path.stat().st_size
    with room(size + 110):
        assert intake.take(Added(7)).commands == (Say(8),)
        with pytest.raises(JournalUnavailableError):
            intake.take(Added(8))
    intake.take(Added(9))
    intake.close()
    kinds = [(record["kind"], record["seq"]) for record in read_records(path)]
    assert kinds[2:] == [("input", 2), ("decision", 2), ("input", 3), ("decision", 3)]
    assert open_intake(path).state == Total(17)


def test_a_snapshot_on_a_full_disk_leaves_the_journal_unchanged(path, fill, open_intake, room):
    fill(path, 40)
    intake = open_intake(path)
    whole = path.read_bytes()
    with room(len(whole) // 2), pytest.raises(JournalUnavailableError):
        intake.compact()
    assert path.read_bytes() == whole
    assert not path.with_name("journal.part").exists()
    intake.take(Added(1))


# What it costs.


def test_a_journal_is_rewritten_when_it_has_doubled_and_what_is_written_stays_within_three_times(
    path, open_intake, monkeypatch
):
    monkeypatch.setattr(durable, "COMPACT_AT", 20_000)
    monkeypatch.setattr(replay, "MAX_HISTORY_BYTES", 10_000)
    intake = open_intake(path)
    journal = intake._policy.records
    appended, size, rewritten = 0, 0, 0
    for number in range(1500):
        before = journal.size
        intake.take(Added(10**600 + number))
        rewritten += journal.size < before
        appended += max(journal.size - before, 1300)
        size = max(size, journal.size)
        assert sum(intake._execution._sizes) <= 10_000
    assert rewritten > 10
    assert journal.written <= 3 * appended
    assert size < 100_000


def test_files_of_a_journal_are_their_owners_alone_whatever_they_were(path, fill, open_intake):
    fill(path)
    path.chmod(0o644)
    intake = open_intake(path)
    assert path.stat().st_mode & 0o777 == 0o600
    intake.compact()
    assert path.stat().st_mode & 0o777 == 0o600


# Versions.


KNOWN = {"kind": "input", "seq": 1, "at": 1.0, "wall": 1.0}


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ({**KNOWN, "v": VERSION + 1, "event": {}}, f"version {VERSION + 1}.*{VERSION}"),
        ({**KNOWN, "v": "x", "event": {}}, "version 'x'"),
        ({**KNOWN, "v": 1, "event": {"type": "Divided"}}, "type 'Divided' is unknown"),
        ({**KNOWN, "v": 1, "event": {"type": "Added"}}, "'Added' cannot be read"),
        ({**KNOWN, "v": 1, "kind": "omen"}, "'omen'"),
        ({"v": 1, "kind": "input", "at": 1.0}, "record after 0"),
    ],
)
def test_a_record_that_is_not_known_is_one_line(path, open_intake, record, said):
    path.write_bytes(encode(record) * 2)
    with pytest.raises(JournalError, match=said) as caught:
        open_intake(path)
    assert "\n" not in str(caught.value)


def test_records_without_a_version_are_those_of_version_0():
    old = {"kind": "input", "seq": 1, "at": 5.0, "event": {"type": "ManagerReached", "url": "u"}}
    looked = {"type": "ManagerReached", "url": "u", "looked": True}
    assert upgrade(old) == {**old, "v": VERSION, "wall": 5.0, "event": looked}
    assert upgrade({**old, "v": 1}) == {**old, "v": VERSION}


def test_reasons_of_version_1_are_kept_as_text():
    said = {"kind": "said", "text": "app_4 ended"}
    commands = [
        {"type": "Dismiss", "app": "app_4", "reason": "app_4 ended"},
        {"type": "TellShare", "app": "app_4", "share": {"seq": 4, "reason": "app_4 ended"}},
        {"type": "SetTimer", "at": 5.0},
    ]
    now = [
        {"type": "Dismiss", "app": "app_4", "cause": said},
        {"type": "TellShare", "app": "app_4", "share": {"seq": 4, "cause": said}},
        {"type": "SetTimer", "at": 5.0},
    ]
    for kind in ("past", "decision"):
        assert upgrade({"v": 1, "kind": kind, "commands": commands})["commands"] == now
    state = {
        "type": "State",
        "pools": [{"name": "sql", "queue": "root.sql"}, {"name": "deep", "queue": "root.sql.deep"}],
        "registered": {"app_4": {"pool": "sql"}},
        "cluster": {"apps": {"application_1_1": {"queue": "root.sql.deep.x"}, "application_1_2": {"queue": "root.b"}}},
        "members": {
            name: {"app": name, "share": {"seq": 4, "reason": "app_4 ended"}}
            for name in ("app_4", "application_1_1", "application_1_2", "application_1_3")
        },
        "policy_states": {"sql": None},
        "dismissed": {"app_4": {"final": True, "reason": "app_4 ended"}},
    }
    state = upgrade({"v": 1, "kind": "snapshot", "state": state})["state"]
    held = {name: {"app": name, "share": {"seq": 4, "cause": said}} for name in ("app_4", "application_1_1")}
    assert state["dismissed"] == {"app_4": {"final": True, "cause": said}}
    assert not {"members", "policy_states"} & state.keys()
    assert state["pool_states"] == {
        pool: {"controller": "share", "state": {"type": "share/1", "members": {name: held[name]}}}
        for pool, name in (("sql", "app_4"), ("deep", "application_1_1"))
    }


# Time.


class Machine:
    """A machine's clocks."""

    def __init__(self):
        self.wall, self.monotonic = 1_800_000_000.0, 50.0

    def clock(self):
        return JournalClock(lambda: self.wall, lambda: self.monotonic)

    def pass_by(self, seconds):
        self.wall, self.monotonic = self.wall + seconds, self.monotonic + seconds


def test_fields_of_pools_of_version_2_have_their_present_names():
    old = {"name": "sql", "grace": 10.0, "overstay": 15.0, "settle": 5.0, "submit_within": 120.0}
    now = {"name": "sql", "grace": 10.0, "preempt_after": 15.0, "idle_timeout": 5.0, "submit_timeout": 120.0}
    for kind, holder in (("snapshot", "state"), ("input", "event"), ("past", "event")):
        record = upgrade({"v": 2, "kind": kind, holder: {"type": "x", "pools": [old, old], "timer": None}})
        assert record == {"v": VERSION, "kind": kind, holder: {"type": "x", "pools": [now, now], "timer": None}}


def test_a_clock_that_is_set_changes_nothing_of_the_journals_time():
    machine = Machine()
    clock = machine.clock()
    for jump in (7200.0, -14400.0, 7200.0):
        machine.wall += jump
        machine.pass_by(1.0)
    assert clock.now() == 1_800_000_003.0
    assert clock.wall() == machine.wall


@pytest.mark.parametrize(("jump", "went_on"), [(20.0, 20.0), (0.0, 0.0), (-7200.0, 0.0), (90_000.0, 3600.0)])
def test_a_restart_advances_time_by_at_most_an_hour_of_downtime(jump, went_on):
    machine = Machine()
    clock = machine.clock()
    machine.wall += jump
    clock.resume(1_000_000.0, 1_800_000_000.0)
    assert clock.now() == 1_000_000.0 + went_on
    machine.pass_by(3.0)
    assert clock.now() == 1_000_003.0 + went_on


def test_an_intake_resumes_at_the_time_of_its_last_record(path):
    machine = Machine()
    intake = Intake(StateMachine(add, Total()), Durable(TAGS, RecordFile(path)), machine.clock())
    machine.wall += 7200
    machine.pass_by(5)
    assert (intake.take(Added(1)).at, intake.history[-1].wall) == (1_800_000_005.0, 1_800_007_205.0)
    intake.close()
    machine.wall -= 7200
    again = Intake(StateMachine(add, Total()), Durable(TAGS, RecordFile(path)), machine.clock())
    assert again.take(Added(1)).at == 1_800_000_005.0
    again.close()


def test_a_journal_whose_lock_file_was_removed_is_still_in_use(tmp_path):
    path = tmp_path / "journal"
    first = RecordFile(path)
    for _ in range(2):
        (tmp_path / "journal.lock").unlink()
        with pytest.raises(JournalInUseError, match="another process"):
            RecordFile(path)
        first.append({"seq": 1})
        # The file that a compaction makes is locked, too.
        first.rewrite({"seq": 2})
    first.close()
    second = RecordFile(path)
    assert list(second.read()) == [{"seq": 2}]
    second.close()


def test_nothing_is_written_to_a_journal_that_was_removed(tmp_path):
    """Another process may have started a new one in its place."""
    path = tmp_path / "journal"
    first = RecordFile(path)
    first.append({"seq": 1})
    for name in ("journal", "journal.lock"):
        (tmp_path / name).unlink()
    second = RecordFile(path)
    for write in (lambda: first.append({"seq": 2}), first.probe):
        with pytest.raises(JournalUnavailableError, match="removed or replaced"):
            write()
    assert not list(second.read())
    first.close()
    second.close()


# Valid checksums, and no records.


def recorded(**fields):
    return json.dumps({"v": VERSION, "kind": "input", "seq": 1, "at": 1.0, "wall": 1.0, **fields}).encode()


ADDED = {"type": "Added", "amount": 1}


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "nested too deeply"),
        (b'{"seq": ' + b"9" * 5000 + b"}", "thousands of digits"),
        (b"[1, 2]", "must be a JSON object, not a list"),
        (b"null", "must be a JSON object, not a NoneType"),
        (b'{"seq": "\xff"}', "is not UTF-8"),
        (b"{seq}", "is not JSON"),
        (recorded(event=ADDED, seq="one"), "seq is 'one', not a whole number"),
        (recorded(event=ADDED, at=float("nan")), "at is nan, not a time"),
        (recorded(event=ADDED, wall="noon"), "wall is 'noon', not a time"),
        (recorded(event=[1]), "must be an object, not a list"),
        (recorded(event="Added"), "must be an object, not a str"),
        (recorded(event=None), "must be an object, not a NoneType"),
        (recorded(), "event is missing"),
        (recorded(kind=["input"], event=ADDED), "unknown kind"),
        (b'{"v": 1, "kind": "query", "seq": 1, "at": 1.0}', "unknown kind 'query'; it needs a newer release, or"),
        (recorded(kind="snapshot", state=[]), "must be an object, not a list"),
    ],
    ids=range(17),
)
@pytest.mark.parametrize("last", [True, False])
def test_a_record_that_no_release_wrote_is_refused_in_one_line(path, open_intake, body, said, last):
    path.write_bytes(encode(body) + (b"" if last else encode(recorded(event=ADDED, seq=2))))
    with pytest.raises(JournalError) as refused:
        open_intake(path)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 600
