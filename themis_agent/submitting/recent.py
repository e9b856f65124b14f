"""Where the folders are of searches that this user has submitted from this machine, by application id."""

import contextlib
import re
from pathlib import Path

from platformdirs import user_state_path

from yarn_plugin import files

_ID = re.compile(r"application_\d+_\d+")


def note(app: str, folder: Path) -> None:
    """Remember the folder of an application, if that can be written."""
    with contextlib.suppress(OSError):
        files.write_private(_file(app), f"{folder}\n")


def folder_of(app: str) -> Path | None:
    """The folder of an application; None if it is not known, or not there any more."""
    if not _ID.fullmatch(app):
        return None
    try:
        folder = Path(_file(app).read_text().strip())
    except OSError:
        return None
    return folder if folder.is_dir() else None


def _file(app: str) -> Path:
    return user_state_path("themis-agent", appauthor=False) / "searches" / app
