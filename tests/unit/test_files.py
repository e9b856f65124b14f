"""Files that are written atomically."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from yarn_plugin import files


@pytest.fixture(autouse=True)
def _umask():
    before = os.umask(0o027)
    yield
    os.umask(before)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def mode(path):
    return path.stat().st_mode & 0o777


@pytest.mark.parametrize(
    ("content", "expected"), [("caf\u00e9\n", b"caf\xc3\xa9\n"), (b"\xff\0", b"\xff\0"), ("", b"")]
)
def test_a_written_file_leaves_no_draft(tmp_path, content, expected):
    file = tmp_path / "a.json"
    file.write_text("what was there before, which is longer")
    files.write(file, content)
    assert (file.read_bytes(), names(tmp_path)) == (expected, ["a.json"])


def test_the_mode_is_the_default_or_the_given_one(tmp_path):
    files.write(tmp_path / "usual", "x")
    files.write(tmp_path / "private", "x", files.PRIVATE_MODE)
    files.write_private(tmp_path / "made" / "secret", "x")
    assert [mode(tmp_path / name) for name in ("usual", "private", "made/secret", "made")] == [
        0o640, 0o600, 0o600, 0o700,
    ]  # fmt: skip


def test_a_private_file_is_private_from_the_start(tmp_path):
    file = tmp_path / "secret"
    file.write_text("old")
    with files.draft(file, files.PRIVATE_MODE):
        (beside,) = [path for path in tmp_path.iterdir() if path != file]
        assert (beside.suffix, mode(beside), file.read_text()) == (".part", 0o600, "old")
    assert mode(file) == 0o600


@pytest.mark.parametrize("problem", [OSError(28, "No space left on device"), KeyboardInterrupt(), ValueError("x")])
@pytest.mark.parametrize("sole_writer", [False, True])
def test_a_failure_leaves_the_file_unchanged_and_no_draft(tmp_path, problem, sole_writer):
    file = tmp_path / "a.json"
    file.write_text("old")
    with pytest.raises(type(problem)), files.draft(file, sole_writer=sole_writer) as new:
        new.write(b"half of it")
        raise problem
    assert (file.read_text(), names(tmp_path)) == ("old", ["a.json"])


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_file_that_cannot_be_finished_leaves_no_draft(tmp_path, monkeypatch, step):
    def fail(*arguments):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr({"fsync": "os.fsync", "replace": "pathlib.Path.replace"}[step], fail)
    with pytest.raises(OSError, match="Input/output"):
        files.write(tmp_path / "a.json", "new", durable=True)
    assert names(tmp_path) == []


def test_a_durable_file_is_synced_before_its_folder(tmp_path, monkeypatch):
    file, seen = tmp_path / "a.json", []

    def note(descriptor):
        seen.append((Path(f"/proc/self/fd/{descriptor}").readlink().name, file.exists()))

    monkeypatch.setattr("os.fsync", note)
    files.write(file, "x")
    assert seen == []
    file.unlink()
    files.write(file, "x", durable=True)
    (draft, named), folder = seen
    assert (draft.endswith(".part"), named, folder) == (True, False, (tmp_path.name, True))


def test_a_file_system_that_cannot_sync_folders_is_supported(tmp_path, monkeypatch):
    def fail(folder, flags):
        raise OSError(22, "Invalid argument")

    with files.draft(tmp_path / "a.json", durable=True) as file:
        file.write(b"x")
        monkeypatch.setattr("os.open", fail)
    assert (tmp_path / "a.json").read_bytes() == b"x"


def test_two_writers_of_one_file_each_write_it_completely(tmp_path):
    file = tmp_path / "a.json"
    with files.draft(file) as slow:
        slow.write(b"of the slow ")
        files.write(file, "of the fast one")
        assert file.read_text() == "of the fast one"
        slow.write(b"one")
    assert (file.read_text(), names(tmp_path)) == ("of the slow one", ["a.json"])


KILLED = """
import os, pathlib, signal
from yarn_plugin import files
with files.draft(pathlib.Path("journal"), sole_writer=True) as file:
    file.write(b"x" * 100_000)
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_draft_of_a_killed_sole_writer_is_replaced(tmp_path):
    (tmp_path / "journal").write_text("old")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    ended = subprocess.run([sys.executable, "-c", KILLED], cwd=tmp_path, env=environment, timeout=60)
    assert ended.returncode == -signal.SIGKILL
    assert ((tmp_path / "journal").read_text(), names(tmp_path)) == ("old", ["journal", "journal.part"])
    with files.draft(tmp_path / "journal", sole_writer=True) as file:
        file.write(b"new")
    assert ((tmp_path / "journal").read_text(), names(tmp_path)) == ("new", ["journal"])


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs a named pipe")
def test_a_path_that_is_not_a_regular_file_is_not_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        files.write(pipe, "figures")
        assert os.read(reader, 100) == b"figures"
    finally:
        os.close(reader)
    assert pipe.is_fifo() and names(tmp_path) == ["pipe"]


def test_of_large_files_fewer_are_kept(tmp_path):
    for age in range(4):
        (tmp_path / str(age)).write_bytes(b"x" * 10)
        os.utime(tmp_path / str(age), (1e9 - age, 1e9 - age))
    files.delete_oldest(tmp_path, 10, 25)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["0", "1"]
    files.delete_oldest(tmp_path, 10, 5)
    assert [file.name for file in tmp_path.iterdir()] == ["0"], "the latest stays, however large"
