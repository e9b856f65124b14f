"""Files that are written whole or not at all: a draft beside the file, which then takes its place.

A reader finds the old file or the new one, whenever it looks, and so does whoever comes after a crash.
"""

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

PRIVATE = 0o600
"""The mode of a file that only its owner can read."""


@contextlib.contextmanager
def draft(path: Path, mode: int = 0o666, durable: bool = False, sole_writer: bool = False) -> Iterator[BinaryIO]:
    """A file to write, which replaces `path` when the block ends, and is removed if the block or that fails.

    It is opened for appending. `mode`: its mode from the first byte on, less the umask. `durable`: when the block has
    ended, content and name survive the loss of power. Drafts have names of their own, so that several can write the
    same file; one that a killed process leaves behind stays there. `sole_writer`: nobody else writes this file at the
    same time (it is locked): the draft is `path` with `.part`, and one that was left behind is written over.

    Raises:
        OSError: it could not be written; `path` is as it was.
    """
    place = path.with_name(f"{path.name}.part" if sole_writer else f"{path.name}.{secrets.token_hex(4)}.part")
    if sole_writer:
        place.unlink(missing_ok=True)
    descriptor = os.open(place, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND, mode)
    try:
        with open(descriptor, "w+b") as file:  # noqa: PTH123 - a descriptor, with the mode given
            yield file
            file.flush()
            if durable:
                # Else the name may survive the loss of power, and the content not: an empty file.
                os.fsync(descriptor)
        place.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            place.unlink(missing_ok=True)
        raise
    if durable:
        _sync_folder(path.parent)


def write(path: Path, content: str | bytes, mode: int = 0o666, durable: bool = False) -> None:
    """Write a file (text as UTF-8), whole or not at all; the arguments are those of `draft`.

    What is there and is not a regular file (/dev/null, /dev/stdout, a pipe) is written to as it is, and not replaced.

    Raises:
        OSError: it could not be written; `path` is as it was.
    """
    data = content.encode() if isinstance(content, str) else content
    if path.exists() and not path.is_file():
        with path.open("wb") as there:
            there.write(data)
        return
    with draft(path, mode, durable) as file:
        file.write(data)


def write_private(path: Path, content: str) -> None:
    """Write a file that only its owner can read, at no time readable by others, and durable; its folder is made.

    Raises:
        OSError: it could not be written; `path` is as it was.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write(path, content, PRIVATE, durable=True)


def _sync_folder(folder: Path) -> None:
    """Some file systems cannot; the new file is there all the same."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
