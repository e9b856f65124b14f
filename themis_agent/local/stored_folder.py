"""The local copy of a search's folder that is in HDFS. `.store` in the copy has its URL, as a clone knows its origin.

Files are read and written there, and kept here too. Of a running search, what is new of its journal and logs is added
to the copy. The journal is there as

    journal/000002/000003       attempt 2 of the agent, its third file: whole when it was written, then appended to

and the newest file is the journal. The folder of an attempt is also its claim: see `themis_agent.yarn.stored_journal`.
"""

import atexit
import contextlib
import errno
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from themis_agent.errors import StoreError
from themis_agent.trial import webhdfs
from themis_agent.trial.webhdfs import HdfsStore, MissingError
from yarn_plugin import files

_ORIGIN = ".store"
_SOURCE = ".journal-source"
JOURNAL = "journal"
_LOOKS = 5
"""How often a journal is looked for that is replaced meanwhile."""


def is_url(where: object) -> bool:
    """Whether a place is given as the URL of a store."""
    return str(where).startswith(f"{webhdfs.SCHEME}://")


def copy_at(url: str, root: Path | None = None) -> Path:
    """A local copy of the folder at a URL, empty as yet, readable by this user alone. `root`: where; None: a temporary
    directory, removed when this process ends.

    Raises:
        BadInputError: the URL is malformed.
    """
    webhdfs.check_url(url)
    if root is None:
        root = Path(tempfile.mkdtemp(prefix="themis-"))
        atexit.register(shutil.rmtree, root, ignore_errors=True)
    root.mkdir(mode=0o700, exist_ok=True)
    (root / _ORIGIN).write_text(url.rstrip("/"))
    return root


def origin(root: Path) -> HdfsStore | None:
    """The store with the folder of which this is a copy; None: it is no copy."""
    try:
        return HdfsStore((root / _ORIGIN).read_text())
    except FileNotFoundError:
        return None


@contextlib.contextmanager
def as_os_errors() -> Iterator[None]:
    """Raise an absent store as what an absent disk raises."""
    try:
        yield
    except MissingError as problem:
        raise FileNotFoundError(errno.ENOENT, str(problem)) from problem
    except StoreError as problem:
        raise OSError(errno.EIO, str(problem)) from problem


def attempts(store: HdfsStore) -> list[int]:
    """The numbers of the agent's attempts that have claimed the search, ascending."""
    return sorted(int(name) for name in store.names(JOURNAL) if name.isdigit())


def newest_journal(store: HdfsStore) -> str | None:
    """The name of the journal's newest file; None: the search has not begun."""
    for _ in range(_LOOKS):
        for attempt in reversed(attempts(store)):
            folder = f"{JOURNAL}/{attempt:06}"
            found = [name for name in store.names(folder) if name.isdigit()]
            if found:
                return f"{folder}/{max(found)}"
        # A file is removed when a newer one is there, perhaps in a folder that has been looked at before.
    return None


def pull_journal(store: HdfsStore, root: Path) -> None:
    """Add what is new of the journal to the copy; replace that if the journal was replaced.

    Raises:
        StoreError: the store cannot be read.
    """
    for _ in range(_LOOKS):
        name = newest_journal(store)
        # Replaced and removed meanwhile: the next look finds the newer one.
        with contextlib.suppress(MissingError):
            if name is not None:
                _pull_journal(store, root, name)
            return
    raise StoreError(f"store {store.url}, {JOURNAL}: is replaced again and again")


def _pull_journal(store: HdfsStore, root: Path, name: str) -> None:
    copy, source = root / JOURNAL, root / _SOURCE
    if copy.exists() and source.exists() and source.read_text() == name:
        _extend(store, name, copy)
        return
    fetched = root / f"{JOURNAL}.fetched"
    store.fetch(name, fetched)
    fetched.chmod(files.PRIVATE_MODE)
    fetched.replace(copy)
    source.write_text(name)


def pull_log(store: HdfsStore, root: Path, folder: str, name: str) -> None:
    """Add what is new of a log to the copy. A log that is full becomes NAME.1, here as there.

    Raises:
        StoreError: the store cannot be read.
    """
    for epoch in store.names(folder):
        there, here = f"{folder}/{epoch}/{name}", root / folder / epoch / name
        full = here.with_name(f"{name}.1")
        listed = store.names(f"{folder}/{epoch}")
        with contextlib.suppress(MissingError):
            if here.exists() and (name not in listed or store.status(there).size < here.stat().st_size):
                here.replace(full)
            if f"{name}.1" in listed:
                _extend(store, f"{there}.1", full)
            if name in listed:
                _extend(store, there, here)


def _extend(store: HdfsStore, name: str, copy: Path) -> None:
    here = copy.stat().st_size if copy.exists() else 0
    there = store.status(name).size
    if there < here:
        here = 0
        copy.unlink()
    copy.parent.mkdir(parents=True, exist_ok=True)
    if there == here:
        copy.touch()
        return
    data = store.read(name, offset=here)
    with copy.open("ab") as file:
        file.write(data)
