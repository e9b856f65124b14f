"""Rows as HiveServer2's protocol sends them since version 6: by columns, NULLs as bits beside the values."""

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from qoop.server.types import Column, TypeId

FIELDS = {
    TypeId.BOOLEAN: "boolVal",
    TypeId.TINYINT: "byteVal",
    TypeId.SMALLINT: "i16Val",
    TypeId.INT: "i32Val",
    TypeId.BIGINT: "i64Val",
    TypeId.FLOAT: "doubleVal",
    TypeId.DOUBLE: "doubleVal",
    TypeId.BINARY: "binaryVal",
}
"""The field of `TColumn` for a type; all others are strings."""

ARROW = {
    TypeId.BOOLEAN: pa.bool_(),
    TypeId.TINYINT: pa.int8(),
    TypeId.SMALLINT: pa.int16(),
    TypeId.INT: pa.int32(),
    TypeId.BIGINT: pa.int64(),
    TypeId.FLOAT: pa.float32(),
    TypeId.DOUBLE: pa.float64(),
    TypeId.BINARY: pa.binary(),
}
"""The Arrow type for a type; all others are strings."""

_DEFAULTS = {"boolVal": False, "doubleVal": 0.0, "binaryVal": b"", "stringVal": ""}


class Encoded(NamedTuple):
    """The values of a column, a default in the place of each NULL: bit k % 8 of byte k // 8 in `nulls` says which."""

    field: str
    values: list[Any]
    nulls: bytes


def encode(column: Column, values: pa.ChunkedArray) -> Encoded:
    """A column's values for the wire."""
    field = FIELDS.get(column.type, "stringVal")
    nulls = _bits(values) if values.null_count else b""
    if pa.types.is_decimal(values.type):
        return Encoded(field, ["" if value is None else format(value, "f") for value in values.to_pylist()], nulls)
    if values.null_count:
        values = values.fill_null(pa.scalar(_DEFAULTS.get(field, 0), values.type))
    if column.type is TypeId.FLOAT:
        # 1.1 as a FLOAT is 1.1 for clients, not 1.100000023841858: by its shortest text, as Spark sends it.
        return Encoded(field, values.to_numpy().astype(np.float32).astype(str).astype(float).tolist(), nulls)
    return Encoded(field, values.to_pylist(), nulls)


def _bits(values: pa.ChunkedArray) -> bytes:
    is_null = values.is_null().to_numpy()
    return np.packbits(is_null, bitorder="little").tobytes()


def schema_of(columns: tuple[Column, ...]) -> pa.Schema:
    """The Arrow schema of rows with these columns. Names are places, as those of columns need not differ."""
    return pa.schema([(str(place), ARROW.get(column.type, pa.string())) for place, column in enumerate(columns)])
