"""A folder that belongs to one running query, on any file system that Spark can access.

It is deleted when the query ends. If the query was killed, the folder is deleted when the application ends, or by the
next query of the same user. For that purpose each folder contains a heartbeat file `_alive`, rewritten every minute,
which names the process that writes it. A folder counts as abandoned when the heartbeat is too old, no other file in it
is newer, and the process, if it was on this host, no longer exists. Folders of other users are never touched.
"""

import json
import re
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import psutil
from pyspark.sql import SparkSession

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


class QueryFolder:
    """The folder `prefix` + `name`. Creating it also deletes the user's abandoned folders with the same prefix.

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
        self._closed = threading.Event()
        self._lock = threading.Lock()
        self._created = False

    def create(self) -> None:
        """Create the folder if it does not exist yet, and delete what killed queries of this user have left."""
        with self._lock:
            if self._created:
                return
            self._write_heartbeat()
            # Deletes it however the application ends, unless its JVM is killed.
            self._system.deleteOnExit(self._at(self.path))
            self._created = True
        threading.Thread(target=self._write_heartbeats, name=f"{self.path} alive", daemon=True).start()
        self._delete_abandoned()

    def exists(self, path: str) -> bool:
        """Whether a path exists on this file system."""
        return bool(self._system.exists(self._at(path)))

    def move(self, name: str, path: str) -> bool:
        """Rename a file or folder inside it to `path`; False if the file system refuses."""
        return bool(self._system.rename(self._at(f"{self.path}/{name}"), self._at(path)))

    def delete(self) -> None:
        """Delete the folder with its contents."""
        self._closed.set()
        with self._lock:
            if self._created:
                self._system.delete(self._at(self.path), True)
                self._system.cancelDeleteOnExit(self._at(self.path))

    def _delete_abandoned(self) -> None:
        """Delete abandoned folders; those that cannot be read or deleted are left, without an error."""
        try:
            own = self._system.getFileStatus(self._at(f"{self.path}/{ALIVE}"))
            now, owner = own.getModificationTime(), str(own.getOwner())
            literally = re.sub(r"([\[\]{}*?\\])", r"\\\1", self._prefix)
            found = list(self._system.globStatus(self._at(f"{literally}*/{ALIVE}")) or ())
        except Exception:  # noqa: BLE001 - the next query tries again
            return
        for heartbeat in found:
            try:
                if str(heartbeat.getOwner()) == owner and self._is_abandoned(heartbeat.getPath(), now):
                    self._system.delete(heartbeat.getPath().getParent(), True)
            except Exception:  # noqa: BLE001 - another query may have deleted it first, or it is not ours to delete
                continue

    def _is_abandoned(self, heartbeat: Any, now: int) -> bool:
        oldest_alive = now - ABANDONED_AFTER_S * 1000
        # Read again: it may have been written since the folders were listed.
        if self._system.getFileStatus(heartbeat).getModificationTime() > oldest_alive:
            return False
        return not self._has_newer_file(heartbeat.getParent(), oldest_alive) and not _is_running_here(
            self._read(heartbeat)
        )

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

    def _write_heartbeat(self) -> None:
        stream = self._system.create(self._at(f"{self.path}/{ALIVE}"), True)
        try:
            stream.write(bytearray(_this_process().encode()))
        finally:
            stream.close()

    def _touch(self) -> None:
        """A heartbeat that needs no disk space: set the file's time, by this host's clock."""
        self._system.setTimes(self._at(f"{self.path}/{ALIVE}"), int(time.time() * 1000), -1)

    def _write_heartbeats(self) -> None:
        failing = False
        while not self._closed.wait(HEARTBEAT_RETRY_S if failing else HEARTBEAT_S):
            try:
                with self._lock:
                    if not self._closed.is_set():
                        self._write_heartbeat()
                failing = False
            except Exception as problem:  # noqa: BLE001 - the folder of a live query must not look abandoned
                if not failing and not self._closed.is_set():
                    message = " ".join(str(problem).split())[:300]
                    self._warn(f"{self.path}: {HEARTBEAT_FAILED}; retrying: {message}")
                failing = True
                self._try_touch()

    def _try_touch(self) -> None:
        try:
            with self._lock:
                if not self._closed.is_set():
                    self._touch()
        except Exception:  # noqa: BLE001 - the failure was reported; the heartbeat is retried
            return

    def _at(self, path: str) -> Any:
        return self._paths(path)


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
