"""What is kept of searches that this user has submitted from this machine: their folders by application id, and the
functions that their trials call."""

import contextlib
import re
from pathlib import Path

from platformdirs import user_state_path

from themis_agent.local import stored_folder
from themis_agent.local.folder import Folder, folder_at
from yarn_plugin import files

_ID = re.compile(r"application_\d+_\d+")


def note(app: str, folder: Folder) -> None:
    """Remember the folder of an application, if that can be written."""
    with contextlib.suppress(OSError):
        files.write_private(_file(app), f"{folder}\n")


def forget(app: str) -> None:
    """Forget an application whose folder is another's now. Idempotent."""
    with contextlib.suppress(OSError):
        _file(app).unlink(missing_ok=True)


def folder_of(app: str) -> Path | None:
    """The folder of an application, or a copy of it; None if it is not known, or not there any more.

    Raises:
        StoreError: its store cannot be read.
    """
    if not _ID.fullmatch(app):
        return None
    try:
        place = _file(app).read_text().strip()
    except OSError:
        return None
    if not stored_folder.is_url(place):
        return Path(place) if Path(place).is_dir() else None
    folder = folder_at(place)
    return folder.root if folder.exists else None


def functions() -> Path:
    """Where packed functions are kept. The search copies its own into its folder."""
    return _state() / "functions"


def _file(app: str) -> Path:
    return _state() / "searches" / app


def _state() -> Path:
    return user_state_path("themis-agent", appauthor=False)
