"""Who a client is: by a token of the arbiter's as the password, or by the name that it gives."""

import asyncio
import hashlib
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from qoop.latest import Latest
from qoop.server.errors import AuthenticationError
from qoop.server.sasl import Credentials
from yarn_plugin.api.client import ArbiterClient, ArbiterError, ArbiterRefusedError

ANONYMOUS = "anonymous"
VALID_S = 60.0
"""Seconds for which a token that the arbiter has accepted is not checked again."""

FAILURE_DELAY_S = 1.0
"""Seconds before a client is told that its password is wrong, so that guessing is slow."""

ANY_USER = frozenset({"", "token", ANONYMOUS})
"""Names with which a client leaves it to the token who it is."""


class Authenticator(Protocol):
    """Tells who a client is."""

    required: bool
    """Whether a client must say who it is; without that, plain Thrift (NOSASL) is accepted."""

    async def user(self, credentials: Credentials) -> str:
        """The user.

        Raises:
            AuthenticationError: the name or the password is wrong.
        """
        ...


class ByName:
    """Believes every client the name that it gives: for a server that only its own machine can reach."""

    required = False

    async def user(self, credentials: Credentials) -> str:
        """The name."""
        return credentials.user or ANONYMOUS


class ByToken:
    """Asks the arbiter whether a password is a valid token. The user is the one whose token it is.

    Args:
        url: the arbiter's.
        verify: for https, a file of certificates to trust, or True.
    """

    required = True

    def __init__(self, url: str, verify: str | bool = True) -> None:
        self._url, self._verify = url, verify
        self._valid: Latest[bytes, float] = Latest(1000)
        self._threads = ThreadPoolExecutor(max_workers=4, thread_name_prefix="authenticate")

    async def user(self, credentials: Credentials) -> str:
        """The token's user; a name that is given beside it must be that user's."""
        token = credentials.password
        kind, _, rest = token.partition(".")
        name = rest.rpartition(".")[0]
        if kind not in ("user", "admin") or not name or not await self._is_valid(token):
            await asyncio.sleep(FAILURE_DELAY_S)
            raise AuthenticationError(
                "password: must be an arbiter's token; the administrator creates one with `yarn-plugin token USER`"
            )
        if credentials.user not in ANY_USER and credentials.user != name:
            raise AuthenticationError(f"user {credentials.user[:100]!r}: the password is the token of {name!r}")
        return name

    async def _is_valid(self, token: str) -> bool:
        digest = hashlib.sha256(token.encode()).digest()
        checked_at = self._valid.get(digest)
        if checked_at is not None and time.monotonic() - checked_at < VALID_S:
            return True
        is_valid = await asyncio.get_running_loop().run_in_executor(self._threads, self._ask, token)
        if is_valid:
            self._valid.put(digest, time.monotonic())
        return is_valid

    def _ask(self, token: str) -> bool:
        try:
            ArbiterClient(self._url, token, self._verify).get_cluster()
        except ArbiterRefusedError:
            return False
        except ArbiterError as problem:
            if "token" in str(problem).partition(":")[0]:
                return False
            raise AuthenticationError(f"password: cannot be checked now: {problem}") from None
        return True
