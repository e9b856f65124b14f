"""Analyses the queries of stages before they start, while others run."""

import threading
import time
from collections import Counter
from collections.abc import Collection, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial

from pyspark.sql import DataFrame, SparkSession

from qoop.engine.one_by_one import OneByOne
from qoop.engine.persisted import define_view
from qoop.engine.table_versions import TableVersions
from qoop.engine.verification import has_exact_values

MAX_WAIT_S = 5.0
"""Seconds to wait for the views that a query reads: they are defined after the shuffles of their stages.

After longer shuffles the time of an analysis matters little.
"""


class StageViews:
    """The temporary views of stage outputs, and how often each was defined. Called from several threads."""

    def __init__(self) -> None:
        self._defined: Counter[str] = Counter()
        self._changed = threading.Condition()

    def define(self, view: str, frame: DataFrame) -> None:
        """Let a view read a frame from now on. The frame may be incomplete as long as no stage is started with it."""
        define_view(view, frame)
        with self._changed:
            self._defined[view] += 1
            self._changed.notify_all()

    def drop(self, session: SparkSession) -> None:
        """Drop them all from the session that they were defined in; what was analysed with them stays as it is.

        Threads of Spark's pools keep the session in which they were started, as long as Spark has work for them, and
        with it the plans of its views and all that these have broadcast.
        """
        with self._changed:
            views = list(self._defined)
        for view in views:
            session._jsparkSession.sessionState().catalog().dropTempView(view)

    def versions(self, views: Collection[str]) -> Mapping[str, int]:
        """How often each of these views was defined."""
        with self._changed:
            return {view: self._defined[view] for view in views}

    def wait(self, views: Collection[str], seconds: float) -> bool:
        """Wait until each of these views is defined; False if one is not by then."""
        with self._changed:
            return self._changed.wait_for(lambda: all(self._defined[view] for view in views), seconds)


@dataclass(frozen=True, slots=True)
class AnalysedQuery:
    """A query that Spark has analysed. `exact`: see `has_exact_values`; only of a query whose rows are stored.

    `reads`: the versions of the views in it.
    """

    frame: DataFrame
    exact: bool
    reads: Mapping[str, int]


class PreparedQueries:
    """Queries of stages that may start next. One whose views were defined again since is analysed anew.

    Args:
        name: the query's name.
        session: the session that stages run in.
        views: those of the stage outputs.
        versions: of tables, which are read as of them.
    """

    def __init__(self, name: str, session: SparkSession, views: StageViews, versions: TableVersions) -> None:
        self._session, self._views, self._table_versions = session, views, versions
        self._thread = OneByOne(f"{name}-prepare")
        self._queries: dict[str, Future[AnalysedQuery | None]] = {}
        self._closed = threading.Event()
        self._lock = threading.Lock()

    def prepare(self, query: str, reads: Collection[str]) -> None:
        """Analyse a query that reads these views once they are defined. Returns immediately."""
        with self._lock:
            if not self._closed.is_set() and query not in self._queries:
                self._queries[query] = self._thread.submit(partial(self._analysed_later, query, reads))

    def take(self, query: str, reads: Collection[str], stored: bool = True) -> AnalysedQuery:
        """The analysed query, to be computed once; `stored`: whether its rows are stored.

        Raises:
            pyspark.errors.PySparkException: Spark rejects it.
        """
        with self._lock:
            begun = self._queries.pop(query, None)
        found = None if begun is None or begun.cancel() else begun.result()
        if found is not None and found.reads == self._views.versions(reads):
            return found
        return self._analysed(query, reads, stored)

    def close(self) -> None:
        """Prepare no more queries."""
        with self._lock:
            self._closed.set()
            self._thread.close()

    def _analysed_later(self, query: str, reads: Collection[str]) -> AnalysedQuery | None:
        """The analysed query; None if a view is missing, or anything fails: it is then tried again as it starts."""
        try:
            ends = time.monotonic() + MAX_WAIT_S
            while not self._views.wait(reads, 0.1):
                if self._closed.is_set() or time.monotonic() > ends:
                    return None
            return self._analysed(query, reads)
        except Exception:  # noqa: BLE001 - the stage itself reports what is wrong
            return None

    def _analysed(self, query: str, reads: Collection[str], stored: bool = True) -> AnalysedQuery:
        versions = self._views.versions(reads)
        frame = self._session.sql(self._table_versions.in_text(query))
        return AnalysedQuery(frame, stored and has_exact_values(frame), versions)
