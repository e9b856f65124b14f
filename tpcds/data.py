"""Data sets on disk: made whole or not at all, reused when they are there, checked before they are read.

A data set is a directory with a folder per table (`DIR/<table>/*.parquet`) and a marker file, written last, that
says what was made. Public: `ensure(scale)` for tests and benchmarks, `generate` and `open_data` for the command.
"""

import hashlib
import math
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import platformdirs
from filelock import FileLock
from pydantic import BaseModel, ConfigDict, ValidationError

from tpcds import generator
from tpcds.errors import GenerationError, IncompleteDataError
from tpcds.generator import TABLES, Progress, Watch
from yarn_plugin.errors import BadInputError

MARKER = "_tpcds.json"
ANSWERS = "_answers"
SMALLEST, LARGEST = 0.001, 100_000.0
# Measured at scales 0.1, 1 and 10, rounded up.
BYTES_FIXED, BYTES_PER_SCALE = 30_000_000, 450_000_000


class Made(BaseModel):
    """The marker file: what was made, by what, and which files (with their sizes in bytes) belong to it."""

    model_config = ConfigDict(frozen=True)
    version: Literal[1] = 1
    scale: float
    parts: int
    generator: str
    files: dict[str, int]


@dataclass(frozen=True, slots=True)
class DataSet:
    """A complete data set; the scale is None where the data was not made by `tpcds generate`."""

    path: Path
    scale: float | None

    def table(self, name: str) -> Path:
        return self.path / name

    @property
    def answers(self) -> Path:
        """Where answers of reference engines over this data are kept."""
        return self.path / ANSWERS

    def fingerprint(self) -> str:
        """Changes whenever a file of the data set is written again."""
        found = hashlib.sha256()
        for table in TABLES:
            for file in sorted(self.table(table).glob("*.parquet")):
                stat = file.stat()
                found.update(f"{table}/{file.name} {stat.st_size} {stat.st_mtime_ns}\n".encode())
        return found.hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Generated:
    """Outcome of a generation: where, whether it was there before, bytes, and seconds taken."""

    path: Path
    scale: float
    reused: bool
    size: int
    seconds: float


def parse_scale(text: str) -> float:
    """A scale as a person writes it, in units of about 1 GB of raw data.

    Raises:
        BadInputError: not a number, or outside what can be generated.
    """
    try:
        scale = float(text)
    except ValueError:
        scale = math.nan
    if not SMALLEST <= scale <= LARGEST:
        raise BadInputError("--scale", text, f"must be a number from {SMALLEST:g} to {LARGEST:,.0f}, like 0.1 or 10")
    return scale


def ensure(scale: float, watch: Watch = lambda _: None) -> Path:
    """The data set of this scale under the user's cache directory, generated if it is not there yet."""
    name = f"scale-{scale:.10g}-{generator.version().replace(' ', '-')}"
    return generate(scale, platformdirs.user_cache_path("yarn-plugin") / "tpcds" / name, watch=watch).path


def generate(scale: float, out: Path, parts: int | None = None, watch: Watch = lambda _: None) -> Generated:
    """Make a data set in `out`, or find that it is there already.

    Raises:
        BadInputError: `out` holds a data set made otherwise.
        GenerationError: `out` holds something else, the disk is too small, or the generator failed.
    """
    began = time.monotonic()
    out = out.absolute()
    with _only_one(out):
        made = _marker(out)
        if made is not None:
            _refuse_other(made, scale, parts, out)
        reused = made is not None and not _missing(made, out)
        if not reused:
            _refuse_foreign(out)
            _make(scale, parts or generator.usual_parts(scale), out, watch)
    return Generated(out, scale, reused, generator.size(out), time.monotonic() - began)


def open_data(path: Path) -> DataSet:
    """A data set to read; data made elsewhere will do if every table has its folder of Parquet files.

    Raises:
        IncompleteDataError: the directory, a table or a file is missing.
    """
    if not path.is_dir():
        raise IncompleteDataError(f"--data {str(path)!r}: no such directory; make it with `tpcds generate --out`")
    made = _marker(path)
    lacking = [table for table in TABLES if not any((path / table).glob("*.parquet"))]
    lacking = lacking or (_missing(made, path) if made else [])
    if lacking:
        more = f" and {len(lacking) - 3} more" if len(lacking) > 3 else ""
        raise IncompleteDataError(
            f"--data {str(path)!r}: incomplete, lacks {', '.join(lacking[:3])}{more};"
            " make it again with `tpcds generate --out`"
        )
    return DataSet(path.absolute(), made.scale if made else None)


def _make(scale: float, parts: int, out: Path, watch: Watch) -> None:
    draft = out.with_name(f".{out.name}.draft")
    shutil.rmtree(draft, ignore_errors=True)
    try:
        draft.mkdir(parents=True)
        _refuse_small_disk(scale, draft)
        generator.write_tables(scale, parts, draft, watch)
        files = {str(file.relative_to(draft)): file.stat().st_size for file in sorted(draft.rglob("*.parquet"))}
        made = Made(scale=scale, parts=parts, generator=generator.version(), files=files)
        (draft / MARKER).write_text(made.model_dump_json(indent=1) + "\n")
        shutil.rmtree(out, ignore_errors=True)
        draft.rename(out)
    except OSError as wrong:
        raise GenerationError(f"--out {str(out)!r}: cannot write there: {wrong.strerror or wrong}") from wrong
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _marker(path: Path) -> Made | None:
    try:
        return Made.model_validate_json((path / MARKER).read_bytes())
    except (FileNotFoundError, NotADirectoryError, ValidationError):
        return None


def _missing(made: Made, path: Path) -> list[str]:
    return [name for name, size in made.files.items() if not _has_size(path / name, size)]


def _has_size(file: Path, size: int) -> bool:
    return file.is_file() and file.stat().st_size == size


def _refuse_other(made: Made, scale: float, parts: int | None, out: Path) -> None:
    wanted = (scale, parts or made.parts, generator.version())
    if (made.scale, made.parts, made.generator) != wanted:
        raise BadInputError(
            "--out",
            str(out),
            f"holds scale {made.scale:g} in {made.parts} parts by {made.generator};"
            " choose another directory or remove this one",
        )


def _refuse_foreign(out: Path) -> None:
    # What is replaced may only be an unfinished data set: never somebody's other files.
    if out.exists() and not out.is_dir():
        raise GenerationError(f"--out {str(out)!r}: is a file; name a directory")
    foreign = sorted({path.name for path in out.glob("*")} - {*TABLES, MARKER, ANSWERS})
    if foreign:
        raise GenerationError(f"--out {str(out)!r}: holds other things ({foreign[0]!r}); name a new directory")


def _refuse_small_disk(scale: float, folder: Path) -> None:
    needed, free = BYTES_FIXED + BYTES_PER_SCALE * scale, shutil.disk_usage(folder).free
    if free < needed:
        raise GenerationError(f"--scale {scale:g}: needs about {needed / 1e9:.1f} GB, {free / 1e9:.1f} GB are free")


def _only_one(out: Path) -> FileLock:
    # Beside the data the lock would litter a directory that is the user's.
    locks = platformdirs.user_cache_path("yarn-plugin") / "tpcds" / "locks"
    locks.mkdir(parents=True, exist_ok=True)
    return FileLock(locks / f"{hashlib.sha256(str(out).encode()).hexdigest()[:16]}.lock")


__all__ = ["DataSet", "Generated", "Progress", "Watch", "ensure", "generate", "open_data", "parse_scale"]
