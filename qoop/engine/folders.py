"""A folder of files that belongs to one running query, on any file system that Spark reaches.

It goes with the query; and where the query was killed, with the application, or with the next query of the same user
that looks. For that every folder holds a file `_alive`, written anew every minute, which names the process that writes
it. A folder is abandoned when that has stopped, nothing else in the folder is younger, and the process, where it would
run on this host, does not. Other users' folders are theirs to clear away.
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
BEAT_EVERY = 60.0
"""Seconds between signs of life."""

BEAT_AGAIN = 5.0
"""Seconds after which one is tried again that failed."""

ABANDONED_AFTER = 900.0
"""Seconds without one. Both are times of the file system's clock: hosts may disagree."""


class QueryFolder:
    """The folder `PREFIX` + `name`; the user's own siblings with the same prefix that are abandoned are deleted first.

    Args:
        prefix: a path up to where the names of such folders begin.
        warn: takes lines for the user; called from several threads.
    """

    def __init__(
        self, spark: SparkSession, prefix: str, name: str, warn: Callable[[str], None] = lambda line: None
    ) -> None:
        self.path = prefix + name
        self._prefix, self._warn = prefix, warn
        # Only handles of Java's: what holds this must not hold the session.
        self._jvm: Any = spark.sparkContext._jvm
        self._paths: Any = self._jvm.org.apache.hadoop.fs.Path
        configuration = spark._jsparkSession.sessionState().newHadoopConf()
        self._system = self._at(self.path).getFileSystem(configuration)
        self._closed = threading.Event()
        self._lock = threading.Lock()
        self._begun = False

    def begin(self) -> None:
        """Make it, if it is not there yet, and clear away what this user's killed queries have left."""
        with self._lock:
            if self._begun:
                return
            self._beat()
            # However the application ends, short of a kill of its JVM.
            self._system.deleteOnExit(self._at(self.path))
            self._begun = True
        threading.Thread(target=self._stay_alive, name=f"{self.path} alive", daemon=True).start()
        self._clear_away()

    def has(self, path: str) -> bool:
        """Whether there is such a path on this file system."""
        return bool(self._system.exists(self._at(path)))

    def move(self, name: str, path: str) -> bool:
        """Move something in it to a place of its own; False when the file system does not."""
        return bool(self._system.rename(self._at(f"{self.path}/{name}"), self._at(path)))

    def delete(self) -> None:
        """Delete it with all that is in it."""
        self._closed.set()
        with self._lock:
            if self._begun:
                self._system.delete(self._at(self.path), True)
                self._system.cancelDeleteOnExit(self._at(self.path))

    def _clear_away(self) -> None:
        """Delete what is abandoned; what cannot be deleted, or looked at, stays and is nobody's failure."""
        try:
            own = self._system.getFileStatus(self._at(f"{self.path}/{ALIVE}"))
            now, owner = own.getModificationTime(), str(own.getOwner())
            literally = re.sub(r"([\[\]{}*?\\])", r"\\\1", self._prefix)
            found = list(self._system.globStatus(self._at(f"{literally}*/{ALIVE}")) or ())
        except Exception:  # noqa: BLE001 - the next query will look again
            return
        for sign in found:
            try:
                if str(sign.getOwner()) == owner and self._is_abandoned(sign.getPath(), now):
                    self._system.delete(sign.getPath().getParent(), True)
            except Exception:  # noqa: BLE001 - somebody else may have been quicker, or it is not ours to delete
                continue

    def _is_abandoned(self, sign: Any, now: int) -> bool:
        oldest_alive = now - ABANDONED_AFTER * 1000
        # Asked anew: it may have been written since the folders were listed.
        if self._system.getFileStatus(sign).getModificationTime() > oldest_alive:
            return False
        return not self._holds_younger(sign.getParent(), oldest_alive) and not _runs_here(self._read(sign))

    def _holds_younger(self, folder: Any, than: float) -> bool:
        """Whether a file in a folder was written later: then its query lives, and only its sign of life fails."""
        files = self._system.listFiles(folder, True)
        while files.hasNext():
            if files.next().getModificationTime() > than:
                return True
        return False

    def _read(self, sign: Any) -> str:
        stream = self._system.open(sign)
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def _beat(self) -> None:
        stream = self._system.create(self._at(f"{self.path}/{ALIVE}"), True)
        try:
            stream.write(bytearray(_this_process().encode()))
        finally:
            stream.close()

    def _touch(self) -> None:
        """A sign of life that takes no room, by this host's clock."""
        self._system.setTimes(self._at(f"{self.path}/{ALIVE}"), int(time.time() * 1000), -1)

    def _stay_alive(self) -> None:
        failing = False
        while not self._closed.wait(BEAT_AGAIN if failing else BEAT_EVERY):
            try:
                with self._lock:
                    if not self._closed.is_set():
                        self._beat()
                failing = False
            except Exception as problem:  # noqa: BLE001 - a folder whose query lives must not look abandoned
                if not failing and not self._closed.is_set():
                    said = " ".join(str(problem).split())[:300]
                    self._warn(f"{self.path}: its sign of life could not be written; trying again: {said}")
                failing = True
                self._touch_at_least()

    def _touch_at_least(self) -> None:
        try:
            with self._lock:
                if not self._closed.is_set():
                    self._touch()
        except Exception:  # noqa: BLE001 - that the sign of life fails was told; it is tried again
            return

    def _at(self, path: str) -> Any:
        return self._paths(path)


def _this_process() -> str:
    """Who writes a sign of life: host, process, and when the process began, as process numbers are used again."""
    process = psutil.Process()
    return json.dumps({"host": socket.gethostname(), "pid": process.pid, "began": process.create_time()})


def _runs_here(sign: str) -> bool:
    """Whether the process that wrote a sign of life runs on this host."""
    try:
        said = json.loads(sign)
        if said["host"] != socket.gethostname():
            return False
        return bool(abs(psutil.Process(said["pid"]).create_time() - said["began"]) < 1.0)
    except (ValueError, KeyError, TypeError, psutil.Error):
        # Another version wrote it, or nothing was written; or there is no such process.
        return False
