"""The arbiter's state folder: private to its user, with a file that contains the arbiter's address."""

import json
import logging
import os
import stat
from pathlib import Path

from yarn_plugin.errors import ReportedError, os_reason
from yarn_plugin.files import write_private

log = logging.getLogger("yarn_plugin.arbiter")

STATE_FILES = ("journal", "identity", "epoch", "secret", "admin.token", "scrape.token", "arbiter.json")
"""Prefixes of the names of the files in the state folder."""


SECRETS = ("secret", "admin.token", "scrape.token")


class StateError(ReportedError):
    """The state folder cannot be used."""


def make_private(state_dir: Path) -> None:
    """Create the state folder; make it and all files written from now on private.

    Raises:
        StateError: the folder cannot be created, belongs to another user, or is writable by all.
    """
    os.umask(0o077)
    try:
        state_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        if _is_arbiters_own(state_dir):
            _make_private(state_dir, 0o700)
        for path in state_dir.iterdir():
            if path.name.startswith(STATE_FILES) and path.is_file() and not path.is_symlink():
                _make_private(path, 0o600)
    except OSError as problem:
        where = problem.filename or state_dir
        if isinstance(problem, FileExistsError):
            raise StateError(f"--state {str(where)!r}: must be a directory, not a file") from None
        raise StateError(f"--state {str(where)!r}: {os_reason(problem)}; choose another directory") from None


def _is_arbiters_own(state_dir: Path) -> bool:
    """Whether a folder contains only the arbiter's files. The permissions of others are not changed.

    Raises:
        StateError: it belongs to another user, or others could replace the files in it.
    """
    status, where = state_dir.stat(), f"--state {str(state_dir)!r}"
    if status.st_uid != os.geteuid():
        raise StateError(f"{where}: belongs to another user; choose another directory")
    if status.st_mode & stat.S_ISVTX:
        raise StateError(f"{where}: every user can write there, as in /tmp; choose a directory of your own")
    names = [path.name for path in state_dir.iterdir()]
    if not names or any(name.startswith("journal") for name in names):
        return True
    if status.st_mode & 0o022:
        raise StateError(f"{where}: other users can write there; choose another directory, or run chmod go-w on it")
    return all(name.startswith(STATE_FILES) for name in names)


def _make_private(path: Path, mode: int) -> None:
    if path.stat().st_mode & 0o077:
        path.chmod(mode)
        risk = "; others may have read it: to revoke all tokens, delete the file `secret` and restart"
        log.warning("%s was accessible to other users and is now private%s", path, risk if path.name in SECRETS else "")


def write_address(state_dir: Path, url: str) -> None:
    """Store the arbiter's address and process id for other programs on this machine."""
    file = state_dir / "arbiter.json"
    try:
        write_private(file, json.dumps({"url": url, "pid": os.getpid()}) + "\n")
    except OSError as problem:
        raise StateError(
            f"state file {str(file)!r}: {os_reason(problem)}; the arbiter must be able to write its --state directory"
        ) from None
