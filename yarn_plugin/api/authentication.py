"""Authentication, before any route. No body is read from a caller without a token."""

from collections.abc import Iterable

from starlette.types import Scope

from yarn_plugin.api import wire
from yarn_plugin.api.tokens import Principal, Tokens
from yarn_plugin.serving.bodies import Refusal

OPEN_PATHS = frozenset({"/v1/health", "/v1/ready", "/openapi.json"})
"""Paths that need no token."""

MAX_TOKEN_LENGTH = 1024
"""Characters of a token; a longer one is refused unread."""


class Authentication:
    """Admits requests that have a token of this arbiter, and notes whose it is; see `BodyLimitMiddleware`."""

    def __init__(self, tokens: Tokens, max_body: int) -> None:
        self._tokens, self._max_body = tokens, max_body

    def admit(self, scope: Scope) -> int | Refusal:
        """How many bytes the body may have; or the refusal of a caller without a token."""
        caller = find_principal(self._tokens, scope["headers"])
        is_open = scope["path"] in OPEN_PATHS
        if caller is None and not is_open:
            expected = "must be 'Bearer TOKEN', with a valid token of this arbiter"
            return Refusal(401, wire.Problem(field="Authorization", expected=expected), {"WWW-Authenticate": "Bearer"})
        scope.setdefault("state", {})["principal"] = caller
        return 0 if is_open else self._max_body


def find_principal(tokens: Tokens, headers: Iterable[tuple[bytes, bytes]]) -> Principal | None:
    """Whose token a request carries, in exactly one Authorization header; None where it is nobody's."""
    found = [value for name, value in headers if name.lower() == b"authorization"]
    if len(found) != 1 or len(found[0]) > MAX_TOKEN_LENGTH:
        return None
    return tokens.check(found[0].decode("latin-1").removeprefix("Bearer ").strip())
