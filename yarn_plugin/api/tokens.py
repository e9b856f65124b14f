"""Tokens of the administrator, of users, of applications, for their recovery, and one for scraping metrics.

A token is `kind.name.signature`; the signature is an HMAC with a secret that only the arbiter's state folder holds. So
tokens stay valid over restarts, and the journal holds no secret. Replacing the secret file revokes all of them. No kind
contains a dot, so the first dot of what is signed ends the kind: no name can forge a token of another kind.
"""

import hmac
import secrets
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Literal, get_args

from yarn_plugin.errors import ReportedError, os_reason
from yarn_plugin.files import PRIVATE_MODE, write_private

Kind = Literal["admin", "scrape", "user", "app", "recovery"]
KINDS: tuple[Kind, ...] = get_args(Kind)

MIN_SECRET_LENGTH = 32
"""Characters of the secret."""

SECRET = "secret"
"""The secret's file in the state folder."""


class SecretError(ReportedError):
    """The secret that tokens are signed with cannot be used."""


@dataclass(frozen=True, slots=True)
class Principal:
    """A caller: the administrator, a scraper of metrics, a user by name, an application by id, or the holder of a
    recovery token (`USER/YARN_APP`)."""

    kind: Kind
    name: str


ADMIN = Principal("admin", "admin")
SCRAPE = Principal("scrape", "scrape")


class Tokens:
    """Issues and checks tokens with the secret in `folder`, which is created on first use (mode 0600).

    Raises:
        SecretError: the folder or the secret in it cannot be read or written, or the secret is too short.
    """

    def __init__(self, folder: Path) -> None:
        self.admin_file = folder / "admin.token"
        self.scrape_file = folder / "scrape.token"
        try:
            self._secret = _secret(folder / SECRET)
            _ensure_content(self.admin_file, self.issue(ADMIN) + "\n")
            _ensure_content(self.scrape_file, self.issue(SCRAPE) + "\n")
        except OSError as problem:
            where = problem.filename or folder
            raise SecretError(
                f"state file {str(where)!r}: {os_reason(problem)}; must belong to the user who runs the arbiter"
            ) from None

    def issue(self, principal: Principal) -> str:
        """The token of this principal."""
        return f"{principal.kind}.{principal.name}.{self._sign(principal)}"

    def check(self, token: str) -> Principal | None:
        """The principal of a token; None where the token is not valid."""
        kind, _, rest = token.partition(".")
        name, _, signature = rest.rpartition(".")
        for known in KINDS:
            if kind == known and hmac.compare_digest(signature.encode(), self._sign(Principal(known, name)).encode()):
                return Principal(known, name)
        return None

    def _sign(self, principal: Principal) -> str:
        message = f"{principal.kind}.{principal.name}".encode()
        return hmac.new(self._secret, message, sha256).hexdigest()


def _ensure_content(path: Path, text: str) -> None:
    """Write a private file unless it has this content already, so that the arbiter starts even with a full disk."""
    if path.is_file() and path.read_bytes() == text.encode():
        path.chmod(PRIVATE_MODE)
    else:
        write_private(path, text)


def _secret(path: Path) -> bytes:
    if not path.exists():
        write_private(path, secrets.token_hex(32))
    path.chmod(PRIVATE_MODE)
    secret = path.read_bytes().strip()
    if len(secret) < MIN_SECRET_LENGTH:
        raise SecretError(
            f"secret file {str(path)!r}: too short ({len(secret)} of {MIN_SECRET_LENGTH} characters); "
            "restore it from a backup, or delete it, which revokes every token"
        )
    return secret
