"""`qoop.join`: a Spark session that runs already, such as a notebook's, registers with an arbiter and has a share."""

import os
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType

from pyspark import SparkContext
from pyspark.sql import SparkSession

from qoop.engine.executors import LOCAL
from qoop.engine.session import require_classic_session
from qoop.errors import QoopError
from qoop.feedback import followed
from qoop.feedback.shares import Shares
from qoop.submit.application import following_share
from qoop.submit.job import SparkFlags
from qoop.submit.registration import ArbiterAccess, Registration, register_running
from yarn_plugin import console
from yarn_plugin.api.client import find_token
from yarn_plugin.api.environment import URL_VARIABLE

DECOMMISSIONS = "spark.decommission.enabled"
DYNAMIC = "spark.dynamicAllocation.enabled"


class Joined:
    """A session's application that has joined: it keeps its executors within its share, and its queries follow that.

    As a context manager, it leaves at the end.

    Args:
        ends: what ends when it leaves.
    """

    def __init__(
        self, context: SparkContext, shares: Shares, registration: Registration | None, ends: ExitStack
    ) -> None:
        self._context, self._shares, self._ends = context, shares, ends
        self.application = str(context.applicationId)
        self.app = None if registration is None else registration.app
        """The arbiter's id of it, as in `yarn-plugin why APP`; None without an arbiter."""

    @property
    def slots(self) -> float | None:
        """Its share in slots; None before that is known."""
        return self._shares.slots

    @property
    def share(self) -> str:
        """Its share, and why it has that."""
        return self._shares.described

    @property
    def is_over(self) -> bool:
        """Whether it has left, or Spark has stopped."""
        return _joined.get(self.application) is not self or self._context._jsc is None

    def leave(self) -> None:
        """Follow the share no more, and deregister. Executors stay as they are. Idempotent."""
        if _joined.get(self.application) is self:
            del _joined[self.application]
        self._ends.close()

    def __enter__(self) -> "Joined":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.leave()

    def __repr__(self) -> str:
        state = "has left" if self.is_over else self.share
        return f"<{self.app or self.application}: {state}>"


_joined: dict[str, Joined] = {}
"""Those that have not left, by Spark's ids of their applications."""


def _print(line: str) -> None:
    console.tell("qoop", line)


def join(
    spark: SparkSession,
    arbiter: str | None = None,
    *,
    token_file: str | Path | None = None,
    pool: str | None = None,
    weight: float = 1.0,
    verify: str | bool = True,
    name: str | None = None,
    max_executors: int | None = None,
    profile: str | Path | None = None,
    tell: Callable[[str], None] = _print,
) -> Joined:
    """Have a session that runs on YARN register with an arbiter, keep its executors within its share, and replan.

    From then on executors come and go with the share: those that must go are decommissioned, and are killed only if
    they are still there when the share is enforced. The queries of `qoop.sql`, `qoop.collect` and of `qoop.install`
    follow the share. Joining again returns the same `Joined`.

    Args:
        arbiter: its address; by default that in YARN_ARBITER_URL.
        token_file: a file with your token; by default the token is that in YARN_ARBITER_TOKEN.
        pool: the pool to join, if there are several.
        weight: among the applications in the pool, up to the pool's max_weight.
        verify: for https, a file of certificates to trust.
        name: what the arbiter calls it; by default the name of Spark's application.
        max_executors: the most that it asks for; by default `spark.executor.instances`, or all that its share allows.
        profile: without an arbiter, a file with the share over time (lines SECONDS,SLOTS), to try what replanning does;
            executors stay as they are.
        tell: called with a line about each change of the share, with the reason, and about problems; from several
            threads. By default they are printed on stderr.

    Raises:
        QoopError: the session cannot join; nothing is registered.
        ArbiterError: the arbiter cannot be reached, or refuses.
        ShareTooSmallError: the share is too small for one executor.
    """
    require_classic_session(spark)
    context = spark.sparkContext
    for earlier in list(_joined.values()):
        if not earlier.is_over and earlier.application == context.applicationId:
            return earlier
        # Of a session that has stopped: a process has one application at a time.
        earlier.leave()
    access = _access(arbiter, token_file, pool, weight, verify, profile)

    def tell_safely(line: str) -> None:
        # Called in the threads that follow the share, which must go on.
        with suppress(Exception):
            tell(line)

    with ExitStack() as ends:
        registration = None
        if access is not None:
            _check(context)
            flags = _flags_of(context, max_executors)
            registration = register_running(name or str(context.appName), context.applicationId, flags, access)
            ends.callback(registration.end, tell_safely)
            registration.check_share()
            if flags.conf(DECOMMISSIONS) != "true":
                tell_safely(f"{DECOMMISSIONS}: is not true, so executors that leave take what they store with them")
        path = None if profile is None else Path(profile)
        shares = ends.enter_context(following_share(spark, path, access, registration, tell_safely, tell_safely))
        assert shares is not None
        followed.follow(context.applicationId, shares)
        ends.callback(followed.unfollow, context.applicationId)
        joined = Joined(context, shares, registration, ends.pop_all())
    _joined[joined.application] = joined
    return joined


def _access(
    arbiter: str | None,
    token_file: str | Path | None,
    pool: str | None,
    weight: float,
    verify: str | bool,
    profile: str | Path | None,
) -> ArbiterAccess | None:
    """The arbiter to register with; None to follow a profile.

    Raises:
        QoopError: neither or both are given.
        ArbiterError: there is no token.
    """
    url, option = arbiter, "arbiter"
    if url is None and (url := os.environ.get(URL_VARIABLE) or None) is not None:
        option = f"arbiter (from {URL_VARIABLE})"
    if url is not None and profile is not None:
        advice = "each of them sets the share" if arbiter is not None else "unset the variable to join without it"
        raise QoopError(f"{option}, profile: give only one; {advice}")
    if profile is not None:
        return None
    if url is None:
        raise QoopError(f"arbiter: required, or set {URL_VARIABLE}; or give profile=FILE to try changes of the share")
    token = find_token(None if token_file is None else Path(token_file))
    return ArbiterAccess(url, token, pool, weight, verify, option)


def _check(context: SparkContext) -> None:
    """Check that an arbiter can have a share for an application.

    Raises:
        QoopError: it cannot.
    """
    if context.master != "yarn":
        place = "this machine" if LOCAL.match(context.master) else context.master
        raise QoopError(
            f"spark: runs on {place} ({context.master}), and an arbiter divides a YARN cluster; start the session with "
            "master('yarn'), or join with profile=FILE to try changes of the share"
        )
    if (context._conf.get(DYNAMIC) or "false").strip().lower() == "true":
        raise QoopError(
            f"{DYNAMIC}: is true, so Spark itself adds and removes executors; start the session with it set to false"
        )


def _flags_of(context: SparkContext, max_executors: int | None) -> SparkFlags:
    """What a running application was started with, as if it were given to spark-submit."""
    most = [] if max_executors is None else ["--num-executors", str(max_executors)]
    return SparkFlags(most, dict(context.getConf().getAll()))
