"""A folder that belongs to one running query, on any file system that Spark can access.

It is deleted when the query ends. If the query was killed, the folder is deleted when the application ends, or by the
next query of the same user. For that purpose each folder contains a heartbeat file `_alive`, rewritten every minute,
which names the process that writes it. A folder counts as abandoned when the heartbeat is too old, no other file in it
is newer, and the process, if it was on this host, no longer exists. Folders of other users are never touched.

Only its owner can read it, as it has rows of tables.
"""

import contextlib
import json
import re
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import psutil
from pyspark.sql import SparkSession

from qoop.errors import QoopError
from qoop.latest import Latest

ALIVE = "_alive"
HEARTBEAT_S = 60.0
"""Seconds between heartbeats."""

HEARTBEAT_RETRY_S = 5.0
"""Seconds until a failed heartbeat is retried."""

ABANDONED_AFTER_S = 900.0
"""Seconds without a heartbeat, by the file system's clock: clocks of hosts may differ."""


HEARTBEAT_FAILED = (
    f"could not write the heartbeat file; after {ABANDONED_AFTER_S / 60:g} min without one, your next query may delete "
    "this directory"
)

PRIVATE = "700"

NAMED = re.compile(r"(\d+-[0-9a-f]{6}|[0-9a-f]{8})$")
"""How the names of folders end that queries make."""

SWEEP_S = 600.0
"""Seconds after which a process looks for abandoned folders with the same prefix again."""


def taken_literally(path: str) -> str:
    """A path in which Hadoop takes no character for a pattern."""
    return re.sub(r"([\[\]{}*?\\])", r"\\\1", path)


class QueryFolder:
    """The folder `prefix` + `name`. Creating it now and then deletes the user's abandoned folders with this prefix.

    Args:
        prefix: the common start of the paths of such folders.
        warn: prints a line for the user; called from several threads.
    """

    def __init__(
        self, spark: SparkSession, prefix: str, name: str, warn: Callable[[str], None] = lambda line: None
    ) -> None:
        self.path = prefix + name
        self._prefix, self._warn = prefix, warn
        # Only Java objects: a reference to this object must not keep the session alive.
        self._jvm: Any = spark.sparkContext._jvm
        self._paths: Any = self._jvm.org.apache.hadoop.fs.Path
        configuration = spark._jsparkSession.sessionState().newHadoopConf()
        self._system = self._at(self.path).getFileSystem(configuration)
        self._failing = self._closed = False
        self._lock = threading.Lock()
        self._created = False

    def create(self) -> None:
        """Create the folder if it does not exist yet; now and then delete what killed queries of this user have left.

        Raises:
            QoopError: it was deleted, as the query has ended.
        """
        with self._lock:
            if self._closed:
                raise QoopError(f"{self.path}: was deleted when the query ended")
            if self._created:
                return
            self._create_private()
            self._write_heartbeat()
            # Deletes it however the application ends, unless its JVM is killed.
            self._system.deleteOnExit(self._at(self.path))
            self._created = True
            _heartbeats.add(self)
        swept = _swept.get(self._prefix)
        if swept is None or time.monotonic() - swept >= SWEEP_S:
            self._delete_abandoned()

    def exists(self, path: str) -> bool:
        """Whether a path exists on this file system."""
        return bool(self._system.exists(self._at(path)))

    def move(self, name: str, path: str) -> bool:
        """Rename a file or folder inside it to `path`; False if the file system refuses."""
        return bool(self._system.rename(self._at(f"{self.path}/{name}"), self._at(path)))

    def remove(self, path: str) -> None:
        """Delete a path on this file system, with all that is in it."""
        self._system.delete(self._at(path), True)

    def delete(self) -> None:
        """Delete the folder with its contents."""
        with self._lock:
            self._closed = True
            _heartbeats.remove(self)
            if self._created:
                self._system.delete(self._at(self.path), True)
                self._system.cancelDeleteOnExit(self._at(self.path))

    def delete_again(self) -> None:
        """Delete what a stage has written to it that went on when the query ended: that has made the folder anew."""
        with self._lock:
            if self._closed:
                self._system.delete(self._at(self.path), True)

    def _delete_abandoned(self) -> None:
        """Delete abandoned folders; those that cannot be read or deleted are left, without an error."""
        try:
            own = self._system.getFileStatus(self._at(f"{self.path}/{ALIVE}"))
            now, owner = own.getModificationTime(), str(own.getOwner())
            # Not the heartbeats in them: those of other users cannot be read, and one of them would fail it all.
            found = list(self._system.globStatus(self._at(f"{taken_literally(self._prefix)}*")) or ())
        except Exception:  # noqa: BLE001 - the next query tries again
            return
        _swept.put(self._prefix, time.monotonic())
        for folder in found:
            try:
                is_named = NAMED.search(str(folder.getPath().getName())) is not None
                if is_named and str(folder.getOwner()) == owner and self._is_abandoned(folder.getPath(), now):
                    self._system.delete(folder.getPath(), True)
            except Exception:  # noqa: BLE001 - another query may have deleted it first, or it is not ours to delete
                continue

    def _is_abandoned(self, folder: Any, now: int) -> bool:
        oldest_alive = now - ABANDONED_AFTER_S * 1000
        heartbeat = self._paths(folder, ALIVE)
        # Without a heartbeat it is not a folder of a query: then this raises an exception.
        if self._system.getFileStatus(heartbeat).getModificationTime() > oldest_alive:
            return False
        return not self._has_newer_file(folder, oldest_alive) and not _is_running_here(self._read(heartbeat))

    def _has_newer_file(self, folder: Any, than: float) -> bool:
        """Whether a file in a folder was written later: then its query is alive, and only its heartbeat fails."""
        files = self._system.listFiles(folder, True)
        while files.hasNext():
            if files.next().getModificationTime() > than:
                return True
        return False

    def _read(self, file: Any) -> str:
        stream = self._system.open(file)
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def _create_private(self) -> None:
        """Create the folder so that only its owner can read it, whatever the user's umask."""
        folder = self._at(self.path)
        self._system.mkdirs(folder)
        self._system.setPermission(folder, self._jvm.org.apache.hadoop.fs.permission.FsPermission(PRIVATE))

    def _write_heartbeat(self) -> None:
        stream = self._system.create(self._at(f"{self.path}/{ALIVE}"), True)
        try:
            stream.write(bytearray(_this_process().encode()))
        finally:
            stream.close()

    def _touch(self) -> None:
        """A heartbeat that needs no disk space: set the file's time, by this host's clock."""
        self._system.setTimes(self._at(f"{self.path}/{ALIVE}"), int(time.time() * 1000), -1)

    def beat(self) -> float:
        """Write the heartbeat, unless the folder was deleted. Returns the seconds until the next; raises nothing."""
        try:
            with self._lock:
                if not self._closed:
                    self._write_heartbeat()
            self._failing = False
        except Exception as problem:  # noqa: BLE001 - the folder of a live query must not look abandoned
            if not self._failing and not self._closed:
                message = " ".join(str(problem).split())[:300]
                with contextlib.suppress(Exception):
                    self._warn(f"{self.path}: {HEARTBEAT_FAILED}; retrying: {message}")
            self._failing = True
            self._try_touch()
        return HEARTBEAT_RETRY_S if self._failing else HEARTBEAT_S

    def _try_touch(self) -> None:
        try:
            with self._lock:
                if not self._closed:
                    self._touch()
        except Exception:  # noqa: BLE001 - the failure was reported; the heartbeat is retried
            return

    def _at(self, path: str) -> Any:
        return self._paths(path)


