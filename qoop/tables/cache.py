"""Statistics kept between queries, by the files they are of: a changed file has another name here."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import platformdirs
from pydantic import TypeAdapter, ValidationError

from qoop.estimate.statistics import TableStatistics
from qoop.tables.statistics import of_files
from yarn_plugin.files import write

_ADAPTER = TypeAdapter(TableStatistics)
_IN_MEMORY: dict[Path, TableStatistics] = {}


def statistics(files: Sequence[Path]) -> TableStatistics:
    """The statistics of a table that these files make up, read anew only when a file has changed."""
    place = _folder() / f"{_fingerprint(files)}.json"
    known = _IN_MEMORY.get(place) or _read(place)
    if known is None:
        known = of_files(files)
        _write(place, known)
    _IN_MEMORY[place] = known
    return known


def _folder() -> Path:
    return Path(platformdirs.user_cache_dir("qoop")) / "statistics-3"


def _fingerprint(files: Sequence[Path]) -> str:
    digest = hashlib.sha256()
    for file in sorted(files):
        status = file.stat()
        digest.update(f"{file.resolve()}\n{status.st_size}\n{status.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:32]


def _read(place: Path) -> TableStatistics | None:
    try:
        return _ADAPTER.validate_json(place.read_bytes())
    except (OSError, ValidationError):
        return None


def _write(place: Path, known: TableStatistics) -> None:
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        write(place, _ADAPTER.dump_json(known))
    except OSError:
        # A cache that cannot be written costs time at the next query, nothing else.
        return
