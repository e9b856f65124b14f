"""Statistics of the columns by whose values the files of a table lie in folders, such as `sold=2001-02-03/`."""

from collections import Counter
from collections.abc import Iterable, Mapping
from urllib.parse import unquote

from qoop.estimate.statistics import ColumnStatistics

NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
"""The folder of rows whose value is NULL."""

WHOLE = {"tinyint", "smallint", "int", "bigint"}


def partition_statistics(paths: Iterable[str], types: Mapping[str, str]) -> dict[str, ColumnStatistics]:
    """The statistics of these columns (names in lower case, with types of Spark SQL), by the paths of all files.

    All files are taken to have equally many rows. A column that does not have a folder in each path is left out.
    """
    folders = Counter(path.rpartition("/")[0] for path in paths)
    values: dict[str, Counter[str]] = {name: Counter() for name in types}
    for folder, files in folders.items():
        # Of folders of one name the last: those before are above the table.
        parts = (part.partition("=") for part in folder.split("/"))
        named = {unquote(name).lower(): unquote(value) for name, is_value, value in parts if is_value}
        for name in named.keys() & values.keys():
            values[name][named[name]] += files
    return {name: _statistics(found, types[name]) for name, found in values.items() if found.total() == folders.total()}


def _statistics(files: Counter[str], kind: str) -> ColumnStatistics:
    without, every = files.pop(NO_VALUE, 0), files.total()
    numbers = [float(value) for value in files] if kind in WHOLE and all(map(_is_whole, files)) else []
    return ColumnStatistics(
        distinct=float(max(len(set(numbers) or files), 1)),
        nulls=without / max(without + every, 1),
        width=8.0 if kind in WHOLE else 8.0 + sum(len(value) * some for value, some in files.items()) / max(every, 1),
        low=min(numbers, default=None),
        high=max(numbers, default=None),
    )


def _is_whole(value: str) -> bool:
    return value.removeprefix("-").isdecimal()
