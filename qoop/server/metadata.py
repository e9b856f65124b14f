"""The answers to questions about the catalogue, with the columns that JDBC wants."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from qoop.server.backend import SparkSide, TableColumn
from qoop.server.errors import ServerError
from qoop.server.types import Column, TypeId, column

Row = Sequence[object]


@dataclass(frozen=True, slots=True)
class Listing:
    """Rows with their columns."""

    columns: tuple[Column, ...]
    rows: list[Row]


def _named(*parts: str) -> tuple[Column, ...]:
    """Columns from words `NAME` (a string) or `NAME:type`."""
    words = (word.partition(":") for part in parts for word in part.split())
    return tuple(column(name, kind or "string") for name, _, kind in words)


CATALOGS = _named("TABLE_CAT")
SCHEMAS = _named("TABLE_SCHEM TABLE_CATALOG")
TABLE_TYPES = _named("TABLE_TYPE")
TABLES = _named(
    "TABLE_CAT TABLE_SCHEM TABLE_NAME TABLE_TYPE REMARKS TYPE_CAT TYPE_SCHEM TYPE_NAME SELF_REFERENCING_COL_NAME",
    "REF_GENERATION",
)
COLUMNS = _named(
    "TABLE_CAT TABLE_SCHEM TABLE_NAME COLUMN_NAME DATA_TYPE:int TYPE_NAME COLUMN_SIZE:int BUFFER_LENGTH:tinyint",
    "DECIMAL_DIGITS:int NUM_PREC_RADIX:int NULLABLE:int REMARKS COLUMN_DEF SQL_DATA_TYPE:int SQL_DATETIME_SUB:int",
    "CHAR_OCTET_LENGTH:int ORDINAL_POSITION:int IS_NULLABLE SCOPE_CATALOG SCOPE_SCHEMA SCOPE_TABLE",
    "SOURCE_DATA_TYPE:smallint IS_AUTO_INCREMENT",
)
TYPES = _named(
    "TYPE_NAME DATA_TYPE:int PRECISION:int LITERAL_PREFIX LITERAL_SUFFIX CREATE_PARAMS NULLABLE:smallint",
    "CASE_SENSITIVE:boolean SEARCHABLE:smallint UNSIGNED_ATTRIBUTE:boolean FIXED_PREC_SCALE:boolean",
    "AUTO_INCREMENT:boolean LOCAL_TYPE_NAME MINIMUM_SCALE:smallint MAXIMUM_SCALE:smallint SQL_DATA_TYPE:int",
    "SQL_DATETIME_SUB:int NUM_PREC_RADIX:int",
)
FUNCTIONS = _named("FUNCTION_CAT FUNCTION_SCHEM FUNCTION_NAME REMARKS FUNCTION_TYPE:int SPECIFIC_NAME")
PRIMARY_KEYS = _named("TABLE_CAT TABLE_SCHEM TABLE_NAME COLUMN_NAME KEQ_SEQ:int PK_NAME")
CROSS_REFERENCES = _named(
    "PKTABLE_CAT PKTABLE_SCHEM PKTABLE_NAME PKCOLUMN_NAME FKTABLE_CAT FKTABLE_SCHEM FKTABLE_NAME FKCOLUMN_NAME",
    "KEQ_SEQ:int UPDATE_RULE:int DELETE_RULE:int FK_NAME PK_NAME DEFERRABILITY:int",
)


@dataclass(frozen=True, slots=True)
class SqlType:
    """What JDBC knows of a type: its number in `java.sql.Types`, and the most digits or characters of a value."""

    number: int
    size: int | None = None
    radix: int | None = None
    scale: int | None = None


SQL_TYPES = {
    TypeId.BOOLEAN: SqlType(16),
    TypeId.TINYINT: SqlType(-6, 3, 10, 0),
    TypeId.SMALLINT: SqlType(5, 5, 10, 0),
    TypeId.INT: SqlType(4, 10, 10, 0),
    TypeId.BIGINT: SqlType(-5, 19, 10, 0),
    TypeId.FLOAT: SqlType(6, 7, 10, 7),
    TypeId.DOUBLE: SqlType(8, 15, 10, 15),
    TypeId.STRING: SqlType(12),
    TypeId.VARCHAR: SqlType(12),
    TypeId.CHAR: SqlType(1),
    TypeId.DATE: SqlType(91, 10),
    TypeId.TIMESTAMP: SqlType(93, 29, None, 9),
    TypeId.BINARY: SqlType(-2),
    TypeId.DECIMAL: SqlType(3, 38, 10, 38),
    TypeId.ARRAY: SqlType(2003),
    TypeId.MAP: SqlType(2000),
    TypeId.STRUCT: SqlType(2002),
    TypeId.NULL: SqlType(0),
    TypeId.INTERVAL_YEAR_MONTH: SqlType(1111, 11),
    TypeId.INTERVAL_DAY_TIME: SqlType(1111, 29),
}

NULLABLE, SEARCHABLE, UNKNOWN_RESULT = 1, 3, 0
"""JDBC's `columnNullable`, `typeSearchable`, `functionResultUnknown`."""


MAX_PATTERN = 10_000
"""Characters of a pattern of names."""

PARTS = re.compile(r"\\.|\.\*|.", re.DOTALL)


class _Wildcard(Enum):
    """What stands for other text in a pattern."""

    ANY_TEXT = "%"
    ANY_CHARACTER = "_"
    OR = "|"


