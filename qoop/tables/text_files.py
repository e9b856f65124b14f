"""The first rows of CSV and JSON files: their columns, and how many rows all of them have."""

import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.json

from qoop.tables.formats import COMPRESSED, Format, StoredTable

FIRST_BYTES = 1024 * 1024
"""How much of a file is read."""

COMPRESSION = 5.0
"""How many times the bytes of a compressed file its text usually has."""

SEPARATORS = ",;\t|"


def options_of(table: StoredTable) -> Mapping[str, str]:
    """The options with which Spark reads a table as it is read here."""
    if table.format is Format.CSV:
        return {
            "header": "true",
            "inferSchema": "true",
            "sep": separator_of(table.files[0]),
            # As spreadsheets and RFC 4180 have it: a quote within quotes is doubled.
            "escape": '"',
            # Files whose columns are in another order are refused.
            "enforceSchema": "false",
        }
    if table.format is Format.JSON and _is_array(_start(table.files[0])):
        return {"multiLine": "true"}
    return {}


def separator_of(file: Path) -> str:
    """The character that separates the columns of a CSV file, by its header; a comma if there is only one column."""
    header = _start(file).partition(b"\n")[0].decode(errors="replace")
    return max(SEPARATORS, key=header.count)


def first_rows(table: StoredTable) -> tuple[pa.Table, float]:
    """The first rows of a table's first file, and how many rows all of its files have, roughly.

    Raises:
        pyarrow.ArrowException, OSError: the file cannot be read.
    """
    start, size = _start(table.files[0]), sum(_text_bytes(file) for file in table.files)
    if table.format is Format.CSV:
        options = pa.csv.ParseOptions(delimiter=separator_of(table.files[0]))
        rows = pa.csv.read_csv(io.BytesIO(start), parse_options=options) if start.strip() else pa.table({})
    elif _is_array(start):
        rows = _rows_of_array(table.files[0])
        return rows, rows.num_rows * len(table.files)
    else:
        rows = pa.json.read_json(io.BytesIO(start)) if start.strip() else pa.table({})
    return rows, rows.num_rows * size / max(len(start), 1) if size > len(start) else float(rows.num_rows)


def _start(file: Path) -> bytes:
    """The first lines of a file."""
    with pa.input_stream(str(file), compression="detect") as stream:
        text = bytes(stream.read(FIRST_BYTES))
    end = text.rfind(b"\n")
    return text if len(text) < FIRST_BYTES or end < 0 else text[: end + 1]


def _is_array(start: bytes) -> bool:
    return start.lstrip().startswith(b"[")


def _rows_of_array(file: Path) -> pa.Table:
    """The rows of a file that is one JSON array."""
    with pa.input_stream(str(file), compression="detect") as stream:
        text = bytes(stream.read())
    try:
        found: Sequence[object] = json.loads(text)
    except ValueError as problem:
        raise pa.ArrowInvalid(f"JSON: {problem}") from None
    return pa.Table.from_pylist([row for row in found if isinstance(row, dict)])


def _text_bytes(file: Path) -> float:
    return file.stat().st_size * (COMPRESSION if file.suffix.lower() in COMPRESSED else 1.0)
