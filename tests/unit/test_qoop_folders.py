"""Folders of running queries: heartbeats survive errors, and abandoned folders are deleted."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest
from py4j.protocol import Py4JError

from qoop.engine import folders
from qoop.engine.folders import QueryFolder
from qoop.errors import QoopError
from tests.eventually import eventually

HOUR = 3600.0


class HadoopPath:
    """org.apache.hadoop.fs.Path, as far as folders use it."""

    def __init__(self, text, system):
        self.path, self._system = Path(text), system

    def getFileSystem(self, configuration):  # noqa: N802 - Java's name
        return self._system

    def getName(self):  # noqa: N802
        return self.path.name


class Status:
    """A file's status; owners are the file system's to name."""

    def __init__(self, path, system):
        self._path, self._system = path, system

    def getModificationTime(self):  # noqa: N802
        return int(self._path.stat().st_mtime * 1000)

    def getOwner(self):  # noqa: N802
        folder = self._path if self._path.is_dir() else self._path.parent
        return self._system.owners.get(folder.name, "me")

    def getPath(self):  # noqa: N802
        return HadoopPath(self._path, self._system)


class Iteration:
    """org.apache.hadoop.fs.RemoteIterator."""

    def __init__(self, items):
        self._items = list(items)

    def hasNext(self):  # noqa: N802
        return bool(self._items)

    def next(self):
        return self._items.pop(0)


class FileSystem:
    """A file system of Hadoop's over a folder of this machine; `fails` maps an operation to what it raises."""

    def __init__(self):
        self.fails, self.owners, self.deleted, self.created = {}, {}, [], 0

    def _check(self, operation, path):
        if operation in self.fails:
            raise self.fails[operation]
        return path.path

    def mkdirs(self, path):
        self._check("mkdirs", path).mkdir(parents=True, exist_ok=True)

    def setPermission(self, path, permission):  # noqa: N802
        self._check("setPermission", path).chmod(int(permission, 8))

    def create(self, path, overwrite):
        self.created += 1
        file = self._check("create", path)
        assert file.parent.is_dir(), "made by create, it would have another mode"
        return file.open("wb")

    def open(self, path):
        return self._check("open", path).open("rb")

    def setTimes(self, path, modified, accessed):  # noqa: N802
        os.utime(self._check("setTimes", path), (modified / 1000,) * 2)

    def getFileStatus(self, path):  # noqa: N802
        file = self._check("getFileStatus", path)
        if file.parent.name in self.owners:
            raise Py4JError("permission denied: the folder is another user's")
        return Status(file, self)

    def globStatus(self, path):  # noqa: N802
        self._check("globStatus", path)
        return [Status(found, self) for found in sorted(path.path.parent.glob(path.path.name))]

    def listFiles(self, path, recursive):  # noqa: N802
        files = self._check("listFiles", path).rglob("*")
        return Iteration(Status(file, self) for file in files if file.is_file())

    def delete(self, path, recursive):
        file = self._check("delete", path)
        self.deleted.append(file.name)
        shutil.rmtree(file)

    def deleteOnExit(self, path):  # noqa: N802
        self._check("deleteOnExit", path)

    def cancelDeleteOnExit(self, path):  # noqa: N802
        self._check("cancelDeleteOnExit", path)


class Part:
    """A part of Spark, with what was given by name."""

    def __init__(self, **parts):
        self.__dict__.update(parts)


