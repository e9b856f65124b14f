"""Running applications register again, with their jobs and leases, with an arbiter that has lost its journal.

An application is given a recovery token when it registers. Its holder may register that application again for its user,
and nothing else, so nobody can claim the leases of another user's application.
"""

from collections.abc import Iterable
from dataclasses import replace

from yarn_plugin.api.records import Recover, RefusedRecord
from yarn_plugin.api.refusals import Refused
from yarn_plugin.api.tokens import Principal
from yarn_plugin.decide.commands import Command, SendToApp
from yarn_plugin.decide.events import Registered
from yarn_plugin.decide.leases.settings import LedgerSettings
from yarn_plugin.decide.pools.commands import Refuse
from yarn_plugin.decide.state import State
from yarn_plugin.model.resources import GPU
from yarn_plugin.model.share import Job, LeaseRecord, Pool


def token_of(user: str, yarn_app: str) -> Principal:
    """The principal that may register this application again."""
    return Principal("recovery", f"{user}/{yarn_app}")


def caller_for(state: State, caller: Principal, yarn_app: str) -> Principal:
    """The principal for which a caller registers an application again: its user.

    Raises:
        Refused: 403 where the token is not for this application; 409 where its registration was ended.
    """
    if caller.kind != "recovery":
        return caller
    user, _, own = caller.name.partition("/")
    if own != yarn_app:
        raise Refused(403, "yarn_app", yarn_app, f"must be {own}, which the token is for")
    ended = next((one for one in state.dismissed.values() if one.yarn_app == yarn_app), None)
    if ended is not None:
        expected = f"was registered as {ended.registration.id}, which has ended; register it with its user's token"
        raise Refused(409, "yarn_app", yarn_app, expected)
    return Principal("user", user)


def with_records(
    event: Registered, request: Recover, jobs: tuple[Job, ...], pool: Pool, state: State, offset: float
) -> Registered:
    """The registration in a pool with the application's records of jobs and leases. `offset`: of the wall clock.

    Raises:
        Refused: 422 where the pool leases no cells; 429 where it is not known yet on which nodes its containers are.
    """
    if request.leases and not isinstance(pool.parameters, LedgerSettings):
        raise Refused(422, "leases", None, f"must be left out: pool {pool.name} has no records of leases")
    running, known = state.cluster.apps.get(request.yarn_app), {*state.cluster.use, *state.yarn_apps.values()}
    if request.leases and running is not None and running.used[GPU] and running.id not in known:
        expected = "its containers have not been listed yet since the arbiter started; try again"
        raise Refused(429, "yarn_app", running.id, expected, retry_after=1)
    leases = tuple(
        LeaseRecord(one.id, tuple(one.gpus), one.job, None if one.until is None else one.until - offset)
        for one in request.leases
    )
    return replace(event, jobs=jobs, leases=leases)


def refused(commands: Iterable[Command]) -> list[RefusedRecord]:
    """The refused records of an application."""
    causes = [one.message.cause for one in commands if isinstance(one, SendToApp) and isinstance(one.message, Refuse)]
    return [RefusedRecord(id=one.lease, gpus=list(one.gpus), why=one.why) for one in causes]
