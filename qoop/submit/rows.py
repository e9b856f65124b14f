"""Result rows on stdout: as a table for people, as CSV or JSON lines for programs."""

import base64
import io
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from itertools import count
from typing import Any, Literal

from yarn_plugin import console

MAX_WIDTH = 10_000
"""The width of a table's column; a longer value goes on in further lines, instead of widening all rows."""

Format = Literal["table", "csv", "json"]


def print_rows(row_format: Format, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print rows on stdout, untruncated.

    `table`: NULL and the string 'NULL' look the same; see `MAX_WIDTH`. `csv` and `json`: see `csv_lines` and
    `json_lines`; in UTF-8.
    """
    if row_format == "table":
        cells = (list(map(_cell, row)) for row in rows)
        table = console.data_table(None, [(name, False) for name in columns], cells)
        for column in table.columns:
            column.max_width = MAX_WIDTH
        console.out.print(table)
        return
    write: Callable[[Sequence[str], Iterable[Sequence[Any]]], Iterator[str]]
    write = csv_lines if row_format == "csv" else json_lines
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    for line in write(columns, rows):
        sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _cell(value: Any) -> Any:
    """A value in a table for people."""
    if value is None:
        return "NULL"
    return format(value, "f") if isinstance(value, Decimal) else value


def csv_lines(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    """A header, then one record per row (RFC 4180, except that lines end with LF; a quoted field may contain newlines).

    NULL is an empty field, an empty string is `""`. Structs, maps and arrays are JSON, binary values base64.
    """
    yield ",".join(map(_quoted, columns))
    for row in rows:
        yield ",".join(map(_field, row))


def json_lines(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    """One object per line, keyed by column; a second column named `a` becomes `a_2`, or the next free name.

    NULL is null. Decimals are strings with all their digits; dates and times are ISO 8601, intervals as in SQL, binary
    values base64, and numbers that JSON lacks are "NaN", "Infinity" and "-Infinity".
    """
    names = _distinct(columns)
    for row in rows:
        yield json.dumps(dict(zip(names, map(_plain, row), strict=True)), ensure_ascii=False, allow_nan=False)


def _distinct(columns: Sequence[str]) -> list[str]:
    names: list[str] = []
    taken, first = set(columns), set[str]()
    for column in columns:
        if column in first:
            column = next(name for number in count(2) if (name := f"{column}_{number}") not in taken)
        taken.add(column)
        first.add(column)
        names.append(column)
    return names


def _field(value: Any) -> str:
    if value is None:
        return ""
    plain = _plain(value)
    text = plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)
    return _quoted(text)


def _quoted(text: str) -> str:
    if text and not any(character in text for character in ',"\r\n') and text == text.strip():
        return text
    return '"' + text.replace('"', '""') + '"'


def _plain(value: Any) -> Any:
    """A Spark value as JSON types."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if value - value == 0 else {"inf": "Infinity", "-inf": "-Infinity"}.get(str(value), "NaN")
        case datetime() | date() | time():
            return value.isoformat()
        case timedelta():
            return _interval(value)
        case Decimal():
            return format(value, "f")
        case bytes() | bytearray():
            return base64.b64encode(value).decode()
        case dict():
            return {_key(key): _plain(inner) for key, inner in value.items()}
        case tuple() if hasattr(value, "__fields__"):
            # A struct: PySpark's Row.
            return dict(zip(_distinct(value.__fields__), map(_plain, value), strict=True))
        case list() | tuple():
            return [_plain(inner) for inner in value]
        case _:
            return str(value)


def _interval(value: timedelta) -> str:
    """An interval within another value, whose unit is not known, as Spark writes it."""
    sign, length = ("-", -value) if value < timedelta() else ("", value)
    minutes, seconds = divmod(length.seconds, 60)
    fraction = f".{length.microseconds:06}".rstrip("0").rstrip(".")
    return f"INTERVAL '{sign}{length.days} {minutes // 60:02}:{minutes % 60:02}:{seconds:02}{fraction}' DAY TO SECOND"


def _key(key: Any) -> str:
    plain = _plain(key)
    return plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)
