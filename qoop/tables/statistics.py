"""Statistics of Parquet files, from their footers and a sample of rows; cached until a file changes.

The cache has values of the tables, so only its owner can read it.
"""

import contextlib
import hashlib
import math
import os
import random
import shutil
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Self

import platformdirs
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from qoop.estimate.statistics import ColumnStatistics, TableStatistics, Value, distinct_values
from qoop.latest import Latest
from yarn_plugin.files import PRIVATE_MODE, delete_oldest, write

SAMPLE_ROWS = 2000
MIN_GROUPS, MAX_GROUPS = 2, 8
"""Of how many row groups of a table rows are sampled."""

SAMPLED_BYTES = 48e6
"""How many bytes, uncompressed, they may have together if they are more than the fewest."""

MAX_FOOTERS = 200
"""Of how many files of a table the footers are read: each takes milliseconds, before the first plan can be made."""

MAX_CHUNKS = 50_000
"""Of how many parts of columns, one for each row group, the ranges are read: each takes some microseconds."""

MAX_READ = 1e9
"""How many bytes of a row group are read, as in memory."""

BATCH_BYTES = 64e6
"""How many of them are in memory at once."""

MAX_BATCH = 10_000
"""How many rows are in memory at once, as later ones may be wider than the first."""

FIRST_ROWS = 256
"""How many rows are read to learn how many bytes one has."""

MIN_ROWS = 20
"""How many rows are sampled if they have very many bytes."""

_DAYS = ((date.min - date(1970, 1, 1)).days, (date.max - date(1970, 1, 1)).days)
_MICROS = (_DAYS[0] * 86_400_000_000, (_DAYS[1] + 1) * 86_400_000_000 - 1)
"""The first and the last day and time of Python, counted from 1970."""

MAX_TEXT = 200
"""Characters of a sampled value that are kept."""

MAX_IN_MEMORY = 2_000_000
"""How many sampled values are kept in memory, of all tables: a table that changes has others each time."""

MAX_FILES = 500
"""Of how many tables the statistics are kept on disk; beyond that, those that were written longest ago are deleted."""

MAX_BYTES = 300e6
"""How many bytes are kept on disk, of all tables."""

VERSION = 6
"""The version of the files of the cache."""

DIGEST = 16
"""Characters of the digest at the end of a value that was cut."""

_in_memory: Latest[Path, TableStatistics] = Latest(
    MAX_IN_MEMORY, lambda known: sum(len(values) for values in known.sample.values()) + 1
)


def read_statistics(files: Sequence[Path]) -> TableStatistics:
    """Read the statistics of a table made up of these files.

    Of more than `MAX_FOOTERS` files only some are opened: rows are in proportion to bytes, and ranges are not known, as
    they are not of more than `MAX_CHUNKS` parts of columns.
    """
    opened = files[:: max(math.ceil(len(files) / MAX_FOOTERS), 1)]
    footers = [(file, pq.read_metadata(file)) for file in opened]
    size, read = (sum(file.stat().st_size for file in some) for some in (files, opened))
    rows = round(sum(footer.num_rows for _, footer in footers) * (size / read if read else 1.0))
    groups = list(_groups(footers))
    chosen = _sampled_groups(groups)
    sample = _sample(chosen)
    chunks = sum(footer.num_row_groups * footer.num_columns for _, footer in footers)
    are_all = len(opened) == len(files) and chunks <= MAX_CHUNKS
    parts = [_group_ranges(group.metadata) for group in groups] if are_all else []
    ranges = _merged(parts)
    sampled = [_group_ranges(group.metadata) for group in chosen] if are_all else []
    among = sum(group.metadata.num_rows for group in chosen)
    columns = {
        name: ColumnStatistics(
            distinct=max(
                distinct_values(values, rows, _span(ranges.get(name))),
                distinct_values(values, among, _covered(name, sampled)) * _share_covered(name, parts, sampled),
            ),
            nulls=sum(value is None for value in values) / max(len(values), 1),
            width=_width(values),
            low=_bound(ranges.get(name), 0),
            high=_bound(ranges.get(name), 1),
        )
        for name, values in sample.items()
    }
    return TableStatistics(float(rows), float(size), columns, {name: _cut(values) for name, values in sample.items()})


