"""The number of the present series of ids, kept beside the journal: no id of a journal that was lost is given again."""

from collections.abc import Iterable
from pathlib import Path

from yarn_plugin.files import write_private
from yarn_plugin.journal.records import Record


def begin_epoch(state_dir: Path, known: int, lost: Iterable[Record]) -> int:
    """A number above that of every earlier series: `known`, those in the records that are lost, and the last one begun.

    It is on the disk when this returns, so that it is not begun again should the journal be lost too.
    """
    epoch = max([known, last_begun(state_dir), *_epochs(lost)]) + 1
    write_private(_file(state_dir), f"{epoch}\n")
    return epoch


def _file(state_dir: Path) -> Path:
    return state_dir / "epoch"


def last_begun(state_dir: Path) -> int:
    """The series begun last, also where the process ended before its journal said so; 0 before the first."""
    try:
        text = _file(state_dir).read_text().strip()
    except (OSError, UnicodeDecodeError):
        return 0
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0


def _epochs(records: Iterable[Record]) -> list[int]:
    parts = [part for record in records for part in (record.get("event"), record.get("state"))]
    found = [part.get("epoch") for part in parts if isinstance(part, dict)]
    return [epoch for epoch in found if isinstance(epoch, int)]