class Folders:
    """A place for folders of queries, and what was warned of."""

    def __init__(self, root):
        self.root, self.system, self.warned, self.made = root, FileSystem(), [], []
        read = Part(toString=lambda stream, encoding: stream.read().decode(encoding))
        fs = Part(
            Path=lambda text, name="": HadoopPath(Path(text.path, name) if name else text, self.system),
            permission=Part(FsPermission=str),
        )
        apache = Part(hadoop=Part(fs=fs), commons=Part(io=Part(IOUtils=read)))
        state = Part(newHadoopConf=lambda: None)
        self.spark = Part(
            sparkContext=Part(_jvm=Part(org=Part(apache=apache))),
            _jsparkSession=Part(sessionState=lambda: state),
        )

    def create(self, name="mine"):
        folder = QueryFolder(self.spark, f"{self.root}/qoop-", name, self.warned.append)
        self.made.append(folder)
        folder.create()
        return folder

    def left(self, name, age=HOUR, heartbeat="", **files):
        """A folder that another query has left, as old as that."""
        folder = self.root / f"qoop-{name}"
        folder.mkdir(parents=True)
        (folder / folders.ALIVE).write_text(heartbeat)
        for file in files:
            (folder / file).touch()
        for file in folder.iterdir():
            self.age(file, files.get(file.name, age))
        return folder

    @staticmethod
    def age(file, seconds):
        os.utime(file, (time.time() - seconds,) * 2)

    def heartbeat(self, name="mine"):
        return self.root / f"qoop-{name}" / folders.ALIVE


@pytest.fixture
def place(tmp_path, monkeypatch):
    failed = []
    monkeypatch.setattr(threading, "excepthook", failed.append)
    monkeypatch.setattr(folders, "_heartbeats", folders.Heartbeats())
    monkeypatch.setattr(folders, "NAMED", re.compile(r"qoop-\w+$"))
    monkeypatch.setattr(folders, "SWEEP_S", 0.0)
    made = Folders(tmp_path)
    yield made
    for folder in made.made:
        folders._heartbeats.remove(folder)
    assert failed == []


# Abandoned folders.


def test_the_users_own_abandoned_folders_are_deleted(place):
    place.left("old", result=HOUR)
    place.left("young", age=60.0)
    place.create()
    assert place.system.deleted == ["qoop-old"]


def test_other_users_folders_are_not_deleted(place):
    place.left("theirs")
    place.system.owners["qoop-theirs"] = "somebody else"
    place.left("zz")
    place.create()
    assert place.system.deleted == ["qoop-zz"]


def test_only_folders_with_names_of_queries_are_deleted(place, monkeypatch):
    monkeypatch.undo()
    for name in ("results", "12-0123zz", "12-012345"):
        place.left(name)
    place.create()
    assert place.system.deleted == ["qoop-12-012345"]


def test_abandoned_folders_are_looked_for_once_in_a_while(place, monkeypatch):
    monkeypatch.setattr(folders, "SWEEP_S", 600.0)
    place.create()
    place.left("old")
    place.create("another")
    assert place.system.deleted == []


def test_a_folder_without_a_heartbeat_is_not_a_querys(place):
    (place.left("x") / folders.ALIVE).rename(place.root / "qoop-x" / "notes")
    place.create()
    assert place.system.deleted == []


def test_a_stage_that_outlives_its_query_leaves_nothing_behind(place):
    folder = place.create()
    folder.delete_again()
    assert place.system.deleted == []
    folder.delete()
    (place.root / "qoop-mine" / "view").mkdir(parents=True)
    folder.delete_again()
    assert [*place.root.iterdir()] == []
    with pytest.raises(QoopError, match="was deleted when the query ended"):
        folder.create()
    assert [*place.root.iterdir()] == []


def test_only_its_owner_can_read_a_folder(place):
    before = os.umask(0)
    try:
        place.create()
    finally:
        os.umask(before)
    assert place.heartbeat().parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("operation", ["delete", "globStatus", "listFiles"])
@pytest.mark.parametrize("problem", [Py4JError("permission denied"), RuntimeError("what?")])
def test_abandoned_folders_that_cannot_be_deleted_fail_no_stage(place, operation, problem):
    place.left("old")
    place.system.fails[operation] = problem
    place.create()
    assert (place.heartbeat().is_file(), place.warned) == (True, [])


