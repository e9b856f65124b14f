"""Who may do what: the administrator's token, tokens of users, tokens of applications.

A token is `kind.name.signature`; the signature is an HMAC with a secret that only the arbiter's state folder holds. So
tokens stay good over restarts, and nothing secret is in the journal. Replacing the secret file revokes all of them.
"""

import hmac
import os
import secrets
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Literal

Kind = Literal["admin", "user", "app"]
KINDS: tuple[Kind, ...] = ("admin", "user", "app")


@dataclass(frozen=True, slots=True)
class Principal:
    """Who is asking: the administrator, a user by name, or an application by id."""

    kind: Kind
    name: str


class Tokens:
    """Issues and checks tokens with the secret in `folder`, made on first use (mode 0600)."""

    def __init__(self, folder: Path) -> None:
        self._secret = _secret(folder / "secret")
        self.admin_file = folder / "admin.token"
        _write_private(self.admin_file, self.issue(Principal("admin", "admin")) + "\n")

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


def _secret(path: Path) -> bytes:
    if not path.exists():
        _write_private(path, secrets.token_hex(32))
    return path.read_text().strip().encode()


def _write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read, never readable by others in between."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = path.with_name(path.name + ".part")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    draft.replace(path)
