"""Spark's types as HiveServer2's protocol has them, encoded as Spark's own Thrift server does."""

import re
from dataclasses import dataclass
from enum import IntEnum


class TypeId(IntEnum):
    """`TTypeId` of the protocol."""

    BOOLEAN = 0
    TINYINT = 1
    SMALLINT = 2
    INT = 3
    BIGINT = 4
    FLOAT = 5
    DOUBLE = 6
    STRING = 7
    TIMESTAMP = 8
    BINARY = 9
    ARRAY = 10
    MAP = 11
    STRUCT = 12
    DECIMAL = 15
    NULL = 16
    DATE = 17
    VARCHAR = 18
    CHAR = 19
    INTERVAL_YEAR_MONTH = 20
    INTERVAL_DAY_TIME = 21


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a result. `length`: of CHAR and VARCHAR; `precision` and `scale`: of DECIMAL."""

    name: str
    type: TypeId
    comment: str | None = None
    precision: int | None = None
    scale: int | None = None
    length: int | None = None


_SIMPLE = {
    "boolean": TypeId.BOOLEAN,
    "tinyint": TypeId.TINYINT,
    "smallint": TypeId.SMALLINT,
    "int": TypeId.INT,
    "bigint": TypeId.BIGINT,
    "float": TypeId.FLOAT,
    "double": TypeId.DOUBLE,
    "string": TypeId.STRING,
    "binary": TypeId.BINARY,
    "date": TypeId.DATE,
    "timestamp": TypeId.TIMESTAMP,
    "timestamp_ntz": TypeId.TIMESTAMP,
    "void": TypeId.NULL,
}
_NESTED = {"array<": TypeId.ARRAY, "map<": TypeId.MAP, "struct<": TypeId.STRUCT}
_DECIMAL = re.compile(r"decimal\((\d+),(-?\d+)\)")
_LENGTH = re.compile(r"(char|varchar)\((\d+)\)")
_YEAR_MONTH = re.compile(r"interval (?:year|month)\b")
_DAY_TIME = re.compile(r"interval (?:day|hour|minute|second)\b")


def column(name: str, text: str, comment: str | None = None) -> Column:
    """A column of a type that Spark prints as `text` (`simpleString`).

    Types that the protocol lacks (variant, calendar intervals, a user's own) are sent as strings.
    """
    if decimal := _DECIMAL.fullmatch(text):
        return Column(name, TypeId.DECIMAL, comment, precision=int(decimal[1]), scale=int(decimal[2]))
    if sized := _LENGTH.fullmatch(text):
        return Column(name, TypeId.CHAR if sized[1] == "char" else TypeId.VARCHAR, comment, length=int(sized[2]))
    if _YEAR_MONTH.match(text):
        return Column(name, TypeId.INTERVAL_YEAR_MONTH, comment)
    if _DAY_TIME.match(text):
        return Column(name, TypeId.INTERVAL_DAY_TIME, comment)
    nested = next((kind for start, kind in _NESTED.items() if text.startswith(start)), TypeId.STRING)
    return Column(name, _SIMPLE.get(text, nested), comment)


NO_ROWS = (Column("Result", TypeId.STRING),)
"""The columns of a statement that returns none: without any, clients print an empty box."""
