"""Atomic writes of files: to a draft in the same directory, which then replaces the file.

Readers always find either the old file or the new one, also after a crash.
"""

import contextlib
import math
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

PRIVATE_MODE = 0o600
"""The mode of a file that only its owner can read."""


@contextlib.contextmanager
def draft(path: Path, mode: int = 0o666, durable: bool = False, sole_writer: bool | str = False) -> Iterator[BinaryIO]:
    """A draft to write, which replaces `path` when the block ends; it is removed if the block or the replacement fails.

    It is opened for appending. `mode`: its mode from the start, less the umask. `durable`: after the block, content and
    name survive a loss of power. Each draft has a unique name, so that several processes may write the same file; the
    draft of a killed process stays there. `sole_writer`: the file is locked, so that only one process writes it: then
    the draft is `path` with `.part`, and replaces an earlier one. With a name, only one process of this name writes it:
    the draft is `path` with `.NAME.part`.

    Raises:
        OSError: it could not be written; `path` is unchanged.
    """
    writer = secrets.token_hex(4) if sole_writer is False else "" if sole_writer is True else sole_writer
    draft_path = path.with_name(f"{path.name}.{writer}.part" if writer else f"{path.name}.part")
    if sole_writer:
        draft_path.unlink(missing_ok=True)
    descriptor = os.open(draft_path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND, mode)
    try:
        with open(descriptor, "w+b") as file:  # noqa: PTH123 - a descriptor, with the mode given
            yield file
            file.flush()
            if durable:
                # Otherwise the name may survive a loss of power without the content: an empty file.
                os.fsync(descriptor)
        draft_path.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            draft_path.unlink(missing_ok=True)
        raise
    if durable:
        _sync_folder(path.parent)


def write(path: Path, content: str | bytes, mode: int = 0o666, durable: bool = False) -> None:
    """Write a file atomically (text as UTF-8); the arguments are those of `draft`.

    A path that is not a regular file (/dev/null, /dev/stdout, a pipe) is written to and not replaced.

    Raises:
        OSError: it could not be written; `path` is unchanged.
    """
    data = content.encode() if isinstance(content, str) else content
    if path.exists() and not path.is_file():
        with path.open("wb") as file:
            file.write(data)
        return
    with draft(path, mode, durable) as file:
        file.write(data)


def write_private(path: Path, content: str) -> None:
    """Write a file durably that only its owner can ever read; its directory is created.

    Raises:
        OSError: it could not be written; `path` is unchanged.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write(path, content, PRIVATE_MODE, durable=True)


def delete_oldest(folder: Path, most: int, most_bytes: float = math.inf) -> None:
    """Delete the files of a folder that were written longest ago, so that at most so many, and so many bytes, stay.

    Raises:
        OSError: one could not be read or deleted.
    """
    files = list(folder.iterdir())
    if len(files) <= most and math.isinf(most_bytes):
        return
    kept, kept_bytes = 0, 0.0
    for _, size, file in sorted(((status := file.stat()).st_mtime, status.st_size, file) for file in files)[::-1]:
        kept, kept_bytes = kept + 1, kept_bytes + size
        if kept > most or (kept > 1 and kept_bytes > most_bytes):
            file.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    """Make the directory's entries durable, where the file system can."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
