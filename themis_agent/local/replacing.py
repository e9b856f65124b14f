"""A folder that holds an earlier search: how that differs from the one that is wanted, and taking its place."""

import itertools
import logging
import shutil
from collections.abc import Iterator
from pathlib import Path

import psutil

from themis_agent.app_file import AppFile
from themis_agent.local import launchers
from themis_agent.local.folder import Folder
from themis_agent.trial.function import packed_name
from yarn_plugin.errors import BadInputError, os_reason
from yarn_plugin.journal.records import JournalError, JournalInUseError, RecordFile

log = logging.getLogger("themis_agent")

MAX_NAMED = 5
"""The most fields that a message names."""

MAX_SHOWN = 40
"""The most characters of a value in a message."""

SECRET = ("environment.env", "storage")
"""Fields whose values may have passwords: they are not shown."""

KILLED_WITHIN_S = 10.0

OF_A_SEARCH = (
    "checkpoints",
    "logs",
    "trials",
    "function",
    "earlier.json",
    "journal",
    "journal.lock",
    "agent.json",
    "submission.json",
    "arbiter-token",
    "arbiter-ca.pem",
    "token",
    "app.json",
)
"""What a search leaves in its folder, in the order in which it is removed. Without the last it is no search."""


def differences(earlier: AppFile, wanted: AppFile) -> str:
    """The fields that differ, as text: "max_steps (9, now 27) and eta (3, now 4)"; "" if none does."""
    found = list(_differences("", earlier.model_dump(mode="json"), wanted.in_words().model_dump(mode="json")))
    shown = found[:MAX_NAMED] + ([f"{len(found) - MAX_NAMED} more"] if len(found) > MAX_NAMED else [])
    return " and ".join(filter(None, [", ".join(shown[:-1]), *shown[-1:]]))


def _differences(path: str, earlier: object, wanted: object) -> Iterator[str]:
    if earlier == wanted:
        return
    if isinstance(earlier, dict) and isinstance(wanted, dict):
        for name in dict.fromkeys((*earlier, *wanted)):
            yield from _differences(f"{path}.{name}".lstrip("."), earlier.get(name), wanted.get(name))
        return
    if path == "command" and (name := packed_name(earlier)) and name == packed_name(wanted):
        yield f"function ({name} has changed)"
        return
    yield path if path.startswith(SECRET) else f"{path} ({_shown(earlier)}, now {_shown(wanted)})"


def _shown(value: object) -> str:
    text = "none" if value is None else repr(value)
    return text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 3]}..."


def check_same(folder: Folder, app: AppFile, directory: Path) -> None:
    """Check that a folder holds this search.

    Raises:
        BadInputError: it holds another one, or the directory of its file is another one.
    """
    earlier, before = folder.load()
    found = differences(earlier, app)
    if not found and before == directory:
        return
    found = found or f"directory of its file ({before}, now {directory})"
    raise BadInputError(
        "--state",
        str(folder),
        f"holds a search with another {found}; --replace removes that one, and --state {beside(folder.root).name} "
        "keeps both (from a program: replace=True, or another state)",
    )


def beside(root: Path) -> Path:
    """The first numbered name beside a folder that is free: digits-2.themis, digits-3.themis, ..."""
    names = (root.with_name(f"{root.stem}-{number}{root.suffix}") for number in itertools.count(2))
    return next(one for one in names if not one.exists())


def end(folder: Folder) -> None:
    """Kill the launchers of a local search that nobody runs any more: they outlive an agent that was killed.

    Raises:
        BadInputError: it runs.
    """
    try:
        RecordFile(folder.journal).close()
    except JournalInUseError:
        raise BadInputError("--replace", str(folder), "its search runs; `themis-agent stop DIR` suspends it") from None
    except JournalError as damaged:
        log.warning("%s; it is removed", damaged)
    found = [process for _, process in launchers.running_in(folder)]
    for process in found:
        launchers.kill(process)
    psutil.wait_procs(found, KILLED_WITHIN_S)


def remove(folder: Folder) -> None:
    """Remove the search that a local folder holds, but nothing else that is in it.

    Raises:
        BadInputError: something cannot be removed.
    """
    for name in OF_A_SEARCH:
        path = folder.root / name
        try:
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        except OSError as problem:
            raise BadInputError("--replace", str(path), f"cannot be removed: {os_reason(problem)}") from None
