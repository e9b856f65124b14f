"""Checkpoints of a trial in a store: whole or absent, whatever is killed; an earlier epoch is never the newest
again.
"""

import errno
import os
import shutil
import signal
from pathlib import Path

import pytest

from themis_agent.errors import StoreError, SupersededError
from themis_agent.trial.checkpoints import Checkpoint, Checkpoints, DamagedError
from themis_agent.trial.logs import BoundedLog
from themis_agent.trial.store import FileStore, store_at
from yarn_plugin.errors import BadInputError


class CountedStore(FileStore):
    """Calls `at_crash` before change number `crash_at` of the files; a copy counts twice, and may stay half done."""

    def __init__(self, root, crash_at=10**9, at_crash=lambda: os.kill(os.getpid(), signal.SIGKILL)):
        super().__init__(root)
        self.left, self.at_crash, self.folder = crash_at, at_crash, root

    def _count(self):
        self.left -= 1
        if not self.left:
            self.at_crash()

    def put(self, source, name):
        self._count()
        half = self.folder / name
        half.parent.mkdir(parents=True, exist_ok=True)
        half.write_bytes(source.read_bytes()[: source.stat().st_size // 2])
        self._count()
        super().put(source, name)

    def write(self, name, data):
        self._count()
        super().write(name, data[: len(data) // 2])
        self._count()
        super().write(name, data)

    def rename(self, old, new):
        self._count()
        super().rename(old, new)

    def remove(self, name):
        self._count()
        path = self.folder / name
        if path.is_dir():
            next(one for one in path.rglob("*") if one.is_file()).unlink()
            self._count()
        super().remove(name)


@pytest.fixture
def root(tmp_path):
    (tmp_path / "store").mkdir()
    return tmp_path / "store"


@pytest.fixture
def trained(tmp_path):
    """Writes the local checkpoint of a step as a script would, with contents that tell which it is."""

    def trained(step, text=""):
        folder = tmp_path / f"training/step-{step}"
        (folder / "shards").mkdir(parents=True, exist_ok=True)
        (folder / "weights").write_text(f"weights {step} {text}")
        (folder / "shards/0").write_text(f"shard {step} {text}")
        return folder

    return trained


def epoch(root, number, keep=2, store=None):
    return Checkpoints(store or FileStore(root), "t1", number, keep)


def begun(root, number, local):
    """Begin an epoch on a new machine: what is restored, and its contents."""
    shutil.rmtree(local, ignore_errors=True)
    found = epoch(root, number).begin(local)
    if found is None:
        assert not local.exists() or list(local.iterdir()) == []
        return None
    assert [one.name for one in local.iterdir()] == [f"step-{found.step}"]
    shard, weights = ((local / f"step-{found.step}" / name).read_text() for name in ("shards/0", "weights"))
    assert shard.split()[1:] == weights.split()[1:]
    return found, weights.split()[1:]


def in_a_killed_process(action):
    """Run in a child process; whether it was killed."""
    child = os.fork()
    if not child:
        try:
            action()
            os._exit(0)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert status in (0, signal.SIGKILL)
    return status == signal.SIGKILL


def test_newest_checkpoint_is_restored_on_another_machine(root, trained, tmp_path):
    first = epoch(root, 1)
    assert first.begin(tmp_path / "a") is None
    first.commit(10, trained(10))
    first.commit(20, trained(20))
    assert begun(root, 2, tmp_path / "b") == (Checkpoint(1, 20), ["20"])


def test_last_k_are_kept_over_epochs(root, trained, tmp_path):
    one = epoch(root, 1)
    one.begin(tmp_path / "a")
    for step in (10, 20, 30):
        one.commit(step, trained(step))
    assert sorted(path.name for path in (root / "t1/000001").glob("*.json")) == [
        "000000000020.json",
        "000000000030.json",
    ]
    two = epoch(root, 2)
    two.begin(tmp_path / "b")
    two.commit(40, trained(40))
    assert sorted(str(path.relative_to(root / "t1")) for path in (root / "t1").glob("0*/*")) == [
        "000001/000000000030",
        "000001/000000000030.json",
        "000002/000000000040",
        "000002/000000000040.json",
    ]


@pytest.mark.parametrize("kept", [1, 2])
def test_killed_at_every_point_of_upload_and_commit(root, trained, tmp_path, kept):
    """At each change of a file: the newest checkpoint is the old or the new one, whole, and later commits work."""
    crash_at, killed, new = 0, True, []
    while killed:
        crash_at += 1
        shutil.rmtree(root / "t1", ignore_errors=True)
        earlier = epoch(root, 1, kept)
        earlier.begin(tmp_path / "a")
        for step in (10, 20):
            earlier.commit(step, trained(step))
        store = CountedStore(root, crash_at)

        def second(store=store):
            local = epoch(root, 2, kept, store)
            local.begin(tmp_path / "b")
            local.commit(30, trained(30, "new"))

        killed = in_a_killed_process(second)
        found = begun(root, 3, tmp_path / "c")
        assert found in [(Checkpoint(1, 20), ["20"]), (Checkpoint(2, 30), ["30", "new"])]
        new.append(found[0].epoch == 2)
        third = epoch(root, 3, kept)
        third.commit(40, trained(40))
        third.commit(50, trained(50))
        left = {path.name for path in (root / "t1").glob("0*/*")}
        assert left == {f"0000000000{step}{end}" for step in (40, 50)[2 - kept :] for end in ("", ".json")}
    # Each crash before the rename leaves the old one, each after it the new one; and there were some of both.
    assert new == sorted(new)
    assert new.count(False) > 8
    assert new.count(True) > 3


def test_superseded_epoch_commits_nothing_and_is_told(root, trained, tmp_path):
    old = epoch(root, 1)
    old.begin(tmp_path / "a")
    old.commit(10, trained(10))
    assert begun(root, 2, tmp_path / "b") == (Checkpoint(1, 10), ["10"])
    with pytest.raises(SupersededError, match="epoch 2 has begun"):
        old.commit(20, trained(20))
    with pytest.raises(SupersededError):
        epoch(root, 1).begin(tmp_path / "c")
    assert begun(root, 3, tmp_path / "d") == (Checkpoint(1, 10), ["10"])


def test_late_commit_of_a_superseded_epoch_is_never_the_newest(root, trained, tmp_path):
    """The superseded launcher was stopped between its last check and the rename, while the next epoch began."""
    epoch(root, 1).begin(tmp_path / "a")
    epoch(root, 1).commit(10, trained(10))

    class Stopped(FileStore):
        def rename(self, old, new):
            assert begun(root, 2, tmp_path / "b") == (Checkpoint(1, 10), ["10"])
            super().rename(old, new)

    with pytest.raises(SupersededError):
        epoch(root, 1, store=Stopped(root)).commit(20, trained(20, "late"))
    assert (root / "t1/000001/000000000020.json").exists()
    assert begun(root, 3, tmp_path / "c") == (Checkpoint(1, 10), ["10"])


def test_damaged_checkpoint_is_passed_over(root, trained, tmp_path):
    one = epoch(root, 1)
    one.begin(tmp_path / "a")
    one.commit(10, trained(10))
    one.commit(20, trained(20))
    (root / "t1/000001/000000000020/weights").write_text("weights 2x ")
    assert begun(root, 2, tmp_path / "b") == (Checkpoint(1, 10), ["10"])
    (root / "t1/000001/000000000010/shards/0").unlink()
    assert begun(root, 3, tmp_path / "b") is None


@pytest.mark.parametrize("part", ["weights", "shards/0", ".json"])
def test_checkpoint_that_cannot_be_read_is_passed_over(root, trained, tmp_path, part):
    """A directory is in the place of a file."""
    one = epoch(root, 1)
    one.begin(tmp_path / "a")
    one.commit(10, trained(10))
    one.commit(20, trained(20))
    path = root / ("t1/000001/000000000020" + (part if part == ".json" else f"/{part}"))
    path.unlink()
    path.mkdir()
    assert begun(root, 2, tmp_path / "b") == (Checkpoint(1, 10), ["10"])


@pytest.mark.parametrize("failing", ["store", "local"])
def test_checkpoint_that_cannot_be_read_now_is_not_passed_over(root, trained, tmp_path, failing):
    """The store goes away, or the local disk is full, while a file is copied."""
    one = epoch(root, 1)
    one.begin(tmp_path / "a")
    one.commit(10, trained(10))

    class Failing(FileStore):
        def fetch(self, name, target):
            if failing == "local":
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            root.rename(tmp_path / "away")
            super().fetch(name, target)

    later = epoch(root, 2, store=Failing(root))
    with pytest.raises(StoreError, match="no such file" if failing == "store" else "no space left"):
        later.begin(tmp_path / "b")
    assert later.damaged == {}


def test_full_local_disk_is_not_taken_for_a_damaged_file(root, tmp_path):
    (root / "file").write_text("x" * 8192)
    with pytest.raises(OSError, match="No space left"):
        FileStore(root).fetch("file", Path("/dev/full"))


def test_checkpoint_that_the_script_removes_meanwhile_is_not_stored(root, trained, tmp_path):
    source = trained(10)

    class Removing(FileStore):
        def put(self, path, name):
            super().put(path, name)
            (source / "shards/0").unlink(missing_ok=True)

    (source / "weights").unlink()
    with pytest.raises(FileNotFoundError):
        epoch(root, 1, store=Removing(root)).commit(10, source)
    assert begun(root, 2, tmp_path / "b") is None


def test_manifest_with_a_name_outside_is_passed_over(root, trained, tmp_path):
    one = epoch(root, 1)
    one.begin(tmp_path / "a")
    one.commit(10, trained(10))
    manifest = root / "t1/000001/000000000010.json"
    manifest.write_text(manifest.read_text().replace("weights", "../../weights"))
    assert begun(root, 2, tmp_path / "b") is None
    assert not (tmp_path / "weights").exists()


def test_other_launchers_of_the_gang_restore_the_same(root, trained, tmp_path):
    one = epoch(root, 1)
    one.begin(tmp_path / "a")
    one.commit(10, trained(10))
    other = epoch(root, 2)
    assert other.join(tmp_path / "c") == (False, None)
    begun(root, 2, tmp_path / "b")
    assert other.join(tmp_path / "c") == (True, Checkpoint(1, 10))
    assert (tmp_path / "c/step-10/weights").read_text() == (tmp_path / "b/step-10/weights").read_text()


def test_store_that_is_away_is_not_made(root, trained, tmp_path):
    one = epoch(root, 1)
    one.begin(tmp_path / "a")
    root.rename(tmp_path / "away")
    with pytest.raises(StoreError, match=r"no such file"):
        one.commit(10, trained(10))
    assert not root.exists()
    (tmp_path / "away").rename(root)
    one.commit(10, trained(10))
    assert begun(root, 2, tmp_path / "b") == (Checkpoint(1, 10), ["10"])


@pytest.mark.parametrize("url", ["s3://bucket/x", "file://host/x", "checkpoints", "file:x"])
def test_url_of_no_store_is_refused(url):
    with pytest.raises(BadInputError, match="checkpoint url"):
        store_at(url)


def test_file_url(root, trained, tmp_path):
    store = store_at(Path(root).as_uri())
    store.write("a b", b"1")
    assert (root / "a b").read_bytes() == b"1"


@pytest.mark.parametrize("damage", ["cut", "directory", "unreadable"])
def test_damaged_record_of_an_epoch_stops_no_later_one(root, trained, tmp_path, damage):
    for number, step in ((1, 10), (2, 20)):
        one = epoch(root, number)
        one.begin(tmp_path / "a")
        one.commit(step, trained(step))
    begun(root, 3, tmp_path / "b")
    record = root / "t1/epochs/000003.json"
    if damage == "directory":
        record.unlink()
        record.mkdir()
    else:
        record.write_bytes(b"{" if damage == "cut" else b"\xff\x00")
    later = epoch(root, 4)
    # Epoch 3 has no checkpoint of its own, and its record no longer says from which one it continued.
    assert later.begin(tmp_path / "c") == Checkpoint(2, 20)
    assert list(later.damaged_records) == [3]
    later.commit(30, trained(30))
    assert begun(root, 5, tmp_path / "d") == (Checkpoint(4, 30), ["30"])


@pytest.mark.parametrize("damaged", ["epochs/000002.json", "000001/000000000010.json"])
def test_a_launcher_cannot_join_an_epoch_that_is_damaged(root, trained, tmp_path, damaged):
    one = epoch(root, 1)
    one.begin(tmp_path / "a")
    one.commit(10, trained(10))
    begun(root, 2, tmp_path / "b")
    (root / "t1" / damaged).write_text("{")
    with pytest.raises(DamagedError):
        epoch(root, 2).join(tmp_path / "c")


def test_other_files_in_the_store_are_left_alone(root, trained, tmp_path):
    one = epoch(root, 1)
    one.begin(tmp_path / "a")
    (root / "t1/000001").mkdir(exist_ok=True)
    (root / "t1/000001/.nfs0001").write_text("")
    one.commit(10, trained(10))
    assert (root / "t1/000001/.nfs0001").exists()
    assert begun(root, 2, tmp_path / "b") == (Checkpoint(1, 10), ["10"])


def test_a_store_that_was_full_is_not_filled_by_what_could_not_be_stored(root, trained, tmp_path):
    class Small(FileStore):
        """A store with room for so many bytes; a file that does not fit is cut."""

        room = 10_000

        def _left(self):
            return self.room - sum(one.stat().st_size for one in root.rglob("*") if one.is_file())

        def put(self, source, name):
            left = self._left()
            if source.stat().st_size > left:
                target = root / name
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(source.read_bytes()[: max(left, 0)])
                raise StoreError(f"{name}: no space left on device")
            super().put(source, name)

        def write(self, name, data):
            if len(data) > self._left():
                (root / name).write_bytes(data[: max(self._left(), 0)])
                raise StoreError(f"{name}: no space left on device")
            super().write(name, data)

    store = Small(root)
    one = epoch(root, 1, keep=1, store=store)
    one.begin(tmp_path / "a")
    before = store._left()
    one.commit(10, trained(10, "x" * 100))
    used, size = store.room - store._left(), before - store._left()
    # Too little for a second checkpoint, or for its manifest alone.
    for room in range(used, used + size, 10):
        store.room = room
        with pytest.raises(StoreError, match="no space left"):
            one.commit(20, trained(20, "x" * 100))
        assert store.room - store._left() == used
    assert begun(root, 2, tmp_path / "b")[0] == Checkpoint(1, 10)
    store.room = 10_000
    later = epoch(root, 3, keep=1, store=store)
    later.begin(tmp_path / "c")
    later.commit(20, trained(20, "x" * 100))
    assert begun(root, 4, tmp_path / "d")[0] == Checkpoint(3, 20)


def test_a_log_that_cannot_be_opened_is_written_when_it_can(tmp_path):
    (tmp_path / "logs").write_text("in the way")
    log = BoundedLog(tmp_path / "logs" / "rank-0.log", 4096)
    log.write(b"lost\n")
    (tmp_path / "logs").unlink()
    log.write(b"kept\n")
    log.close()
    assert (tmp_path / "logs" / "rank-0.log").read_text() == "kept\n"
