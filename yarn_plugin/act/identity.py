"""The identity of an arbiter: a random name that stays with its state folder."""

import re
import uuid
from pathlib import Path

from yarn_plugin.files import write_private

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
    write_private(path, made + "\n")
    return made
