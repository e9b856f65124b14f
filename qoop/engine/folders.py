"""A folder of files that belongs to one running query, on any file system that Spark reaches.

It goes with the query; and where the query was killed, with the application, or with the next query that looks. For
that every folder holds a file `_alive`, written anew every minute: a folder where that has stopped is abandoned.
"""

import re
import threading
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

ALIVE = "_alive"
BEAT_EVERY = 60.0
"""Seconds between signs of life."""

ABANDONED_AFTER = 900.0
"""Seconds without one. Both are times of the file system's clock: hosts may disagree."""


class QueryFolder:
    """The folder `PREFIX` + `name`; siblings with the same prefix that nobody writes any more are deleted first.

    Args:
        prefix: a path up to where the names of such folders begin.
    """

    def __init__(self, spark: SparkSession, prefix: str, name: str) -> None:
        self.path = prefix + name
        self._prefix = prefix
        # Only handles of Java's: what holds this must not hold the session.
        self._paths: Any = spark.sparkContext._jvm.org.apache.hadoop.fs.Path
        configuration = spark._jsparkSession.sessionState().newHadoopConf()
        self._system = self._at(self.path).getFileSystem(configuration)
        self._closed = threading.Event()
        self._lock = threading.Lock()
        self._begun = False

    def begin(self) -> None:
        """Make it, if it is not there yet, and clear away what others have left."""
        with self._lock:
            if self._begun:
                return
            self._beat()
            self._begun = True
        # However the application ends, short of a kill of its JVM.
        self._system.deleteOnExit(self._at(self.path))
        self._delete_abandoned()
        threading.Thread(target=self._stay_alive, name=f"{self.path} alive", daemon=True).start()

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

    def _delete_abandoned(self) -> None:
        now = self._system.getFileStatus(self._at(f"{self.path}/{ALIVE}")).getModificationTime()
        literally = re.sub(r"([\[\]{}*?\\])", r"\\\1", self._prefix)
        for found in self._system.globStatus(self._at(f"{literally}*/{ALIVE}")) or ():
            if now - found.getModificationTime() > ABANDONED_AFTER * 1000:
                self._system.delete(found.getPath().getParent(), True)

    def _beat(self) -> None:
        self._system.create(self._at(f"{self.path}/{ALIVE}"), True).close()

    def _stay_alive(self) -> None:
        while not self._closed.wait(BEAT_EVERY):
            try:
                with self._lock:
                    if not self._closed.is_set():
                        self._beat()
            except (Py4JError, OSError):
                # Spark has stopped, or the disk is full: the query hears of it where it writes rows.
                return

    def _at(self, path: str) -> Any:
        return self._paths(path)
