"""A result as files: written next to its path, and renamed when it is complete."""

import uuid
from types import TracebackType
from typing import Self

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession

from qoop.engine.failures import java_message
from qoop.engine.folders import QueryFolder
from qoop.errors import QoopError


class OutputFiles:
    """Writes a result to a temporary folder next to its path; `publish` renames it. The folder is deleted on exit.

    Args:
        form: the format that Spark writes, such as "parquet".

    Raises:
        QoopError: the path exists, or cannot be written.
    """

    def __init__(self, spark: SparkSession, path: str, form: str) -> None:
        self._given, self._path, self._form = path, path.rstrip("/"), form
        try:
            self._draft = QueryFolder(spark, f"{self._path}.qoop-", uuid.uuid4().hex[:8])
            if self._draft.exists(self._path):
                raise self._error("already exists; remove it, or choose another path")
            self._draft.create()
        except Py4JJavaError as problem:
            raise self._error(java_message(problem)) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._draft.delete()

    def store(self, frame: DataFrame) -> str:
        """Write rows where nobody reads them yet; returns their name for `publish`. Called once for each attempt."""
        # Not a name that another query with the same path uses: what is moved there by both can be told apart.
        name = f"rows-{uuid.uuid4().hex[:8]}"
        writer = frame.write.option("header", "true") if self._form == "csv" else frame.write
        try:
            writer.format(self._form).save(f"{self._draft.path}/{name}")
        finally:
            self._draft.delete_again()
        return name

    def publish(self, name: str) -> None:
        """Rename what `store` wrote to the path.

        Raises:
            QoopError: something else is there by now.
        """
        try:
            if not self._draft.exists(self._path) and self._draft.move(name, self._path):
                if not self._draft.exists(f"{self._path}/{name}"):
                    return
                # Another query was faster: file systems then move rows into what it has written.
                self._draft.remove(f"{self._path}/{name}")
        except Py4JJavaError as problem:
            raise self._error(java_message(problem)) from None
        raise self._error("the result could not be renamed to this path and was discarded; choose another path")

    def _error(self, problem: str) -> QoopError:
        return QoopError(f"--output {self._given!r}: {problem}")
