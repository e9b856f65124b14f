"""A query's timeout: what stops it, and with it what Spark runs for it."""

import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException

from qoop.engine.jobs import tagged_beside
from qoop.errors import QueryFailedError
from qoop.replan.events import Event, QueryCancelled

CANCEL_INTERVAL_S = 0.3
"""Seconds between attempts to stop a statement: it may be between two jobs."""


def too_late(seconds: float) -> str:
    """Why a query with this timeout was stopped."""
    return f"it ran for longer than its timeout of {seconds:g} s"


@contextmanager
def cancelling_after(timeout: float | None, context: SparkContext, passed_s: float = 0.0) -> Iterator[None]:
    """Cancel the jobs of this thread after a timeout, of which some seconds have passed.

    That is for statements that Spark executes as it reads them, and for rows that are stored after the query has run.

    Raises:
        QueryFailedError: they were cancelled. A statement that had no more jobs to run ends as usual.
    """
    if timeout is None:
        yield
        return
    tag, is_late, ended = f"qoop-timeout-{uuid.uuid4().hex[:6]}", threading.Event(), threading.Event()

    def cancel() -> None:
        wait = timeout - passed_s
        while not ended.wait(wait):
            is_late.set()
            wait = CANCEL_INTERVAL_S
            with suppress(Exception):  # Spark has stopped.
                context.cancelJobsWithTag(tag)

    threading.Thread(target=cancel, name=tag, daemon=True).start()
    try:
        with tagged_beside(context, tag):
            yield
    except (PySparkException, Py4JError) as problem:
        if not is_late.is_set():
            raise
        raise QueryFailedError(too_late(timeout)) from problem
    finally:
        ended.set()


@contextmanager
def stopping_after(timeout: float | None, passed_s: float, send: Callable[[Event], None]) -> Iterator[threading.Event]:
    """Stop the query after its timeout, of which some seconds have passed; yields what is set then."""
    is_late = threading.Event()
    if timeout is None:
        yield is_late
        return
    stopped = QueryCancelled(too_late(timeout))

    def stop() -> None:
        is_late.set()
        send(stopped)

    timer = threading.Timer(timeout - passed_s, stop)
    timer.daemon = True
    timer.start()
    try:
        yield is_late
    finally:
        timer.cancel()
