"""Archives in a user's staging folder, named by the checksum of what is in them: made once, kept once on each node."""

import errno
import hashlib
import io
import os
import stat
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Literal
from urllib.parse import quote

from themis_agent.trial.webhdfs import HdfsStore
from themis_agent.yarn.submission import LocalResource
from yarn_plugin import files

CHECKSUM_DIGITS = 16
_READABLE, _SEARCHABLE = 0o644, 0o755
_OLDEST = (1980, 1, 1, 0, 0, 0)
"""Of all entries, so that equal content gives equal archives."""

_MODIFIED_S = 315_532_800
"""Of all archives: YARN refuses one that was modified after an application was submitted, and two submissions at the
same time may both write it."""


def staging_folder(store: Path, own: Path) -> Path:
    """The staging folder of this user in a store; no search can have its name. `own`: a folder of this user there.

    Raises:
        OSError: it cannot be made, or belongs to somebody else, whose code would run.
    """
    folder = store / f".staging-{os.getuid()}"
    folder.mkdir(mode=_SEARCHABLE, exist_ok=True)
    # Of a symbolic link: the link's own owner, who may be another one than that of the folder.
    if folder.lstat().st_uid != own.stat().st_uid:
        raise PermissionError(errno.EPERM, "belongs to another user", str(folder))
    folder.chmod(_SEARCHABLE)
    return folder


def staging_of(store: Path | HdfsStore, own: Path) -> Path | HdfsStore:
    """The same in any store.

    Raises:
        OSError: as `staging_folder`.
        StoreError: the store refuses, or is away.
    """
    if isinstance(store, Path):
        return staging_folder(store, own)
    folder = HdfsStore(f"{store.url}/.staging-{quote(store.user)}")
    folder.make_folder("")
    if folder.status("").owner != store.user:
        raise PermissionError(errno.EPERM, "belongs to another user", folder.url)
    return folder


def checksum(content: Mapping[str, Path]) -> str:
    """Of the names and contents of files."""
    found = hashlib.sha256()
    for name in sorted(content):
        digest = hashlib.sha256(content[name].read_bytes()).hexdigest()
        found.update(f"{name}\0{digest}\n".encode())
    return found.hexdigest()[:CHECKSUM_DIGITS]


def staged_archive(folder: Path | HdfsStore, name: str, content: Mapping[str, Path], link: str) -> LocalResource:
    """An archive of these files in a staging folder, as `link` in a container's working directory.

    An archive with the same content that is there already is used. Several may stage the same one at the same time.

    Raises:
        OSError: the folder cannot be written, or a file not be read.
        StoreError: the store refuses, or is away.
    """
    file = f"{name}-{checksum(content)}.zip"
    if isinstance(folder, HdfsStore):
        if file not in folder.names(""):
            folder.write(file, _archive(content), _MODIFIED_S * 1000)
        return stored_resource(folder, file, link, archive=True)
    path = folder / file
    if not path.exists():
        with files.draft(path, durable=True) as draft:
            draft.write(_archive(content))
            draft.flush()
            os.fchmod(draft.fileno(), _READABLE)
            os.utime(draft.fileno(), (_MODIFIED_S, _MODIFIED_S))
    return local_resource(path, link, archive=True)


def _archive(content: Mapping[str, Path]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name in sorted(content):
            # Jars are compressed already.
            kind = zipfile.ZIP_STORED if name.endswith(".jar") else zipfile.ZIP_DEFLATED
            entry = zipfile.ZipInfo(name, _OLDEST)
            entry.external_attr = (stat.S_IFREG | _READABLE) << 16
            archive.writestr(entry, content[name].read_bytes(), kind, compresslevel=1)
    return made.getvalue()


def local_resource(path: Path, link: str, archive: bool) -> LocalResource:
    """A file on the shared file system as YARN is to find it.

    Raises:
        OSError: it cannot be read.
    """
    found = path.stat()
    return LocalResource(
        name=link,
        url=path.as_uri(),
        size=found.st_size,
        modified_ms=found.st_mtime_ns // 1_000_000,
        type="ARCHIVE" if archive else "FILE",
        public=is_public(path),
    )


def stored_resource(store: HdfsStore, file: str, link: str, archive: bool) -> LocalResource:
    """A file in a store as YARN is to find it; it keeps it for this user alone.

    Raises:
        StoreError: the store refuses, or is away.
    """
    found = store.status(file)
    kind: Literal["ARCHIVE", "FILE"] = "ARCHIVE" if archive else "FILE"
    return LocalResource(
        name=link, url=store.url_of(file), size=found.size, modified_ms=found.modified_ms, type=kind, public=False
    )


def is_public(path: Path) -> bool:
    """Whether everybody can read a file: only then may YARN keep it for all users of a node."""
    return bool(path.stat().st_mode & stat.S_IROTH) and all(map(_is_searchable, path.parents))


def _is_searchable(folder: Path) -> bool:
    return bool(folder.stat().st_mode & stat.S_IXOTH)
