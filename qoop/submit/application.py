"""A Spark application in this process, on this machine or on YARN, registered once and within its share."""

import os
import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from qoop.engine.executors import Executors, ExecutorTarget
from qoop.engine.session import spark_home
from qoop.errors import QoopError
from qoop.feedback.arbiter import ArbiterFeed
from qoop.feedback.profile import ProfileFeed, read_profile
from qoop.feedback.shares import Shares
from qoop.submit.command import default_confs, python_variables
from qoop.submit.job import SparkFlags
from qoop.submit.registration import ArbiterAccess, Registration, register
from yarn_plugin.errors import describe

Tell = Callable[[str], None]


@contextmanager
def registered(name: str, flags: SparkFlags, access: ArbiterAccess | None, warn: Tell) -> Iterator[Registration | None]:
    """Within this context the application is registered, if there is an arbiter.

    Raises:
        SubmissionError: the flags are not for an application that is registered, or it has no share.
        ArbiterError: the arbiter cannot be reached, or refuses.
        ShareTooSmallError: the share is too small for one executor.
    """
    if access is None:
        yield None
        return
    registration = register(name, flags, access)
    try:
        registration.check_share()
        yield registration
    finally:
        registration.end(warn)


def spark_session(
    name: str, flags: SparkFlags, registration: Registration | None, more: Mapping[str, str] | None = None
) -> SparkSession:
    """Start Spark. Its JVM ends when this process does, even if it is killed; then YARN ends the application.

    Args:
        more: further properties, which the flags do not set.

    Raises:
        QoopError: it cannot be started.
    """
    confs = default_confs(flags) | dict(more or {}) | ({} if registration is None else registration.confs())
    if flags.value("--name") is None:
        confs["spark.app.name"] = name
    settings = [word for pair in confs.items() for word in ("--conf", "=".join(pair))]
    os.environ["PYSPARK_SUBMIT_ARGS"] = shlex.join([*flags.flags, *settings, "pyspark-shell"])
    os.environ["SPARK_HOME"] = str(spark_home())
    os.environ.update(python_variables(flags))
    try:
        return SparkSession.builder.getOrCreate()
    except (PySparkException, Py4JError, OSError) as problem:
        raise QoopError(f"Spark could not be started: {describe(problem)}") from problem


@contextmanager
def following_share(
    spark: SparkSession,
    profile: Path | None,
    access: ArbiterAccess | None,
    registration: Registration | None,
    tell: Tell,
    warn: Tell,
) -> Iterator[Shares | None]:
    """Within this context the application keeps its executors within its share; None: nothing sets one.

    `tell`: called with a line about each change of the share.
    """
    if access is not None and registration is not None:
        feed = ArbiterFeed(access.url, registration.token, registration.app, registration.size, access.verify)
        holder = _Holder(spark, warn)
        shares = Shares(feed, holder, feed.confirm)
    elif profile is not None:
        holder, shares = None, Shares(ProfileFeed(read_profile(profile)), None)
    else:
        yield None
        return
    with shares.telling(tell):
        shares.start()
        try:
            yield shares
        finally:
            shares.close()
            if holder is not None:
                holder.close()


class _Holder:
    """Requests and decommissions the application's executors."""

    def __init__(self, spark: SparkSession, warn: Tell) -> None:
        self._executors = Executors(spark.sparkContext)
        self._target = ExecutorTarget(self._executors, "application", warn)

    def set_executors(self, target: int, by: float) -> None:
        self._target.set(target, by)

    def executors(self) -> int:
        return self._executors.count()

    def close(self) -> None:
        self._target.close()