class Heartbeats:
    """Writes the heartbeats of all folders of this process in one thread, which runs while there are any.

    A file system that does not answer delays the heartbeats of folders on others. That does no harm for
    `ABANDONED_AFTER_S`, and none on this host.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._due: dict[QueryFolder, float] = {}
        self._thread: threading.Thread | None = None

    def add(self, folder: QueryFolder) -> None:
        """Keep a folder alive, whose first heartbeat was just written."""
        with self._changed:
            self._due[folder] = time.monotonic() + HEARTBEAT_S
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="qoop heartbeats", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def remove(self, folder: QueryFolder) -> None:
        """Write no more heartbeats of a folder."""
        with self._changed:
            self._due.pop(folder, None)
            self._changed.notify_all()

    def _run(self) -> None:
        while (folder := self._next()) is not None:
            wait_s = folder.beat()
            with self._changed:
                if folder in self._due:
                    self._due[folder] = time.monotonic() + wait_s

    def _next(self) -> QueryFolder | None:
        """The folder whose heartbeat is due, when it is; None if there is no folder: the thread then ends."""
        with self._changed:
            while self._due:
                folder, due = min(list(self._due.items()), key=lambda one: one[1])
                wait_s = due - time.monotonic()
                if wait_s <= 0:
                    return folder
                self._changed.wait(wait_s)
            self._thread = None
            return None


_heartbeats = Heartbeats()

_swept: Latest[str, float] = Latest(1000)
"""When this process has looked for abandoned folders, by their prefix: there may be many, and each is asked for."""


def _this_process() -> str:
    """The content of a heartbeat: host, process id, and the process's start time, as process ids are reused."""
    process = psutil.Process()
    return json.dumps({"host": socket.gethostname(), "pid": process.pid, "began": process.create_time()})


def _is_running_here(heartbeat: str) -> bool:
    """Whether the process that wrote a heartbeat runs on this host."""
    try:
        writer = json.loads(heartbeat)
        if writer["host"] != socket.gethostname():
            return False
        return bool(abs(psutil.Process(writer["pid"]).create_time() - writer["began"]) < 1.0)
    except (ValueError, KeyError, TypeError, psutil.Error):
        # The heartbeat is malformed or empty, or the process does not exist.
        return False