def test_an_unreadable_folder_does_not_stop_the_deletion_of_others(place):
    place.left("a").joinpath(folders.ALIVE).write_bytes(b"\xff")
    Folders.age(place.heartbeat("a"), HOUR)
    place.left("b")
    place.create()
    assert place.system.deleted == ["qoop-b"]


def test_a_folder_that_is_still_written_to_is_not_abandoned(place):
    """Only its heartbeat fails."""
    place.left("writing", **{"part-0001": 10.0})
    place.create()
    assert place.system.deleted == []


def written_by(pid):
    return json.dumps({"host": socket.gethostname(), "pid": pid, "began": psutil.Process(pid).create_time()})


def test_a_folder_whose_process_runs_on_this_host_is_not_abandoned(place):
    """However old its heartbeat is: the clock may have been set forward."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        heartbeat = written_by(process.pid)
        place.left("lives", heartbeat=heartbeat)
        place.create()
        assert place.system.deleted == []
    finally:
        process.communicate(b"\n")
    place.create("another")
    assert place.system.deleted == ["qoop-lives"]


@pytest.mark.parametrize("changed", [{"host": "elsewhere"}, {"began": 1.0}, {"pid": "x"}, {"pid": -1}])
def test_a_heartbeat_of_another_process_does_not_protect_a_folder(place, changed):
    place.left("old", heartbeat=json.dumps({**json.loads(written_by(os.getpid())), **changed}))
    place.create()
    assert place.system.deleted == ["qoop-old"]


# Heartbeats.


def test_a_heartbeat_names_its_process(place):
    place.create()
    assert json.loads(place.heartbeat().read_text()) == json.loads(written_by(os.getpid()))


@pytest.mark.parametrize("problem", [Py4JError("no space left"), OSError(28, "no space left"), RuntimeError("what?")])
def test_heartbeats_survive_errors_which_are_reported_once(place, monkeypatch, problem):
    monkeypatch.setattr(folders, "HEARTBEAT_S", 0.005)
    monkeypatch.setattr(folders, "HEARTBEAT_RETRY_S", 0.005)
    place.create()
    place.system.fails["create"] = problem
    eventually(lambda: place.warned)
    before = place.system.created
    eventually(lambda: place.system.created > before + 3)
    Folders.age(place.heartbeat(), HOUR)
    eventually(
        lambda: place.heartbeat().stat().st_mtime > time.time() - HOUR / 2
    )  # touched, where it cannot be written
    place.system.fails["setTimes"] = problem
    before = place.system.created
    eventually(lambda: place.system.created > before + 3)
    place.system.fails.clear()
    place.heartbeat().unlink()
    eventually(lambda: place.heartbeat().is_file() and place.heartbeat().read_text())
    (warning,) = place.warned
    assert "could not write the heartbeat" in warning


def test_a_folder_that_could_not_be_created_is_created_by_the_next_stage(place):
    place.system.fails["deleteOnExit"] = Py4JError("gone")
    with pytest.raises(Py4JError):
        place.create()
    place.system.fails.clear()
    place.made[-1].create()
    assert len(heartbeat_threads()) == 1


def heartbeat_threads():
    return [thread for thread in threading.enumerate() if thread.name == "qoop heartbeats"]


def test_all_folders_are_kept_alive_by_one_thread_that_ends_with_them(place, monkeypatch):
    eventually(lambda: not heartbeat_threads())
    monkeypatch.setattr(folders, "HEARTBEAT_S", 0.005)
    for name in "abc":
        place.create(name)
    assert len(heartbeat_threads()) == 1
    for name in "abc":
        Folders.age(place.heartbeat(name), HOUR)
    eventually(lambda: all(place.heartbeat(name).stat().st_mtime > time.time() - HOUR / 2 for name in "abc"))
    for folder in place.made:
        folder.delete()
    eventually(lambda: not heartbeat_threads())
    assert sorted(place.system.deleted) == ["qoop-a", "qoop-b", "qoop-c"]
    place.create("d")
    assert len(heartbeat_threads()) == 1
