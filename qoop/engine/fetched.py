"""Results fetched as Arrow, with the texts of Spark's HiveResult for all values but numbers and binary ones."""

from collections.abc import Iterator
from contextlib import closing
from typing import IO, Protocol

import pyarrow as pa
from pyspark.errors.exceptions.captured import unwrap_spark_exception
from pyspark.serializers import read_int
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everywhere
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    YearMonthIntervalType,
)
from pyspark.util import _create_local_socket

PLAIN = (BooleanType, ByteType, ShortType, IntegerType, LongType, FloatType, DoubleType, DecimalType, BinaryType)
"""Types that are fetched as they are. All others are fetched as texts."""

NULL = "null"
"""A NULL within another value."""


def fetched(frame: DataFrame) -> DataFrame:
    """The frame with columns named by their places, each as it is fetched: a number, a binary value or a text."""
    fields = frame.schema.fields
    numbered = frame.toDF(*map(str, range(len(fields))))
    columns = [numbered[str(place)] for place in range(len(fields))]
    if all(_is_plain(field.dataType) for field in fields):
        return numbered
    return numbered.select(
        [
            (column if _is_plain(field.dataType) else _text(column, field.dataType)).alias(str(place))
            for place, (column, field) in enumerate(zip(columns, fields, strict=True))
        ]
    )


def _is_plain(kind: DataType) -> bool:
    return isinstance(kind, PLAIN) or type(kind) is StringType


def _text(column: Column, kind: DataType) -> Column:
    """A value as HiveResult writes it; NULL where it is NULL."""
    match kind:
        case ArrayType():
            items = F.transform(column, lambda item: _within(item, kind.elementType))
            return F.concat(F.lit("["), F.array_join(items, ","), F.lit("]"))
        case MapType():
            pairs = F.transform(
                F.map_entries(column),
                lambda pair: F.concat(
                    _within(pair["key"], kind.keyType), F.lit(":"), _within(pair["value"], kind.valueType)
                ),
            )
            return F.concat(F.lit("{"), F.array_join(pairs, ","), F.lit("}"))
        case StructType():
            parts = [
                F.concat(F.lit(f'"{field.name}":'), _within(column.getField(field.name), field.dataType))
                for field in kind.fields
            ]
            text = F.concat(F.lit("{"), F.concat_ws(",", *parts), F.lit("}"))
            return F.when(column.isNotNull(), text)
        case YearMonthIntervalType():
            return F.regexp_extract(column.cast(YearMonthIntervalType()).cast("string"), "'(.*)'", 1)
        case DayTimeIntervalType():
            return _day_time(F.regexp_extract(column.cast(DayTimeIntervalType()).cast("string"), "'(.*)'", 1))
        case _:
            return column.cast("string")


def _day_time(text: Column) -> Column:
    """An interval with nine digits after the point."""
    fraction = F.when(F.instr(text, ".") > 0, F.substring_index(text, ".", -1)).otherwise(F.lit(""))
    return F.concat(F.substring_index(text, ".", 1), F.lit("."), F.rpad(fraction, 9, "0"))


def _within(value: Column, kind: DataType) -> Column:
    """A value inside another one."""
    text = _text(value, kind)
    if isinstance(kind, StringType):
        text = F.concat(F.lit('"'), text, F.lit('"'))
    return F.coalesce(text, F.lit(NULL))


class Batches(Protocol):
    """Takes batches of rows in any order, and then the right one."""

    def append(self, batch: pa.RecordBatch) -> None:
        """Take a batch."""
        ...

    def reorder(self, order: list[int]) -> None:
        """`order[i]` is when the i-th batch was taken, from 0."""
        ...


def fetch_batches(frame: DataFrame, batches: Batches) -> None:
    """Run a frame's query, and pass on its rows as they arrive.

    Raises:
        pyspark.errors.PySparkException, Py4JJavaError: Spark fails.
    """
    port, secret, server = frame._jdf.collectAsArrowToPython()
    stopped: BaseException | None = None
    try:
        file, connection = _create_local_socket((port, secret))
        with closing(connection), closing(file):
            for batch in _arrived(file):
                batches.append(batch)
            count = read_int(file)
            if count >= 0:
                batches.reorder([read_int(file) for _ in range(count)])
    except BaseException as problem:
        stopped = problem
        raise
    finally:
        # Raises what has failed in the JVM, of which the stream has only the message.
        _result_of(server, stopped)


def _result_of(server: object, stopped: BaseException | None) -> None:
    try:
        # As Spark says it, not that something was thrown while the JVM waited.
        with unwrap_spark_exception():
            server.getResult()  # type: ignore[attr-defined]
    except Exception as failed:
        # The JVM could not send what is not wanted any more, or it has failed first.
        if stopped is None or isinstance(stopped, EOFError | OSError | pa.ArrowException):
            raise failed from stopped


def _arrived(file: IO[bytes]) -> Iterator[pa.RecordBatch]:
    with pa.ipc.open_stream(file) as reader:
        yield from reader
