"""The identity of an arbiter: a random name that stays with its state folder."""

import os
import re
import uuid
from pathlib import Path

_IDENTITY = re.compile(r"[0-9a-f]{32}")


def identity(state_dir: Path) -> str:
    """The identity in a state folder's file `identity` (readable by its owner alone); made if there is none.

    Raises:
        OSError: the file can be neither read nor written.
    """
    path = state_dir / "identity"
    try:
        known = path.read_text(errors="replace").strip()
    except FileNotFoundError:
        known = ""
    if _IDENTITY.fullmatch(known):
        return known
    made = uuid.uuid4().hex
    state_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = path.with_name("identity.part")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(made + "\n")
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    return made
