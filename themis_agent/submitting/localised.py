"""The user's files as YARN is to localise them: [environment] names files of this machine, [data] shared ones."""

import hashlib
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from themis_agent.app_file import AppFile
from themis_agent.errors import StoreError
from themis_agent.local import stored_folder
from themis_agent.local.folder import Folder
from themis_agent.submitting.staging import local_resource, stored_resource
from themis_agent.trial.store import hdfs_at
from themis_agent.trial.webhdfs import HdfsStore
from themis_agent.yarn.submission import (
    CODE,
    JARS,
    LOCAL_CHECKPOINTS,
    LOCAL_COPY,
    LOCAL_LOGS,
    PACKAGES,
    LocalResource,
)
from yarn_plugin import files
from yarn_plugin.errors import BadInputError

ARCHIVE_ENDINGS = (".zip", ".jar", ".tar", ".tar.gz", ".tgz")
"""Of files that YARN can unpack."""

FOLDER = "resources"
"""Where copies of the user's files are, below the folder of a search."""

_TAKEN = (
    CODE,
    PACKAGES,
    JARS,
    LOCAL_CHECKPOINTS,
    LOCAL_LOGS,
    LOCAL_COPY,
    "launch_container.sh",
    "container_tokens",
    "tmp",
)


@dataclass(frozen=True, slots=True)
class Given:
    """A file of a search. `field`: where it is named, such as `environment.files 'a#b'`. `name`: in the working
    directory of containers. `is_shared`: nodes read it where it is. `store`: it is the file there; `path` is its name.
    """

    field: str
    path: Path
    name: str
    archive: bool
    is_shared: bool
    store: HdfsStore | None = None


def given(app: AppFile, directory: Path) -> tuple[list[Given], list[str]]:
    """The files of a search, and the problems of those that cannot be used. `directory`: of the file of the search."""
    usable, problems = [], []
    fields = (
        *(("environment.files", text, False, False) for text in app.environment.files),
        *(("environment.archives", text, True, False) for text in app.environment.archives),
        *(("data.urls", text, urlsplit(text).path.endswith(ARCHIVE_ENDINGS), True) for text in app.data.urls),
    )
    for field, text, archive, is_data in fields:
        file = _given(f"{field} {text!r}", text, archive, is_data, directory)
        problem = file if isinstance(file, str) else _problem(file)
        if problem is not None:
            problems.append(f"{field} {text!r}: {problem}")
        elif isinstance(file, Given):
            usable.append(file)
    return usable, [*problems, *_clashes(usable), *_missing_scripts(app, usable, directory)]


def localised(file: Given, folder: Folder) -> LocalResource:
    """A file where nodes read it: a copy in the folder of the search, if it is not on the shared file system.

    Raises:
        OSError: it cannot be copied.
        StoreError: a store refuses, or is away.
    """
    path = file.path
    if file.store is not None:
        return stored_resource(file.store, "", file.name, file.archive)
    if not file.is_shared:
        with path.open("rb") as source:
            digest = hashlib.file_digest(source, "sha256").hexdigest()[:16]
            name = f"{FOLDER}/{digest}-{path.name}"
            if folder.store is not None:
                folder.store.put(path, name)
                return stored_resource(folder.store, name, file.name, file.archive)
            path = folder.root / name
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                source.seek(0)
                with files.draft(path, files.PRIVATE_MODE) as copy:
                    shutil.copyfileobj(source, copy, 1 << 20)
    return local_resource(path, file.name, file.archive)


def _given(field: str, text: str, archive: bool, is_data: bool, directory: Path) -> Given | str:
    place, _, name = text.partition("#")
    parts = urlsplit(place)
    is_url = "://" in place
    if stored_folder.is_url(place):
        try:
            store = hdfs_at(place)
        except BadInputError as problem:
            return problem.expected
        path = Path(unquote(parts.path))
        return Given(field, path, name or path.name, archive, is_shared=True, store=store)
    if (is_url or is_data) and (parts.scheme != "file" or parts.netloc not in ("", "localhost")):
        return "must be file:///PATH, on a file system that all nodes share, or webhdfs://HOST:PORT/PATH"
    path = Path(unquote(parts.path)) if is_url else directory / place
    return Given(field, path, name or path.name, archive, is_url)


def _problem(file: Given) -> str | None:
    """What is wrong with a file; None: nothing."""
    if "/" in file.name or file.name in ("", ".", "..", *_TAKEN):
        return f"{file.name!r} cannot be its name in a container's working directory; give another as PATH#NAME"
    is_folder = file.path.is_dir()
    if file.store is not None:
        try:
            is_folder = file.store.status("").is_folder
        except StoreError as problem:
            return str(problem)
    if is_folder:
        return "is a directory; pack it, as .tar.gz or .zip, and give it under archives"
    if file.archive and not file.path.name.endswith(ARCHIVE_ENDINGS):
        return f"must be an archive that YARN unpacks: {', '.join(ARCHIVE_ENDINGS)}"
    if file.store is not None:
        return None
    try:
        with file.path.open("rb"):
            return None
    except OSError as problem:
        return "no such file" if isinstance(problem, FileNotFoundError) else "cannot be read"


def _clashes(found: list[Given]) -> Iterator[str]:
    first: dict[str, Given] = {}
    for one in found:
        if one.name in first:
            yield f"{one.field}: has the name {one.name!r} in containers, as {first[one.name].field}; give it another"
        first.setdefault(one.name, one)


def _missing_scripts(app: AppFile, found: list[Given], directory: Path) -> Iterator[str]:
    """Words of the command that are files here and would be none in a container."""
    names = {one.name for one in found}
    for word in app.words:
        path = Path(word)
        if "{" not in word and not path.is_absolute() and (directory / path).is_file() and path.parts[0] not in names:
            yield f"command: {word!r} is a file here, but not in a container; add it to [environment] files"
