"""Spark's runtime filters in the sessions of one query, which are copies of the user's."""

from collections.abc import Mapping

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from qoop.engine.connection import java_class
from qoop.estimate.runtime_filters import FilterSizes, filter_sizes

PREFIX = "spark.sql.optimizer.runtime.bloomFilter"
FILTERED, MADE_OF = f"{PREFIX}.applicationSideScanSizeThreshold", f"{PREFIX}.creationSideThreshold"
SETTINGS = (FILTERED, MADE_OF, f"{PREFIX}.enabled")
"""If the user has set any of these settings, all are left as they are."""


class RuntimeFilters:
    """The settings of runtime filters for one query, in copies of the user's session, until they are dropped.

    Never in the user's own session, whose other queries, and `SET`, must not see them.
    """

    def __init__(self, sizes: FilterSizes | None = None) -> None:
        self._settings: Mapping[str, str] = {}
        if sizes is not None:
            self._settings = {FILTERED: f"{sizes.filtered:.0f}b", MADE_OF: f"{sizes.made_of:.0f}b"}
        self._copies: list[SparkSession] = []

    def __bool__(self) -> bool:
        return bool(self._settings)

    def set_in(self, copy: SparkSession) -> SparkSession:
        """The copy of a session, with the settings for as long as they are not dropped."""
        for name, value in self._settings.items():
            copy.conf.set(name, value)
        if self._settings:
            self._copies.append(copy)
        return copy

    def drop(self) -> None:
        """Leave the filters to Spark from now on, such as after a failure that may be due to them."""
        copies, names, self._copies, self._settings = self._copies, list(self._settings), [], {}
        for copy in copies:
            for name in names:
                copy.conf.unset(name)


def runtime_filters(spark: SparkSession, sizes: tuple[float | None, ...], broadcast_bytes: float) -> RuntimeFilters:
    """The filters of a query in the user's session that reads tables of these sizes, in bytes."""
    try:
        settings = spark._jsparkSession.sessionState().conf()
        if any(settings.contains(name) for name in SETTINGS):
            return RuntimeFilters()
        memory = float(java_class(spark._jvm, "java.lang.Runtime").getRuntime().maxMemory())
    except Py4JError:
        return RuntimeFilters()
    return RuntimeFilters(filter_sizes(sizes, broadcast_bytes, memory))