def matcher(pattern: str | None) -> Callable[[str], bool]:
    r"""Whether a name matches a pattern: `%` for any text, `_` for a character, `\` before one that stands for itself.

    Some clients send regular expressions: `.*`, `*` and `|` have their meaning there. Without a pattern any name does.

    Raises:
        ServerError: the pattern is too long.
    """
    if not pattern:
        return lambda name: True
    if len(pattern) > MAX_PATTERN:
        raise ServerError(f"pattern {pattern[:100]!r}: must have at most {MAX_PATTERN} characters")
    meanings = {
        "%": _Wildcard.ANY_TEXT,
        ".*": _Wildcard.ANY_TEXT,
        "*": _Wildcard.ANY_TEXT,
        "_": _Wildcard.ANY_CHARACTER,
        "|": _Wildcard.OR,
    }
    alternatives: list[_Parts] = [[]]
    for part in PARTS.findall(pattern.lower()):
        meaning = meanings.get(part, part.removeprefix("\\") or "\\")
        if meaning is _Wildcard.OR:
            alternatives.append([])
        else:
            alternatives[-1].append(meaning)
    return lambda name: any(_matches(parts, name.lower()) for parts in alternatives)


_Parts = list[str | _Wildcard]


def _matches(parts: _Parts, name: str) -> bool:
    """Whether a name matches. A later text of any length never needs to give back what an earlier one could take.

    So this takes at most len(parts) * len(name) steps, where a regular expression may take exponentially many.
    """
    at = place = 0
    again: tuple[int, int] | None = None
    while at < len(name):
        part = parts[place] if place < len(parts) else None
        if part is _Wildcard.ANY_TEXT:
            again, place = (place + 1, at), place + 1
        elif part is _Wildcard.ANY_CHARACTER or part == name[at]:
            at, place = at + 1, place + 1
        elif again is not None:
            again = again[0], again[1] + 1
            place, at = again
        else:
            return False
    return all(part is _Wildcard.ANY_TEXT for part in parts[place:])


def catalogs() -> Listing:
    """Clients know no catalogues of Spark's."""
    return Listing(CATALOGS, [])


def table_types() -> Listing:
    """The kinds of tables."""
    return Listing(TABLE_TYPES, [("TABLE",), ("VIEW",)])


def schemas(spark: SparkSide, pattern: str | None) -> Listing:
    """The schemas that match."""
    return Listing(SCHEMAS, [(name, "") for name in _schemas(spark, pattern)])


def _schemas(spark: SparkSide, pattern: str | None) -> list[str]:
    return sorted(filter(matcher(pattern), spark.schemas()))


def tables(spark: SparkSide, schema: str | None, table: str | None, kinds: Sequence[str] | None) -> Listing:
    """The tables and views that match."""
    matches, wanted = matcher(table), {kind.upper() for kind in kinds or ()}
    nothing: Row = (None,) * 5
    rows: list[Row] = [
        ("", name, one.name, one.kind, one.comment or "", *nothing)
        for name in _schemas(spark, schema)
        for one in spark.tables(name)
        if matches(one.name) and (not wanted or one.kind in wanted)
    ]
    return Listing(TABLES, rows)


def columns(spark: SparkSide, schema: str | None, table: str | None, name: str | None) -> Listing:
    """The columns that match."""
    is_table, is_wanted = matcher(table), matcher(name)
    rows: list[Row] = [
        _column_row(in_schema, one.name, place, found)
        for in_schema in _schemas(spark, schema)
        for one in spark.tables(in_schema)
        if is_table(one.name)
        for place, found in enumerate(spark.columns(in_schema, one.name), 1)
        if is_wanted(found.name)
    ]
    return Listing(COLUMNS, rows)


def _column_row(schema: str, table: str, place: int, found: TableColumn) -> Row:
    kind = column(found.name, found.type)
    known = SQL_TYPES[kind.type]
    size = kind.precision or kind.length or known.size
    scale = kind.scale if kind.scale is not None else known.scale
    described = ("", schema, table, found.name, known.number, found.type.upper(), size, None, scale, known.radix)
    nullable = ("YES", NULLABLE) if found.nullable else ("NO", 0)
    rest = (nullable[1], found.comment or "", None, None, None, None, place, nullable[0], None, None, None, None, "NO")
    return (*described, *rest)


def type_info() -> Listing:
    """The types of Spark."""
    rows: list[Row] = []
    for kind, known in SQL_TYPES.items():
        quote = "'" if kind in (TypeId.STRING, TypeId.VARCHAR, TypeId.CHAR) else None
        parameters = "precision,scale" if kind is TypeId.DECIMAL else None
        of_text = quote is not None
        row = (kind.name, known.number, known.size, quote, quote, parameters, NULLABLE, of_text, SEARCHABLE)
        rows.append((*row, known.radix is None, False, False, None, 0, known.scale or 0, None, None, known.radix))
    return Listing(TYPES, rows)


def functions(spark: SparkSide, pattern: str | None) -> Listing:
    """The functions that match."""
    found = sorted(filter(matcher(pattern), spark.functions()))
    return Listing(FUNCTIONS, [(None, None, name, "", UNKNOWN_RESULT, name) for name in found])


def primary_keys() -> Listing:
    """Spark's tables have none."""
    return Listing(PRIMARY_KEYS, [])


def cross_references() -> Listing:
    """Spark's tables have none."""
    return Listing(CROSS_REFERENCES, [])
