"""How many bytes the outputs of a query's stages may take on its executors."""

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from qoop.as_written.causes import TooMuchStored
from qoop.engine.connection import java_class
from qoop.engine.unfinished import storage_memory
from qoop.errors import QoopError

LIMIT_SETTING = "spark.qoop.maxStored"
"""The Spark property with the limit, such as 50g."""

MEMORIES = 10.0
"""The default, as a multiple of the memory in which executors can store rows; the rest is on their disks."""


class StoredLimit:
    """The limit of a session: that of `LIMIT_SETTING`, or by default `MEMORIES`.

    Without one a plan whose outputs are larger than expected might fill the disks of the cluster.

    Raises:
        QoopError: the setting is not a size.
    """

    def __init__(self, session: SparkSession) -> None:
        self._session, self._memory = session, 0.0
        text = session.conf.get(LIMIT_SETTING, None)
        self._given = None if text is None else _bytes(session, text)

    def excess(self, stored: float) -> TooMuchStored | None:
        """Why outputs of so many bytes are too large; None if they are not, or if that cannot be known now."""
        limit = self._given
        if limit is None:
            try:
                # What executors that are gone by now have stored, others have taken over.
                self._memory = max(self._memory, storage_memory(self._session.sparkContext))
                limit = MEMORIES * self._memory
            except Py4JError:
                return None
        if stored <= limit:
            return None
        return TooMuchStored(stored, limit)


def _bytes(session: SparkSession, text: str) -> float:
    try:
        size = float(java_class(session._jvm, "org.apache.spark.network.util.JavaUtils").byteStringAsBytes(text))
    except (PySparkException, Py4JJavaError):
        size = -1.0
    if size < 0:
        raise QoopError(f"{LIMIT_SETTING} {text!r}: must be a size, such as 50g")
    return size
