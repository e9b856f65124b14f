"""A query's journal: private, versioned, and never the cause of a failed query."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from qoop.as_written.causes import UntypedCause
from qoop.errors import QoopError
from qoop.plans.plan import RESULT
from qoop.replan.causes import NotPlanned
from qoop.replan.commands import Finish, RunAsWritten
from qoop.replan.events import CannotPlan, StageFinished
from qoop.report import record
from qoop.run import journal
from qoop.run.journal import VERSION, JournalFormatError, QueryJournal
from tests.query_journal import record_input
from yarn_plugin.journal.records import JournalError, RecordFile, decode, encode

RECORDED = Path(__file__).parents[1] / "data" / "q17.journal"


def wrote(path, warn=lambda line: None):
    """A journal of a query in one piece."""
    made = QueryJournal(path, warn)
    made.query(1.0, "q", "SELECT secret", (), UntypedCause("it has one table"))
    record_input(
        made,
        2.0,
        CannotPlan(UntypedCause("it has one table")),
        (RunAsWritten(NotPlanned(UntypedCause("it has one table"))),),
        "as written",
    )
    record_input(made, 3.0, StageFinished(RESULT, 1.0, 1.0, 1.0, None), (Finish(),), "done")
    made.close()
    return path


def mode(path):
    return path.stat().st_mode & 0o777


# Who reads it.


def test_only_the_owner_can_read_it_even_if_an_earlier_one_was_public(tmp_path):
    before = os.umask(0)
    try:
        path = wrote(tmp_path / "journal")
        assert mode(path) == 0o600
        path.chmod(0o644)
        inode = path.stat().st_ino
        with path.open() as held:
            wrote(path)
            assert "secret" in held.read(), "who has the old file open sees the old file"
        assert (mode(path), path.stat().st_ino == inode) == (0o600, False)
        path.write_bytes(path.read_bytes()[:-5])
        wrote(path)
    finally:
        os.umask(before)
    assert {file.name for file in tmp_path.iterdir()} == {"journal", "journal.lock"}
    assert {mode(file) for file in tmp_path.iterdir()} == {0o600}


def test_reading_writes_nothing_and_takes_no_lock(tmp_path):
    path = wrote(tmp_path / "journal")
    cut = path.read_bytes() + b"00000000 {half a rec"
    path.write_bytes(cut)
    (tmp_path / "journal.lock").unlink()
    path.chmod(0o400)
    tmp_path.chmod(0o500)
    try:
        assert [one["kind"] for one in journal.read(path)] == ["query", "input", "decision", "input", "decision"]
        assert record.read_journal(path).status == "done"
    finally:
        tmp_path.chmod(0o700)
    assert path.read_bytes() == cut
    assert [file.name for file in tmp_path.iterdir()] == ["journal"]


def test_the_journal_of_a_running_query_can_be_read(tmp_path):
    running = QueryJournal(tmp_path / "journal")
    running.query(1.0, "q", "SELECT 1", (), None)
    assert [one["kind"] for one in journal.read(tmp_path / "journal")] == ["query"]
    with pytest.raises(QoopError, match="another query"):
        QueryJournal(tmp_path / "journal")
    record_input(running, 2.0, CannotPlan(UntypedCause("x")), (), "as written")
    running.close()
    assert len(journal.read(tmp_path / "journal")) == 3


def test_other_files_are_not_overwritten(tmp_path):
    notes = tmp_path / "notes.txt"
    notes.write_text("what I must not forget\n" * 100)
    assert journal.read(notes) == []
    with pytest.raises(QoopError, match="not a query journal"):
        record.read_journal(notes)
    with pytest.raises(QoopError, match="not a query journal"):
        QueryJournal(notes)
    assert notes.read_text() == "what I must not forget\n" * 100
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(QoopError, match="regular file"):
        QueryJournal(tmp_path / "pipe")
    (tmp_path / "file").touch()
    with pytest.raises(QoopError, match="writable file"):
        QueryJournal(tmp_path / "file" / "journal")


@pytest.mark.parametrize(
    "first",
    [{"kind": "snapshot", "state": {"apps": {}}}, {"kind": "query"}, ["query"], b"no JSON"],
    ids=["an arbiter's", "no text", "a list", "no JSON"],
)
def test_journals_of_others_are_not_overwritten(tmp_path, first):
    path = tmp_path / "state" / "journal"
    path.parent.mkdir()
    path.write_bytes(encode(first))
    with pytest.raises(QoopError, match="not a query journal"):
        QueryJournal(path)
    assert path.read_bytes() == encode(first)


def test_the_journal_of_an_earlier_version_is_replaced(tmp_path):
    path = tmp_path / "q17.journal"
    shutil.copy(RECORDED, path)
    wrote(path)
    assert journal.read(path)[0]["text"] == "SELECT secret"


# Versions.


def test_records_carry_a_version(tmp_path):
    assert {one["v"] for one in journal.follow(wrote(tmp_path / "journal"))} == {VERSION}


def test_records_without_a_version_are_read(tmp_path):
    """A journal that was written before records had one."""
    shutil.copy(RECORDED, tmp_path / "q17.journal")
    assert not any("v" in one for one in journal.follow(tmp_path / "q17.journal"))
    assert {one["v"] for one in journal.read(tmp_path / "q17.journal")} == {VERSION}
    assert record.read_journal(tmp_path / "q17.journal").status == "done"


@pytest.mark.parametrize(
    ("last", "said"),
    [
        ({"v": VERSION + 1, "kind": "query"}, f"version {VERSION + 1}"),
        ({"v": "x", "kind": "query"}, "version 'x'"),
        ({"v": 1, "kind": "weather"}, "kind 'weather'"),
        ({"v": 1, "kind": "input", "event": {"type": "Rain"}}, "'Rain'"),
        ({"v": 1, "kind": "decision", "commands": [{"type": "Rain"}]}, "'Rain'"),
        (["v"], "journal"),
    ],
)
def test_an_unsupported_record_is_one_line(tmp_path, last, said):
    path = wrote(tmp_path / "journal")
    path.write_bytes(path.read_bytes() + encode(last))
    for reads in (journal.read, record.read_journal):
        with pytest.raises(JournalFormatError) as caught:
            reads(path)
        assert str(caught.value).startswith(f"journal {str(path)!r}, record 6: ")
        assert said in str(caught.value)
        assert "\n" not in str(caught.value)


# A full disk.

FILLS_THE_DISK = """
import resource, sys
from tests.unit.test_query_journal import *
path, warned = Path(sys.argv[1]), []
soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
made = QueryJournal(path, warned.append)
made.query(1.0, "q", "x" * 1000, (), None)
resource.setrlimit(resource.RLIMIT_FSIZE, (3000, hard))
for number in range(30):
    record_input(made, 2.0, CannotPlan(UntypedCause("y" * 300)), (), "as written")
resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
for number in range(30):
    record_input(made, 2.0, CannotPlan(UntypedCause("z" * 300)), (), "as written")
made.close()
print(warned)
"""


def test_on_a_full_disk_the_query_continues_and_no_truncated_record_is_left(tmp_path):
    path = tmp_path / "journal"
    command = [sys.executable, "-c", FILLS_THE_DISK, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    said = f"--journal {str(path)!r}: file too large; the query continues without a journal"
    assert done.stdout.strip() == repr([said])
    lines = path.read_bytes().splitlines(keepends=True)
    assert len(lines) > 3
    assert None not in [decode(line) for line in lines]
    assert not any(b"zzz" in line for line in lines)


@pytest.mark.parametrize("problem", [OSError(28, "No space left on device"), JournalError("the disk is full")])
def test_every_failed_write_is_reported_once(tmp_path, monkeypatch, problem):
    def refuse(self, *records, durable=True):
        raise problem

    monkeypatch.setattr(RecordFile, "append", refuse)
    warned = []
    wrote(tmp_path / "journal", warned.append)
    (warning,) = warned
    assert warning.startswith("--journal ")
    assert "continues without" in warning


def test_a_disk_that_is_full_from_the_start_is_only_reported(tmp_path, monkeypatch):
    def full(self, *_):
        try:
            raise OSError(28, "No space left on device")
        except OSError:
            raise JournalError("choose another --state") from None

    monkeypatch.setattr(RecordFile, "__init__", full)
    warned = []
    wrote(tmp_path / "journal", warned.append)
    assert [line.partition(";")[0] for line in warned] == [f"--journal '{tmp_path}/journal': no space left on device"]


def test_that_a_journal_can_be_written_is_checked_before_it_is(tmp_path):
    journal.check_writable(tmp_path / "new")
    assert not list(tmp_path.iterdir())
    (tmp_path / "text").write_text("of mine")
    for path, said in ((tmp_path, "is a directory"), (tmp_path / "text", "not a query journal")):
        with pytest.raises(QoopError, match=said):
            journal.check_writable(path)
    with pytest.raises(QoopError, match="no such directory; choose"):
        journal.check_writable(tmp_path / "no" / "q.journal")
    assert (tmp_path / "text").read_text() == "of mine"
