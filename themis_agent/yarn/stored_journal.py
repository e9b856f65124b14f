"""The journal of an attempt in HDFS, and how an attempt takes over from those before it.

1. It makes the folder `journal/ATTEMPT`: from now on, earlier ones that look find that they are superseded.
2. It copies the newest journal, and goes on in files of its own folder. Earlier ones know no name in it.

An attempt looks again after each record that it has appended, before it acts on it, and waits as long as that cannot be
known. So whatever it acts on was appended before step 1, is in the copy, and is known to its successor.

An append takes two requests and some 10 ms, however little is appended, so those of events that wait are one.

An append that fails may have appended all, a part or nothing. The next writes a new file as a whole, which from then
on is the journal: what the failed one left is read by nobody.
"""

import contextlib
import logging
import os
import time
from collections.abc import Callable

from themis_agent.errors import StoreError
from themis_agent.local import stored_folder
from themis_agent.local.folder import Folder
from themis_agent.trial.webhdfs import HdfsStore
from themis_agent.yarn.takeover import Fence
from yarn_plugin.journal.records import JournalUnavailableError, Record, RecordFile

log = logging.getLogger("themis_agent")

RETRY_S = 1.0
"""After which an attempt looks again whether it is superseded, when that could not be known."""


class StoredRecords(RecordFile):
    """The journal of an attempt: a local file, and its copy in the store, which is the truth."""

    def __init__(self, folder: Folder, store: HdfsStore, fence: Fence) -> None:
        super().__init__(folder.journal, writer=f"attempt-{fence.attempt}")
        self._store, self._fence = store, fence
        self._folder = f"{stored_folder.JOURNAL}/{fence.attempt:06}"
        self._number = 0
        self._sent: int | None = None
        self._is_deferred = False

    def defer(self) -> Callable[[], None]:
        """From now on, what is appended is durable only after a call of what this returns."""
        self._is_deferred = True
        return self.commit

    def append(self, *records: Record | bytes, durable: bool = True) -> None:
        """Append records; what is not `durable` is sent with the next that is.

        Raises:
            JournalUnavailableError: they could not be written; none of them counts.
            SupersededAttemptError: a later attempt runs, which may not know these records.
        """
        before = self.size
        super().append(*records, durable=False)
        if not durable or self._is_deferred:
            return
        try:
            self.commit()
        except JournalUnavailableError:
            os.ftruncate(self._file, before)
            self.size = before
            raise

    def commit(self) -> None:
        """Send what was appended.

        Raises:
            JournalUnavailableError: it could not be sent. The next call tries again.
            SupersededAttemptError: a later attempt runs, which may not know these records.
        """
        try:
            self._send()
        except StoreError as problem:
            self._sent = None
            raise JournalUnavailableError(f"journal: {problem}") from None
        self._wait_until_known()

    def rewrite(self, *records: Record | bytes) -> None:
        """Replace all records.

        Raises:
            JournalUnavailableError: they could not be written; nothing was replaced.
            SupersededAttemptError: a later attempt runs.
        """
        super().rewrite(*records)
        self._sent = None
        try:
            self._send()
        except StoreError as problem:
            # The longer journal there says the same. The next append sends this one.
            log.warning("the compacted journal could not be stored: %s", problem)
            return
        self._wait_until_known()

    def _send(self) -> None:
        if self._sent is None:
            self._number += 1
            self._store.put(self.path, self._name)
            self._sent = self.size
            self._remove_earlier()
            return
        data = os.pread(self._file, self.size - self._sent, self._sent)
        if data:
            self._store.append(self._name, data)
        self._sent = self.size

    @property
    def _name(self) -> str:
        return f"{self._folder}/{self._number:06}"

    def _remove_earlier(self) -> None:
        """Remove the files that this one replaces. Folders of attempts stay: they say which is the latest."""
        with contextlib.suppress(StoreError):
            for attempt in stored_folder.attempts(self._store):
                folder = f"{stored_folder.JOURNAL}/{attempt:06}"
                for name in self._store.names(folder) if attempt <= self._fence.attempt else []:
                    if f"{folder}/{name}" != self._name:
                        self._store.remove(f"{folder}/{name}")

    def _wait_until_known(self) -> None:
        while True:
            try:
                self._fence.confirm()
                return
            except (OSError, StoreError) as problem:
                log.warning("not known whether this attempt is the latest one: %s", problem)
                time.sleep(RETRY_S)


def take_over(folder: Folder, store: HdfsStore, fence: Fence, url: str) -> StoredRecords:
    """Become the attempt that runs the search of a folder, at this address; returns its journal.

    Raises:
        SupersededAttemptError: a later attempt has done so.
        JournalError: the journal cannot be used.
        OSError, StoreError: the store cannot be used.
    """
    fence.confirm()
    folder.publish(url, fence.attempt)
    folder.journal.unlink(missing_ok=True)
    stored_folder.pull_journal(store, folder.root)
    return StoredRecords(folder, store, fence)