def statistics_of_rows(first: pa.Table, rows: float, size: float) -> TableStatistics:
    """The statistics of a table of about so many rows and bytes, of which these rows are the first."""
    wanted = sorted(random.Random(0).sample(range(first.num_rows), min(SAMPLE_ROWS, first.num_rows)))
    sample: dict[str, tuple[Value, ...]] = {}
    for field in first.schema:
        if not pa.types.is_nested(field.type):
            column = _takeable(first.column(field.name).combine_chunks()).take(pa.array(wanted, pa.int64()))
            sample[field.name.lower()] = tuple(map(_plain, _within_python(column).to_pylist()))
    columns = {
        name: ColumnStatistics(
            distinct=distinct_values(values, rows, None),
            nulls=sum(value is None for value in values) / max(len(values), 1),
            width=_width(values),
        )
        for name, values in sample.items()
    }
    return TableStatistics(rows, size, columns, {name: _cut(values) for name, values in sample.items()})


def _cut(values: Sequence[Value]) -> tuple[Value, ...]:
    return tuple(_cut_text(value) if isinstance(value, str) else value for value in values)


def _cut_text(text: str) -> str:
    """The start of a long text, and a digest of all of it: cut texts are equal only if the texts are."""
    if len(text) <= MAX_TEXT:
        return text
    digest = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
    return text[: MAX_TEXT - DIGEST] + digest[:DIGEST]


class _Group(NamedTuple):
    """A row group: its file, its place in it, and its metadata."""

    file: Path
    place: int
    metadata: Any


def _groups(footers: Iterable[tuple[Path, Any]]) -> Iterator[_Group]:
    for file, footer in footers:
        for place in range(footer.num_row_groups):
            yield _Group(file, place, footer.row_group(place))


def _sampled_groups(groups: Sequence[_Group]) -> Sequence[_Group]:
    """Evenly spaced row groups: tables are often sorted, so the first ones are not representative; more if small."""
    if len(groups) <= MIN_GROUPS:
        return groups
    size = sum(group.metadata.total_byte_size for group in groups) / len(groups)
    wanted = min(max(int(SAMPLED_BYTES / max(size, 1.0)), MIN_GROUPS), MAX_GROUPS, len(groups))
    return [groups[int((place + 0.5) * len(groups) / wanted)] for place in range(wanted)]


