"""A folder of tables: each a file or a folder of files."""

import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq

from qoop.errors import QoopError, UnknownNameError, UnknownTableError, did_you_mean
from qoop.estimate.statistics import TableStatistics
from qoop.parsing.spark_sql import Types
from qoop.tables.formats import READ, Format, StoredTable, is_hidden, stored_table, table_name
from qoop.tables.statistics import cached_statistics, read_statistics, statistics_of_rows
from qoop.tables.text_files import first_rows

WANTED = f"must have a table in each file or folder; read are {READ}"


def why_no_folder(tables: str) -> str:
    """Why `tables`, which is not a directory of this machine, cannot be used."""
    if "://" in tables:
        return "must be a local directory; for data in HDFS use Spark's catalog"
    return f"no such directory; {WANTED}"


class TablesError(QoopError):
    """The folder of tables cannot be used."""

    exit_code = 2


class UnreadableTableError(TablesError):
    """A table in the folder cannot be read."""

    exit_code = 1


class FolderCatalogue:
    """The tables in a folder, by the names of its files and folders. Errors show the folder as it was given.

    Raises:
        TablesError: the folder does not exist, or has no tables.
    """

    def __init__(self, given: Path | str) -> None:
        folder = Path(given)
        if not folder.is_dir():
            raise TablesError(f"--tables {str(given)!r}: {why_no_folder(str(given))}")
        self._stored: dict[str, list[StoredTable]] = {}
        self._unread: list[str] = []
        for path in sorted(folder.iterdir()):
            if is_hidden(path):
                continue
            table = stored_table(path)
            if table is not None and table.files:
                self._stored.setdefault(table_name(path), []).append(table)
            else:
                self._unread.append(path.name)
        self.tables = {name: tables[0].files for name, tables in self._stored.items()}
        if not self.tables:
            left = f"; not {_listed(self._unread)}" if self._unread else ""
            raise TablesError(f"--tables {str(given)!r}: has no tables; {WANTED}{left}")

    def stored(self, table: str) -> StoredTable:
        """Where and how a table is stored.

        Raises:
            TablesError: two files or folders have its name.
        """
        found = self._stored[table if table in self._stored else _plain(table)]
        if len(found) > 1:
            names = _listed(one.path.name for one in found)
            raise TablesError(f"table {table!r}: could be any of {names}; rename or remove all but one")
        return found[0]

    def why_missing(self, table: str) -> str:
        """The end of an error about a table that is not here, if a file that is not read has its name; otherwise ""."""
        named = [name for name in self._unread if name.lower().partition(".")[0] == _plain(table)]
        return f"; {_listed(named)} cannot be read, but {READ} can" if named else ""

    def has_one_schema(self, tables: Collection[str]) -> bool:
        """Whether the files of these tables seem to have the same columns: Spark may read the schema of any."""
        every = [self.stored(table) for table in tables if table in self.tables]
        parquet = [one.files for one in every if one.format in (Format.PARQUET, Format.DELTA) and len(one.files) > 1]
        return all(pq.read_schema(files[0]).names == pq.read_schema(files[-1]).names for files in parquet)

    def columns(self, table: str) -> Types | None:
        """The columns of a table, with the type names of Spark SQL."""
        if _plain(table) not in self.tables:
            return None
        stored = self.stored(table)
        with _reading(table, stored.format):
            types = {field.name.lower(): type_name(field.type) for field in _schema(stored)}
            return types | _partition_columns(stored)

    def statistics(self, table: str) -> TableStatistics:
        """The statistics of a table."""
        stored = self.stored(table)
        with _reading(table, stored.format):
            return cached_statistics(stored.files, lambda files: _statistics(stored))


def unknown_table(problem: UnknownTableError, folder: FolderCatalogue, given: str) -> UnknownNameError:
    """The error about a table that is not in a folder, with what is there instead."""
    instead = folder.why_missing(problem.table) or did_you_mean(problem.table, folder.tables)
    return UnknownNameError(f"{problem} in --tables {given!r}{instead}")


def _schema(stored: StoredTable) -> pa.Schema:
    match stored.format:
        case Format.PARQUET | Format.DELTA:
            return pq.read_schema(stored.files[0])
        case Format.ORC:
            return orc.ORCFile(stored.files[0]).schema
    return first_rows(stored)[0].schema


def _statistics(stored: StoredTable) -> TableStatistics:
    size = float(sum(file.stat().st_size for file in stored.files))
    match stored.format:
        case Format.PARQUET | Format.DELTA:
            return read_statistics(stored.files)
        case Format.ORC:
            first = orc.ORCFile(stored.files[0])
            rows = first.nrows * size / max(stored.files[0].stat().st_size, 1)
            taken = pa.Table.from_batches([first.read_stripe(0)]) if first.nstripes else pa.table({})
            return statistics_of_rows(taken, rows, size)
    return statistics_of_rows(*first_rows(stored), size)


def _partition_columns(stored: StoredTable) -> Types:
    """The columns in the names of a table's folders."""
    values: dict[str, list[str]] = {}
    for partition in stored.partitions() if stored.path.is_dir() else ():
        for name, value in partition.items():
            values.setdefault(name.lower(), []).append(value)
    return {name: _type_of_texts(found) for name, found in values.items()}


def _type_of_texts(values: list[str]) -> str:
    if all(re.fullmatch(r"-?\d{1,9}", value) for value in values):
        return "int"
    return "date" if all(re.fullmatch(r"\d{4}-\d\d-\d\d", value) for value in values) else "string"


def _listed(names: Iterable[str]) -> str:
    shown = sorted(names)
    return ", ".join(map(repr, shown[:5])) + (f" and {len(shown) - 5} more" if len(shown) > 5 else "")


@contextmanager
def _reading(table: str, kind: Format) -> Iterator[None]:
    """Convert errors of reading files.

    Raises:
        UnreadableTableError: a file has another format than its name says, or cannot be read.
    """
    try:
        yield
    except (pa.ArrowException, OSError) as problem:
        shown = {Format.PARQUET: "Parquet", Format.DELTA: "Parquet"}.get(kind, kind.upper())
        raise UnreadableTableError(
            f"table {table!r}: its {shown} files cannot be read: {' '.join(str(problem).split())}"
        ) from None


def type_name(kind: pa.DataType) -> str:
    """The Spark SQL name of a type."""
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    names = {
        pa.types.is_boolean: "boolean",
        pa.types.is_int64: "bigint",
        pa.types.is_integer: "int",
        pa.types.is_float64: "double",
        pa.types.is_floating: "float",
        pa.types.is_date: "date",
        pa.types.is_timestamp: "timestamp",
        pa.types.is_string: "string",
        pa.types.is_large_string: "string",
        pa.types.is_string_view: "string",
    }
    return next((name for test, name in names.items() if test(kind)), str(kind))


def _plain(table: str) -> str:
    """The name of a table, without quotes and in lower case."""
    return table.strip("`").lower()
