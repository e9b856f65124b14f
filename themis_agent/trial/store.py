"""Where checkpoints outlive a container: a folder of files, by URL; see also `webhdfs`.

Names are relative paths with "/". All methods raise `StoreError`. What `Checkpoints` relies on is that `rename` is
atomic and that what `put` and `write` wrote survives a crash.
"""

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Protocol
from urllib.parse import unquote, urlsplit

from themis_agent.errors import StoreError
from themis_agent.trial import webhdfs
from themis_agent.trial.webhdfs import HdfsStore
from yarn_plugin.errors import BadInputError, os_reason


class Store(Protocol):
    """See the module."""

    def names(self, folder: str) -> list[str]:
        """What is in a folder, sorted; nothing if there is no such folder."""

    def put(self, source: Path, name: str) -> None:
        """Copy a local file there."""

    def fetch(self, name: str, target: Path) -> None:
        """Copy a file from there to a new local one.

        Raises:
            OSError: the local one cannot be written.
        """

    def write(self, name: str, data: bytes) -> None:
        """Write a small file."""

    def read(self, name: str) -> bytes:
        """Read a small file."""

    def rename(self, old: str, new: str) -> None:
        """Rename a file within its folder, atomically; an existing one is replaced."""

    def remove(self, name: str) -> None:
        """Remove a file, or a folder with all in it. Idempotent."""


class FileStore:
    """A folder of this machine or of a network file system. The folder must exist: one that is not mounted is not
    made.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    def names(self, folder: str) -> list[str]:
        with self._reported(folder):
            self._check_root()
            path = self._root / folder
            return sorted(one.name for one in path.iterdir()) if path.is_dir() else []

    def put(self, source: Path, name: str) -> None:
        with self._reported(name), source.open("rb") as data, self._new(name) as file:
            shutil.copyfileobj(data, file, 1 << 20)

    def fetch(self, name: str, target: Path) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("wb") as file:
            file.writelines(self._chunks(name))

    def _chunks(self, name: str) -> Iterator[bytes]:
        with self._reported(name):
            self._check_root()
            with (self._root / name).open("rb") as file:
                while data := file.read(1 << 20):
                    yield data

    def write(self, name: str, data: bytes) -> None:
        with self._reported(name), self._new(name) as file:
            file.write(data)

    def read(self, name: str) -> bytes:
        with self._reported(name):
            self._check_root()
            return (self._root / name).read_bytes()

    def rename(self, old: str, new: str) -> None:
        with self._reported(new):
            (self._root / old).replace(self._root / new)
            _sync((self._root / new).parent)

    def remove(self, name: str) -> None:
        with self._reported(name):
            self._check_root()
            path = self._root / name
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)

    @contextlib.contextmanager
    def _reported(self, name: str) -> Iterator[None]:
        try:
            yield
        except OSError as problem:
            raise StoreError(f"checkpoint store {self._root}, {name or '.'}: {os_reason(problem)}") from problem

    def _check_root(self) -> None:
        self._root.stat()

    @contextlib.contextmanager
    def _new(self, name: str) -> Iterator[BinaryIO]:
        self._check_root()
        path = self._root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        _sync(path.parent)


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def store_at(url: str) -> Store:
    """The store at a URL.

    Raises:
        BadInputError: no store of ours reads such URLs.
    """
    parts = urlsplit(url)
    if parts.scheme == webhdfs.SCHEME:
        return hdfs_at(url)
    if parts.scheme != "file" or parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
        raise BadInputError(
            "checkpoint url",
            url,
            "give a folder as file:///PATH, for several hosts on a shared file system; or webhdfs://HOST:PORT/PATH",
        )
    return FileStore(Path(unquote(parts.path)))


def read_at(
    place: str, retry_s: tuple[float, ...] = webhdfs.RETRY_S, *, timeout_s: webhdfs.Timeout = webhdfs.TIMEOUT_S
) -> bytes:
    """The content of a small file, by its path, its file:// URL or its URL in a store. `retry_s`, `timeout_s`: see
    `HdfsStore`.

    Raises:
        OSError: it cannot be read.
        StoreError: the store refuses, or is away.
        BadInputError: no store of ours reads such URLs.
    """
    if "://" not in place:
        return Path(place).read_bytes()
    if urlsplit(place).scheme == "file":
        return Path(unquote(urlsplit(place).path)).read_bytes()
    folder, _, name = place.rpartition("/")
    webhdfs.check_url(folder)
    return HdfsStore(folder, retry_s=retry_s, timeout_s=timeout_s).read(unquote(name))


def hdfs_at(url: str) -> HdfsStore:
    """The store at a webhdfs:// URL.

    Raises:
        BadInputError: it is none.
    """
    webhdfs.check_url(url)
    return HdfsStore(url)
