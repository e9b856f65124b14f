"""What identifies a query, and the data that it reads, in other sessions too: for times that are kept across them."""

import re
from collections.abc import Iterator
from hashlib import blake2b
from typing import Any

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

OF_APPLICATION = re.compile(r"spark\.(executor\.(id|instances)|driver\.(host|port|bindAddress)|sql\.warehouse\.dir)\b")
"""Of these, the ones that belong to the application, or to its share."""

MAX_FILES = 1000
"""Of how many files of a table each counts; of more, their number and total size."""

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


def data_identity(frame: DataFrame) -> str:
    """A digest of the files that a query reads, with their sizes and times; of other tables, what Spark knows."""
    identity_of = java_class(frame.sparkSession._jvm, "java.lang.System").identityHashCode
    seen: set[int] = set()
    texts = []
    for leaf in leaves(frame._jdf.queryExecution().analyzed()):
        try:
            index = leaf.relation().location()
        except Py4JError:
            texts.append(str(leaf.stats().sizeInBytes()))
            continue
        identity = int(identity_of(index))
        if identity not in seen:
            seen.add(identity)
            texts.append(_files(leaf, index))
    return _digest(*texts)


def _files(leaf: Any, index: Any) -> str:
    try:
        files = index.allFiles()
    except Py4JError:
        # Partitions that only the catalogue lists.
        return f"{index.rootPaths()} {index.sizeInBytes()} {leaf.catalogTable()}"
    if files.size() > MAX_FILES:
        return f"{index.rootPaths()} {files.size()} {index.sizeInBytes()}"
    return ACCESSED.sub("", str(files.toString()))


def _settings(spark: SparkSession) -> Iterator[str]:
    lines = str(spark._jsparkSession.conf().getAll().mkString("\n")).splitlines()
    return (line for line in sorted(lines) if SETTINGS.match(line) and not OF_APPLICATION.match(line))


def _digest(*texts: str) -> str:
    return blake2b("\0".join(texts).encode(), digest_size=16).hexdigest()
