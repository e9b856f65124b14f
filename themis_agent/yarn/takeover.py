"""One attempt of an application master takes over from those before it, which may still live and not know it.

1. It publishes its address with its number: from now on, earlier ones that look find that they are superseded.
2. It removes the drafts with which earlier ones may be about to replace the journal (each attempt has its own), and
   replaces the journal by a copy: what an earlier one still writes goes into a file that nobody reads.

An attempt looks again after each record that it has written, and before it acts on it. So whatever it acts on was
written before step 1, is in the copy, and is known to its successor.
"""

import math
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from themis_agent.local.folder import Folder
from yarn_plugin import files
from yarn_plugin.errors import ReportedError
from yarn_plugin.journal.records import Record, RecordFile

CONFIRMED_S = 0.25


class SupersededAttemptError(ReportedError):
    """A later attempt of the application master runs."""


class Fence:
    """Whether an attempt is the latest one. For any thread."""

    def __init__(self, folder: Folder, attempt: int) -> None:
        self._folder, self.attempt = folder, attempt
        self._confirmed_at = -math.inf

    def check(self) -> None:
        """Check it; in a store, only what is not known since `CONFIRMED_S`.

        Raises:
            SupersededAttemptError: it is not.
        """
        if self._folder.store is not None and time.monotonic() < self._confirmed_at + CONFIRMED_S:
            return
        try:
            self.confirm()
        except (OSError, ValueError):
            # The file system is away: nothing says that there is a later one.
            return

    def confirm(self) -> None:
        """Check it for certain.

        Raises:
            SupersededAttemptError: it is not.
            OSError, ValueError: that cannot be known now.
        """
        asked_at = time.monotonic()
        latest = self._folder.last_attempt()
        self._confirmed_at = asked_at
        if latest > self.attempt:
            raise SupersededAttemptError(f"attempt {self.attempt} is superseded by attempt {latest}")


class FencedRecords(RecordFile):
    """The journal of an attempt. No record that is appended, or replaces others, is acted on by a superseded one."""

    def __init__(self, path: Path, fence: Fence) -> None:
        self._check: Callable[[], None] = fence.check
        super().__init__(path, writer=f"attempt-{fence.attempt}")

    def append(self, *records: Record | bytes, durable: bool = True) -> None:
        """Append records.

        Raises:
            JournalUnavailableError: they could not be written; the file is unchanged.
            SupersededAttemptError: a later attempt runs, which may not know these records.
        """
        super().append(*records, durable=durable)
        self._check()

    def before_replacement(self) -> None:
        """Check, when the draft exists: a later attempt that is not seen yet will remove it, and it replaces nothing.

        Raises:
            SupersededAttemptError: a later attempt runs, whose file it is.
        """
        self._check()


def take_over(folder: Folder, fence: Fence, url: str) -> FencedRecords:
    """Become the attempt that runs the search of a folder, at this address; returns its journal.

    Raises:
        SupersededAttemptError: a later attempt has done so.
        JournalError: the journal cannot be used.
        OSError: the folder cannot be written.
    """
    fence.check()
    folder.publish(url, fence.attempt)
    for draft in folder.root.glob(f"{folder.journal.name}.*part"):
        draft.unlink(missing_ok=True)
    if folder.journal.exists():
        with folder.journal.open("rb") as old, files.draft(folder.journal, files.PRIVATE_MODE, durable=True) as copy:
            shutil.copyfileobj(old, copy)
    # An earlier attempt that still lives holds the lock of the old file.
    folder.journal.with_name(f"{folder.journal.name}.lock").unlink(missing_ok=True)
    return FencedRecords(folder.journal, fence)
