"""What identifies a query, and the data that it reads, in other sessions too: for times that are kept across them."""

import re
from collections.abc import Iterator
from hashlib import blake2b
from typing import Any, NamedTuple

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession

from qoop.engine.connection import java_class, without_delay
from qoop.engine.scala import leaves, printed

NUMBERED = re.compile(r"(#|\bCTERelation)(Def |Ref |)(\d+)")
"""The numbers in a printed plan that are new each time: of columns and of CTEs, each counted by themselves."""

SETTINGS = re.compile(
    r"spark\.(sql|qoop|memory|shuffle|task|io|default|broadcast|speculation|locality|serializer|master|executor|driver)\b"
)
"""The settings that queries run under."""

OF_APPLICATION = re.compile(
    r"spark\.(executor\.(id|instances)|driver\.(host|port|bindAddress|appUIAddress)|sql\.warehouse\.dir)\b"
)
"""Of these, the ones that belong to the application, or to its share."""

MAX_FILES = 1000
"""Of how many files of a table each counts; of more, their number and total size."""

SAME_ROWS = {"CTERelationRef", "OneRowRelation", "Range"}
"""Leaves without files whose rows follow from the query itself."""

ACCESSED = re.compile(r"access_time=\d+")


def query_identity(frame: DataFrame, *more: str) -> str:
    """A digest of a query as Spark analysed it, views and settings included, and of more texts."""
    plan = frame._jdf.queryExecution().analyzed()
    without_delay(frame.sparkSession)
    return _digest(renumbered(printed(plan)), frame.sparkSession.version, *_settings(frame.sparkSession), *more)


def renumbered(text: str) -> str:
    """A printed plan with the numbers of columns and of CTEs in the order in which they appear."""
    numbers: dict[tuple[str, str], int] = {}

    def number(found: re.Match[str]) -> str:
        kind, more, old = found.groups()
        return f"{kind}{more}{numbers.setdefault((kind, old), len(numbers))}"

    return NUMBERED.sub(number, text)


class DataIdentity(NamedTuple):
    """A digest of the data that a query reads; `is_complete`: other data have another one."""

    digest: str
    is_complete: bool


def data_identity(frame: DataFrame) -> DataIdentity:
    """The files that a query reads, with their sizes and times; of other tables, what Spark knows."""
    identity_of = java_class(frame.sparkSession._jvm, "java.lang.System").identityHashCode
    seen: set[int] = set()
    texts, is_complete = [], True
    for leaf in leaves(frame._jdf.queryExecution().analyzed()):
        try:
            index = leaf.relation().location()
        except Py4JError:
            texts.append(str(leaf.stats().sizeInBytes()))
            is_complete &= str(leaf.getClass().getSimpleName()) in SAME_ROWS
            continue
        identity = int(identity_of(index))
        if identity not in seen:
            seen.add(identity)
            text, are_all = _files(leaf, index)
            texts.append(text)
            is_complete &= are_all
    return DataIdentity(_digest(*texts), is_complete)


def _files(leaf: Any, index: Any) -> tuple[str, bool]:
    """What is known of the files of a table, and whether that is each of them."""
    try:
        files = index.allFiles()
    except Py4JError:
        # Partitions that only the catalogue lists.
        return f"{index.rootPaths()} {index.sizeInBytes()} {leaf.catalogTable()}", False
    if files.size() > MAX_FILES:
        return f"{index.rootPaths()} {files.size()} {index.sizeInBytes()}", False
    return ACCESSED.sub("", str(files.toString())), True


def _settings(spark: SparkSession) -> Iterator[str]:
    lines = str(spark._jsparkSession.conf().getAll().mkString("\n")).splitlines()
    return (line for line in sorted(lines) if SETTINGS.match(line) and not OF_APPLICATION.match(line))


def _digest(*texts: str) -> str:
    return blake2b("\0".join(texts).encode(), digest_size=16).hexdigest()
