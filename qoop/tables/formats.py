"""Which files of a folder are tables, and how they are stored."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path


class Format(StrEnum):
    """How a table is stored; the values are Spark's names."""

    PARQUET = "parquet"
    ORC = "orc"
    CSV = "csv"
    JSON = "json"
    DELTA = "delta"


READ = "Parquet, ORC, CSV and JSON files or folders of them, and Delta tables"

SUFFIXES = {
    ".parquet": Format.PARQUET,
    ".orc": Format.ORC,
    ".csv": Format.CSV,
    ".tsv": Format.CSV,
    ".json": Format.JSON,
    ".jsonl": Format.JSON,
    ".ndjson": Format.JSON,
}
COMPRESSED = frozenset({".gz", ".bz2", ".zst", ".snappy"})
"""Suffixes after that of a text file, which Spark opens."""


@dataclass(frozen=True, slots=True)
class StoredTable:
    """A table in a folder: its file or folder, how it is stored, and its files with rows, in the order of names."""

    path: Path
    format: Format
    files: tuple[Path, ...]

    def partitions(self) -> list[dict[str, str]]:
        """For each file the partition that its path names, as in `day=2020-01-01/part-0.parquet`."""
        return [
            dict(part.split("=", 1) for part in file.relative_to(self.path).parts[:-1] if "=" in part)
            for file in self.files
        ]


def format_of(file: Path) -> Format | None:
    """How a file is stored, by its name; None if it is not read."""
    *_, last = suffixes = ["", *(suffix.lower() for suffix in file.suffixes)]
    if last in COMPRESSED:
        known = SUFFIXES.get(suffixes[-2])
        return known if known in (Format.CSV, Format.JSON) else None
    return SUFFIXES.get(last)


def table_name(path: Path) -> str:
    """The name of the table in a file or folder."""
    if path.is_dir():
        return path.name.lower()
    name = path.with_suffix("") if path.suffix.lower() in COMPRESSED else path
    return name.stem.lower()


def is_hidden(path: Path) -> bool:
    """Whether Spark ignores a file or folder, by its name."""
    return path.name.startswith((".", "_"))


def stored_table(path: Path) -> StoredTable | None:
    """The table in a file or folder; None if it is not read as one."""
    if path.is_file():
        kind = format_of(path)
        return StoredTable(path, kind, (path,)) if kind is not None else None
    if (path / "_delta_log").is_dir():
        return StoredTable(path, Format.DELTA, tuple(sorted(path.rglob("*.parquet"))))
    by_format: dict[Format, list[Path]] = {}
    for file in _files_below(path):
        if (kind := format_of(file)) is not None:
            by_format.setdefault(kind, []).append(file)
    if len(by_format) != 1:
        return None
    [(kind, files)] = by_format.items()
    return StoredTable(path, kind, tuple(files))


def _files_below(folder: Path) -> Sequence[Path]:
    """The files of a folder, and of the folders of its partitions (`day=2020-01-01`)."""
    found: list[Path] = []
    for path in sorted(folder.iterdir()):
        if is_hidden(path):
            continue
        if path.is_file():
            found.append(path)
        elif path.is_dir() and "=" in path.name:
            found += _files_below(path)
    return found
