"""Who may do what: the administrator's token, one for scraping metrics, tokens of users, tokens of applications.

A token is `kind.name.signature`; the signature is an HMAC with a secret that only the arbiter's state folder holds. So
tokens stay good over restarts, and nothing secret is in the journal. Replacing the secret file revokes all of them.
No kind has a dot in it, so the first dot of what is signed ends the kind: no name makes the token of another kind.
"""

import hmac
import secrets
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Literal, get_args

from yarn_plugin.errors import ReportedError
from yarn_plugin.files import PRIVATE, write_private

Kind = Literal["admin", "scrape", "user", "app"]
KINDS: tuple[Kind, ...] = get_args(Kind)

SHORTEST_SECRET = 32
"""Characters that the secret must have at least."""

SECRET = "secret"
"""The secret's file in the state folder."""


class SecretError(ReportedError):
    """The secret that tokens are signed with cannot be used."""


@dataclass(frozen=True, slots=True)
class Principal:
    """Who is asking: the administrator, who scrapes metrics, a user by name, or an application by id."""

    kind: Kind
    name: str


ADMIN = Principal("admin", "admin")
SCRAPE = Principal("scrape", "scrape")


class Tokens:
    """Issues and checks tokens with the secret in `folder`, made on first use (mode 0600).

    Raises:
        SecretError: the folder or the secret in it cannot be read or written, or the secret is none.
    """

    def __init__(self, folder: Path) -> None:
        self.admin_file = folder / "admin.token"
        self.scrape_file = folder / "scrape.token"
        try:
            self._secret = _secret(folder / SECRET)
            _keep(self.admin_file, self.issue(ADMIN) + "\n")
            _keep(self.scrape_file, self.issue(SCRAPE) + "\n")
        except OSError as problem:
            where = problem.filename or folder
            raise SecretError(f"state file {str(where)!r}: {problem.strerror}; it must be the arbiter's own") from None

    def issue(self, principal: Principal) -> str:
        """The token of this principal."""
        return f"{principal.kind}.{principal.name}.{self._sign(principal)}"

    def check(self, token: str) -> Principal | None:
        """Whose token this is; None when it is nobody's."""
        kind, _, rest = token.partition(".")
        name, _, signature = rest.rpartition(".")
        for known in KINDS:
            if kind == known and hmac.compare_digest(signature.encode(), self._sign(Principal(known, name)).encode()):
                return Principal(known, name)
        return None

    def _sign(self, principal: Principal) -> str:
        message = f"{principal.kind}.{principal.name}".encode()
        return hmac.new(self._secret, message, sha256).hexdigest()


def _keep(path: Path, text: str) -> None:
    """Have a private file hold this; one that does is left as it is, so that a full disk is no reason not to start."""
    if path.is_file() and path.read_bytes() == text.encode():
        path.chmod(PRIVATE)
    else:
        write_private(path, text)


def _secret(path: Path) -> bytes:
    if not path.exists():
        write_private(path, secrets.token_hex(32))
    path.chmod(PRIVATE)
    secret = path.read_bytes().strip()
    if len(secret) < SHORTEST_SECRET:
        raise SecretError(
            f"secret file {str(path)!r}: it holds {len(secret)} characters, not at least {SHORTEST_SECRET}; "
            "restore it, or delete it, which revokes every token"
        )
    return secret
