"""Registration of a Spark application on YARN with the arbiter: the queue and the executors that it begins with."""

from collections.abc import Callable
from dataclasses import dataclass

from pydantic import ValidationError

from qoop.feedback.arbiter import ExecutorSize
from qoop.submit.job import SparkFlags, SubmissionError
from yarn_plugin.api import wire
from yarn_plugin.api.client import ArbiterClient, ArbiterError, new_request_id
from yarn_plugin.errors import BadInputError
from yarn_plugin.validation import expectation

GRACE_S = 30.0
"""The grace period to register with: decommissioned executors need it to migrate their blocks."""


@dataclass(frozen=True, slots=True)
class ArbiterAccess:
    """The arbiter to register with, the user's token, and the pool and weight to ask for.

    `option`: the option, as an error names it.
    """

    url: str
    token: str
    pool: str | None
    weight: float
    verify: str | bool
    option: str = "--arbiter"


class Registration:
    """A registered application.

    Args:
        size: of its executors.
    """

    def __init__(self, client: ArbiterClient, registered: wire.Registered, size: ExecutorSize) -> None:
        self._client, self._registered, self.size = client, registered, size
        self.app, self.token = registered.app, registered.token

    def check_share(self) -> None:
        """Check that its share is enough for one executor.

        Raises:
            SubmissionError: it has none.
            ShareTooSmallError: it is too small.
        """
        share, pool = self._registered.share, self._registered.pool
        if share is None:
            raise SubmissionError(f"pool {pool}: the arbiter assigned {self.app} no share; see its log, or retry later")
        self.size.require_one(share.entitlement.resources, f"share of {self.app} in pool {pool}")

    def confs(self) -> dict[str, str]:
        """The Spark properties with which it begins within its share."""
        share = self._registered.share
        assert share is not None
        return {
            "spark.yarn.queue": self._registered.queue,
            "spark.executor.instances": str(self.size.count(share.entitlement.resources)),
            "spark.dynamicAllocation.enabled": "false",
        }

    def end(self, warn: Callable[[str], None]) -> None:
        """Deregister it."""
        try:
            self._client.deregister(self.app)
        except ArbiterError as problem:
            # Not fatal: the arbiter notices in YARN that the application has ended.
            warn(
                f"warning: {self.app} was not deregistered; the arbiter ends its share when YARN reports its end: "
                f"{problem}"
            )


def register(name: str, flags: SparkFlags, access: ArbiterAccess) -> Registration:
    """Register an application that will be submitted with these flags.

    Raises:
        SubmissionError: the flags are not for an application that is registered.
        ArbiterError: the arbiter cannot be reached, or refuses.
        BadInputError: a flag has a value that it cannot have.
    """
    if not flags.is_yarn:
        raise SubmissionError(
            f"{access.option}: needs --master yarn; with --master {flags.master} remove it and use --profile or --slots"
        )
    if flags.value("--queue") or flags.conf("spark.yarn.queue"):
        raise SubmissionError(
            f"--queue: cannot be given with {access.option}, which assigns a queue to each query; use --pool to choose "
            "a pool"
        )
    return _registered(name, None, flags, access)


def register_running(name: str, yarn_app: str, flags: SparkFlags, access: ArbiterAccess) -> Registration:
    """Register an application that runs already, and was started with these flags.

    Args:
        yarn_app: YARN's id of it.

    Raises:
        ArbiterError: the arbiter cannot be reached, or refuses, as it does if its queue is in no pool.
        BadInputError: a flag has a value that it cannot have.
    """
    return _registered(name, yarn_app, flags, access)


def _registered(name: str, yarn_app: str | None, flags: SparkFlags, access: ArbiterAccess) -> Registration:
    client = ArbiterClient(access.url, access.token, access.verify)
    size = flags.executor_size(_allocation_step(client))
    return Registration(client, client.register(_request(name, yarn_app, flags, access, size)), size)


def _request(
    name: str, yarn_app: str | None, flags: SparkFlags, access: ArbiterAccess, size: ExecutorSize
) -> wire.Register:
    most = flags.instances()
    try:
        return wire.Register(
            name=name,
            request_id=new_request_id(),
            pool=access.pool,
            weight=access.weight,
            demand=[size.total(most)] if most else None,
            grace_s=GRACE_S,
            yarn_app=yarn_app,
        )
    except ValidationError as problem:
        first = problem.errors()[0]
        flag = f"--{'num-executors' if 'demand' in first['loc'] else first['loc'][0]}"
        raise BadInputError(flag, first["input"], expectation(dict(first))) from None


def _allocation_step(client: ArbiterClient) -> int:
    return max(client.get_cluster().least_allocation.get("memory-mb", 1), 1)