def _sample(groups: Sequence[_Group]) -> dict[str, tuple[Value, ...]]:
    """Random rows of row groups, equally many of each."""
    result: dict[str, list[Value]] = {}
    before = 0
    for file, index, _ in groups:
        # Spark writes times with nanoseconds, for which Arrow has numbers from the year 1677 only.
        with pq.ParquetFile(file, coerce_int96_timestamp_unit="us") as opened:
            names = [field.name for field in opened.schema_arrow if not pa.types.is_nested(field.type)]
            width = _bytes_per_row(opened, index, names)
            rows = _rows(opened.metadata.row_group(index).num_rows, width, SAMPLE_ROWS // len(groups))
            taken = _taken(opened, index, names, rows, min(max(int(BATCH_BYTES / width), 1), MAX_BATCH))
        for name, values in taken.items():
            result.setdefault(name.lower(), [None] * before).extend(values)
        # Spark reads NULL of a column that a file has not, and the first of several that differ in case.
        before += len(rows)
        result = {name: [*values, *[None] * (before - len(values))][:before] for name, values in result.items()}
    return {name: tuple(values) for name, values in result.items()}


def _bytes_per_row(opened: pq.ParquetFile, group: int, names: list[str]) -> float:
    """What the first rows of a row group take in memory, which may be much more than on disk."""
    first = next(opened.iter_batches(FIRST_ROWS, [group], columns=names, use_threads=False), None)
    return max(first.nbytes / first.num_rows, 1.0) if first is not None and first.num_rows else 1.0


def _rows(among: int, width: float, wanted: int) -> list[int]:
    """Random rows of so many, ascending: few if they take many bytes, and from the start if all take very many.

    Not every n-th row: values may repeat in cycles. Seeded, so that every reading takes the same rows.
    """
    wanted = max(min(wanted, int(BATCH_BYTES / width)), MIN_ROWS)
    among = min(among, max(int(MAX_READ / width), wanted))
    return sorted(random.Random(0).sample(range(among), min(wanted, among)))


def _taken(
    opened: pq.ParquetFile, group: int, names: list[str], rows: Sequence[int], at_once: int
) -> dict[str, list[Value]]:
    """These rows of a row group, by column; so many of its rows are in memory at once."""
    taken: dict[str, list[Value]] = {name: [] for name in names}
    begin = 0
    for batch in opened.iter_batches(at_once, [group], columns=names, use_threads=False):
        inside = [row - begin for row in rows[bisect_left(rows, begin) : bisect_left(rows, begin + batch.num_rows)]]
        for name in names:
            values = _within_python(_takeable(batch.column(name)).take(pa.array(inside, pa.int64())))
            taken[name] += map(_plain, values.to_pylist())
        begin += batch.num_rows
        if not rows or begin > rows[-1]:
            break
    return taken


def _takeable(column: pa.Array) -> pa.Array:
    """A column that Arrow takes rows of, which it does not of views, and whose texts may have any bytes."""
    kind = column.type
    if pa.types.is_string_view(kind) or pa.types.is_string(kind):
        return column.cast(pa.binary())
    return column.cast(pa.large_binary()) if pa.types.is_large_string(kind) else column


def _within_python(column: pa.Array) -> pa.Array:
    """Values that Python has: dates and times of the years 1 to 9999, as which others count; no nanoseconds."""
    kind = column.type
    if pa.types.is_date(kind):
        return _limited(column.cast(pa.date32()), pa.int32(), _DAYS)
    if pa.types.is_timestamp(kind):
        return _limited(column.cast(pa.timestamp("us", kind.tz), safe=False), pa.int64(), _MICROS)
    if pa.types.is_time64(kind):
        return column.cast(pa.time64("us"), safe=False)
    return column.cast(pa.int64()) if pa.types.is_duration(kind) else column


def _limited(column: pa.Array, numbers: pa.DataType, ends: tuple[int, int]) -> pa.Array:
    low, high = (pa.scalar(end, numbers) for end in ends)
    below = pc.min_element_wise(column.cast(numbers), high, skip_nulls=False)
    return pc.max_element_wise(below, low, skip_nulls=False).cast(column.type)


Range = tuple[Any, Any]


def _group_ranges(group: Any) -> dict[str, Range]:
    """The smallest and largest value of each integer or date column in a row group."""
    columns = [group.column(place) for place in range(group.num_columns)]
    found = {column.path_in_schema.lower(): _range(column.statistics) for column in columns}
    return {name: known for name, known in found.items() if known is not None}


def _merged(parts: Iterable[dict[str, Range]]) -> dict[str, Range]:
    """The smallest and largest value of each column in several row groups."""
    bounds: dict[str, Range] = {}
    for part in parts:
        for name, known in part.items():
            low, high = bounds.get(name, known)
            bounds[name] = (min(low, known[0]), max(high, known[1]))
    return bounds


def _covered(name: str, parts: Sequence[dict[str, Range]]) -> float | None:
    """The number of values in the ranges that a column has in row groups; None if these are not known."""
    ranges = [part[name] for part in parts if name in part]
    spans = [span for one in ranges if (span := _span(one)) is not None]
    whole = _span(_merged(parts).get(name))
    return min(sum(spans), whole) if whole is not None else None


def _share_covered(name: str, parts: Sequence[dict[str, Range]], sampled: Sequence[dict[str, Range]]) -> float:
    """How many times as much of a column's range is in all row groups as in those sampled: 1 unless it is sorted."""
    every, some = _covered(name, parts), _covered(name, sampled)
    return every / some if every is not None and some else 1.0


def _range(known: Any) -> Range | None:
    """The smallest and largest value that a row group has, if they are whole numbers or Python's dates."""
    try:
        return (known.min, known.max) if known is not None and known.has_min_max and _is_discrete(known.min) else None
    except (OverflowError, ValueError):
        return None


def _is_discrete(value: Any) -> bool:
    return isinstance(value, int | date) and not isinstance(value, bool | datetime)


def _span(bounds: Range | None) -> float | None:
    """The number of values in a range."""
    if bounds is None:
        return None
    difference = bounds[1] - bounds[0]
    return float(difference.days + 1 if hasattr(difference, "days") else difference + 1)


def _bound(bounds: Range | None, end: int) -> float | None:
    return float(bounds[end]) if bounds is not None and isinstance(bounds[end], int) else None


def _plain(value: Any) -> Value:
    """A value in the form of the planner's literals: decimals as numbers, dates as ISO text."""
    match value:
        case Decimal():
            return float(value)
        case datetime():
            # As literals are written; of instants the hours are those of UTC.
            return value.replace(tzinfo=None).isoformat(" ")
        case date() | time():
            return value.isoformat()
        case bytes():
            return value.decode(errors="replace")
        case int() | float() | str() | bool() | None:
            return value
    return str(value)


def _width(values: Sequence[Value]) -> float:
    """Bytes of a value in memory."""
    texts = [len(value) for value in values if isinstance(value, str)]
    return 8.0 + sum(texts) / len(texts) if texts else 8.0


NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Finite = Annotated[float, Field(allow_inf_nan=False)]


class _Column(BaseModel):
    model_config = ConfigDict(frozen=True)
    distinct: Annotated[float, Field(ge=1, allow_inf_nan=False)]
    nulls: Annotated[float, Field(ge=0, le=1)]
    width: NotNegative
    low: Finite | None
    high: Finite | None


class _File(BaseModel):
    """A file of the cache. Sampled values may be infinite or no numbers, as those of tables; statistics may not."""

    model_config = ConfigDict(frozen=True, ser_json_inf_nan="constants")
    rows: NotNegative
    bytes: NotNegative
    columns: dict[str, _Column]
    sample: dict[str, tuple[Value, ...]]

    @model_validator(mode="after")
    def _rows_are_complete(self) -> Self:
        if len({len(values) for values in self.sample.values()}) > 1:
            raise ValueError("sample: columns must have equally many values")
        return self

    @classmethod
    def of(cls, known: TableStatistics) -> "_File":
        """The statistics as they are written."""
        columns = {name: _column(column) for name, column in known.columns.items()}
        return cls(rows=known.rows, bytes=known.bytes, columns=columns, sample=known.sample)

    def statistics(self) -> TableStatistics:
        """The statistics as they were before."""
        columns = {name: ColumnStatistics(**dict(column)) for name, column in self.columns.items()}
        return TableStatistics(self.rows, self.bytes, columns, self.sample)


def _column(known: ColumnStatistics) -> _Column:
    return _Column(**{name: getattr(known, name) for name in _Column.model_fields})


def cached_statistics(
    files: Sequence[Path], read: Callable[[Sequence[Path]], TableStatistics] | None = None
) -> TableStatistics:
    """The statistics of a table made up of these files, read again only after a file has changed.

    `read`: reads them, if they are not Parquet files.
    """
    path = _folder() / f"{_fingerprint(files)}.json"
    known = _in_memory.get(path) or _read(path)
    if known is None:
        known = (read or read_statistics)(files)
        _write(path, known)
    _in_memory.put(path, known)
    return known


def stored_statistics(name: str, made: Callable[[], TableStatistics], max_age_s: float) -> TableStatistics:
    """The statistics that are stored under a name; if there are none, or older ones, they are made and stored."""
    path = _folder() / f"{name}.json"
    try:
        is_recent = abs(datetime.now().timestamp() - path.stat().st_mtime) <= max_age_s
    except OSError:
        is_recent = False
    known = _read(path) if is_recent else None
    if known is None:
        known = made()
        _write(path, known)
    return known


def _folder() -> Path:
    return Path(platformdirs.user_cache_dir("qoop")) / f"statistics-{VERSION}"


def _fingerprint(files: Sequence[Path]) -> str:
    digest = hashlib.sha256()
    for file in sorted(files):
        status = file.stat()
        digest.update(os.fsencode(f"{file.absolute()}\n{status.st_size}\n{status.st_mtime_ns}\n"))
    return digest.hexdigest()[:32]


def _read(path: Path) -> TableStatistics | None:
    try:
        return _File.model_validate_json(path.read_bytes()).statistics()
    except (OSError, ValidationError):
        return None


def _write(path: Path, known: TableStatistics) -> None:
    # Without the cache the next query reads the statistics again.
    with contextlib.suppress(OSError, ValidationError):
        content = _File.of(known).model_dump_json()
        if not path.parent.is_dir():
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            _delete_earlier(path.parent)
        write(path, content, PRIVATE_MODE)
        delete_oldest(path.parent, MAX_FILES, MAX_BYTES)


def _delete_earlier(folder: Path) -> None:
    """Delete what earlier versions have cached: everybody could read it, and nothing of it is read any more."""
    for version in range(1, VERSION):
        shutil.rmtree(folder.with_name(f"statistics-{version}"), ignore_errors=True)
