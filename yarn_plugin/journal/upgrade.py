"""Records of earlier versions as this version would have written them: dicts in, dicts out.

Version 0: records without `v`. What decides knows the present version alone.
"""

from collections.abc import Callable
from typing import Any

from yarn_plugin.journal.records import JournalError, Record

VERSION = 1


class JournalVersionError(JournalError):
    """A record was written by a later version of the program."""


def version_of(record: Record) -> int:
    """The version that a record was written by.

    Raises:
        JournalVersionError: it is a later one, or no number.
    """
    version = record.get("v", 0)
    if type(version) is not int or not 0 <= version <= VERSION:
        raise JournalVersionError(
            f"journal: record {record.get('seq')} has version {version!r}, this program reads up to {VERSION}; "
            "use the program that wrote it, or a later one"
        )
    return version


def upgrade(record: Record) -> Record:
    """The record as this version would have written it.

    Raises:
        JournalVersionError: a later version wrote it.
    """
    for step in _STEPS[version_of(record) :]:
        record = step(record)
    return record


def _from_0(record: Record) -> Record:
    """Times were the machine's; and who reached the manager went on as if it had been looked at."""
    record = {"wall": record.get("at"), **record, "v": 1}
    event: dict[str, Any] | None = record.get("event")
    if event is not None and event.get("type") == "ManagerReached":
        record["event"] = {**event, "looked": True}
    state: dict[str, Any] | None = record.get("state")
    if state is not None and "manager_error" in state:
        record["state"] = {**state, "looked": state["manager_error"] is None}
    return record


_STEPS: tuple[Callable[[Record], Record], ...] = (_from_0,)
