"""Results as they are printed: dates and times as Spark writes them, in the session's time zone."""

import os
import re
import time
from zoneinfo import ZoneInfo

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.functions import lit, replace
from pyspark.sql.types import (
    CalendarIntervalType,
    DataType,
    DateType,
    DayTimeIntervalType,
    TimestampNTZType,
    TimestampType,
    YearMonthIntervalType,
)

SEPARATORS = {"table": " ", "csv": "T", "json": "T"}
"""What is between a date and a time, by the format of rows: ISO 8601 for programs."""

TIMES = (TimestampType, TimestampNTZType)

AS_TEXT = (*TIMES, DateType, YearMonthIntervalType, DayTimeIntervalType, CalendarIntervalType)
"""Types of which Python has not all values, or has them in the time zone of the process, or writes them unlike SQL."""

OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2}))?")
"""A time zone by its distance from UTC."""


def printable(frame: DataFrame, separator: str = " ") -> DataFrame:
    """The frame with texts for columns that Python cannot fetch as they are; the frame itself if it has none."""
    fields = frame.schema.fields
    if not any(isinstance(field.dataType, AS_TEXT) for field in fields):
        return frame
    numbered = frame.toDF(*map(str, range(len(fields))))
    columns = [_text(numbered[str(index)], field.dataType, separator) for index, field in enumerate(fields)]
    return numbered.select(columns)


def _text(column: Column, kind: DataType, separator: str) -> Column:
    if not isinstance(kind, AS_TEXT):
        return column
    text = column.cast("string")
    return replace(text, lit(" "), lit(separator)) if isinstance(kind, TIMES) and separator != " " else text


def in_zone_of(spark: SparkSession) -> None:
    """Let this process have the session's time zone, if it knows it: times within other values are in it."""
    zone = spark.conf.get("spark.sql.session.timeZone") or "UTC"
    offset = OFFSET.fullmatch(zone)
    if offset is not None:
        # In POSIX's notation the sign says what to add to get UTC.
        sign, hours, minutes = "-" if offset[1] == "+" else "+", offset[2], offset[3] or "00"
        zone = f"<{offset[1]}{int(hours):02}{minutes}>{sign}{hours}:{minutes}"
    elif not _is_known(zone):
        return
    os.environ["TZ"] = zone
    time.tzset()


def _is_known(zone: str) -> bool:
    try:
        ZoneInfo(zone)
    except (ValueError, OSError, KeyError):
        # `ZoneInfoNotFoundError` is a KeyError.
        return False
    return True
