"""A folder of tables: each a Parquet file or a folder of Parquet files."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from qoop.errors import QoopError
from qoop.estimate.statistics import TableStatistics
from qoop.parsing.spark_sql import Types
from qoop.tables.statistics import cached_statistics

WANTED = "must have a Parquet file, or a directory of Parquet files, for each table"


def why_no_folder(tables: str) -> str:
    """Why `tables`, which is not a directory of this machine, cannot be used."""
    if "://" in tables:
        return "must be a local directory; for data in HDFS use Spark's catalog"
    return f"no such directory; {WANTED}"


class TablesError(QoopError):
    """The folder of tables cannot be used."""

    exit_code = 2


class UnreadableTableError(TablesError):
    """A table in the folder is not Parquet, or cannot be read."""

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
        found = [(name, path, _files(path)) for path in sorted(folder.iterdir()) if (name := _name(path))]
        self._paths = {name: path for name, path, files in found if files}
        self.tables = {name: files for name, _, files in found if files}
        if not self.tables:
            raise TablesError(f"--tables {str(given)!r}: has no tables; {WANTED}")

    def path(self, table: str) -> Path:
        """The file or folder of a table, in the case that it has on disk."""
        return self._paths[table if table in self._paths else _plain(table)]

    def columns(self, table: str) -> Types | None:
        """The columns of a table, with the type names of Spark SQL."""
        files = self.tables.get(_plain(table))
        if files is None:
            return None
        with _parquet(table):
            return {field.name.lower(): type_name(field.type) for field in pq.read_schema(files[0])}

    def statistics(self, table: str) -> TableStatistics:
        """The statistics of a table."""
        with _parquet(table):
            return cached_statistics(self.tables[_plain(table)])


@contextmanager
def _parquet(table: str) -> Iterator[None]:
    """Convert errors of reading Parquet files.

    Raises:
        UnreadableTableError: a file is not Parquet, or cannot be read.
    """
    try:
        yield
    except (pa.ArrowException, OSError) as problem:
        raise UnreadableTableError(
            f"table {table!r}: its Parquet files cannot be read: {' '.join(str(problem).split())}"
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


def _name(path: Path) -> str | None:
    if path.name.startswith((".", "_")):
        return None
    return path.stem.lower() if path.suffix == ".parquet" else path.name.lower() if path.is_dir() else None


def _files(path: Path) -> list[Path]:
    return [path] if path.is_file() else sorted(path.glob("*.parquet"))
